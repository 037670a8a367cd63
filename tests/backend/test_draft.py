"""Every draft row attends to the KV of the prefix and of its true ancestors, however often beams are re-selected."""

from __future__ import annotations

import pytest
import torch

from .checks import check_rows, truths
from .conftest import rig_of
from .draft import DraftBench, record
from .launch import Shape
from .trees import INERT, Tree


@pytest.fixture
def bench() -> DraftBench:
    """The draft worker of a rig with five steps, so that a path is re-parented up to three times."""
    rig = rig_of(Shape(n=16, steps=5))
    if not hasattr(rig, "draft_bench"):
        rig.draft_bench = DraftBench(rig)
    return rig.draft_bench


def check_draft(bench: DraftBench, prefixes: list[int], draw, seed: int, monkeypatch):
    """One draft call with every attended row checked; returns the recorder and the verify input."""
    sequences, _ = bench.rig.prefill([draw(p) for p in prefixes])
    bench.fill_prefix(seed)
    with monkeypatch.context() as patches:
        recorder = record(bench, patches)
        verify_input = bench.draft(sequences, seed)
    return recorder, verify_input, sequences


@pytest.mark.parametrize("prefixes", [(13,), (125,), (127, 14, 250)])
def test_draft_rows_attend_to_their_ancestors(bench, prefixes, draw, monkeypatch):
    reselected = 0
    for seed in range(3):
        recorder, _, sequences = check_draft(bench, list(prefixes), draw, seed, monkeypatch)
        assert len(recorder.stored) == bench.rig.shape.steps - 1
        assert recorder.checked >= len(prefixes) * 4 * 4 * min(127, min(prefixes))
        reselected += recorder.reselected
        bench.rig.release(*sequences)
    assert reselected > 0, "no beam changed its row: the check saw no re-parenting"


def test_draft_leaves_committed_rows_alone(bench, draw, monkeypatch):
    """A draft call writes arena rows only."""
    base = bench.backend.pool.dsv4_tree_arena.swa.base
    recorder, _, sequences = check_draft(bench, [126, 30], draw, 1, monkeypatch)
    assert torch.equal(recorder.before_draft[:base], bench.rows[:base].cpu())
    bench.rig.release(*sequences)


def test_drafted_tree_is_verified_exactly(bench, draw, monkeypatch):
    """The tree that the draft call itself builds goes through verify: its rows are their paths."""
    rig = bench.rig
    _, verify_input, sequences = check_draft(bench, [126], draw, 2, monkeypatch)
    parents = verify_input.tree_topology.parent[0].tolist()
    tree = Tree(tuple(p if p != -2 else INERT for p in parents))
    tokens = verify_input.draft_token.tolist()
    done = rig.verify_input(sequences, verify_input, [tokens])
    check_rows(done.logits[0], truths(rig, sequences[0], tree, tokens), f"drafted tree {parents}")
    rig.release(*sequences)
