"""sglang.srt.hardware_backend.npu.dsv4.dsv4_rope: rows past the end of the context still get a position.

A request that ends at the context limit is verified once more ahead of its result, so draft, verify and draft extend
have rows up to two rounds past the last position of the tables. No token of theirs is ever returned.
"""

from __future__ import annotations

import torch

from dsv4_npu_tree.config import tree_config
from dsv4_npu_tree.hooks.registry import Hook


def inside_table(positions: torch.Tensor, size: int, beyond: int) -> torch.Tensor:
    """positions int64 ``[T]`` with ``size .. size + beyond - 1`` moved to the last of ``size`` table rows. Anything
    further is left to fail: no round reaches it."""
    return torch.where(positions < size + beyond, positions.clamp(max=size - 1), positions)


def _get_cos_sin(original, self, positions, dtype, **kwargs):
    return original(self, inside_table(positions, self.freqs_cis.shape[0], 2 * tree_config().n), dtype, **kwargs)


HOOKS = [
    Hook(
        "sglang.srt.hardware_backend.npu.dsv4.dsv4_rope.Dsv4NpuRoPE.get_cos_sin",
        ("self", "positions", "dtype", "view_4d", "inverse", "allow_build", "cache_dtype"),
        _get_cos_sin,
    )
]
