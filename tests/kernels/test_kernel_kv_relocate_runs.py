"""Where kv_relocate reads its runs: at the addresses of the call, under a plan that knows neither them nor values."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import torch
from hostlayer.library import OK, HostLibrary
from relocation import Case, MoveSet, make_plan, oracle, random_rows, random_runs, relocate
from test_kernel_kv_relocate import overlapping_case

from dsv4_npu_tree.ops.kernels import kv_relocate as adapter
from dsv4_npu_tree.ops.kv_relocate import MAX_SETS, Moves


@pytest.fixture
def check(relocate_kernels: HostLibrary) -> HostLibrary:
    relocate_kernels.configure("strict", 5)
    return relocate_kernels


class Through:
    """The library as the adapter calls it; keeps the run addresses of the last call."""

    def __init__(self, library: HostLibrary) -> None:
        self.library = library
        self.addresses: list[int] = []

    def call(self, op: str, args: adapter.Args) -> None:
        sets = [args.sets[i] for i in range(args.set_count)]
        self.addresses = [address for one in sets for address in (one.src, one.dst, one.rows)]
        outcome = self.library.call(f"dsv4_{op}", ctypes.byref(args), None)
        assert outcome.status == OK, outcome.error


def expect_moved(library: HostLibrary, case: Case, plan: np.ndarray) -> None:
    wanted = oracle(case)
    outcome = relocate(library, case, plan)
    assert outcome.status == OK, outcome.error
    for want, (_, destination, _) in zip(wanted, case.buffers):
        np.testing.assert_array_equal(destination, want)


def test_plan_made_beforehand_moves_the_same(check: HostLibrary) -> None:
    for seed in range(10):
        case = overlapping_case(seed)
        expect_moved(check, case, make_plan(check, case))


def test_a_plan_serves_the_runs_of_every_call(check: HostLibrary) -> None:
    """As on a card: planned once for its buffers and run counts, then called with other runs at other addresses."""
    rng = np.random.default_rng(1)
    pools = [random_rows(rng, 96, width) for width in (1024, 128, 2, 8192, 33, 96)]

    def runs() -> list[tuple[int, int, int]]:
        drawn = random_runs(rng, 96, 6, 7)
        return drawn + [(-1, -1, 0)] * (6 - len(drawn))

    def case() -> Case:
        return Case([(p, p, i) for i, p in enumerate(pools)], [MoveSet(runs(), 7) for _ in range(MAX_SETS)])

    plan = make_plan(check, case())
    for _ in range(8):
        expect_moved(check, case(), plan)


def launch(library: Through, rows: torch.Tensor, moves: list[Moves]) -> None:
    buffers = [rows] * len(moves)
    columns = [[getattr(m, name) for m in moves] for name in ("src", "dst", "rows", "max_rows", "runs_per_job")]
    adapter.launch(library, buffers, buffers, list(range(len(moves))), *columns)


def test_contiguous_runs_are_read_in_place(check: HostLibrary) -> None:
    rows, library = torch.arange(24.0).view(12, 2), Through(check)
    moves = [
        Moves(torch.tensor([0, 1]), torch.tensor([4, 5]), torch.tensor([1, 1]), 1),
        Moves(torch.tensor([2]), torch.tensor([8]), torch.tensor([2]), 2),
        Moves(*torch.zeros(3, 0, dtype=torch.int64), 1),
    ]
    launch(library, rows, moves)
    assert rows[:, 0].tolist() == [0, 2, 4, 6, 0, 2, 12, 14, 4, 6, 20, 22]
    given = [column.data_ptr() or None for m in moves for column in (m.src, m.dst, m.rows)]
    assert library.addresses == given


def test_runs_with_gaps_are_copied_first(check: HostLibrary) -> None:
    """An expanded count, every second source, a column of a matrix."""
    rows, library = torch.arange(24.0).view(12, 2), Through(check)
    source = torch.tensor([0, 99, 1, 99, 2, 99])[::2]
    destination = torch.tensor([[6, 0], [8, 0], [10, 0]])[:, 0]
    count = torch.tensor([1]).expand(3)
    launch(library, rows, [Moves(source, destination, count, 1, 1)])
    assert rows[6::2, 0].tolist() == [0, 2, 4]
    assert not set(library.addresses) & {source.data_ptr(), destination.data_ptr(), count.data_ptr()}
