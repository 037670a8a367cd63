"""Positions past the end of the rotary tables."""

import torch

from dsv4_npu_tree.hooks.hardware_backend.npu.dsv4.dsv4_rope import inside_table


def test_rows_of_the_last_rounds_take_the_last_position():
    positions = torch.tensor([0, 5, 98, 99, 100, 107, 115])
    assert inside_table(positions, size=100, beyond=16).tolist() == [0, 5, 98, 99, 99, 99, 99]


def test_positions_that_no_round_reaches_still_fail():
    """A wrong position is not hidden."""
    assert inside_table(torch.tensor([116, 500, -1]), size=100, beyond=16).tolist() == [116, 500, -1]
