"""What a candidate's probability is worth: maps of a step's top-k probabilities, before path scores are formed.

Each looks at the candidates of one parent alone. Values stay in (0, 1), so that no child outranks its parent.
"""

from __future__ import annotations

import torch
from torch import Tensor

from acceptance_bench.drafting import Score

CEILING = 1 - 1e-4
FLOOR = 1e-6


def as_drafted(probability: Tensor, depth: int) -> Tensor:
    """SGLang's own: the draft's probability."""
    return probability


def power(exponent: float) -> Score:
    return lambda probability, depth: probability.pow(exponent).clamp(max=CEILING)


def bonus(factor: float) -> Score:
    """The same factor on every level, as far as probabilities allow."""
    return lambda probability, depth: (factor * probability).clamp(max=CEILING)


def logistic(slope: float | list[float], intercept: float | list[float]) -> Score:
    """sigmoid(slope * logit(p) + intercept); lists give the constants by rank, the last one for all later ranks."""

    def score(probability: Tensor, depth: int) -> Tensor:
        a, b = _by_rank(slope, probability), _by_rank(intercept, probability)
        return (a * probability.clamp(FLOOR, CEILING).logit() + b).sigmoid().clamp(max=CEILING)

    return score


def by_rank(shares: list[float]) -> Score:
    """A constant per rank: every tree has the same form."""
    return lambda probability, depth: _by_rank(shares, probability).expand_as(probability)


def fewer_children(score: Score, widths: list[int]) -> Score:
    """``widths[d - 1]`` candidates of each parent at depth d; the last one for all later depths. The others come last
    instead of being left out, because SGLang takes a fixed number."""

    def narrowed(probability: Tensor, depth: int) -> Tensor:
        kept = torch.arange(probability.shape[-1]) < _at(widths, depth)
        return torch.where(kept, 1.0, FLOOR) * score(probability, depth)

    return narrowed


def fewer_beams(score: Score, widths: list[int]) -> Score:
    """Children of only the ``widths[d - 2]`` best parents at depth d >= 2."""

    def narrowed(probability: Tensor, depth: int) -> Tensor:
        value = score(probability, depth)
        if depth == 1:
            return value
        kept = torch.arange(probability.shape[-2]) < _at(widths, depth - 1)
        return torch.where(kept, 1.0, FLOOR)[:, None] * value

    return narrowed


def sharpened(exponent: float, scale: float = 1.0) -> Score:
    """scale * p ** exponent, over the sum of p ** exponent of the candidates of the same parent."""

    def score(probability: Tensor, depth: int) -> Tensor:
        weight = probability.pow(exponent)
        return (scale * weight / weight.sum(-1, keepdim=True)).clamp(max=CEILING)

    return score


def _at(widths: list[int], depth: int) -> int:
    return widths[min(depth, len(widths)) - 1]


def _by_rank(constants: float | list[float], probability: Tensor) -> Tensor:
    if isinstance(constants, float):
        return torch.tensor(constants)
    ranks = torch.arange(probability.shape[-1]).clamp(max=len(constants) - 1)
    return torch.tensor(constants)[ranks]
