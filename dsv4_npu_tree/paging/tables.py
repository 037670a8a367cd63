"""Per-request address tables: absolute positions to physical slots of each pool."""

from __future__ import annotations

from dataclasses import dataclass

import torch

PAGE = 128  # full and SWA page of the NPU pools, tokens


@dataclass(frozen=True)
class PageTables:
    """Read-only view of a running batch's tables.

    req_to_token int32 ``[requests, tokens]``: full slot of each position. full_to_swa int64 ``[full slots + 1]``: SWA
    slot, 0 where none. sidecar int32 ``[requests, pages]``: C128 page ids, or None for a draft pool.
    c128_page_size: entries of a C128 page. Growth is page aligned, so ``slot % PAGE == position % PAGE``.
    """

    req_to_token: torch.Tensor
    full_to_swa: torch.Tensor
    sidecar: torch.Tensor | None
    c128_page_size: int

    def slots(self, ratio: int, request: torch.Tensor, entry: torch.Tensor) -> torch.Tensor:
        """Slots int64 of entries ``[bs, ...]`` in the pool whose rows stand for ``ratio`` tokens (1, 4 or 128)."""
        return {1: self.swa, 4: self.c4, 128: self.c128}[ratio](request, entry)

    def full(self, request: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Full slots, int64, of positions ``[bs, ...]``; positions past the table read its last column."""
        row = request.view(-1, *[1] * (position.dim() - 1))
        return self.req_to_token[row, position.clamp(0, self.req_to_token.shape[1] - 1)].long()

    def swa(self, request: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """SWA slots, int64, of positions ``[bs, ...]`` (0 for evicted positions)."""
        return self.full_to_swa[self.full(request, position)].long()

    def c4(self, request: torch.Tensor, entry: torch.Tensor) -> torch.Tensor:
        """C4 (and indexer) slots, int64, of compressed entries ``[bs, ...]``."""
        return torch.div(self.full(request, entry * 4), 4, rounding_mode="floor")

    def c128(self, request: torch.Tensor, entry: torch.Tensor) -> torch.Tensor:
        """C128 slots, int64, of compressed entries ``[bs, ...]``."""
        assert self.sidecar is not None, "a draft pool has no C128 entries"
        row = request.view(-1, *[1] * (entry.dim() - 1))
        page = torch.div(entry, self.c128_page_size, rounding_mode="floor").clamp(0, self.sidecar.shape[1] - 1)
        return self.sidecar[row, page].long() * self.c128_page_size + entry % self.c128_page_size
