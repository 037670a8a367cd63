"""sglang.kernels.ops.speculative.spec_tree: the NPU greedy verify kernel is chain-only."""

from __future__ import annotations

from dsv4_npu_tree.hooks.registry import Hook
from dsv4_npu_tree.tree.verify import verify_greedy


def _verify_tree_greedy_func(original, *args, **kwargs):
    return verify_greedy(*args, **kwargs)


HOOKS = [
    Hook(
        "sglang.kernels.ops.speculative.spec_tree.verify_tree_greedy_func",
        (
            "predicts",
            "accept_index",
            "accept_token_num",
            "candidates",
            "retrieve_index",
            "retrieve_next_token",
            "retrieve_next_sibling",
            "target_predict",
            "topk",
        ),
        _verify_tree_greedy_func,
    )
]
