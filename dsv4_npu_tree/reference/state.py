"""What a layer remembers of a sequence, and the history that one row of a tree looks back on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Rows:
    """What one token leaves in one layer. Compressed layers only: `main`; C4 only: `index`, `index_key`."""

    kv: np.ndarray  # [D] window row, key and value at once
    main: np.ndarray | None = None  # compressor row
    index: np.ndarray | None = None  # compressor row of the indexer
    entry: np.ndarray | None = None  # [D] compressed entry, if the token closes a block
    index_key: np.ndarray | None = None  # [index_head_dim], if the token closes a block


@dataclass
class LayerState:
    """Everything that later tokens read of the first `length` tokens; rows by position, entries by block.

    What no later token reads is gone: a row that is looked up too late is a KeyError.
    """

    ratio: int
    window: int
    length: int = 0
    kv: dict[int, np.ndarray] = field(default_factory=dict)
    main: dict[int, np.ndarray] = field(default_factory=dict)
    index: dict[int, np.ndarray] = field(default_factory=dict)
    entry: list[np.ndarray] = field(default_factory=list)
    index_key: list[np.ndarray] = field(default_factory=list)

    def append(self, rows: Rows) -> None:
        """The state after one more token."""
        for name in ("kv", "main", "index"):
            if getattr(rows, name) is not None:
                getattr(self, name)[self.length] = getattr(rows, name)
        for name in ("entry", "index_key"):
            if getattr(rows, name) is not None:
                getattr(self, name).append(getattr(rows, name))
        self.length += 1
        # The open block and, for C4, the closed one before it, whose rows the next entry pools once more.
        pending = {0: 0, 4: self.length % 4 + 4, 128: self.length % 128}[self.ratio]
        for store, keep in ((self.kv, self.window - 1), (self.main, pending), (self.index, pending)):
            for position in [p for p in store if p < self.length - keep]:
                del store[position]


class History:
    """A layer as one row sees it: the committed state, then the rows of its own path. Siblings are not in it."""

    def __init__(self, state: LayerState, path: Sequence[Rows]) -> None:
        self.state = state
        self.path = path

    def row(self, name: str, position: int) -> np.ndarray:
        if position < self.state.length:
            return getattr(self.state, name)[position]
        return getattr(self.path[position - self.state.length], name)

    def all(self, name: str) -> list[np.ndarray]:
        """Every entry, or index key, of the history, by block."""
        grown = [getattr(rows, name) for rows in self.path]
        return [*getattr(self.state, name), *(e for e in grown if e is not None)]

    def extended(self, rows: Rows) -> History:
        return History(self.state, [*self.path, rows])
