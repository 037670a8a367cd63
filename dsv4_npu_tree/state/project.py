"""Projection weights of the compressors, kept once in fp32."""

from __future__ import annotations

import weakref
from typing import Any

import torch


class Projector:
    """fp32 copies of each compressor's ``wkv | wgate`` weight.

    The product must reach the state rows without a rounding to bf16 (ops/compress_project.py), and no NPU matmul of
    bf16 operands returns fp32 on every supported torch_npu, so the weights are widened when the backend is built
    (paging/budget.py counts them), and again when the server is given other weights.
    """

    def __init__(self, model: torch.nn.Module | None = None) -> None:
        self._wide: dict[Any, torch.Tensor] = {}
        for module in model.modules() if model is not None else ():
            if hasattr(module, "wkv_gate") and hasattr(module, "ape"):
                self.weight(module)
        _projectors.add(self)

    def weight(self, compressor: Any) -> torch.Tensor:
        """fp32 ``[2*coff*D, hidden]`` of a compressor module."""
        if compressor not in self._wide:
            self._wide[compressor] = compressor.wkv_gate.weight.detach().float()
        return self._wide[compressor]

    def refresh(self) -> None:
        """Widen the weights again."""
        for compressor in self._wide:
            self._wide[compressor] = compressor.wkv_gate.weight.detach().float()


_projectors: weakref.WeakSet[Projector] = weakref.WeakSet()


def refresh_projectors() -> None:
    """Every projector of this process takes over the weights that its model has now."""
    for projector in _projectors:
        projector.refresh()
