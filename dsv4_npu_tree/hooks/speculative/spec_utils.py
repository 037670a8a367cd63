"""sglang.srt.speculative.spec_utils: the only place that knows which beam a draft row continues, and where candidates
get their scores."""

from __future__ import annotations

import torch

from dsv4_npu_tree.hooks.registry import Hook
from dsv4_npu_tree.hooks.speculative.round import current_round
from dsv4_npu_tree.tree.scores import sharpen


def _select_top_k_tokens(original, i, topk_p, topk_index, hidden_states, scores, topk):
    draft = current_round()
    if draft.exponent is not None:
        topk_p = sharpen(topk_p, draft.exponent)
    if draft.chain:  # a path through any other candidate scores 0
        topk_p = torch.cat([topk_p[:, :1], torch.zeros_like(topk_p[:, 1:])], dim=1)
    result = original(i, topk_p, topk_index, hidden_states, scores, topk)
    # The last selection only scores candidates, no forward follows it.
    if 1 <= i < draft.steps - 1:
        first_candidate = topk * topk * (i - 1) + topk
        parent = (result[3][2] - first_candidate) // topk
        draft.draft_backend.reparent(i, parent)
    return result


HOOKS = [
    Hook(
        "sglang.srt.speculative.spec_utils.select_top_k_tokens",
        ("i", "topk_p", "topk_index", "hidden_states", "scores", "topk"),
        _select_top_k_tokens,
    )
]
