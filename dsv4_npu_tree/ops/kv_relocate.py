"""kv_relocate: every row move of a round in one call, over all layers and buffer kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from dsv4_npu_tree.ops.library import define

SCHEMA = (
    "kv_relocate(Tensor[] src_buffers, Tensor(a!)[] dst_buffers, int[] move_set, "
    "Tensor[] src, Tensor[] dst, Tensor[] rows, int[] max_rows, int[] runs_per_job) -> ()"
)
MAX_SETS = 6  # the kernel gets the addresses of their runs as launch arguments


@dataclass(frozen=True)
class Moves:
    """Runs of rows to copy, shared by every buffer of one kind.

    src, dst, rows: int64 ``[M]``; run m copies ``rows[m]`` rows from row ``src[m]`` to row ``dst[m]``.
    ``rows[m] == 0`` masks the run (its src and dst are then not read). ``max_rows`` bounds every ``rows[m]``. A kernel
    reads contiguous run tensors in place and copies others first.
    ``runs_per_job``: consecutive runs that are gathered before any of them is stored. 0, always right, is the whole
    set; a smaller number promises that no run reads a row that another group writes, and lets groups run concurrently.
    """

    src: torch.Tensor
    dst: torch.Tensor
    rows: torch.Tensor
    max_rows: int
    runs_per_job: int = 0


def _expand(src: torch.Tensor, dst: torch.Tensor, rows: torch.Tensor, max_rows: int) -> tuple[torch.Tensor, ...]:
    """Runs ``[M]`` as single rows ``[N]``, N = sum(rows)."""
    step = torch.arange(max_rows, device=src.device)
    live = step < rows[:, None]
    return (src[:, None] + step)[live], (dst[:, None] + step)[live]


def _kv_relocate(
    src_buffers: list[torch.Tensor],
    dst_buffers: list[torch.Tensor],
    move_set: list[int],
    src: list[torch.Tensor],
    dst: list[torch.Tensor],
    rows: list[torch.Tensor],
    max_rows: list[int],
    runs_per_job: list[int],
) -> None:
    expanded = [_expand(*run) for run in zip(src, dst, rows, max_rows)]
    # Gather everything before the first store, whatever the jobs: runs may overlap or permute.
    del runs_per_job
    taken = [buffer[expanded[i][0]] for buffer, i in zip(src_buffers, move_set)]
    for buffer, values, i in zip(dst_buffers, taken, move_set):
        buffer[expanded[i][1]] = values


define(SCHEMA, _kv_relocate)


def kv_relocate(
    src_buffers: Sequence[torch.Tensor],
    dst_buffers: Sequence[torch.Tensor],
    move_set: Sequence[int],
    moves: Sequence[Moves],
) -> None:
    """Copy ``moves[move_set[i]]`` from ``src_buffers[i]`` to ``dst_buffers[i]`` for every i, in place.

    src_buffers, dst_buffers: ``[rows_i, width_i]`` views with equal dtype and width per pair; a pair may be one tensor.
    All rows of a job (``Moves.runs_per_job``) are gathered before any is stored, so its runs may overlap; two runs must
    not share a destination row.

    Raises ValueError on unequal counts, more than 6 move sets, a pair of different width or dtype, or a non-int64 run
    tensor.
    """
    if not len(src_buffers) == len(dst_buffers) == len(move_set):
        raise ValueError(
            f"kv_relocate needs one move set per buffer pair, got {len(src_buffers)} sources, "
            f"{len(dst_buffers)} destinations, {len(move_set)} move sets"
        )
    if len(moves) > MAX_SETS:
        raise ValueError(
            f"kv_relocate takes at most {MAX_SETS} move sets, got {len(moves)}; put the others into calls of their own"
        )
    for i, (source, destination) in enumerate(zip(src_buffers, dst_buffers)):
        if source.dtype != destination.dtype or source.shape[1:] != destination.shape[1:] or source.dim() != 2:
            raise ValueError(
                f"kv_relocate pair {i}: rows must be 2-D with equal width and dtype, got "
                f"{tuple(source.shape)} {source.dtype} -> {tuple(destination.shape)} {destination.dtype}"
            )
        if not 0 <= move_set[i] < len(moves):
            raise ValueError(f"kv_relocate pair {i}: move set {move_set[i]} of {len(moves)}")
    for i, move in enumerate(moves):
        if not move.src.shape == move.dst.shape == move.rows.shape:
            raise ValueError(f"kv_relocate move set {i}: src, dst and rows differ in length")
        if {move.src.dtype, move.dst.dtype, move.rows.dtype} != {torch.int64}:
            raise ValueError(f"kv_relocate move set {i}: src, dst and rows must be int64")
    if not src_buffers:
        return
    torch.ops.dsv4_tree.kv_relocate(
        list(src_buffers),
        list(dst_buffers),
        list(move_set),
        [m.src for m in moves],
        [m.dst for m in moves],
        [m.rows for m in moves],
        [m.max_rows for m in moves],
        [m.runs_per_job for m in moves],
    )
