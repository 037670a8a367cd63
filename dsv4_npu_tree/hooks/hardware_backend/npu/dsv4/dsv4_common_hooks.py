"""sglang.srt.hardware_backend.npu.dsv4.dsv4_common_hooks: the verify bundle describes a chain; the plan replaces it."""

from __future__ import annotations

from dsv4_npu_tree.hooks.registry import Hook


def _maybe_build_dsv4_verify_bundle(original, batch, draft_token_num, **kwargs):
    return None


HOOKS = [
    Hook(
        "sglang.srt.hardware_backend.npu.dsv4.dsv4_common_hooks.maybe_build_dsv4_verify_bundle",
        ("batch", "draft_token_num", "live_seq_lens_cpu"),
        _maybe_build_dsv4_verify_bundle,
    )
]
