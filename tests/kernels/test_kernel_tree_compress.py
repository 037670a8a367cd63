"""tree_compress on the host layer: against a numpy fp64 oracle, with checks on, in both hazard modes."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import cases_tree_compress as cases
import numpy as np
import pytest
import torch
from cases_tree_compress import KINDS
from devices import kernels_serve_npu_tensors, why_no_card
from hostlayer.build import COMPILER, SANITIZE, build, kernel_sources
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsv4_npu_tree.ops.kernels.library import KernelLibrary
from dsv4_npu_tree.ops.kernels.tree_compress import FP32, PAIRS, launch
from dsv4_npu_tree.reference.compress import ABSENT, bf16, bf16_steps, ulps_to_tie

HAZARD_MODES = ("strict", "autosync")
UB_USABLE = 192 * 1024 - 256 - 8 * 1024
QUICK = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)
# fp32 error of a channel, as a share of the largest number of its row: 16 roundings.
FP32_SLACK = 2.0**-20


@pytest.fixture(scope="session")
def check(tmp_path_factory: pytest.TempPathFactory) -> KernelLibrary:
    folder = tmp_path_factory.mktemp("compress")
    return KernelLibrary(build(folder / "check.so", kernel_sources("tree_compress")))


@pytest.fixture(scope="session")
def fast(tmp_path_factory: pytest.TempPathFactory) -> KernelLibrary:
    folder = tmp_path_factory.mktemp("compress")
    return KernelLibrary(build(folder / "fast.so", kernel_sources("tree_compress"), check=False))


def expect_exact(got: torch.Tensor, want: np.ndarray) -> None:
    """bf16 bits of the fp64 formula; the message names the distance to the next tie where they differ."""
    wrong = got.float().numpy() != bf16(want)
    assert not wrong.any(), f"{wrong.sum()} of {wrong.size} differ, {ulps_to_tie(want)[wrong]} fp32 ulps from a tie"


def expect_fp32(got: torch.Tensor, want: np.ndarray) -> int:
    """Within half a bf16 step and the error of fp32. Returns how many elements are not the nearest bf16 number."""
    values = got.double().numpy()
    slack = FP32_SLACK * np.abs(want).max(axis=1, keepdims=True)
    assert (np.abs(values - want) <= 0.5 * bf16_steps(want) + slack).all()
    return int((values != bf16(want)).sum())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", HAZARD_MODES)
@QUICK
@given(
    seed=st.integers(0, 2**31),
    bs=st.integers(1, 4),
    n=st.integers(1, 12),
    cores=st.sampled_from((1, 2, 7, 48)),
    order=st.integers(1, 1000),
    change=st.sampled_from((cases.with_poison, cases.with_large_scores, cases.with_cleared_state)),
)
def test_random_trees_equal_the_oracle(
    check: KernelLibrary, kind: str, mode: str, seed: int, bs: int, n: int, cores: int, order: int, change
) -> None:
    case = change(cases.tree_case(seed, bs, n, kind))
    check.configure(mode, cores, order)
    want = case.expected()
    expect_exact(launch(check, *case.arguments(), mode=PAIRS), want)
    counters = check.counters()
    assert counters.scalar_gm_reads == counters.scalar_gm_writes == 0
    assert counters.peak_ub_bytes <= UB_USABLE
    expect_fp32(launch(check, *case.arguments(), mode=FP32), want)


@pytest.mark.parametrize("kind", ["c4", "indexer"])
@pytest.mark.parametrize("prefix", range(1, 9))
def test_every_prefix_phase_and_the_first_blocks(check: KernelLibrary, kind: str, prefix: int) -> None:
    case = cases.with_poison(cases.tree_case(prefix, 2, 10, kind, prefixes=[prefix, prefix + 120]))
    assert prefix >= 4 or (case.window == ABSENT).any()
    check.configure("strict", 3)
    expect_exact(launch(check, *case.arguments()), case.expected())


@pytest.mark.parametrize("kind, rows", [("indexer", 4000), ("c4", 1500), ("c128", 64)])
@pytest.mark.parametrize("change", [lambda case: case, cases.with_large_scores, cases.with_cleared_state])
def test_thousands_of_rows(fast: KernelLibrary, kind: str, rows: int, change) -> None:
    """Exact everywhere in pairs; fp32 differs in few elements, all of them next to a tie."""
    case = change(cases.many_rows(rows, rows, kind))
    want = case.expected()
    assert np.isfinite(want).all()
    expect_exact(launch(fast, *case.arguments(), mode=PAIRS), want)
    differing = expect_fp32(launch(fast, *case.arguments(), mode=FP32), want)
    print(f"{kind}: fp32 differs in {differing} of {want.size}, {(ulps_to_tie(want) < 4).sum()} within 4 ulps of a tie")
    assert differing <= 2e-4 * want.size


@pytest.mark.parametrize("mode", HAZARD_MODES)
def test_open_rows_are_cleared_and_closing_rows_dealt(check: KernelLibrary, mode: str) -> None:
    """Flags longer than one flag window, sparse and dense, any number of cores."""
    for rows, closing, cores in ((4500, 0.02, 48), (33, 0.5, 7), (8, 0.0, 3), (64, 1.0, 48), (1, 1.0, 48)):
        case = cases.with_poison(cases.many_rows(rows, rows, "indexer", closing))
        check.configure(mode, cores)
        expect_exact(launch(check, *case.arguments()), case.expected())


def test_nothing_to_do(check: KernelLibrary) -> None:
    empty = cases.many_rows(1, 1, "c4")
    rows = ("scratch", "window", "closes", "cos", "sin")
    empty = replace(empty, **{name: getattr(empty, name)[:0] for name in rows})
    assert launch(check, *empty.arguments()).shape == (0, 512)


def test_a_state_without_rows(check: KernelLibrary) -> None:
    case = cases.tree_case(3, 1, 12, "c4", prefixes=[1])
    case = replace(case, state=case.state[:0], window=torch.where(case.window >= 0, ABSENT, case.window))
    assert case.closes.any()
    expect_exact(launch(check, *case.arguments()), case.expected())


@pytest.mark.parametrize("entry", [257, 2**40, -(2**31) - 1, -(2**31) + 1, -41, -(2**63), 2**63 - 1])
@pytest.mark.parametrize("mode", [FP32, PAIRS])
def test_wild_entries_are_refused_and_bounded(check: KernelLibrary, fast: KernelLibrary, entry: int, mode: int) -> None:
    case = cases.many_rows(7, 40, "indexer")
    case.window[3, 5] = entry
    with pytest.raises(ValueError, match=r"window\[3, 5\]"):
        launch(check, *case.arguments(), mode=mode)
    bounded = case.window.clone()
    bounded[3, 5] = 256 if entry >= 0 else -40
    got = launch(fast, *case.arguments(), mode=mode)
    assert torch.equal(got, launch(fast, *replace(case, window=bounded).arguments(), mode=mode))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", [FP32, PAIRS])
@pytest.mark.parametrize("poison", ["nan kv", "nan score", "inf score", "no finite score"])
def test_what_is_not_a_number_stays_in_its_row(fast: KernelLibrary, kind: str, mode: int, poison: str) -> None:
    """A row whose window has no meaning is NaN, as in the formula, and only that row."""
    case = cases.tree_case(11, 3, 12, kind)
    row = int(case.closes.nonzero()[0])
    others = case.closes.clone()
    others[row] = False
    shared = set(case.window[others].flatten().tolist())
    mine = [source for source in case.window[row].tolist() if source not in shared and source != ABSENT]
    half = case.scratch.shape[1] // 2
    for source in mine if poison == "no finite score" else mine[-1:]:
        rows, index = (case.state, source) if source >= 0 else (case.scratch, -1 - source)
        if poison == "nan kv":
            rows[index, :half] = float("nan")
        else:
            rows[index, half:] = {"nan score": float("nan"), "inf score": float("inf")}.get(poison, float("-inf"))
    if poison == "no finite score" and len(mine) < case.window.shape[1]:
        case.window[row] = ABSENT
    got = launch(fast, *case.arguments(), mode=mode)
    assert got[row].isnan().any() and not got[others].isnan().any()
    if mode == PAIRS:
        expect_exact(got[others], case.expected()[others.numpy()])


@pytest.mark.parametrize(
    "change",
    [
        {"coff": 3},
        {"norm_weight": torch.ones(96)},
        {"cos": torch.ones(40, 12), "sin": torch.ones(40, 12)},
        {"window": torch.zeros(40, 6, dtype=torch.int64)},
        {"window": torch.zeros(40, 8, dtype=torch.int32)},
        {"scratch": torch.zeros(39, 512)},
    ],
)
def test_arguments_are_refused(check: KernelLibrary, change: dict) -> None:
    with pytest.raises(ValueError, match="tree_compress"):
        launch(check, *replace(cases.many_rows(1, 40, "indexer"), **change).arguments())


@pytest.mark.parametrize("kind", KINDS)
def test_reads_little_more_than_the_minimum(check: KernelLibrary, kind: str) -> None:
    case = cases.tree_case(1, 8, 16, kind)
    check.configure("strict", 48)
    launch(check, *case.arguments())
    counters, (read, written) = check.counters(), case.minimum_bytes
    print(kind, counters.as_dict(), read, written)
    # Every core reads the flags, once more those of its own slice, and the norm weight if it closes a row.
    flags = counters.blocks * case.closes.numel() + case.closes.numel()
    weights = min(counters.blocks, int(case.closes.sum())) * 4 * case.dim
    assert read <= counters.dma_in_bytes <= read + flags + weights
    assert counters.dma_out_bytes == written


@pytest.mark.npu
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", [cases.with_poison, cases.with_large_scores, cases.with_cleared_state])
def test_a_card_equals_the_oracle(kind: str, change) -> None:
    reason = why_no_card()
    if reason is not None:
        pytest.skip(reason)
    kernels_serve_npu_tensors()
    for seed in range(8):
        case = change(cases.tree_case(seed, 8, 12, kind))
        got = torch.ops.dsv4_tree.tree_compress(*case.arguments("npu"))
        expect_fp32(got.cpu(), case.expected())


def test_sanitizers(tmp_path: Path) -> None:
    """A few cases under the address and undefined-behaviour sanitizers, in a process of their own."""
    library = build(tmp_path / "sanitized.so", kernel_sources("tree_compress"), SANITIZE)
    runtime = subprocess.run([COMPILER, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    script = (
        "import sys, cases_tree_compress as cases\n"
        "from pathlib import Path\n"
        "from dsv4_npu_tree.ops.kernels.library import KernelLibrary\n"
        "from dsv4_npu_tree.ops.kernels.tree_compress import launch\n"
        "library = KernelLibrary(Path(sys.argv[1]))\n"
        "for kind in cases.KINDS:\n"
        "    for mode in (0, 1):\n"
        "        launch(library, *cases.tree_case(2, 2, 8, kind).arguments(), mode=mode)\n"
        "print('clean')\n"
    )
    here = Path(__file__).resolve().parent
    paths = os.pathsep.join([str(here), str(here.parents[1])])
    environment = {
        **os.environ,
        "PYTHONPATH": paths,
        "LD_PRELOAD": runtime.stdout.strip(),
        "ASAN_OPTIONS": "detect_leaks=0",
        "DSV4_TREE_OPS": "reference",
    }
    command = [sys.executable, "-c", script, str(library)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "clean", done.stderr[-2000:]
