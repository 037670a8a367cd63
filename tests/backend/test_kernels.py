"""The same checks with the Ascend C kernels in place of the torch ops."""

from __future__ import annotations

import pytest
import torch

from dsv4_npu_tree.ops import library
from dsv4_npu_tree.ops.kv_relocate import MAX_SETS

from .draft import DraftBench
from .test_bystanders import PATHS, check_bytes, check_poisoned
from .test_rows import TREES, check_round
from .test_state import FORKED, check_every_acceptance, check_rounds

KEY = "PrivateUse1"


@pytest.fixture
def kernels(rig, torch_ops, monkeypatch):
    """The registry with every kernel selected; skips where none is built."""
    known = library._registry().implementations
    if "ascendc" not in known.get(("kv_relocate", KEY), {}):
        pytest.skip("no kernel library: build ascendc_kernels")
    monkeypatch.delenv("DSV4_TREE_OPS")
    return known


@pytest.fixture
def exact_kernels(kernels, monkeypatch):
    """All kernels that move and build; the compressor, whose kernel sums in fp32, stays in torch."""
    reference = kernels["tree_compress", KEY]["reference"]
    monkeypatch.setitem(kernels, ("tree_compress", KEY), {"reference": reference})


@pytest.mark.usefixtures("exact_kernels")
def test_rows_and_states_are_exact(rig, draw):
    assert check_round(rig, [13, 126, 255], [FORKED, TREES["comb"], TREES["inert inside"]], draw) == 0.0
    check_every_acceptance(rig, 125, FORKED, draw)
    check_rounds(rig, [120, 7, 250], 3, draw, seed=3)
    check_poisoned(rig, 124, FORKED, [0, 2, 5, 7], draw)
    check_bytes(rig, [126, 15, 61], list(PATHS), draw)


def test_compressor_kernel_is_within_a_rounding(rig, kernels, draw, monkeypatch):
    """The kernel's entries differ from the torch op's by at most one bf16 step (bf16 keeps 8 bits), seldom at that."""
    implementations = kernels["tree_compress", KEY]
    differing, compared = [], []

    def both(*args):
        entries, wanted = implementations["ascendc"](*args), implementations["reference"](*args)
        closes = args[3].cpu()
        left, right = entries.cpu().float()[closes], wanted.cpu().float()[closes]
        assert bool(((left - right).abs() <= 2**-7 * right.abs() + 1e-6).all())
        differing.append(int((left != right).sum()))
        compared.append(left.numel())
        return entries

    monkeypatch.setitem(kernels, ("tree_compress", KEY), {"ascendc": both})
    for prefix in (15, 126, 255):
        (sequence,), _ = rig.prefill([draw(prefix)])
        done = rig.verify([sequence], [FORKED], [draw(8)])
        assert bool(torch.isfinite(done.logits).all())
        rig.release(sequence)
    assert sum(compared) > 4_000
    assert sum(differing) <= sum(compared) // 200


def test_runs_reach_the_relocation_kernel_without_a_copy(rig, kernels, draw, monkeypatch):
    """Every run tensor of a round is contiguous, so the kernel reads it in place, and its sets fit one launch."""
    implementations = kernels["kv_relocate", KEY]
    sets = set()

    def watched(*args):
        columns = [column for kind in args[3:6] for column in kind]
        assert all(column.is_contiguous() for column in columns), [column.stride() for column in columns]
        sets.add(len(args[3]))
        implementations["ascendc"](*args)

    monkeypatch.setitem(kernels, ("kv_relocate", KEY), {"watched": watched})
    check_rounds(rig, [120, 7, 250], 2, draw, seed=3)
    bench = DraftBench(rig)
    sequences, _ = rig.prefill([draw(126), draw(30)])
    bench.draft(sequences, 1)
    rig.release(*sequences)
    assert sets == {1, 3, 5} and max(sets) <= MAX_SETS  # draft, tails, commit
