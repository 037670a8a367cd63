"""Entry point `sglang.srt.plugins`: called by SGLang in every process it starts."""

from __future__ import annotations


def register() -> None:
    """Register the backend name, its refusals and the hooks. Plain `dsv4` runs are not touched: every hook passes
    straight through unless the resolved backend is dsv4_tree."""
    from dsv4_npu_tree.hooks import registry
    from dsv4_npu_tree.hooks.arg_groups import pipeline
    from dsv4_npu_tree.hooks.catalog import all_hooks
    from dsv4_npu_tree.hooks.layers.attention import attention_registry

    attention_registry.register(all_hooks)
    pipeline.register(all_hooks)
    registry.install(all_hooks())
