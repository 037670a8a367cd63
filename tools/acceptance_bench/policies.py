"""What is compared: chains, and trees under a scoring and a kind of draft history."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from acceptance_bench.drafting import Score, candidates, pool_size
from acceptance_bench.scoring import as_drafted
from acceptance_bench.selection import accepted
from acceptance_bench.text import Text
from acceptance_bench.walk import Walk, walk
from tools.tiny_checkpoint.nextn import NextN


@dataclass(frozen=True)
class Shape:
    """steps S, nodes n (verify rows, root included), topk K; K = 1 is a chain, n = S + 1."""

    topk: int
    steps: int
    nodes: int

    @property
    def fits(self) -> bool:
        """SGLang's limits; what the plugin refuses beyond them has no room here either."""
        if self.topk == 1:
            return self.nodes == self.steps + 1
        return self.steps + 1 <= self.nodes <= pool_size(self.topk, self.steps) + 1


@dataclass(frozen=True)
class Policy:
    """How a draft proposes; one run of ``steps`` answers for all fewer steps and every number of nodes."""

    topk: int
    steps: int
    scoring: str = "as drafted"
    score: Score = as_drafted
    stale: bool = False

    @property
    def history(self) -> str:
        return "stale" if self.stale else "exact"


def run(draft: NextN, texts: Iterable[Text], policy: Policy, shapes: Iterable[Shape], tokens: int) -> dict[Shape, Walk]:
    """Decode ``tokens`` tokens of every text with each of the shapes, which have the policy's topk."""
    wanted = [s for s in shapes if s.topk == policy.topk and s.steps <= policy.steps and s.fits]
    lengths: dict[Shape, list[torch.Tensor]] = {shape: [] for shape in wanted}
    for text in texts:
        roots = torch.arange(text.prompt, text.prompt + tokens)
        found = candidates(draft, text, roots, policy.topk, policy.steps, policy.score, stale=policy.stale)
        for shape in wanted:
            lengths[shape].append(accepted(found.cut(shape.steps), shape.nodes, text))
    return {shape: walk(torch.cat(parts)) for shape, parts in lengths.items()}
