"""What kv_relocate refuses before anything moves."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hostlayer.library import BAD_ARGUMENT, HostLibrary
from relocation import Arguments, Buffer, Case, MoveSet, Set, random_rows, relocate

from dsv4_npu_tree.ops.kv_relocate import MAX_SETS


@pytest.fixture
def check(relocate_kernels: HostLibrary) -> HostLibrary:
    return relocate_kernels


@pytest.mark.parametrize(
    ("runs", "runs_per_job", "message"),
    [
        ([(0, 30, 4)], 0, "the tensors have 32"),
        ([(30, 0, 4)], 0, "the tensors have 32"),
        ([(-1, 0, 1)], 0, "rows from -1"),
        ([(0, 8, 5)], 0, "max_rows is 4"),
        ([(0, 8, -1)], 0, "-1 rows"),
        ([(0, 8, 4), (16, 11, 1)], 0, "destination row of another run"),
        ([(0, 8, 4), (8, 20, 4)], 1, "raise runs_per_job"),
        ([(2**62, 8, 4)], 0, "the tensors have 32"),
    ],
)
def test_bad_runs_are_refused_before_anything_moves(
    check: HostLibrary, runs: list, runs_per_job: int, message: str
) -> None:
    pool = random_rows(np.random.default_rng(0), 32, 64)
    before = pool.copy()
    outcome = relocate(check, Case([(pool, pool, 0)], [MoveSet(runs, 4, runs_per_job)]))
    assert outcome.status == BAD_ARGUMENT and message in outcome.error
    np.testing.assert_array_equal(pool, before)


def test_group_that_does_not_fit_is_refused_with_the_way_out(check: HostLibrary) -> None:
    pool = random_rows(np.random.default_rng(0), 16, 64)
    outcome = relocate(check, Case([(pool, pool, 0)], [MoveSet([(0, 0, 0)] * 700, 4)]))
    assert outcome.status == BAD_ARGUMENT and "set runs_per_job" in outcome.error


def test_more_sets_than_a_launch_takes_are_refused(check: HostLibrary) -> None:
    pool = random_rows(np.random.default_rng(0), 64, 32)
    before = pool.copy()
    outcome = relocate(check, Case([(pool, pool, 0)], [MoveSet([(0, 32, 4)], 4)] * (MAX_SETS + 1)))
    assert outcome.status == BAD_ARGUMENT and "7 move sets, one launch takes 6" in outcome.error
    np.testing.assert_array_equal(pool, before)


def test_runs_without_an_address_are_refused(check: HostLibrary) -> None:
    buffers, sets = (Buffer * 1)(Buffer(0, 0, 64, 64, 64, 0)), (Set * 1)(Set(None, None, None, 1, 4, 1))
    outcome = check.call("dsv4_kv_relocate", ctypes.byref(Arguments(buffers, 1, sets, 1, None)), None)
    assert outcome.status == BAD_ARGUMENT and "set 0: no address for 1 runs" in outcome.error


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ((16, 32, 16), "buffer 1, run 0 reads bytes that buffer 0, run 0 writes"),
        ((48, 0, 16), "buffer 0, run 0 reads bytes that buffer 1, run 0 writes"),
        ((48, 31, 1), "write the same bytes"),
    ],
)
def test_pairs_that_depend_on_each_other_are_refused(
    check: HostLibrary, second: tuple[int, int, int], message: str
) -> None:
    """The reference gathers from all buffers before it stores; the kernel does so inside a job, which is one pair."""
    pool = random_rows(np.random.default_rng(0), 64, 8192)
    before = pool.copy()
    case = Case([(pool, pool, 0), (pool, pool, 1)], [MoveSet([(0, 16, 16)], 16), MoveSet([second], 16)])
    outcome = relocate(check, case)
    assert outcome.status == BAD_ARGUMENT and message in outcome.error
    np.testing.assert_array_equal(pool, before)


@pytest.mark.parametrize(
    ("runs", "max_rows", "message"),
    [
        (1, 2**31, "at most 2147483647 rows in a run"),
        (1, 2**62, "at most 2147483647 rows in a run"),
        (640, 2**31 - 1, "set runs_per_job"),
    ],
)
def test_sizes_that_overflow_are_refused(check: HostLibrary, runs: int, max_rows: int, message: str) -> None:
    pool = random_rows(np.random.default_rng(0), 4, 8192)
    outcome = relocate(check, Case([(pool, pool, 0)], [MoveSet([(0, 0, 0)] * runs, max_rows)]))
    assert outcome.status == BAD_ARGUMENT and message in outcome.error


@pytest.mark.parametrize(
    ("rows", "row_bytes", "runs", "message"),
    [
        (2**62, 64, 1, "row_bytes 64"),
        (-1, 64, 1, "-1 and 64 rows"),
        (64, 64, 2**31, "2147483647 runs in a set"),
        (64, 2**30, 2**31 - 1, "more work than one launch takes"),
    ],
)
def test_products_that_overflow_are_refused(
    check: HostLibrary, rows: int, row_bytes: int, runs: int, message: str
) -> None:
    """Sizes that no tensor of a test has; refused before an address is used."""
    buffers, sets = (Buffer * 1)(Buffer(0, 0, rows, 64, row_bytes, 0)), (Set * 1)(Set(None, None, None, runs, 4000, 1))
    arguments, size = Arguments(buffers, 1, sets, 1, None), ctypes.c_int64()
    outcome = check.call("dsv4_kv_relocate_plan", ctypes.byref(arguments), None, ctypes.c_int64(0), ctypes.byref(size))
    assert outcome.status == BAD_ARGUMENT and message in outcome.error, outcome
