"""sglang.srt.managers.scheduler_components.weight_updater: new weights reach the fp32 projection copies too."""

from __future__ import annotations

from dsv4_npu_tree.hooks.registry import Hook
from dsv4_npu_tree.state.project import refresh_projectors


def _update(original, self, recv_req):
    try:
        return original(self, recv_req)
    finally:
        refresh_projectors()


_CLASS = "sglang.srt.managers.scheduler_components.weight_updater.SchedulerWeightUpdaterManager."
HOOKS = [
    Hook(f"{_CLASS}update_weights_from_{source}", ("self", "recv_req"), _update)
    for source in ("disk", "distributed", "tensor", "ipc")
]
