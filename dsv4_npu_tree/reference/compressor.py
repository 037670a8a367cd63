"""The compressor of a layer: a store of one row per token, and an entry pooled from it wherever a block closes.

Nothing here is a recurrence. Block b covers positions ratio*b .. ratio*b + ratio-1 whatever was computed together; the
token that closes it pools the rows of its window, looked up by position along that token's own history. Sections 2.3.1
(C4) and 2.3.2 (C128) of the DeepSeek-V4 report.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dsv4_npu_tree.reference.compress import entry, token_rows
from dsv4_npu_tree.reference.rotary import tables
from dsv4_npu_tree.reference.weights import Weights


@dataclass(frozen=True)
class Compressor:
    """C4 windows are the block and the one before it, with two sets of columns per row; C128 windows are the block."""

    ratio: int
    weights: Weights  # kv_proj, gate_proj [columns, hidden], position_bias [ratio, columns], kv_norm [D]
    freqs: np.ndarray
    eps: float

    @property
    def blocks(self) -> int:
        return 2 if self.ratio == 4 else 1

    @cached_property
    def projection(self) -> np.ndarray:
        return np.concatenate([self.weights["kv_proj.weight"], self.weights["gate_proj.weight"]])

    def row(self, x: np.ndarray, position: int) -> np.ndarray:
        """kv | score + bias of the position in its block, [2 * columns], for x [hidden]."""
        return token_rows(x[None], self.projection, self.weights["position_bias"], np.array([position]))[0]

    def closes(self, position: int) -> bool:
        return (position + 1) % self.ratio == 0

    def close(self, position: int, row_at: Callable[[int], np.ndarray]) -> np.ndarray:
        """Entry [D] of the block that `position` closes, rotated to the first position of the block."""
        window = range(position + 1 - self.blocks * self.ratio, position + 1)
        rows = [row_at(t) if t >= 0 else None for t in window]
        cos, sin = tables(position + 1 - self.ratio, self.freqs)
        return entry(rows, self.blocks == 2, self.weights["kv_norm.weight"], cos, sin, self.eps)
