"""kv_relocate on the host layer: against a numpy oracle, with checks on, in both modes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from devices import kernels_serve_npu_tensors, why_no_card
from hostlayer.build import COMPILER, SANITIZE, build, kernel_sources
from hostlayer.library import MODES, OK, HostLibrary
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from relocation import Case, MoveSet, oracle, random_rows, random_runs, relocate, relocate_on_card

from dsv4_npu_tree.ops.kv_relocate import MAX_SETS

# KV bf16, indexer int8, its fp16 scale, state rows fp32, and widths that no kind has.
WIDTHS = (1024, 128, 2, 2048, 8192, 33, 96, 6)
QUICK = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)


@pytest.fixture
def check(relocate_kernels: HostLibrary) -> HostLibrary:
    return relocate_kernels


@pytest.fixture(scope="session")
def fast(tmp_path_factory: pytest.TempPathFactory) -> HostLibrary:
    output = tmp_path_factory.mktemp("relocate") / "fast.so"
    return HostLibrary(build(output, kernel_sources("kv_relocate"), check=False))


@pytest.fixture
def card() -> None:
    """Skips where there is no Ascend card (the CPU twin is none)."""
    reason = why_no_card()
    if reason is not None:
        pytest.skip(reason)
    kernels_serve_npu_tensors()


def expect_moved(library: HostLibrary, case: Case) -> None:
    wanted = oracle(case)
    outcome = relocate(library, case)
    assert outcome.status == OK, outcome.error
    for i, (want, (_, destination, _)) in enumerate(zip(wanted, case.buffers)):
        np.testing.assert_array_equal(destination, want, err_msg=f"buffer {i}")


def overlapping_case(seed: int) -> Case:
    """One job per buffer (runs_per_job 0): runs overlap, permute and chain as they like."""
    rng = np.random.default_rng(seed)
    sets, buffers = [], []
    for s in range(int(rng.integers(1, MAX_SETS + 1))):
        max_rows = int(rng.integers(1, 16))
        sets.append(MoveSet(random_runs(rng, 96, int(rng.integers(0, 24)), max_rows), max_rows))
        for width in rng.choice(WIDTHS, int(rng.integers(1, 4)), replace=False):
            source = random_rows(rng, 96, int(width))
            other = source if rng.integers(2) else random_rows(rng, 96, int(width))
            buffers.append((source, other, s))
    order = rng.permutation(len(buffers))
    return Case([buffers[i] for i in order], sets)


def grouped_case(seed: int) -> Case:
    """Requests with runs of their own, as draft re-parenting has them: overlap inside a request only."""
    rng = np.random.default_rng(seed)
    requests, beams, max_rows = int(rng.integers(1, 9)), int(rng.integers(1, 7)), int(rng.integers(1, 9))
    room = beams * (max_rows + 2)
    runs = []
    for request in range(requests):
        mine = random_runs(rng, (request + 1) * room, beams, max_rows, low=request * room)
        runs += mine + [(-7, -7, 0)] * (beams - len(mine))
    pool = [random_rows(rng, requests * room, int(width)) for width in rng.choice(WIDTHS, 3)]
    return Case([(rows, rows, 0) for rows in pool], [MoveSet(runs, max_rows, beams)])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", [overlapping_case, grouped_case])
@QUICK
@given(seed=st.integers(0, 2**32 - 1), cores=st.sampled_from((1, 2, 7, 48)), order=st.integers(1, 1000))
def test_moves_equal_the_oracle(check: HostLibrary, make, mode: str, seed: int, cores: int, order: int) -> None:
    check.configure(mode, cores, order)
    expect_moved(check, make(seed))
    counters = check.counters()
    assert counters.scalar_gm_reads == counters.scalar_gm_writes == 0


def test_fast_library_equals_the_oracle(fast: HostLibrary) -> None:
    for seed in range(40):
        expect_moved(fast, overlapping_case(seed))
        expect_moved(fast, grouped_case(seed))


@pytest.mark.npu
@pytest.mark.parametrize("make", [overlapping_case, grouped_case])
def test_moves_equal_the_oracle_on_a_card(card: None, make) -> None:
    for seed in range(60):
        case = make(seed)
        wanted = oracle(case)
        relocate_on_card(case)
        for i, (want, (_, destination, _)) in enumerate(zip(wanted, case.buffers)):
            np.testing.assert_array_equal(destination, want, err_msg=f"seed {seed}, buffer {i}")


def tail_duplication(bs: int, branches: int, layers: int, rows: int) -> Case:
    """A round's prefix tails: SWA and C4 KV of every layer, indexer keys and scales."""
    rng = np.random.default_rng(bs * 100 + rows)
    swa_rows, own = bs * branches * 32, bs * 16
    swa_runs = [
        (swa_rows + request * 16, (request * branches + branch) * 32, rows)
        for request in range(bs)
        for branch in range(branches)
    ]
    c4_runs = [(s, d, rows // 4) for s, d, _ in swa_runs]
    pools = [(random_rows(rng, swa_rows + own, 1024), 0) for _ in range(layers)]
    pools += [(random_rows(rng, swa_rows + own, width), 1) for width in (1024, 128, 2) for _ in range(layers // 2)]
    return Case([(p, p, s) for p, s in pools], [MoveSet(swa_runs, 15, 1), MoveSet(c4_runs, 15, 1)])


def state_commit(bs: int, accepted: int, layers: int) -> Case:
    """Accepted scratch rows to their ring rows, one run of one fp32 row each; then KV runs."""
    rng = np.random.default_rng(bs)
    states = [(b * 9 + i, b * 16 + i, 1) for b in range(bs) for i in range(accepted)]
    rows = [(bs * 16 + b * 32, b * 16, accepted) for b in range(bs)]
    buffers = [(random_rows(rng, bs * 9, 8192), random_rows(rng, bs * 16, 8192), 0) for _ in range(layers)]
    pools = [random_rows(rng, bs * 48, 1024) for _ in range(layers)]
    return Case(buffers + [(p, p, 1) for p in pools], [MoveSet(states, 1, 1), MoveSet(rows, 9, 1)])


@pytest.mark.parametrize(
    "case",
    [tail_duplication(2, 8, 4, 11), tail_duplication(8, 4, 6, 15), state_commit(1, 3, 6), state_commit(16, 4, 4)],
    ids=["tails-2x8", "tails-8x4", "commit-1", "commit-16"],
)
def test_traffic_is_the_minimum(check: HostLibrary, case: Case) -> None:
    check.configure("strict", 48)
    expect_moved(check, case)
    counters = check.counters()
    plan_reads = counters.dma_in_instructions - case.moved_runs
    assert counters.dma_out_bytes == case.minimum_bytes
    assert counters.dma_in_bytes + counters.dma_out_bytes <= 1.05 * 2 * case.minimum_bytes
    assert counters.dma_out_instructions == case.moved_runs
    # Rows of the core and of its buffers, three columns of runs; once more the columns where a core meets the next set.
    assert plan_reads <= 5 * counters.blocks + 3 * (len(case.sets) - 1)
    assert counters.peak_ub_bytes <= 188160


@pytest.mark.parametrize("cores", [1, 5])
def test_rows_wider_than_a_slot_move_by_columns(check: HostLibrary, cores: int) -> None:
    rng = np.random.default_rng(3)
    wide, odd = random_rows(rng, 40, 40000), random_rows(rng, 40, 9001)
    swap = [(0, 16, 16), (16, 0, 16), (33, 32, 7)]
    check.configure("strict", cores)
    expect_moved(check, Case([(wide, wide, 0), (odd, odd, 0)], [MoveSet(swap, 16)]))


def test_more_runs_than_the_window(check: HostLibrary) -> None:
    rng = np.random.default_rng(4)
    pools = [random_rows(rng, 4000, 64) for _ in range(4)]
    many, few = [(2000 + i, i, 1) for i in range(1500)], [(3000 + i, i, 1) for i in range(640)]
    for cores in (1, 3):
        check.configure("strict", cores)
        case = Case([(p, p, i % 2) for i, p in enumerate(pools)], [MoveSet(many, 1, 1), MoveSet(few, 1, 1)])
        expect_moved(check, case)


def test_more_buffers_than_the_window(check: HostLibrary) -> None:
    rng = np.random.default_rng(5)
    pools = [random_rows(rng, 32, 32) for _ in range(150)]
    check.configure("strict", 2)
    expect_moved(check, Case([(p, p, 0) for p in pools], [MoveSet([(0, 16, 8), (8, 0, 8)], 8)]))


@pytest.mark.parametrize("sets", [[], [MoveSet([], 4)], [MoveSet([(-1, -1, 0)] * 5, 4)]])
def test_nothing_to_move(check: HostLibrary, sets: list[MoveSet]) -> None:
    pool = random_rows(np.random.default_rng(0), 8, 32)
    expect_moved(check, Case([(pool, pool, 0)] if sets else [], sets))


def test_row_counts_outside_the_bound_stay_inside_it_without_checks(fast: HostLibrary) -> None:
    pool = random_rows(np.random.default_rng(0), 32, 64)
    before = pool.copy()
    assert relocate(fast, Case([(pool, pool, 0)], [MoveSet([(0, 16, 99), (8, 0, -3)], 4)])).status == OK
    before[16:20] = before[0:4]
    np.testing.assert_array_equal(pool, before)


def test_pairs_may_share_a_tensor_whose_rows_they_do_not_share(check: HostLibrary) -> None:
    pool = random_rows(np.random.default_rng(0), 64, 8192)
    check.configure("strict", 2)
    sets = [MoveSet([(0, 16, 16)], 16), MoveSet([(8, 40, 4)], 4)]
    expect_moved(check, Case([(pool, pool, 0), (pool, pool, 1)], sets))


def test_job_that_fits_only_as_whole_rows(check: HostLibrary) -> None:
    """640 runs of up to 65 rows of 2 B: not 32 B of every row fit, and not twice in UB; all of it fits once."""
    pool = random_rows(np.random.default_rng(6), 640 * 66, 2)
    runs = [(i * 66, (639 - i) * 66, 65 - i % 3) for i in range(640)]
    check.configure("strict", 2)
    expect_moved(check, Case([(pool, pool, 0)], [MoveSet(runs, 65)]))


def test_kernel_is_sanitizer_clean(tmp_path: Path) -> None:
    library = build(tmp_path / "sanitized.so", kernel_sources("kv_relocate"), flags=SANITIZE)
    runtime = subprocess.run([COMPILER, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    script = (
        "import sys, test_kernel_kv_relocate as t; from pathlib import Path\n"
        "library = t.HostLibrary(Path(sys.argv[1]))\n"
        "for seed in range(12):\n"
        "    library.configure(t.MODES[seed % 2], (1, 3, 48)[seed % 3], seed)\n"
        "    t.expect_moved(library, t.overlapping_case(seed)); t.expect_moved(library, t.grouped_case(seed))\n"
        "print('clean')\n"
    )
    environment = os.environ | {
        "LD_PRELOAD": runtime.stdout.strip(),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONPATH": str(Path(__file__).parent),
    }
    command = [sys.executable, "-c", script, str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0 and "clean" in done.stdout, done.stdout + done.stderr[-4000:]
