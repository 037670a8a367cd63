"""Path scores against how often paths are right: calibrated where both columns are equal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from acceptance_bench.drafting import candidates
from acceptance_bench.policies import Policy
from acceptance_bench.profile import EDGES
from acceptance_bench.text import Text
from tools.tiny_checkpoint.nextn import NextN


@dataclass(frozen=True)
class Bin:
    """Candidates at one depth whose path score lies between two edges: mean score, share that was right."""

    depth: int
    score: float
    right: float
    count: int


def reliability(draft: NextN, texts: Iterable[Text], policy: Policy, tokens: int) -> list[Bin]:
    """Over all candidates that the draft proposes at every root, chosen for the tree or not."""
    bins = len(EDGES) - 1
    sums = torch.zeros(policy.steps * bins, 3, dtype=torch.float64)
    for text in texts:
        roots = torch.arange(text.prompt, text.prompt + tokens)
        found = candidates(draft, text, roots, policy.topk, policy.steps, policy.score, stale=policy.stale)
        cell = torch.bucketize(found.score, torch.tensor(EDGES[1:-1]), right=True) + bins * (found.depth() - 1)
        each = torch.stack([torch.ones_like(found.score), found.score, found.right(text)], dim=-1).double()
        sums.index_add_(0, cell.flatten(), each.flatten(0, -2))
    return [
        Bin(row // bins + 1, round(score / count, 4), round(right / count, 4), int(count))
        for row, (count, score, right) in enumerate(sums.tolist())
        if count
    ]
