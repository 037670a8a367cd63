"""Equality of results, and the row invariance that every op owes."""

from collections.abc import Callable

import torch


def npu(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to("npu")


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Bitwise equality across devices (nan never equals)."""
    return a.dtype == b.dtype and torch.equal(a.cpu(), b.cpu())


def assert_rows_stand_alone(op: Callable[[torch.Tensor], torch.Tensor], rows: torch.Tensor) -> None:
    """``op(rows)[i]`` must be ``op(rows[i:i+1])[0]``, bit by bit, and so must every half of the rows."""
    whole = op(rows)
    for size in (1, (rows.shape[0] + 1) // 2):
        parts = torch.cat([op(rows[i : i + size]) for i in range(0, rows.shape[0], size)])
        assert torch.equal(whole.cpu(), parts.cpu()), f"rows differ when {size} are computed at a time"
