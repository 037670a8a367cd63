"""Greedy verification under the signature SGLang calls."""

from __future__ import annotations

from torch import Tensor

from dsv4_npu_tree.ops.tree_verify_greedy import tree_verify_greedy


def verify_greedy(
    predicts: Tensor,
    accept_index: Tensor,
    accept_token_num: Tensor,
    candidates: Tensor,
    retrieve_index: Tensor,
    retrieve_next_token: Tensor,
    retrieve_next_sibling: Tensor,
    target_predict: Tensor,
    topk: int = -1,
) -> tuple[Tensor, Tensor, Tensor]:
    """Stands in for `verify_tree_greedy_func` of sglang/kernels/ops/speculative/spec_tree.py (0.5.23).

    Writes predicts, accept_index and accept_token_num in place and returns them; shapes, dtypes and errors are those of
    `ops.tree_verify_greedy.tree_verify_greedy`. `topk` is part of upstream's signature and changes nothing: a chain is
    a tree.
    """
    del topk
    tree_verify_greedy(
        predicts,
        accept_index,
        accept_token_num,
        candidates,
        retrieve_index,
        retrieve_next_token,
        retrieve_next_sibling,
        target_predict,
    )
    return predicts, accept_index, accept_token_num
