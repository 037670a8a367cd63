"""The mask of the tree_build kernel against the oracle and against the torch implementation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from devices import Device, Host
from masks import before, mask_of, masked_case, same
from test_kernel_tree_build import fixture, shape_of

from dsv4_npu_tree.ops import library
from dsv4_npu_tree.ops import tree_build as op
from dsv4_npu_tree.ops.kernels import tree_build as adapter
from dsv4_npu_tree.ops.tree_mask import TreeMaskMode


@pytest.mark.parametrize("mode", TreeMaskMode)
def test_kernel_oracle_and_torch_agree(device: Device, mode: TreeMaskMode) -> None:
    rng = np.random.default_rng(int(mode))
    for bs in (0, 1, 3, 33) * 7:
        made = masked_case(rng, bs, mode)
        want = mask_of(made, mode)
        got = device.tree_mask(made.tensors(), *shape_of(made), mask=before(want, mode), mode=int(mode))
        assert same(got, want), made
        reference = before(want, mode)
        op._tree_build(*made.tensors(), *shape_of(made), mask=reference, mask_mode=int(mode))
        assert same(reference, want), made


@pytest.mark.parametrize("mode", TreeMaskMode)
def test_the_op_hands_the_mask_to_the_kernel(host: Host, mode: TreeMaskMode) -> None:
    made = masked_case(np.random.default_rng(9), 3, mode)
    want = mask_of(made, mode)
    mask = before(want, mode)
    kernel = adapter.implementation(host.library)
    library.provide("tree_build", "CPU", kernel, name="under test")
    try:
        outputs = op.tree_build(*made.tensors(), *shape_of(made), mask=mask, mask_mode=mode)
    finally:
        del library._registry().implementations["tree_build", "CPU"]["under test"]
    assert same(mask, want)
    assert torch.equal(outputs[4], made.topology().parent)
    assert host.library.counters().dma_out_instructions > 0


def test_full_mask_of_a_long_prefix(device: Device) -> None:
    made = fixture([[0, 1, 4], [1, 4, 5]], [1 << 20, 3])
    want = mask_of(made, TreeMaskMode.FULL_MASK)
    got = device.tree_mask(made.tensors(), *shape_of(made), mask=torch.ones_like(want), mode=0)
    assert torch.equal(got, want)


def test_prefix_columns_stay_as_they_were(device: Device) -> None:
    made = fixture([[0, 1, 4], [1, 4, 5]], [5, 3])
    got = device.tree_mask(made.tensors(), *shape_of(made), mask=torch.zeros(4 * (9 + 7), dtype=torch.bool), mode=0)
    rows = torch.cat((got[:36].view(4, 9)[:, :5].flatten(), got[36:].view(4, 7)[:, :3].flatten()))
    assert not rows.any() and got.any()


@pytest.mark.parametrize("broken", [-5, 1 << 20, 1 << 62])
def test_a_prefix_that_does_not_fit_writes_nothing_outside(device: Device, broken: int) -> None:
    made = fixture([[0, 1, 4]] * 3, [2, 3, 2])
    want = mask_of(made, TreeMaskMode.FULL_MASK)
    made.seq_lens[1] = broken
    got = device.tree_mask(made.tensors(), *shape_of(made), mask=torch.ones_like(want), mode=0)
    first = 4 * (2 + 4)
    assert torch.equal(got[:first], want[:first]) and got[first:].all()


def test_masks_of_another_size_are_refused(host: Host) -> None:
    made = fixture([[0, 1, 4]], [100])
    for mode, size, message in ((1, 17, "does not hold"), (2, 3, "does not hold"), (0, 15, "hold")):
        mask = torch.zeros(size, dtype=torch.uint8)
        with pytest.raises(ValueError, match=message):
            host.tree_mask(made.tensors(), *shape_of(made), mask=mask, mode=mode)
