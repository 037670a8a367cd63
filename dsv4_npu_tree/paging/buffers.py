"""The pool's tensors as flat rows, grouped by address space."""

from __future__ import annotations

from dataclasses import dataclass

import torch


def _flat(buffer: torch.Tensor) -> torch.Tensor:
    """``[pages, page, 1, width]`` as ``[rows, width]`` (no copy)."""
    return buffer.view(-1, buffer.shape[-1])


@dataclass(frozen=True)
class PoolBuffers:
    """Row views of every layer: SWA KV; C4 KV with indexer keys and scales; C128 KV."""

    swa: list[torch.Tensor]
    c4: list[torch.Tensor]
    c128: list[torch.Tensor]

    @classmethod
    def of_pool(cls, pool) -> PoolBuffers:
        """Views of a SGLang DSV4NPUTokenToKVPool (a draft pool has SWA rows only)."""
        c4: list[torch.Tensor] = []
        if pool.c4_kv_pool is not None:
            indexer = pool._indexer_pool(4)
            c4 = pool.c4_kv_pool.kv_buffer + indexer.index_k_buffer + indexer.index_scale_buffer
        c128 = pool.c128_kv_pool.kv_buffer if pool.c128_kv_pool is not None else []
        return cls(*([_flat(b) for b in group] for group in (pool.swa_kv_pool.kv_buffer, c4, c128)))

    def rows(self, ratio: int) -> list[torch.Tensor]:
        """Buffers whose row stands for ``ratio`` tokens (1, 4 or 128)."""
        return {1: self.swa, 4: self.c4, 128: self.c128}[ratio]
