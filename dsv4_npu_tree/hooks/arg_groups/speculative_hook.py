"""sglang.srt.arg_groups.speculative_hook: topk > 1 with pages is allowed for a fixed list of backends only."""

from __future__ import annotations

from dsv4_npu_tree.config import asks_for_tree
from dsv4_npu_tree.hooks.arg_groups.declared import declared
from dsv4_npu_tree.hooks.registry import Hook

_LISTED_BACKEND = "triton"


def _pass_backend_list(original, server_args):
    if not asks_for_tree(server_args):
        return original(server_args)
    with declared(server_args, attention_backend=_LISTED_BACKEND):
        return original(server_args)


HOOKS = [
    Hook(
        "sglang.srt.arg_groups.speculative_hook._handle_eagle_family",
        ("server_args",),
        _pass_backend_list,
        always=True,
    )
]
