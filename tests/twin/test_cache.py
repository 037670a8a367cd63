import pytest
import torch
import torch_npu

from .exact import npu, same


def test_scatter_writes_the_named_rows():
    pool, rows = torch.zeros(6, 1, 4), torch.randn(2, 1, 4)
    target = npu(pool)
    torch_npu.npu_scatter_nd_update_(target.view(-1, 1, 4), npu(torch.tensor([[4], [1]])), npu(rows))
    pool[[4, 1]] = rows
    assert same(target, pool)


def test_scatter_refuses_rows_outside_and_other_dtypes():
    target = torch.zeros(6, 1, 4, device="npu")
    for index in (-1, 6):
        with pytest.raises(RuntimeError, match="npu_scatter_nd_update_: indices"):
            torch_npu.npu_scatter_nd_update_(target, npu(torch.tensor([[index]])), torch.zeros(1, 1, 4, device="npu"))
    with pytest.raises(RuntimeError, match="updates.dtype"):
        torch_npu.npu_scatter_nd_update_(target, npu(torch.tensor([[0]])), torch.zeros(1, 1, 4, device="npu").half())


def _slots(starts, ends, room):
    pool = torch.arange(60, dtype=torch.int32).view(3, 20)
    out = torch.full((room,), -7, dtype=torch.int32, device="npu")
    torch.ops.npu.cache_loc_update(npu(torch.tensor([2, 0])), npu(pool), npu(starts), npu(ends), out)
    return out.tolist()


def test_slot_lists_follow_each_other():
    assert _slots(torch.tensor([1, 4]), torch.tensor([3, 5]), 4) == [41, 42, 4, -7]


def test_more_than_sixteen_slots_overrun_the_kernel():
    with pytest.raises(RuntimeError, match=r"0\.\.16"):
        _slots(torch.tensor([0, 0]), torch.tensor([17, 1]), 18)


def test_slots_past_the_row_are_refused():
    with pytest.raises(RuntimeError, match="past the end"):
        _slots(torch.tensor([15, 0]), torch.tensor([21, 1]), 7)


def test_format_cast_keeps_the_values():
    weight = torch.randn(4, 4)
    assert same(torch.ops.npu.npu_format_cast(npu(weight), 29), weight)
