"""sglang.srt.speculative.draft_utils: the draft worker's backends."""

from __future__ import annotations

from dsv4_npu_tree import BACKEND
from dsv4_npu_tree.hooks.registry import Hook


def _create_backend(original, self, backend_name, backend_map, error_template, stamps_children=False):
    def create():
        if not stamps_children:  # draft extend writes a chain: the stock backend
            return backend_map["dsv4"]()
        from dsv4_npu_tree.attention.draft_backend import DeepseekV4AscendTreeMultiStepDraftBackend

        return BACKEND, DeepseekV4AscendTreeMultiStepDraftBackend(
            self.draft_model_runner, self.topk, self.speculative_num_steps
        )

    return original(self, backend_name, {**backend_map, BACKEND: create}, error_template, stamps_children)


HOOKS = [
    Hook(
        "sglang.srt.speculative.draft_utils.DraftBackendFactory._create_backend",
        ("self", "backend_name", "backend_map", "error_template", "stamps_children"),
        _create_backend,
    )
]
