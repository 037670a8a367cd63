"""The tree kernels under the address and undefined-behaviour sanitizers, in a process that preloads their runtime."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hostlayer.build import COMPILER, SANITIZE, build, kernel_sources

SCRIPT = """
import sys
from pathlib import Path
import numpy as np
import test_kernel_tree_build as builds
import test_kernel_tree_mask as masks
import test_kernel_tree_verify_greedy as walks
from devices import Host
from generators import BROKEN_KINDS, VALID_KINDS, case, tokens_and_target
from dsv4_npu_tree.ops.kernels.library import KernelLibrary

host = Host(KernelLibrary(Path(sys.argv[1])), "strict")
rng = np.random.default_rng(4)
for kind in VALID_KINDS + BROKEN_KINDS:
    for bs in (1, 3, 33):
        made = case(rng, kind, bs)
        builds.assert_is_the_oracles(host, made)
        trees = made.trees()
        tokens, target = tokens_and_target(rng, trees, made.n, 5)
        result = walks.walk(host, made, trees, tokens, target, rng)
        walks.assert_is_the_oracles(result, trees, tokens, target, made.steps + 1)
for mode in masks.TreeMaskMode:
    made = builds.fixture([[0, 1, 4], [1, 4, 5]], [3, 1000])
    want = masks.mask_of(made, mode)
    host.tree_mask(made.tensors(), *builds.shape_of(made), mask=want, mode=mode)
for broken in (-5, 2**62, -(2**63)):
    masks.test_a_prefix_that_does_not_fit_writes_nothing_outside(host, broken)
walks.test_endless_cycles_end(host)
print("clean")
"""


def test_tree_kernels_are_sanitizer_clean(tmp_path: Path) -> None:
    runtime = subprocess.run([COMPILER, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    if not Path(runtime.stdout.strip()).is_file():
        pytest.skip(f"{COMPILER} has no libasan")
    sources = [source for op in ("tree_build", "tree_verify_greedy") for source in kernel_sources(op)]
    library = build(tmp_path / "sanitized.so", sources, flags=SANITIZE)
    here = Path(__file__).resolve().parent
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (here, here.parent / "unit", here.parents[1]))),
        "LD_PRELOAD": runtime.stdout.strip(),
        "ASAN_OPTIONS": "detect_leaks=0",
        "DSV4_TREE_OPS": "reference",
    }
    command = [sys.executable, "-c", SCRIPT, str(library)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "clean", done.stderr[-3000:]
