"""Commit moves: accepted rows from the accepted branch to the request's own slots.

Destinations are looked up when the round is planned. Between plan and commit the scheduler may hand the request's
table rows to somebody else, so the commit itself reads no table.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dsv4_npu_tree.ops.kv_relocate import Moves
from dsv4_npu_tree.paging.arena import Space
from dsv4_npu_tree.paging.tables import PAGE, PageTables


@dataclass(frozen=True)
class CommitTarget:
    """Where one address space's accepted rows go, for every possible acceptance.

    first, second: int64 ``[bs]`` destination rows of entry ``entries(prefix)`` and of the first entry of the next
    page; room: int64 ``[bs]`` rows that fit before that page.
    """

    space: Space
    first: torch.Tensor
    second: torch.Tensor
    room: torch.Tensor

    def moves(
        self, request: torch.Tensor, prefix: torch.Tensor, branch: torch.Tensor, accept_lens: torch.Tensor, depths: int
    ) -> Moves:
        """Two runs per request: up to the page end, and what follows. All arguments int64 ``[bs]``."""
        space, bs = self.space, request.shape[0]
        first, second, room = self.first[:bs], self.second[:bs], self.room[:bs]  # planned with padding requests behind
        start = space.entries(prefix)
        count = space.entries(prefix + accept_lens) - start
        head = torch.minimum(count, room)
        source = space.first_row(request, branch) + start - space.origin(prefix)
        return Moves(
            torch.cat([source, source + head]),
            torch.cat([first, second]),
            torch.cat([head, count - head]),
            -(-depths // space.ratio) + (space.ratio > 1),
            runs_per_job=1,
        )


def commit_target(tables: PageTables, request: torch.Tensor, prefix: torch.Tensor, space: Space) -> CommitTarget:
    """Look up the destinations of a round. request, prefix: int64 ``[bs]``."""
    start = space.entries(prefix)
    page = tables.c128_page_size if space.ratio == 128 else PAGE // space.ratio
    next_page = (torch.div(start, page, rounding_mode="floor") + 1) * page
    first, second = (tables.slots(space.ratio, request, entry) for entry in (start, next_page))
    return CommitTarget(space, first, second, next_page - start)
