"""Trees of named shapes, and tokens for their nodes."""

from __future__ import annotations

import numpy as np

from dsv4_npu_tree.reference.tree import Tree

KINDS = ("chain", "star", "comb", "random", "bushy")


def parents(kind: str, n: int, rng: np.random.Generator) -> list[int | None]:
    """Parent of every node, node 0 the root; a parent has a lower number than its children."""
    if kind == "chain":
        above = [*range(n - 1)]
    elif kind == "star":
        above = [0] * (n - 1)
    elif kind == "comb":  # two children on each level, the first goes on
        above = [max(0, (node - 1) // 2 * 2 - 1) for node in range(1, n)]
    elif kind == "random":  # leans to the latest nodes, so that paths cross boundaries
        above = [int(rng.integers(max(0, node - 3), node)) for node in range(1, n)]
    else:
        above = [int(rng.integers(0, node)) for node in range(1, n)]
    return [None, *above]


def tree(kind: str, n: int, prefix: int, rng: np.random.Generator, inert: int = 0) -> Tree:
    """`inert` nodes are drawn, and they and all below them hang on nothing."""
    above = parents(kind, n, rng)
    alive = [True] * n
    for node in rng.choice(np.arange(1, n), size=min(inert, n - 1), replace=False):
        alive[node] = False
    for node, parent in enumerate(above):
        alive[node] &= parent is None or alive[parent]
    depths = Tree(above, [True] * n, prefix, n).depths()
    return Tree(above, alive, prefix, max(depths))
