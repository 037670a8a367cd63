"""Tree shapes by batch size: wide trees where the card has room, narrow ones or a chain where it has none."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ENTRY = re.compile(r"(\d+):(\d+)/(\d+)/(\d+)")


@dataclass(frozen=True)
class Shape:
    """n verify rows per request, S draft steps, K candidates per node (1: a chain, n = S + 1)."""

    n: int
    steps: int
    topk: int

    def __str__(self) -> str:
        return f"{self.n}/{self.steps}/{self.topk}"

    def fault(self, largest: Shape) -> str | None:
        """Why this shape cannot run in a server that was started with ``largest``, or None."""
        for name, value, limit, flag in (
            ("n", self.n, largest.n, "--speculative-num-draft-tokens"),
            ("steps", self.steps, largest.steps, "--speculative-num-steps"),
            ("topk", self.topk, largest.topk, "--speculative-eagle-topk"),
        ):
            if not 1 <= value <= limit:
                return f"{name} {value} is outside 1..{limit}, the launch flag {flag}"
        if self.topk == 1 and self.n != self.steps + 1:
            return f"a chain of {self.steps} steps has {self.steps + 1} rows, not {self.n}"
        most = self.topk + (self.steps - 1) * self.topk**2 + 1
        if not self.steps + 1 <= self.n <= most:
            return f"{self.steps} steps of topk {self.topk} give paths of {self.steps + 1} rows and {most} rows in all"
        return None


@dataclass(frozen=True)
class ShapeTable:
    """(smallest batch size, shape) in ascending order; the first one starts at 1."""

    entries: tuple[tuple[int, Shape], ...]

    @classmethod
    def parse(cls, text: str, largest: Shape) -> ShapeTable:
        """From ``BATCH:n/steps/topk`` entries, separated by blanks or commas: ``1:16/5/4 5:8/3/4 17:4/3/1``.

        largest: the launch flags, which size memory. Raises ValueError that names the entry.
        """
        entries: list[tuple[int, Shape]] = []
        for word in text.replace(",", " ").split():
            match = _ENTRY.fullmatch(word)
            if match is None:
                raise ValueError(f"{word!r} is not BATCH:n/steps/topk, for example 5:8/3/4")
            batch, *numbers = map(int, match.groups())
            shape = Shape(*numbers)
            fault = shape.fault(largest)
            if fault is not None:
                raise ValueError(f"{word}: {fault}")
            if entries and batch <= entries[-1][0]:
                raise ValueError(f"{word}: batch sizes must rise, the entry before starts at {entries[-1][0]}")
            entries.append((batch, shape))
        if not entries or entries[0][0] != 1:
            raise ValueError(f"the first entry must start at batch size 1, for example 1:{largest}")
        return cls(tuple(entries))

    def at(self, batch: int) -> Shape:
        """The shape of a batch of ``batch`` requests; an empty batch counts as one."""
        return next(shape for start, shape in reversed(self.entries) if start <= max(batch, 1))

    def __str__(self) -> str:
        return " ".join(f"{batch}:{shape}" for batch, shape in self.entries)
