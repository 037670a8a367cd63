"""First-principles oracles of tree build, greedy walk and sampling walk: Python loops over plain lists and numpy.

Everything is written per request and per node from the definitions (a tree, its paths, its masks), and shares no code
with the ops that it judges.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Tree:
    """One request's tree as lists over nodes; node 0 is the root. `alive` is False for nodes that hang on nothing."""

    parent: list[int | None]
    alive: list[bool]
    prefix: int
    steps: int
    children: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.children = [[] for _ in self.parent]
        for node, parent in enumerate(self.parent):
            if parent is not None and self.alive[node]:
                self.children[parent].append(node)

    @property
    def n(self) -> int:
        return len(self.parent)

    def path(self, node: int) -> list[int]:
        """Nodes from the root to `node`, both included; empty for a node that hangs on nothing."""
        nodes: list[int] = []
        current: int | None = node if self.alive[node] else None
        while current is not None:
            nodes.insert(0, current)
            current = self.parent[current]
        return nodes

    def leaves(self) -> list[int]:
        return [node for node in range(self.n) if self.alive[node] and not self.children[node]]

    def depths(self) -> list[int]:
        return [max(len(self.path(node)) - 1, 0) for node in range(self.n)]

    def positions(self) -> list[int]:
        return [self.prefix + depth for depth in self.depths()]

    def next_token(self) -> list[int]:
        return [min(below, default=-1) for below in self.children]

    def next_sibling(self) -> list[int]:
        links = [-1] * self.n
        for below in self.children:
            for left, right in zip(sorted(below), sorted(below)[1:]):
                links[left] = right
        return links

    def parents(self) -> list[int]:
        """-1 for the root, -2 for a node that hangs on nothing."""
        return [
            (-1 if above is None else above) if alive else -2
            for above, alive in zip(self.parent, self.alive, strict=True)
        ]

    def visibility(self) -> np.ndarray:
        """bool [n, n]: row v sees exactly its own path."""
        seen = np.zeros((self.n, self.n), dtype=bool)
        for node in range(self.n):
            seen[node, self.path(node)] = True
        return seen

    def bitmasks(self) -> list[int]:
        """Paths as two's complement int64 bitmasks, bit j for node j."""
        masks = [sum(1 << node for node in self.path(row)) for row in range(self.n)]
        return [mask - (1 << 64) if mask >> 63 else mask for mask in masks]

    def branches(self) -> list[list[int]]:
        return [self.path(leaf) for leaf in self.leaves()]

    def home_branches(self) -> list[int]:
        branches = self.branches()
        return [next((b for b, path in enumerate(branches) if node in path), -1) for node in range(self.n)]


def build(
    parent_list: Sequence[int],
    selected: Sequence[int],
    scores: Sequence[float],
    prefix: int,
    topk: int,
    steps: int,
    max_branches: int,
) -> Tree:
    """One request's tree from its candidates (ids as `organize_draft_results` of SGLang), cut to `max_branches`."""
    pool = topk + (steps - 1) * topk * topk
    first_node: dict[int, int] = {}
    parent: list[int | None] = [None]
    alive = [True]
    depth = [0]
    for node, candidate in enumerate(selected, start=1):
        above: int | None = None
        if 0 <= candidate < pool:
            group = candidate // topk
            above = 0 if group == 0 else first_node.get(parent_list[group])
            first_node.setdefault(candidate, node)
        hangs = above is not None and alive[above] and depth[above] < steps
        parent.append(above)
        alive.append(hangs)
        depth.append(depth[above] + 1 if hangs and above is not None else 0)

    def rank(leaf: int) -> tuple[float, int]:
        score = scores[leaf - 1]
        return (score if math.isfinite(score) else -math.inf, -leaf)

    tree = Tree(parent, alive, prefix, steps)
    while len(tree.leaves()) > max_branches:
        alive[min(tree.leaves(), key=rank)] = False
        tree = Tree(parent, alive, prefix, steps)
    return tree


def verify_greedy(tree: Tree, tokens: Sequence[int], target: Sequence[int]) -> tuple[list[int], int]:
    """Accepted path (root first) and bonus: follow the child whose token is the target's, lowest node first."""
    path = [0]
    while len(path) <= tree.steps:
        wanted = target[path[-1]]
        match = [child for child in sorted(tree.children[path[-1]]) if tokens[child] == wanted]
        if not match:
            break
        path.append(match[0])
    return path, target[path[-1]]


def sample(
    tree: Tree,
    tokens: Sequence[int],
    target_probs: np.ndarray,
    coins: Sequence[float],
    final_coin: float,
    threshold_single: float = 1.0,
    threshold_acc: float = 1.0,
) -> tuple[list[int], int]:
    """Accepted path and drawn token of the target-only rule, in float64; `target_probs` [n, V], a coin per node."""
    probs = np.asarray(target_probs, dtype=np.float64)
    path = [0]
    residual = probs[0].copy()
    while len(path) <= tree.steps:
        node = path[-1]
        tried = 0.0
        for child in sorted(tree.children[node]):
            mass = residual[tokens[child]]
            tried += mass
            if mass > 0 and (coins[node] < tried / max(threshold_acc, 1e-9) or mass >= threshold_single):
                path.append(child)
                residual = probs[child].copy()
                break
            residual[tokens[child]] = 0.0
        else:
            break
    if len(path) == tree.steps + 1 or residual.sum() <= 0:
        residual = probs[path[-1]].copy()
    edge = np.cumsum(residual)
    beyond = np.nonzero((edge > final_coin * edge[-1]) & (residual > 0))[0]
    return path, int(beyond[0] if len(beyond) else np.nonzero(residual)[0][-1])


def emitted_distribution(tree: Tree, tokens: Sequence[int], target_probs: np.ndarray) -> dict[tuple[int, ...], float]:
    """Exact law of the emitted token sequence (accepted drafts, then the drawn token) with both thresholds at 1."""
    probs = np.asarray(target_probs, dtype=np.float64)
    law: dict[tuple[int, ...], float] = {}

    def visit(node: int, weight: float, emitted: tuple[int, ...]) -> None:
        residual = probs[node].copy()
        if len(emitted) < tree.steps:
            for child in sorted(tree.children[node]):
                mass = residual[tokens[child]]
                residual[tokens[child]] = 0.0
                if mass > 0:
                    visit(child, weight * mass, (*emitted, tokens[child]))
        for token in np.nonzero(residual)[0]:
            key = (*emitted, int(token))
            law[key] = law.get(key, 0.0) + weight * residual[token]

    visit(0, 1.0, ())
    return law
