"""Branches: block tables of verify rows, where node KV goes, and the prefix tail that each branch needs a copy of."""

from __future__ import annotations

import torch

from dsv4_npu_tree.ops.kv_relocate import Moves
from dsv4_npu_tree.paging.arena import Space
from dsv4_npu_tree.paging.tables import PageTables


def own_blocks(tables: PageTables, request: torch.Tensor, space: Space, columns: int) -> torch.Tensor:
    """Physical block ids int64 ``[bs, columns]`` of a request's own pages, in units of ``space.block`` rows."""
    entry = (torch.arange(columns, device=request.device) * space.block).expand(request.shape[0], -1)
    row = tables.slots(space.ratio, request, entry)
    return torch.div(row, space.block, rounding_mode="floor")


def block_table(
    tables: PageTables,
    request: torch.Tensor,
    prefix: torch.Tensor,
    branch: torch.Tensor,
    space: Space,
    columns: int,
    private: torch.Tensor | None = None,
) -> torch.Tensor:
    """Block table int32 ``[bs * rows, columns]``: one line per row, own pages left of the tail, then the branch.

    request, prefix: int64 ``[bs]``. branch: int64 ``[bs, rows]``. private: bool ``[bs]``, false where the rows keep
    the request's own tail (no entry closes this round). Columns outside the read range are 0, never -1.
    """
    own = own_blocks(tables, request, space, columns)
    column = torch.arange(columns, device=request.device)
    ahead = column - space.tail_block(prefix)[:, None]
    if private is not None:
        ahead = torch.where(private[:, None], ahead, torch.full_like(ahead, -1))
    first = torch.div(space.first_row(request, branch), space.block, rounding_mode="floor")
    in_branch = (ahead >= 0) & (ahead < space.blocks)
    table = torch.where(in_branch[:, None, :], first[..., None] + ahead[:, None, :], 0)
    table = torch.where((ahead < 0)[:, None, :], own[:, None, :], table)
    table = torch.where((prefix > 0)[:, None, None], table, 0)
    return table.reshape(-1, columns).to(torch.int32)


def branch_slots(space: Space, request: torch.Tensor, prefix: torch.Tensor, branches: int, depths: int) -> torch.Tensor:
    """Arena rows int64 ``[bs, branches, depths]`` of the entry at position ``prefix + depth`` in every branch."""
    device = prefix.device
    branch = torch.arange(branches, device=device).expand(prefix.shape[0], -1)
    position = prefix[:, None] + torch.arange(depths, device=device)
    offset = torch.div(position, space.ratio, rounding_mode="floor") - space.origin(prefix)[:, None]
    return space.first_row(request, branch)[:, :, None] + offset[:, None, :]


def tail_moves(
    tables: PageTables,
    request: torch.Tensor,
    prefix: torch.Tensor,
    used: torch.Tensor,
    space: Space,
) -> Moves:
    """Runs that duplicate the prefix tail into every used branch: ``< space.block`` rows each.

    used: bool ``[bs, branches]``. The tail lies inside one block, so it is one run on both sides.
    """
    branches = used.shape[1]
    origin = space.origin(prefix)
    source = tables.slots(space.ratio, request, origin)[:, None].expand(-1, branches)
    branch = torch.arange(branches, device=prefix.device).expand(prefix.shape[0], -1)
    rows = (space.entries(prefix) - origin)[:, None] * (used & (prefix > 0)[:, None])
    return Moves(
        source.reshape(-1),
        space.first_row(request, branch).reshape(-1),
        rows.reshape(-1),
        max(space.block - 1, 1),
        runs_per_job=1,
    )
