"""One verify round of one request as numbers on the host: what the identities judge and a dump stores."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

WINDOW = 128  # positions that a row attends to in the sliding window, its own included
INERT = -2  # parent of a node that hangs on nothing


@dataclass(frozen=True)
class SpaceRecord:
    """Where the rows of one address space live in this round.

    ratio: tokens per entry (1 SWA, 4, 128). block: rows of a table block. arena: ``[first, end)``, the request's arena
    rows. first_column: tables start there. table: per node, physical blocks. own: slots of entries
    ``first_column * block ..``, looked up before the forward. writes: ``[node, slot]`` of what the forward stores.
    tails: ``[source, destination, rows]`` copied before the first layer. targets: planned commit slots of entries
    ``prefix // ratio ..``.
    """

    ratio: int
    block: int
    arena: list[int]
    first_column: int
    table: list[list[int]]
    own: list[int]
    writes: list[list[int]]
    tails: list[list[int]]
    targets: list[int]

    def slot(self, node: int, entry: int) -> int:
        """Where row ``node`` finds an entry; -1 outside its table."""
        column, offset = divmod(entry, self.block)
        row = self.table[node]
        column -= self.first_column
        return row[column] * self.block + offset if 0 <= column < len(row) else -1

    def own_slot(self, entry: int) -> int:
        """The request's own slot of an entry; -1 outside the record."""
        at = entry - self.first_column * self.block
        return self.own[at] if 0 <= at < len(self.own) else -1


@dataclass(frozen=True)
class CompressorRecord:
    """State rows of one ratio. first_position: of ``ring``. ring: ring rows of positions ``first_position ..``, looked
    up before the forward. windows: ``[node, [row, ..]]`` of closing nodes, oldest position first: ring row, or
    ``-1 - node`` for a row of the tree, or None before position 0. targets: planned ring rows of positions
    ``prefix ..``."""

    ratio: int
    first_position: int
    ring: list[int]
    windows: list[tuple[int, list[int | None]]]
    targets: list[int]

    def ring_row(self, position: int) -> int:
        return self.ring[position - self.first_position]


@dataclass(frozen=True)
class RequestRound:
    """One request of a round; lists have n entries, one per node (0 is the root, the previous bonus token).

    prefix: KV-ready length P. parent: -1 for the root, -2 for an inert node. score: path score given by the
    draft (root 1.0). accepted: nodes of the accepted path, root first. bonus: the token that the target adds after
    it. emitted: the round's tokens, one per accepted node. target: the target's token after each node, where known:
    by its own logits if all is greedy, else what verification says of the accepted nodes. candidate,
    candidate_parent, candidate_token: per node from 1 on, ids in the draft's pool (parent -1 = the root) and the
    pool's token (None if unknown). home, branches: branch of each node, nodes of each branch. seqused: tokens that
    a row sees. expected_prefix, expected_root: what the request's last round left behind (None in its first).
    greedy: sampled by argmax.
    """

    request: str
    prefix: int
    token: list[int]
    parent: list[int]
    depth: list[int]
    score: list[float]
    accepted: list[int]
    bonus: int
    position: list[int]
    ancestors: list[int]
    next_token: list[int]
    next_sibling: list[int]
    home: list[int]
    branches: list[list[int]]
    seqused: list[int]
    target: list[int | None]
    candidate: list[int]
    candidate_parent: list[int]
    candidate_token: list[int | None]
    spaces: list[SpaceRecord] = field(default_factory=list)
    compressors: list[CompressorRecord] = field(default_factory=list)
    steps: int = 0
    emitted: list[int] = field(default_factory=list)
    expected_prefix: int | None = None
    expected_root: int | None = None
    greedy: bool = True

    @property
    def n(self) -> int:
        return len(self.token)

    @property
    def label(self) -> str:
        """The request's name without what a terminal or an SVG would act on: users choose these names."""
        return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in self.request)

    @property
    def live(self) -> list[int]:
        return [node for node, parent in enumerate(self.parent) if parent != INERT]

    def path(self, node: int) -> list[int]:
        """Nodes from the root to ``node`` by parents alone. Raises ValueError where they lead elsewhere."""
        found = [node]
        while found[-1] != 0:
            above = self.parent[found[-1]]
            if not 0 <= above < found[-1]:
                raise ValueError(f"parent of node {found[-1]} is {above}")
            found.append(above)
        return found[::-1]

    def stray(self) -> tuple[int, str] | None:
        """The first node whose parents do not lead to the root, and why; None in a tree."""
        if self.parent[0] != -1:
            return 0, f"parent of node 0 is {self.parent[0]}"
        for node in self.live:
            try:
                self.path(node)
            except ValueError as error:
                return node, str(error)
        return None

    @classmethod
    def of_json(cls, data: dict[str, Any]) -> RequestRound:
        """From a dump's dictionary. Raises TypeError, KeyError and ValueError on
        anything that is not shaped like one; values are the business of inspect/schema.py."""
        spaces = [SpaceRecord(**one) for one in data["spaces"]]
        compressors = [
            CompressorRecord(**{**one, "windows": [(node, rows) for node, rows in one["windows"]]})
            for one in data["compressors"]
        ]
        return cls(**{**data, "spaces": spaces, "compressors": compressors})
