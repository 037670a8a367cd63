"""Paged pools: logical row -> physical slot through a block table."""

import torch

from torch_npu.ops.limits import Limits


def physical_slots(
    limits: Limits,
    argument: str,
    table: torch.Tensor,
    pool: torch.Tensor,
    batch: torch.Tensor,
    logical: torch.Tensor,
    read: torch.Tensor,
) -> torch.Tensor:
    """Slots ``block * block_rows + row`` that a kernel would read.

    Args:
        table: int32 ``[B, columns]``, physical block of each logical block.
        pool: ``[blocks, block_rows, ...]``.
        batch: int64, broadcastable to ``logical``: line of the table.
        logical: int64, logical row numbers.
        read: bool, same shape as ``logical``. Table entries outside the read range are never looked at.

    Returns:
        int64 like ``logical``; 0 where ``read`` is false.

    Raises:
        Refused: a read entry lies beyond the table's width, or names no block of the pool (a card would read a
            wild address).
    """
    blocks, block_rows = pool.shape[0], pool.shape[1]
    column = torch.where(read, logical // block_rows, 0)
    widest = int(column.max()) if column.numel() else 0
    limits.require(
        widest < table.shape[1],
        argument,
        tuple(table.shape),
        f"read range needs {widest + 1} columns (table too narrow)",
    )
    block = table[batch.expand_as(column), column].long()
    wild = read & ((block < 0) | (block >= blocks))
    if bool(wild.any()):
        where = tuple(wild.nonzero()[0].tolist())
        line, place = int(batch.expand_as(column)[where]), int(column[where])
        limits.refuse(
            f"{argument}[{line}, {place}]", int(block[where]), f"inside the read range, pool has {blocks} blocks"
        )
    return torch.where(read, block * block_rows + logical % block_rows, 0)
