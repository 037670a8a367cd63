"""Bytes that a round must leave alone, and bytes that its commit must bring: compared before and after."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch

from dsv4_npu_tree.inspect.collect import Snapshot
from dsv4_npu_tree.inspect.identities import Violation
from dsv4_npu_tree.inspect.record import WINDOW, RequestRound
from dsv4_npu_tree.paging.buffers import PoolBuffers

DUMMY = -1  # request number of rows that belong to nobody

Labels = dict[int, dict[int, int]]  # row -> request -> entry

_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32}


def _bits(rows: torch.Tensor) -> torch.Tensor:
    return rows.view(_BITS[rows.element_size()])  # NaN must equal itself


class GuardedRows:
    """Rows of every buffer of one kind, and whose they are: requests may share rows of a prefix."""

    def __init__(self, name: str, buffers: list[tuple[str, torch.Tensor]], labels: Labels):
        self.name, self.buffers, self.labels = name, buffers, list(labels.values())
        self.at = {row: i for i, row in enumerate(labels)}
        device = buffers[0][1].device
        self.rows = torch.tensor(list(labels), dtype=torch.int64, device=device)
        self.saved = [buffer[self.rows] for _, buffer in buffers]

    def changed(self, expected: list[torch.Tensor]) -> Iterator[tuple[str, tuple[int, int]]]:
        """(buffer, (request, entry)) of rows that differ from ``expected``, the first of each buffer and request: none
        may go on behind another one's violation."""
        if not self.labels:
            return
        differs = torch.stack(
            [(_bits(buffer[self.rows]) != _bits(rows)).any(1) for (_, buffer), rows in zip(self.buffers, expected)]
        )
        for (name, _), row in zip(self.buffers, differs.tolist()):
            first: dict[int, int] = {}
            for owners in itertools.compress(self.labels, row):
                first = owners | first
            yield from ((name, label) for label in first.items())


