"""Which candidates become the tree of a verify, and how far it is accepted."""

from __future__ import annotations

import torch
from torch import Tensor

from acceptance_bench.drafting import Candidates
from acceptance_bench.text import Text
from dsv4_npu_tree.config import MAX_BRANCHES
from dsv4_npu_tree.ops.tree_build import INERT, tree_build


def select(found: Candidates, nodes: int) -> Tensor:
    """[B, R, nodes - 1] candidate ids of the best path scores, ascending."""
    return found.score.topk(nodes - 1, sorted=False).indices.sort().values


def accepted(found: Candidates, nodes: int, text: Text) -> Tensor:
    """[B, R] int64: drafted tokens that a tree of ``nodes`` gets accepted at each root."""
    selected = select(found, nodes)
    taken = found.right(text).gather(-1, selected)
    if found.topk > 1 and nodes - 1 > MAX_BRANCHES:  # a chain has one leaf
        taken &= kept(found, selected)
    depth = found.depth()[selected]
    reached = [(taken & (depth == d)).any(-1) for d in range(1, found.steps + 1)]
    return torch.stack(reached).long().cumprod(0).sum(0)


def kept(found: Candidates, selected: Tensor) -> Tensor:
    """bool like ``selected``: nodes that are left when a tree has more leaves than the plugin stores branches."""
    flat = selected.flatten(0, 1)
    topology = tree_build(
        found.parents.flatten(0, 1),
        flat,
        found.score.flatten(0, 1).gather(1, flat),
        torch.zeros(len(flat), dtype=torch.int64),
        found.topk,
        found.steps,
        flat.shape[1] + 1,
        MAX_BRANCHES,
    )
    return (topology[4][:, 1:] != INERT).view(selected.shape)
