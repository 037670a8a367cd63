"""sglang.srt.arg_groups.deepseek_v4_hook: its last statement asserts topk 1 for DeepSeek-V4."""

from __future__ import annotations

from dsv4_npu_tree.config import asks_for_tree
from dsv4_npu_tree.hooks.arg_groups.declared import declared
from dsv4_npu_tree.hooks.registry import Hook


def _pass_topk_assert(original, server_args, model_arch):
    if not asks_for_tree(server_args):
        return original(server_args, model_arch)
    with declared(server_args, speculative_eagle_topk=1):
        return original(server_args, model_arch)


HOOKS = [
    Hook(
        "sglang.srt.arg_groups.deepseek_v4_hook.apply_deepseek_v4_defaults",
        ("server_args", "model_arch"),
        _pass_topk_assert,
        always=True,
    )
]
