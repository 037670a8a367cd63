"""Logits of every verify row, rejected rows included, are those of a stock prefill of prefix + path(root -> row)."""

from __future__ import annotations

import pytest

from .checks import check_rows, truths
from .conftest import rig_of
from .launch import Shape
from .trees import Tree, chain, comb, scattered, star

N, STEPS = 8, 3
TREES = {
    "chain": chain(N, STEPS),
    "star": star(N),
    "comb": comb(N, STEPS),
    "skewed": Tree((-1, 0, 0, 1, 2, 2, 5, 5)),
    "inert": scattered(N, STEPS, 4, inert=2),
    "inert inside": Tree((-1, 0, 0, 1, -2, -2, 3, 3)),
}
# P mod 4, 16 and 128 around every boundary; the tree crosses it at depth 1, 2 or 3, or its root closes the entry.
PREFIXES = [1, 2, 13, 14, 15, 16, 17, 31, 64, 125, 126, 127, 128, 129, 143, 254, 255, 257]


def check_round(rig, prefixes, trees, draw) -> float:
    """One verify of a batch, every row of every request against its truth; returns the largest error."""
    sequences, _ = rig.prefill([draw(p) for p in prefixes])
    tokens = [draw(rig.shape.n) for _ in trees]
    done = rig.verify(sequences, trees, tokens)
    worst = 0.0
    for b, (sequence, tree) in enumerate(zip(sequences, trees)):
        truth = truths(rig, sequence, tree, tokens[b])
        assert len(truth) == len(tree.live)
        worst = max(worst, check_rows(done.logits[b], truth, f"request {b}, prefix {sequence.length}, {tree.parents}"))
    rig.release(*sequences)
    return worst


@pytest.mark.parametrize("prefix", PREFIXES)
def test_every_row_is_its_path(rig, prefix, draw):
    """Random trees, a new one per prefix, and one named shape."""
    shapes = [scattered(N, STEPS, seed=prefix), list(TREES.values())[PREFIXES.index(prefix) % len(TREES)]]
    for tree in shapes:
        assert check_round(rig, [prefix], [tree], draw) == 0.0


@pytest.mark.parametrize("name", TREES)
def test_named_trees_across_a_c128_boundary(rig, name, draw):
    assert check_round(rig, [126], [TREES[name]], draw) == 0.0


@pytest.mark.parametrize("prefixes", [(13, 127, 256), (255, 4, 126), (130, 16, 63)])
def test_batch_of_unequal_prefixes(rig, prefixes, draw):
    trees = [scattered(N, STEPS, seed=sum(prefixes)), TREES["comb"], TREES["inert inside"]]
    assert check_round(rig, list(prefixes), trees, draw) == 0.0


@pytest.mark.parametrize("prefixes", [(11,), (124,), (15, 126, 251)])
def test_wider_and_deeper_trees(prefixes, draw):
    """n 16, five steps: paths cross a block of 16 rows and two C4 entries."""
    rig = rig_of(Shape(n=16, steps=5))
    trees = [scattered(16, 5, seed=p) for p in prefixes]
    assert check_round(rig, list(prefixes), trees, draw) == 0.0


@pytest.mark.parametrize("prefix", [15, 31, 113, 127])
def test_longest_paths(prefix, draw):
    """Sixteen steps: with P mod 16 = 15 a branch uses its two blocks to the last row."""
    rig = rig_of(Shape(n=20, steps=16, topk=2))
    tree = Tree((-1, 0, 0, 1, 2, *range(3, 18)))
    assert max(tree.depth(leaf) for leaf in tree.leaves) >= 8
    assert check_round(rig, [prefix], [chain(20, 16)], draw) == 0.0
    assert check_round(rig, [prefix], [tree], draw) == 0.0
