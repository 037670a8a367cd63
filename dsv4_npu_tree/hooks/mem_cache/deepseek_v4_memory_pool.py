"""sglang.srt.mem_cache.deepseek_v4_memory_pool: nothing speculative enters the compressor rings."""

from __future__ import annotations

from dsv4_npu_tree.hooks.registry import Hook


def _get_compress_state_ring_size(original, compress_ratio, num_draft_tokens=0):
    """The rings keep their non-speculative sizes."""
    return original(compress_ratio, 0)


def _clear_unaccepted_c128_draft_states(original, self, *args, **kwargs):
    """There is nothing to clear, and at 128 rows the clean-up would destroy live rows."""


_MODULE = "sglang.srt.mem_cache.deepseek_v4_memory_pool."
HOOKS = [
    Hook(
        _MODULE + "get_compress_state_ring_size",
        ("compress_ratio", "num_draft_tokens"),
        _get_compress_state_ring_size,
    ),
    Hook(
        _MODULE + "DeepSeekV4TokenToKVPool.clear_unaccepted_c128_draft_states",
        ("self", "req_pool_indices", "seq_lens", "accept_lens", "num_draft_tokens"),
        _clear_unaccepted_c128_draft_states,
    ),
]
