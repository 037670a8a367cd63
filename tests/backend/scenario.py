"""What a generated test plays on a rig: requests that join, take turns in verify rounds, sit some out, and leave."""

from __future__ import annotations

import random
from dataclasses import dataclass

from .trees import Tree


@dataclass(frozen=True)
class Turn:
    """One request in one round. tokens: one per node. accepted: the node that the accepted path ends at."""

    tree: Tree
    tokens: tuple[int, ...]
    accepted: int

    @property
    def path(self) -> list[int]:
        return self.tree.path(self.accepted)


@dataclass(frozen=True)
class Life:
    """One request. prefix: prompt tokens, random from ``seed``. joins: its first round. turns: one per round from then
    on, None where it sits the round out; it leaves after the last."""

    prefix: int
    seed: int
    joins: int
    turns: tuple[Turn | None, ...]

    @property
    def prompt(self) -> list[int]:
        rng = random.Random(self.seed)
        return [rng.randrange(3, 1000) for _ in range(self.prefix)]

    @property
    def leaves(self) -> int:
        """The first round without it."""
        return self.joins + len(self.turns)

    def turn(self, number: int) -> Turn | None:
        return self.turns[number - self.joins] if self.joins <= number < self.leaves else None


@dataclass(frozen=True)
class Scenario:
    requests: tuple[Life, ...]

    @property
    def rounds(self) -> int:
        return max(life.leaves for life in self.requests)
