"""sglang.srt.speculative.eagle_worker_v2: brackets one draft call."""

from __future__ import annotations

from dsv4_npu_tree.hooks.registry import Hook
from dsv4_npu_tree.hooks.speculative.round import draft_round


def _draft(original, self, batch, **kwargs):
    with draft_round(self.draft_attn_backend, self.speculative_num_steps):
        return original(self, batch, **kwargs)


HOOKS = [
    Hook("sglang.srt.speculative.eagle_worker_v2.EagleDraftWorker.draft", ("self", "batch", "with_topology"), _draft)
]