class StorageCanary:
    """The committed rows that the requests of a batch read or reserve next, and the rows that belong to nobody."""

    def __init__(self, snapshot: Snapshot):
        self.snapshot, pool = snapshot, snapshot.pool
        buffers = PoolBuffers.of_pool(pool)
        self.kinds: dict[tuple[str, int], GuardedRows] = {}
        for ratio, name in ((1, "swa"), (4, "c4"), (128, "c128")):
            named = [(f"{name}[{i}]", buffer) for i, buffer in enumerate(buffers.rows(ratio))]
            if named:
                self.kinds["kv", ratio] = GuardedRows(name, named, self._kv_labels(ratio))
        self.states: dict[int, list[tuple[int, bool]]] = {}
        for ratio in snapshot.ring_sizes:
            named, owners = [], []
            for is_indexer, pools in ((False, pool.compress_state_pools), (True, pool.indexer_compress_state_pools)):
                for layer, state in enumerate(pools):
                    if state is not None and state.ratio == ratio:
                        kind = "indexer state" if is_indexer else f"C{ratio} state"
                        named.append((f"{kind}[layer {layer}]", state.kv_score_buffer.kv_score))
                        owners.append((layer, is_indexer))
                        dummy = state.dummy_state_loc
            self.states[ratio] = owners
            self.kinds["state", ratio] = GuardedRows(f"C{ratio} state", named, self._state_labels(ratio, dummy))

    def _kv_labels(self, ratio: int) -> Labels:
        """Row -> request -> entry: the window or the last entries, and everything that is reserved for this round."""
        labels: Labels = {0: {DUMMY: 0}} if ratio == 1 else {}  # compressed slot 0 takes what is stored nowhere
        for b, prefix in enumerate(self.snapshot.prefix):
            first = max(0, prefix - WINDOW) // ratio if ratio < 128 else max(0, prefix // ratio - 2)
            for entry in range(first, (prefix + self.snapshot.n) // ratio):
                row = self.snapshot.own(b, ratio, entry)
                if row > 0:
                    labels.setdefault(row, {})[b] = entry
        return labels

    def _state_labels(self, ratio: int, dummy: int) -> Labels:
        labels: Labels = {dummy: {DUMMY: 0}}
        size = self.snapshot.ring_sizes[ratio]
        for b, prefix in enumerate(self.snapshot.prefix):
            for position in range(max(0, prefix - size), prefix + self.snapshot.n):
                row = self.snapshot.ring_row(b, ratio, position)
                labels.setdefault(row, {})[b] = position  # the latest one names the row
        return labels

    def before_commit(self, records: list[RequestRound]) -> Iterator[tuple[int, Violation]]:
        """(request, violation): bytes that the forward changed outside the arena, tails that are no copies."""
        for rows in self.kinds.values():
            for name, (b, entry) in rows.changed(rows.saved):
                yield b, Violation("kv", 0, f"{name} entry {entry} before acceptance", "unchanged", "written")
        for b, record in enumerate(records):
            for space in record.spaces:
                runs = [(s + i, d + i) for s, d, n in space.tails for i in range(n)]
                yield from ((b, v) for v in self._tails(space.ratio, runs))

    def _tails(self, ratio: int, runs: list[tuple[int, int]]) -> Iterator[Violation]:
        if not runs:
            return
        kind = self.kinds["kv", ratio]
        source, copy = torch.tensor(runs, dtype=torch.int64, device=kind.rows.device).unbind(1)
        for name, buffer in kind.buffers:
            same = (_bits(buffer[source]) == _bits(buffer[copy])).all(1)
            if not bool(same.all()):
                at = int((~same).nonzero()[0])
                yield Violation("kv", 0, f"{name} tail copy in row {runs[at][1]}", f"row {runs[at][0]}", "other bytes")

    def after_commit(
        self, records: list[RequestRound], committed: list[bool], scratch: dict[Any, torch.Tensor]
    ) -> Iterator[tuple[int, Violation]]:
        """(request, violation): accepted rows that did not arrive, and other rows that changed. committed: false where
        the commit was withheld. scratch: projected rows of the round, per (layer, is_indexer)."""
        for (what, ratio), rows in self.kinds.items():
            moves = [
                (to, source)
                for b, record in enumerate(records)
                if committed[b]
                for to, source in (self._kv_moves if what == "kv" else self._state_moves)(b, record, ratio)
            ]
            arrived = [(rows.at[to], source) for to, source in dict(moves).items() if to in rows.at]
            at, source = (torch.tensor(x, dtype=torch.int64, device=rows.rows.device) for x in _columns(arrived))
            if what == "state":
                silent = [owner for owner in self.states[ratio] if owner not in scratch]
                for b in range(len(records)) if silent else ():
                    yield b, Violation("kv", 0, f"C{ratio} projection of layers {silent}", "rows of this round", "none")
            expected = []
            for i, (saved, (_, buffer)) in enumerate(zip(rows.saved, rows.buffers)):
                origin = buffer if what == "kv" else scratch.get(self.states[ratio][i])
                expected.append(saved if origin is None else saved.index_copy(0, at, origin[source].to(saved.dtype)))
            for name, (b, entry) in rows.changed(expected):
                first = entry * ratio if what == "kv" else entry
                inside = b != DUMMY and committed[b] and records[b].prefix <= first
                wanted = "the accepted path's row, or unchanged" if inside else "unchanged"
                yield b, Violation("kv", 0, f"{name} entry {entry} after the commit", wanted, "other bytes")

    def _kv_moves(self, b: int, record: RequestRound, ratio: int) -> Iterator[tuple[int, int]]:
        space = next(s for s in record.spaces if s.ratio == ratio)
        for entry in range(record.prefix // ratio, (record.prefix + len(record.accepted)) // ratio):
            yield space.own_slot(entry), space.slot(record.accepted[-1], entry)

    def _state_moves(self, b: int, record: RequestRound, ratio: int) -> Iterator[tuple[int, int]]:
        for depth, node in enumerate(record.accepted):
            yield self.snapshot.ring_row(b, ratio, record.prefix + depth), b * record.n + node


def _columns(pairs: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    return [to for to, _ in pairs], [source for _, source in pairs]
