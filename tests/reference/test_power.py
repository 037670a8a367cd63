"""One rule of the reference broken at a time: the comparison with transformers must see it, in the logits."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from dsv4_npu_tree.reference import compressor, layer
from dsv4_npu_tree.reference.model import Model
from dsv4_npu_tree.reference.sequence import Sequence
from dsv4_npu_tree.reference.state import LayerState
from dsv4_npu_tree.reference.tree import Tree

from .rounds import forked
from .transformers_model import SMALL, Truth, doubled, random_model, tensors

PREFIX, EQUAL, SEEN = 253, 1e-11, 1e-3
# Two branches of equal length with siblings at every depth, over the blocks that close at 255, 259 and, C128, at 255.
FIRST = Tree([None, 0, 0, 1, 2, 3, 4, 5, 6], [True] * 9, PREFIX, 4)


@pytest.fixture(scope="module")
def small():
    """A committed prefix, and the logits of two rounds: FIRST, and the same shape after the path of node 7."""
    single, fields = random_model(seed=5)
    truth, rng = Truth(doubled(single, fields)), np.random.default_rng(6)
    sequence = Sequence(Model(tensors(single), fields))
    tokens = rng.integers(0, SMALL["vocab_size"], PREFIX).tolist()
    sequence.extend(tokens)
    drafted = [rng.permutation(SMALL["vocab_size"])[: FIRST.n].tolist() for _ in range(2)]  # siblings differ
    accepted = FIRST.path(7)
    expected = []
    for nodes in drafted:
        expected.append(
            np.stack([truth.run([[*tokens, *(nodes[v] for v in FIRST.path(u))]]).logits[0, -1] for u in range(FIRST.n)])
        )
        tokens = tokens + [nodes[v] for v in accepted]
    return SimpleNamespace(sequence=sequence, drafted=drafted, accepted=accepted, expected=expected)


def errors(small, accepted: list[int] | None = None) -> np.ndarray:
    """[2, n] largest logit error of every row of the two rounds."""
    sequence, found = forked(small.sequence), []
    for nodes, expected in zip(small.drafted, small.expected, strict=True):
        tree = Tree(FIRST.parent, FIRST.alive, sequence.length, FIRST.steps)
        rows = sequence.verify(tree, nodes)
        found.append(np.abs(np.stack([row.logits for row in rows]) - expected).max(axis=1))
        sequence.commit(rows[v] for v in accepted or small.accepted)
    return np.stack(found)


def reconfigured(monkeypatch, small, **changes) -> None:
    changed = dataclasses.replace(small.sequence.model.config, **changes)
    for part in (small.sequence.model, *small.sequence.model.layers):
        monkeypatch.setattr(part, "config", changed)


def patched(target, name: str, make):
    def apply(monkeypatch, small) -> None:
        monkeypatch.setattr(target, name, make(getattr(target, name)))

    return apply


def by_row_order(path):
    """The nodes before a row, one per depth, latest first: what a store keyed by position would hold."""

    def latest(tree: Tree, node: int) -> list[int]:
        true = path(tree, node)
        before = {len(path(tree, other)) - 1: other for other in range(node)}
        return [*(before[depth] for depth in range(len(true) - 1)), node]

    return latest


def rows_not_committed(append):
    """Commit keeps window rows and entries, and leaves zeros where the compressors' rows belong."""

    def without(state: LayerState, rows) -> None:
        zeroed = {n: np.zeros_like(r) for n in ("main", "index") if (r := getattr(rows, n)) is not None}
        append(state, dataclasses.replace(rows, **zeroed))

    return without


VERIFY = {
    "window of 127": lambda monkeypatch, small: reconfigured(monkeypatch, small, sliding_window=127),
    "no selection": lambda monkeypatch, small: reconfigured(monkeypatch, small, index_topk=10**6),
    "own block hidden": patched(layer, "closed_blocks", lambda rule: lambda position, ratio: position // ratio),
    "entry at the end of its block": patched(compressor, "tables", lambda rule: lambda p, freqs: rule(p + 3, freqs)),
    "siblings by row order": patched(Tree, "path", by_row_order),
    "no sink": patched(layer, "attend", lambda rule: lambda q, keys, scale, sink: rule(q, keys, scale)),
    "values not turned back": patched(
        layer, "turn", lambda rule: lambda x, p, f, back=False: x if back else rule(x, p, f)
    ),
}


def test_nothing_broken(small):
    assert errors(small).max() < EQUAL


@pytest.mark.parametrize("rule", VERIFY)
def test_a_broken_verify_is_seen(small, monkeypatch, rule):
    VERIFY[rule](monkeypatch, small)
    found = errors(small)
    print(f"\n{rule}: {found.max():.1e}, {(found[0] > EQUAL).sum()} of {FIRST.n} rows of the first round")
    assert found[0].max() > SEEN


def test_rows_left_out_of_a_commit_are_seen_in_the_next_round(small, monkeypatch):
    monkeypatch.setattr(LayerState, "append", rows_not_committed(LayerState.append))
    found = errors(small)
    assert found[0].max() < EQUAL and found[1].max() > SEEN


def test_a_commit_from_the_other_branch_is_seen_in_the_next_round(small):
    found = errors(small, accepted=FIRST.path(8))
    assert len(FIRST.path(8)) == len(small.accepted)
    assert found[0].max() < EQUAL and found[1].max() > SEEN
