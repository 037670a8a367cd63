"""The plan of one verify round: every index that attention, compressor and commit need, as fixed-shape tensors."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from dsv4_npu_tree.ops.kv_relocate import Moves
from dsv4_npu_tree.paging.arena import Arena, Space
from dsv4_npu_tree.paging.branches import block_table, branch_slots, tail_moves
from dsv4_npu_tree.paging.commit import CommitTarget, commit_target
from dsv4_npu_tree.paging.tables import PageTables
from dsv4_npu_tree.state.window import Ring, Windows, path_windows
from dsv4_npu_tree.tree.topology import Topology


@dataclass
class VerifyPlan:
    """One round, T = bs * n rows; all tensors live on the device.

    request, prefix: int64 ``[bs]``. seqused: int32 ``[T]``, tokens a row sees. swa/c4/c128_table: int32
    ``[T, columns]`` in blocks of the arena's spaces. store_row, store_slot: int64 ``[bs*B*(S+1)]``, node row and arena
    SWA row of the KV fan-out. windows, entry_row, entry_slot: per ratio, compress work and its fan-out (slot 0 = none).
    tails: per space, prefix-tail runs. targets: per space, commit destinations. ring_rows: per ratio, int64
    ``[bs, S+1]``.
    scratch: per (layer, is_indexer), the projected rows kept until commit.
    """

    topology: Topology
    request: torch.Tensor
    prefix: torch.Tensor
    seqused: torch.Tensor
    swa_table: torch.Tensor
    c4_table: torch.Tensor | None
    c128_table: torch.Tensor | None
    store_row: torch.Tensor
    store_slot: torch.Tensor
    windows: dict[int, Windows]
    entry_row: dict[int, torch.Tensor]
    entry_slot: dict[int, torch.Tensor]
    tails: dict[int, Moves]
    targets: dict[int, CommitTarget]
    ring_rows: dict[int, torch.Tensor]
    scratch: dict[tuple[int, bool], torch.Tensor] = field(default_factory=dict)


def _columns(space: Space, longest: int, depths: int) -> int:
    """Block-table columns for prefixes up to ``longest`` tokens plus the tree."""
    return (longest + depths) // space.ratio // space.block + space.blocks


def plan_verify(
    topology: Topology,
    request: torch.Tensor,
    prefix: torch.Tensor,
    longest: int,
    tables: PageTables,
    arena: Arena,
    rings: dict[int, Ring],
) -> VerifyPlan:
    """Plan a round. request, prefix: int64 ``[bs]`` (prefix = KV-ready length P, 0 for a padded request).

    longest: an upper bound of every prefix, from the host; it sets widths only, since under overlap scheduling the
    host copy of the lengths can be a step ahead of the device.
    """
    # The batch's tensors are views of input buffers that the next forward overwrites; commit reads these later.
    request, prefix = request.clone(), prefix.clone()
    depth, home = topology.depth.long(), topology.home_branch.long()
    branch_table = topology.branch_table.long()
    bs, branches, depths = branch_table.shape
    row_branch = home.clamp(min=0)
    live = (prefix > 0)[:, None]
    used = (branch_table[:, :, 0] >= 0) & live
    crosses = torch.div(prefix + depths, 128, rounding_mode="floor") > torch.div(prefix, 128, rounding_mode="floor")

    seqused = torch.where(live, prefix[:, None] + depth + 1, 1).reshape(-1).to(torch.int32)
    node_row = torch.arange(bs, device=prefix.device)[:, None, None] * topology.n + branch_table.clamp(min=0)

    def table(space: Space | None, private: torch.Tensor | None = None) -> torch.Tensor | None:
        if space is None:
            return None
        columns = _columns(space, longest, depths)
        return block_table(tables, request, prefix, row_branch, space, columns, private)

    swa_table = table(arena.swa)
    assert swa_table is not None
    plan = VerifyPlan(
        topology=topology,
        request=request,
        prefix=prefix,
        seqused=seqused,
        swa_table=swa_table,
        c4_table=table(arena.c4),
        c128_table=table(arena.c128, crosses),
        store_row=node_row.reshape(-1),
        # Entries past a branch's path land in its own unused rows, which nothing reads.
        store_slot=branch_slots(arena.swa, request, prefix, branches, depths).reshape(-1),
        windows={},
        entry_row={},
        entry_slot={},
        tails={1: tail_moves(tables, request, prefix, used, arena.swa)},
        targets={1: commit_target(tables, request, prefix, arena.swa)},
        ring_rows={},
    )
    position = prefix[:, None] + torch.arange(depths, device=prefix.device)
    for space in (arena.c4, arena.c128):
        if space is None:
            continue
        ratio = space.ratio
        plan.tails[ratio] = tail_moves(tables, request, prefix, used if ratio == 4 else used & crosses[:, None], space)
        plan.targets[ratio] = commit_target(tables, request, prefix, space)
        plan.windows[ratio] = path_windows(tables, request, prefix, depth, home, branch_table, rings[ratio])
        closing = ((position + 1) % ratio == 0)[:, None, :] & (branch_table >= 0) & live[:, :, None]
        slots = branch_slots(space, request, prefix, branches, depths)
        plan.entry_row[ratio] = node_row.reshape(-1)
        plan.entry_slot[ratio] = torch.where(closing, slots, 0).reshape(-1).to(torch.int32)
        plan.ring_rows[ratio] = rings[ratio].rows(tables, request, position)
    return plan


@dataclass
class DraftPlan:
    """Slots of one draft round, K rows per request on K branches of the draft pool; all tensors on the device.

    request, prefix: int64 ``[bs]``. table: int32 ``[bs*K, columns]``. first_slot: int64 ``[bs, K]``, arena row of step
    0 (step i follows at + i). tail: prefix-tail runs.
    """

    request: torch.Tensor
    prefix: torch.Tensor
    table: torch.Tensor
    first_slot: torch.Tensor
    tail: Moves

    def step_slots(self, step: int) -> torch.Tensor:
        """Arena rows int64 ``[bs*K]`` that step ``step`` writes."""
        return (self.first_slot + step).reshape(-1)

    def step_seqused(self, step: int) -> torch.Tensor:
        """Tokens int32 ``[bs*K]`` that a row of step ``step`` sees, itself included."""
        topk = self.first_slot.shape[1]
        length = torch.where(self.prefix > 0, self.prefix + step + 1, 1)
        return length.repeat_interleave(topk).to(torch.int32)

    def reparent(self, parent: torch.Tensor, steps: int) -> Moves:
        """Runs that give row t of every request the first ``steps`` path rows of row ``parent[:, t]``.

        parent: int64 ``[bs, K]`` beam index. Rows that keep their beam are masked.
        """
        own = torch.arange(parent.shape[1], device=parent.device).expand_as(parent)
        rows = torch.where(parent != own, steps, 0) * (self.prefix > 0)[:, None]
        return Moves(
            self.first_slot.gather(1, parent).reshape(-1),
            self.first_slot.reshape(-1),
            rows.reshape(-1),
            steps,
            runs_per_job=parent.shape[1],  # a row of a request may be a source and a destination
        )


def plan_draft(
    request: torch.Tensor, prefix: torch.Tensor, longest: int, steps: int, topk: int, tables: PageTables, space: Space
) -> DraftPlan:
    """Plan a draft round. request, prefix: int64 ``[bs]``; longest: host upper bound of prefix (widths only).

    topk: rows per request, at most the branches of ``space``.
    """
    request, prefix = request.clone(), prefix.clone()  # views of input buffers, see plan_verify
    bs = prefix.shape[0]
    branch = torch.arange(topk, device=prefix.device).expand(bs, -1)
    used = torch.ones(bs, topk, dtype=torch.bool, device=prefix.device)
    return DraftPlan(
        request=request,
        prefix=prefix,
        table=block_table(tables, request, prefix, branch, space, _columns(space, longest, steps)),
        first_slot=branch_slots(space, request, prefix, topk, 1)[:, :, 0],
        tail=tail_moves(tables, request, prefix, used, space),
    )
