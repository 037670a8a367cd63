"""Trees of the tests as parent lists, and the candidate pools that the product builds its topology from."""

from __future__ import annotations

import random
from dataclasses import dataclass

INERT = -2  # parent of a node whose parent candidate was not selected


@dataclass(frozen=True)
class Tree:
    """parents: parent of every node, -1 for the root, ``INERT`` for a node that hangs on nothing. Level order. A node
    below an inert one is inert too."""

    parents: tuple[int, ...]

    @property
    def n(self) -> int:
        return len(self.parents)

    def path(self, node: int) -> list[int]:
        """Nodes from the root to ``node``; empty for an inert node."""
        nodes = []
        while node >= 0:
            nodes.insert(0, node)
            node = self.parents[node]
        return nodes if node == -1 else []

    def depth(self, node: int) -> int:
        return len(self.path(node)) - 1

    @property
    def live(self) -> list[int]:
        return [node for node in range(self.n) if self.path(node)]

    @property
    def leaves(self) -> list[int]:
        return [node for node in self.live if node not in self.parents]

    def pruned(self, scores: list[float], max_branches: int) -> Tree:
        """The tree with its lowest-scoring leaf made inert until ``max_branches`` are left. scores: of nodes 1..n-1."""
        tree = self
        while len(tree.leaves) > max_branches:
            victim = min(tree.leaves, key=lambda v: (scores[v - 1], -v))
            tree = Tree(tuple(INERT if v == victim else p for v, p in enumerate(tree.parents)))
        return tree

    def candidates(self, topk: int, steps: int) -> tuple[list[int], list[int]]:
        """SGLang's ``parent_list`` and ``selected_index`` of this tree.

        A level may have at most ``topk`` nodes with children, ``topk`` children each (inert nodes count as children of
        a beam whose own candidate was not selected).
        """
        parent_list = [-1] * (topk * (steps - 1) + 1 if steps > 1 else 0)
        ids: dict[int, int] = {}
        level = 1
        placed = {0: 0}  # level of every node; an inert one has no depth of its own
        beams: dict[int, list[int]] = {}  # parent node -> [beam, children so far]
        for node in range(1, self.n):
            parent = self.parents[node]
            placed[node] = depth = placed[parent] + 1 if parent != INERT else max(level, 2)
            assert level <= depth <= steps, "nodes must come in level order, no deeper than the steps"
            if depth > level:
                level, beams = depth, {}
            if depth == 1:
                ids[node] = len(beams.setdefault(0, []))
                beams[0].append(node)
                continue
            if parent not in beams:
                beams[parent] = []
                group = 1 + (depth - 2) * topk + len(beams) - 1
                # the highest candidate of the level above is never selected by these trees
                above = topk - 1 if depth == 2 else topk + (depth - 2) * topk * topk - 1
                parent_list[group] = above if parent == INERT else ids[parent]
            beam = list(beams).index(parent)
            ids[node] = topk + (depth - 2) * topk * topk + beam * topk + len(beams[parent])
            beams[parent].append(node)
            assert beam < topk and len(beams[parent]) <= topk, "tree does not fit topk"
        selected = [ids[node] for node in range(1, self.n)]
        assert selected == sorted(set(selected)), "nodes must come in candidate order"
        return parent_list, selected


def chain(n: int, steps: int) -> Tree:
    """One path of ``steps`` nodes below the root; the rest are inert."""
    return Tree((-1, *range(steps), *[INERT] * (n - 1 - steps)))


def star(n: int) -> Tree:
    return Tree((-1, *[0] * (n - 1)))


def full(n: int) -> Tree:
    """Two children a node, level by level."""
    return Tree((-1, *((node - 1) // 2 for node in range(1, n))))


def comb(n: int, steps: int) -> Tree:
    """Two nodes a level, the second of which goes on; the left-over nodes hang on the root."""
    parents = [-1]
    spare = n - 1 - 2 * steps
    level = [0] * (2 + max(spare, 0))
    while len(parents) < n and level:
        parents += level[: n - len(parents)]
        level = [len(parents) - 1] * 2
        steps -= 1
        if steps == 0:
            break
    parents += [INERT] * (n - len(parents))
    return Tree(tuple(parents))


def scattered(n: int, steps: int, seed: int, inert: int = 0) -> Tree:
    """A random tree of depth ``steps`` in level order, its last ``inert`` nodes hanging on nothing."""
    rng = random.Random(seed)
    depths = sorted([*range(1, steps + 1), *(rng.randint(1, steps) for _ in range(n - 1 - inert - steps))])
    parents, by_depth = [-1], {0: [0]}
    for depth in depths:
        parents.append(rng.choice(by_depth[depth - 1]))
        by_depth.setdefault(depth, []).append(len(parents) - 1)
    # children of one level sorted by parent: candidate order
    order = {0: 0}
    tree = Tree(tuple(parents))
    for depth in range(1, steps + 1):
        for node in sorted(by_depth[depth], key=lambda v: (order[parents[v]], v)):
            order[node] = len(order)
    moved = [-1] * len(parents)
    for node, place in order.items():
        if node:
            moved[place] = order[tree.parents[node]]
    return Tree((*moved, *[INERT] * inert))
