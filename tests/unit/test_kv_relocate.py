"""kv_relocate against a row-by-row copy in plain Python."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dsv4_npu_tree.ops.kv_relocate import Moves, kv_relocate

KINDS = [(torch.bfloat16, 8), (torch.int8, 5), (torch.float16, 1), (torch.float32, 6)]


def moves_of(runs: list[tuple[int, int, int]]) -> Moves:
    columns = list(zip(*runs)) if runs else [(), (), ()]
    src, dst, rows = (torch.tensor(c, dtype=torch.int64) for c in columns)
    return Moves(src, dst, rows, max([r[2] for r in runs], default=1) or 1)


def expected(buffer: np.ndarray, runs: list[tuple[int, int, int]]) -> np.ndarray:
    before, after = buffer.copy(), buffer.copy()
    for src, dst, rows in runs:
        for row in range(rows):
            after[dst + row] = before[src + row]
    return after


@st.composite
def disjoint_runs(draw):
    """Runs whose destinations are disjoint; sources may overlap anything."""
    cuts = sorted(draw(st.sets(st.integers(0, 40), min_size=2, max_size=9)))
    runs = []
    for start, end in zip(cuts, cuts[1:]):
        rows = draw(st.integers(0, end - start))
        runs.append((draw(st.integers(0, 40 - rows)), start, rows))
    return draw(st.permutations(runs))


@settings(max_examples=200, deadline=None)
@given(disjoint_runs(), st.integers(0, 2**31))
def test_overlapping_and_permuted_runs(runs, seed):
    generator = torch.Generator().manual_seed(seed)
    buffers = [torch.randint(-100, 100, (41, width), generator=generator).to(dtype) for dtype, width in KINDS]
    wanted = [expected(b.float().numpy(), runs) for b in buffers]
    kv_relocate(buffers, buffers, [0] * len(buffers), [moves_of(runs)])
    for buffer, want in zip(buffers, wanted):
        np.testing.assert_array_equal(buffer.float().numpy(), want)


def test_masked_runs_read_and_write_nothing():
    buffer = torch.arange(12.0).view(6, 2)
    before = buffer.clone()
    kv_relocate([buffer], [buffer], [0], [moves_of([(10**6, -5, 0), (0, 0, 0)])])
    assert torch.equal(buffer, before)


def test_each_pair_uses_its_own_move_set():
    source, target = torch.arange(8.0).view(4, 2), torch.zeros(4, 2)
    other = torch.arange(4.0).view(4, 1)
    kv_relocate([source, other], [target, other], [1, 0], [moves_of([(0, 3, 1)]), moves_of([(1, 0, 2)])])
    assert torch.equal(target, torch.tensor([[2.0, 3], [4, 5], [0, 0], [0, 0]]))
    assert torch.equal(other, torch.tensor([[0.0], [1], [2], [0]]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"move_set": [1]}, "move set 1"),
        ({"dst_buffers": [torch.zeros(4, 3)]}, "equal width"),
        ({"dst_buffers": [torch.zeros(4, 2, dtype=torch.float16)]}, "equal width and dtype"),
        ({"moves": [Moves(torch.zeros(1), torch.zeros(1), torch.zeros(1), 1)]}, "int64"),
        ({"move_set": []}, "one move set per buffer pair"),
        ({"moves": [moves_of([(0, 1, 1)])] * 7}, "at most 6 move sets, got 7"),
    ],
)
def test_bad_arguments_are_named(change, message):
    good = {
        "src_buffers": [torch.zeros(4, 2)],
        "dst_buffers": [torch.zeros(4, 2)],
        "move_set": [0],
        "moves": [moves_of([(0, 1, 1)])],
    }
    with pytest.raises(ValueError, match=message):
        kv_relocate(**{**good, **change})
