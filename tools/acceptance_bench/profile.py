"""The acceptance profile: how often a draft's candidate is what the target says, its parent being right.

Taken from chains of draft rows that are told the text's own tokens, at every position and depth, so that no choice of
beams stands between the draft and the count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from acceptance_bench.drafting import draft_rows, roots
from acceptance_bench.text import Text
from tools.tiny_checkpoint.nextn import NextN

EDGES = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@dataclass(frozen=True)
class Observations:
    """probability [D, N, K] of the K best candidates at N positions, best first, and whether each was right (bool);
    entry d is depth d + 1."""

    probability: Tensor
    right: Tensor

    def best(self, ranks: int) -> Observations:
        return Observations(self.probability[..., :ranks], self.right[..., :ranks])

    @classmethod
    def join(cls, parts: Iterable[Observations]) -> Observations:
        parts = list(parts)
        return cls(torch.cat([p.probability for p in parts], dim=1), torch.cat([p.right for p in parts], dim=1))


@torch.inference_mode()
def observe(draft: NextN, text: Text, depths: int, ranks: int) -> Observations:
    where = roots(text, depths)
    conversation = draft_rows(draft, text, where, 1)
    logits, _ = next(conversation)
    probabilities, rights = [], []
    for depth in range(1, depths + 1):
        goal = text.ids[:, where + depth]
        top = logits[:, :, 0].softmax(-1).topk(ranks)
        probabilities.append(top.values.flatten(0, 1))
        rights.append((top.indices == goal[..., None]).flatten(0, 1))
        if depth < depths:
            logits, _ = conversation.send((torch.zeros_like(goal)[..., None], goal[..., None]))
    return Observations(torch.stack(probabilities), torch.stack(rights))


def profile(seen: Observations) -> dict:
    """The JSON of a profile. ``count`` and ``right`` are lists over depth, rank, bin of draft probability, and ``mean``
    holds the mean draft probability of a cell; the marginal tables are there to be read."""
    depths, _, ranks = seen.probability.shape
    bins = len(EDGES) - 1
    edges = torch.tensor(EDGES[1:-1], dtype=seen.probability.dtype)
    cell = torch.bucketize(seen.probability, edges, right=True)
    cell = cell + bins * (torch.arange(ranks) + ranks * torch.arange(depths)[:, None, None])
    size = depths * ranks * bins

    def table(weights: Tensor) -> Tensor:
        return torch.zeros(size, dtype=torch.float64).index_add_(0, cell.flatten(), weights.flatten().double())

    count, right, mass = table(torch.ones_like(seen.probability)), table(seen.right), table(seen.probability)
    shape = (depths, ranks, bins)

    def shares(keep: tuple[int, ...]) -> list:
        away = tuple(axis for axis in range(3) if axis not in keep)
        return _rounded((right.view(shape).sum(away) / count.view(shape).sum(away)).tolist())

    return {
        "meaning": "share of draft candidates that are the target's greedy token, given that their parent is right",
        "depths": depths,
        "ranks": ranks,
        "probability_edges": list(EDGES),
        "positions": seen.probability.shape[1],
        "by_depth_and_rank": shares((0, 1)),
        "by_rank": shares((1,)),
        "by_probability_bin": shares((2,)),
        "by_rank_and_probability_bin": shares((1, 2)),
        "count": count.view(shape).long().tolist(),
        "right": right.view(shape).long().tolist(),
        "mean": _rounded((mass / count).view(shape).tolist()),
    }


def _rounded(value):
    """NaN, a cell that nothing fell into, becomes None."""
    if isinstance(value, list):
        return [_rounded(x) for x in value]
    return None if value != value else round(value, 5)
