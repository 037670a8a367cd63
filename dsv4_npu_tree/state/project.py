"""Projection weights of the compressors, kept once in fp32."""

from __future__ import annotations

import torch


class Projector:
    """fp32 copies of each compressor's ``wkv | wgate`` weight.

    The product must reach the state rows without a rounding to bf16 (ops/compress_project.py), and no NPU matmul of
    bf16 operands returns fp32 on every supported torch_npu, so the weights are widened once. ``bytes`` is their size.
    """

    def __init__(self) -> None:
        self._weights: dict[int, torch.Tensor] = {}

    def weight(self, compressor) -> torch.Tensor:
        """fp32 ``[2*coff*D, hidden]`` of a compressor module."""
        known = self._weights.get(id(compressor))
        if known is None:
            known = self._weights[id(compressor)] = compressor.wkv_gate.weight.float()
        return known

    @property
    def bytes(self) -> int:
        return sum(w.numel() * w.element_size() for w in self._weights.values())
