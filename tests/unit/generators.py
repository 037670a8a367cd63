"""Tree cases for the tests: candidate pools as SGLang's draft gives them, and pools that no draft should ever give."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from dsv4_npu_tree.reference import tree as oracle
from dsv4_npu_tree.tree.build import build
from dsv4_npu_tree.tree.topology import Topology

VALID_KINDS = ("drafted", "chain", "star", "comb", "full")
BROKEN_KINDS = ("orphaned", "garbage")
BATCHES = (0, 1, 3, 33)


@dataclass
class Case:
    """A batch of candidate pools as plain lists; the fields are the arguments of `tree_build`."""

    topk: int
    steps: int
    n: int
    max_branches: int
    parent_list: list[list[int]] = field(default_factory=list)
    selected: list[list[int]] = field(default_factory=list)
    scores: list[list[float]] = field(default_factory=list)
    seq_lens: list[int] = field(default_factory=list)

    @property
    def bs(self) -> int:
        return len(self.seq_lens)

    def tensors(self, dtype: torch.dtype = torch.int64) -> tuple[torch.Tensor, ...]:
        width = self.topk * (self.steps - 1) + 1 if self.steps > 1 else 0
        return (
            torch.tensor(self.parent_list, dtype=dtype).reshape(self.bs, width),
            torch.tensor(self.selected, dtype=dtype).reshape(self.bs, self.n - 1),
            torch.tensor(self.scores, dtype=torch.float32).reshape(self.bs, self.n - 1),
            torch.tensor(self.seq_lens, dtype=dtype),
        )

    def topology(self, dtype: torch.dtype = torch.int64) -> Topology:
        shape = {"topk": self.topk, "steps": self.steps, "num_draft_tokens": self.n, "max_branches": self.max_branches}
        return build(*self.tensors(dtype), **shape)

    def trees(self) -> list[oracle.Tree]:
        rows = zip(self.parent_list, self.selected, self.scores, self.seq_lens, strict=True)
        return [oracle.build(*row, self.topk, self.steps, self.max_branches) for row in rows]


def encode(children: list[list[int]], topk: int, steps: int) -> tuple[list[int], list[int]]:
    """parent_list and selected ids of a tree given as child lists over level-ordered nodes (node 0 the root).

    At most `topk` nodes of a level may have children, at most `topk` each, as in a draft with that many beams.
    """
    parent_list = [-1] * (topk * (steps - 1) + 1 if steps > 1 else 0)
    ids = {child: position for position, child in enumerate(children[0])}
    level, depth = list(children[0]), 1
    while level:
        below: list[int] = []
        beams = [node for node in level if children[node]]
        for beam, node in enumerate(beams):
            parent_list[1 + (depth - 1) * topk + beam] = ids[node]
            for position, child in enumerate(children[node]):
                ids[child] = topk + (depth - 1) * topk * topk + beam * topk + position
                below.append(child)
        level, depth = below, depth + 1
    return parent_list, [ids[node] for node in range(1, len(children))]


def _drafted(rng: np.random.Generator, topk: int, steps: int, n: int, *, closed: bool) -> tuple[list, list, list]:
    """What `select_top_k_tokens` and `organize_draft_results` leave; not `closed`: a random selection with orphans."""
    scores = list(-np.sort(-rng.dirichlet(np.ones(topk + 2))[:topk]))
    beams, parent_list = list(range(topk)), list(range(-1, topk))
    for step in range(1, steps):
        base = len(scores)
        for beam in beams:
            scores += list(scores[beam] * 0.999 * -np.sort(-rng.dirichlet(np.ones(topk + 2))[:topk]))
        beams = sorted(range(base, len(scores)), key=lambda c: -scores[c])[:topk]
        if step < steps - 1:
            parent_list += beams
    if steps == 1:
        parent_list = []
    ranked = rng.permutation(len(scores)) if not closed else sorted(range(len(scores)), key=lambda c: -scores[c])
    selected = sorted(int(c) for c in ranked[: n - 1])
    return parent_list, selected, [float(scores[c]) for c in selected]


def _shaped(kind: str, n: int) -> tuple[int, int, list[list[int]]]:
    """topk, steps and child lists of a named shape with n nodes."""
    children: list[list[int]] = [[] for _ in range(n)]
    width = {"chain": 1, "star": n - 1, "comb": 2, "full": 3}[kind]
    for node in range(1, n):
        parent = 0 if kind == "star" else (node - 1) // width
        if kind == "comb":  # one child of each level goes on
            parent = max(0, (node - 1) // 2 * 2 - 1)
        children[parent].append(node)
    depth = [0] * n
    for parent, below in enumerate(children):
        for child in below:
            depth[child] = depth[parent] + 1
    beams = max(sum(1 for v in range(n) if depth[v] == d and children[v]) for d in range(n))
    return max(width, beams), max(depth), children


def case(rng: np.random.Generator, kind: str, bs: int) -> Case:
    """A random batch of `kind`; shape parameters are drawn once per batch, as one launch has them."""
    if kind in ("chain", "star", "comb", "full"):
        limit = {"chain": 17, "star": 17, "comb": 33, "full": 40}[kind]
        n = int(rng.integers(2, limit + 1))
        topk, steps, children = _shaped(kind, n)
        steps = min(16, steps + int(rng.integers(0, 2)))
        made = Case(topk, steps, n, int(rng.integers(1, n)))
        for _ in range(bs):
            parent_list, selected = encode(children, topk, steps)
            made.parent_list.append(parent_list)
            made.selected.append(selected)
            made.scores.append([float(s) for s in rng.random(n - 1).astype(np.float32)])
    else:
        topk, steps = int(rng.integers(1, 9)), int(rng.integers(1, 7))
        pool = topk + (steps - 1) * topk * topk
        n = int(rng.integers(2, min(64, pool + 1) + 1))
        made = Case(topk, steps, n, int(rng.integers(1, n)))
        for _ in range(bs):
            parent_list, selected, scores = _drafted(rng, topk, steps, n, closed=kind == "drafted")
            if kind == "garbage":
                wild = rng.integers(-3, pool + 4, size=len(parent_list))
                parent_list = [int(w) if rng.random() < 0.5 else p for w, p in zip(wild, parent_list, strict=True)]
                extremes = (-(2**31), -1, pool, 2**31 - 1)
                selected = sorted(int(rng.choice(extremes)) if rng.random() < 0.2 else c for c in selected)
            made.parent_list.append(parent_list)
            made.selected.append(selected)
            made.scores.append(scores)
    for scores in made.scores:
        draw = rng.random()
        for position in range(len(scores)):
            if draw < 0.15:
                scores[position] = 0.25  # ties
            elif draw < 0.3 and rng.random() < 0.3:
                scores[position] = float(rng.choice([np.nan, np.inf, -np.inf]))
            scores[position] = float(np.float32(scores[position]))
    made.seq_lens = [int(rng.choice([1, 3, 4, 127, 128, 129, 16384, 1 << 20])) for _ in range(bs)]
    return made


def tokens_and_target(rng: np.random.Generator, trees: list[oracle.Tree], n: int, vocabulary: int) -> tuple[list, list]:
    """Candidate tokens (root first, duplicates likely) and a target argmax that mostly follows some path."""
    tokens = [[int(t) for t in rng.integers(0, vocabulary, n)] for _ in trees]
    target = [[int(t) for t in rng.integers(0, vocabulary, n)] for _ in trees]
    for tree, row, wanted in zip(trees, tokens, target, strict=True):
        for node, below in enumerate(tree.children):
            if below and rng.random() < 0.7:
                wanted[node] = row[int(rng.choice(below))]
    return tokens, target
