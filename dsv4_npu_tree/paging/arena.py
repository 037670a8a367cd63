"""The arena: rows above the last page that the allocators know, two blocks per branch and pool."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dsv4_npu_tree.config import TreeConfig


@dataclass(frozen=True)
class Space:
    """Arena rows of one address space (SWA, C4 with its indexer, or C128).

    base: first arena row of the pool's tensors. block: rows of one attention block. blocks: blocks of one branch.
    branches: branches of one request row. ratio: tokens that one row stands for (1, 4 or 128).
    """

    base: int
    block: int
    blocks: int
    branches: int
    ratio: int

    @property
    def branch_rows(self) -> int:
        return self.block * self.blocks

    def rows(self, requests: int) -> int:
        """Arena rows for ``requests`` request rows."""
        return requests * self.branches * self.branch_rows

    def first_row(self, request: torch.Tensor, branch: torch.Tensor) -> torch.Tensor:
        """First row, int64, of branch ``[bs, ...]`` of request rows ``[bs]``."""
        row = request.view(-1, *[1] * (branch.dim() - 1)).long()
        return self.base + (row * self.branches + branch) * self.branch_rows

    def origin(self, prefix: torch.Tensor) -> torch.Tensor:
        """Entry index ``[bs]`` that the branch's row 0 stands for: the start of the prefix's unfinished block."""
        return self.tail_block(prefix) * self.block

    def tail_block(self, prefix: torch.Tensor) -> torch.Tensor:
        """Logical block ``[bs]`` of the first entry not finished at prefix length ``[bs]``."""
        return torch.div(self.entries(prefix), self.block, rounding_mode="floor")

    def entries(self, prefix: torch.Tensor) -> torch.Tensor:
        """Finished entries ``[bs]`` at prefix length ``[bs]``."""
        return torch.div(prefix, self.ratio, rounding_mode="floor")

    def view(self, buffer: torch.Tensor) -> torch.Tensor:
        """A pool buffer ``[pages, page, ...]`` as ``[blocks, block, ...]`` (no copy)."""
        return buffer.view(-1, self.block, *buffer.shape[2:])


@dataclass(frozen=True)
class Arena:
    """Arena of one pool. ``c4`` and ``c128`` are None in a draft pool (SWA only)."""

    requests: int
    swa: Space
    c4: Space | None = None
    c128: Space | None = None


def space_of(ratio: int, page: int, config: TreeConfig, branches: int) -> Space:
    """Arena space of a pool whose rows stand for ``ratio`` tokens, page = rows of a pool page; base still 0."""
    block = {1: config.block_rows, 4: config.c4_block, 128: config.c128_block(page)}[ratio]
    # At most one C128 entry closes per round, so its tail block has room for it.
    return Space(base=0, block=block, blocks=1 if ratio == 128 else 2, branches=branches, ratio=ratio)


def arena_pages(space: Space, requests: int, page: int) -> int:
    """Pool pages of ``page`` rows that hold the arena rows of ``requests`` request rows."""
    return -(-space.rows(requests) // page)
