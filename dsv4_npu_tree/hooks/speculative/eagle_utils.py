"""sglang.srt.speculative.eagle_utils: candidate selection and the tree."""

from __future__ import annotations

import torch

from dsv4_npu_tree.config import tree_config
from dsv4_npu_tree.hooks.registry import Hook
from dsv4_npu_tree.hooks.speculative.round import current_round
from dsv4_npu_tree.tree.build import build


def _organize_draft_results(original, score_list, token_list, parents_list, num_draft_token):
    parent_list, top_scores_index, draft_tokens = original(score_list, token_list, parents_list, num_draft_token)
    draft = current_round()
    draft.token_list = token_list
    draft.scores = torch.cat(score_list, dim=1).flatten(1).gather(1, top_scores_index)
    return parent_list, top_scores_index, draft_tokens


def _build_tree_kernel_efficient(
    original,
    bonus_tokens,
    parent_list,
    top_scores_index,
    draft_tokens,
    seq_lens,
    seq_lens_sum,
    topk,
    spec_steps,
    num_verify_tokens,
    tree_mask_mode=None,
    tree_mask_buf=None,
    fill_prefix_mask=True,
):
    draft = current_round()
    assert draft.scores is not None
    topology = build(
        parent_list.long(),
        top_scores_index,
        draft.scores.float(),
        seq_lens.long(),
        topk=topk,
        steps=spec_steps,
        num_draft_tokens=num_verify_tokens,
        max_branches=min(tree_config().max_branches, num_verify_tokens - 1),
    )
    draft.topology, draft.selected, draft.parents = topology, top_scores_index, parent_list
    # No attention of this backend reads a mask, so none is built.
    mask = torch.empty(0, dtype=torch.bool, device=seq_lens.device)
    return (
        mask,
        topology.positions,
        topology.retrieve_index,
        topology.retrieve_next_token,
        topology.retrieve_next_sibling,
        torch.cat((bonus_tokens.unsqueeze(1), draft_tokens), dim=1).flatten(),
    )


HOOKS = [
    Hook(
        "sglang.srt.speculative.eagle_utils.organize_draft_results",
        ("score_list", "token_list", "parents_list", "num_draft_token"),
        _organize_draft_results,
    ),
    Hook(
        "sglang.srt.speculative.eagle_utils.build_tree_kernel_efficient",
        (
            "bonus_tokens",
            "parent_list",
            "top_scores_index",
            "draft_tokens",
            "seq_lens",
            "seq_lens_sum",
            "topk",
            "spec_steps",
            "num_verify_tokens",
            "tree_mask_mode",
            "tree_mask_buf",
            "fill_prefix_mask",
        ),
        _build_tree_kernel_efficient,
    ),
]
