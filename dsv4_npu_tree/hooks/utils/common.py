"""sglang.srt.utils.common: the reserve of a decode step with overlap scheduling off."""

from __future__ import annotations

from dsv4_npu_tree.hooks.mem_cache.allocation_sizing import decode_slots
from dsv4_npu_tree.hooks.registry import Hook


def _spec_decode_alloc_len_per_request(original, *, page_size, **kwargs):
    return -(-decode_slots() // page_size) * page_size


HOOKS = [
    Hook(
        "sglang.srt.utils.common.spec_decode_alloc_len_per_request",
        ("page_size", "speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens"),
        _spec_decode_alloc_len_per_request,
    )
]
