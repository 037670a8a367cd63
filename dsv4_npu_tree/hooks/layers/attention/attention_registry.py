"""sglang.srt.layers.attention.attention_registry: the factory behind `--attention-backend dsv4_tree`."""

from __future__ import annotations

from dsv4_npu_tree import BACKEND
from dsv4_npu_tree.config import tree_active
from dsv4_npu_tree.hooks.registry import check_installed
from dsv4_npu_tree.hooks.speculative import verify_sampling


def register(all_hooks) -> None:
    """Register the backend name and its factory. all_hooks: callable returning every hook to check."""
    from sglang.srt.arg_groups import choices
    from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS, register_attention_backend

    choices.add_attention_backend_choices([BACKEND])

    @register_attention_backend(BACKEND)
    def create(runner):
        # Without speculation, and for the draft's own prefill and extend, dsv4_tree is the stock backend.
        draft = getattr(runner, "is_draft_worker", False)
        if draft or runner.spec_algorithm is None or runner.spec_algorithm.is_none():
            return ATTENTION_BACKENDS["dsv4"](runner)
        if not tree_active():
            raise RuntimeError(f"{BACKEND} was asked to speculate, but its hooks are not active in this process")
        check_installed(all_hooks())
        verify_sampling.install()
        import dsv4_npu_tree.ops.kernels  # noqa: F401  the kernels take over from the torch ops
        from dsv4_npu_tree.attention.backend import DeepseekV4AscendTreeBackend

        return DeepseekV4AscendTreeBackend(runner)
