"""Compressor windows along a path, and the ring rows that accepted tokens go to."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dsv4_npu_tree.ops.kv_relocate import Moves
from dsv4_npu_tree.ops.tree_compress import ABSENT
from dsv4_npu_tree.paging.tables import PAGE, PageTables


@dataclass(frozen=True)
class Ring:
    """State ring of one ratio. ratio 4: rows follow SWA pages, ``page * size + slot % size``. ratio 128: rows follow
    the request, ``request * size + position % size`` (SGLang mem_cache/deepseek_v4_compress_state.py)."""

    ratio: int
    size: int

    @property
    def coff(self) -> int:
        return 2 if self.ratio == 4 else 1

    def rows(self, tables: PageTables, request: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """State rows int64 of positions ``[bs, ...]``; negative positions are the caller's to mask."""
        if self.ratio == 4:
            slot = tables.swa(request, position)
            return torch.div(slot, PAGE, rounding_mode="floor") * self.size + slot % self.size
        row = request.view(-1, *[1] * (position.dim() - 1))
        return row * self.size + position % self.size


@dataclass(frozen=True)
class Windows:
    """Compress work of a round for one ratio, shared by all layers.

    closes: bool ``[T]``, rows that finish a block. window: int64 ``[T, coff*ratio]`` for ``tree_compress``.
    first: int64 ``[T]``, position of the first token of the closed block (0 where the row closes none).
    """

    ring: Ring
    closes: torch.Tensor
    window: torch.Tensor
    first: torch.Tensor


def path_windows(
    tables: PageTables,
    request: torch.Tensor,
    prefix: torch.Tensor,
    depth: torch.Tensor,
    home: torch.Tensor,
    branch_table: torch.Tensor,
    ring: Ring,
) -> Windows:
    """Windows of all nodes. request, prefix ``[bs]``; depth, home ``[bs, n]``; branch_table ``[bs, B, S+1]``; int64."""
    bs, n = depth.shape
    width = ring.coff * ring.ratio
    position = prefix[:, None] + depth
    live = (home >= 0) & (prefix > 0)[:, None]
    closes = ((position + 1) % ring.ratio == 0) & live
    span = position[:, :, None] + torch.arange(1 - width, 1, device=prefix.device)
    ring_rows = ring.rows(tables, request, span.clamp(min=0))
    path = branch_table.gather(1, home.clamp(min=0)[:, :, None].expand(-1, -1, branch_table.shape[2]))
    node = path.gather(2, (span - prefix[:, None, None]).clamp(0, branch_table.shape[2] - 1))
    scratch = torch.arange(bs, device=prefix.device)[:, None, None] * n + node
    window = torch.where(span < prefix[:, None, None], ring_rows, -1 - scratch)
    window = window.masked_fill(span < 0, ABSENT)
    first = torch.where(closes, position + 1 - ring.ratio, 0)
    return Windows(ring, closes.reshape(-1), window.reshape(bs * n, width), first.reshape(-1))


def state_moves(ring_rows: torch.Tensor, accept_index: torch.Tensor, accept_lens: torch.Tensor, size: int) -> Moves:
    """Moves of accepted tokens' scratch rows to their ring rows.

    ring_rows int64 ``[bs, S+1]``: planned row of position ``prefix + depth``. accept_index int64 ``[bs, S+1]``: global
    node ids, -1 padded. accept_lens int64 ``[bs]``. A ring row repeats every ``size`` positions: only its deepest
    accepted token is written, so no two moves share a destination.
    """
    depths = ring_rows.shape[1]
    depth = torch.arange(depths, device=ring_rows.device)
    live = depth < accept_lens[:, None]
    if depths > size:
        later = torch.zeros_like(live)
        later[:, :-size] = live[:, size:] & (ring_rows[:, size:] == ring_rows[:, :-size])
        live = live & ~later
    source = accept_index.clamp(min=0).reshape(-1)
    return Moves(source, ring_rows.reshape(-1), live.long().reshape(-1), max_rows=1, runs_per_job=1)
