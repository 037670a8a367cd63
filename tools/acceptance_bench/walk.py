"""Decoding a text with trees whose accepted lengths are known at every position."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Walk:
    """accepted [B, R]: drafted tokens that a round at each root gets accepted. visited [B, R] bool: roots of rounds."""

    accepted: Tensor
    visited: Tensor

    @property
    def forwards(self) -> Tensor:
        """Rounds of each text, [B]."""
        return self.visited.sum(1)

    @property
    def tokens(self) -> Tensor:
        """What they gave, the target's own token included, [B]."""
        return ((self.accepted + 1) * self.visited).sum(1)

    @property
    def lengths(self) -> Tensor:
        """Accepted drafted tokens of all rounds, text by text."""
        return self.accepted[self.visited]

    def per_forward(self) -> float:
        return (self.tokens.sum() / self.forwards.sum()).item()


def walk(accepted: Tensor) -> Walk:
    """Rounds follow each other from the first root on until the roots end; the last one counts in full."""
    batch, count = accepted.shape
    visited, at = torch.zeros(batch, count, dtype=torch.bool), torch.zeros(batch, dtype=torch.int64)
    while (at < count).any():
        inside = (at < count).nonzero()[:, 0]
        visited[inside, at[inside]] = True
        at[inside] += accepted[inside, at[inside]] + 1
    return Walk(accepted, visited)
