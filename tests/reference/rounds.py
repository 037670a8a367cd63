"""Rounds of tree -> accept -> commit, every row against transformers on that row's path, every state against serial."""

from __future__ import annotations

import copy
import dataclasses
from collections import defaultdict
from collections.abc import Sequence as Tokens

import numpy as np

from dsv4_npu_tree.reference.model import Row
from dsv4_npu_tree.reference.sequence import Sequence
from dsv4_npu_tree.reference.state import LayerState
from dsv4_npu_tree.reference.tree import Tree

from .figures import KIND, Figures
from .transformers_model import Run, Truth

STORES = ("kv", "main", "index", "entry", "index_key")


def forked(sequence: Sequence) -> Sequence:
    """An equal sequence that goes its own way; rows are shared, nothing writes to one."""
    other = Sequence(sequence.model)
    other.layers = [
        dataclasses.replace(state, **{name: copy.copy(getattr(state, name)) for name in STORES})
        for state in sequence.layers
    ]
    return other


def assert_same_state(one: Sequence, other: Sequence) -> None:
    """Equal keys and bit-equal rows, in every layer."""
    for a, b in zip(one.layers, other.layers, strict=True):
        assert (a.ratio, a.length) == (b.ratio, b.length)
        for name in ("kv", "main", "index"):
            mine, theirs = getattr(a, name), getattr(b, name)
            assert mine.keys() == theirs.keys(), name
            assert all(np.array_equal(mine[p], theirs[p]) for p in mine), name
        for name in ("entry", "index_key"):
            assert np.array_equal(np.array(getattr(a, name)), np.array(getattr(b, name))), name


def assert_minimal(state: LayerState) -> None:
    """The live state that a round must leave: nothing is missing, nothing more is kept."""
    length = state.length
    first = {0: length, 4: max(0, length - length % 4 - 4), 128: length - length % 128}[state.ratio]
    assert sorted(state.kv) == [*range(max(0, length - state.window + 1), length)]
    assert sorted(state.main) == [*range(first, length)]
    assert sorted(state.index) == ([*range(first, length)] if state.ratio == 4 else [])
    assert len(state.entry) == (length // state.ratio if state.ratio else 0)
    assert len(state.index_key) == (length // 4 if state.ratio == 4 else 0)


def chosen(rows: Tokens[Row], layer: int, kind: str, width: int) -> np.ndarray:
    """[S, width] kept indices of rows in one layer, ascending, -1 in front where fewer were kept."""
    kept = [getattr(row, kind)[layer].kept for row in rows]
    return np.array([[-1] * (width - len(k)) + [*k] for k in kept])


def choices_differ(rows: Tokens[Row], run: Run, item: int) -> np.ndarray:
    """[S] bool: at or before this row a choice of entries or experts fell otherwise than in the model's run."""
    differ = np.zeros(len(rows), dtype=bool)
    for kind, theirs in (("entries", run.entries), ("experts", run.experts)):
        for layer, all_kept in theirs.items():
            mine = chosen(rows, layer, kind, all_kept.shape[-1])
            differ |= (mine != all_kept[item]).any(axis=1)
    return np.logical_or.accumulate(differ)


def narrowest(row: Row, kind: str) -> float:
    return min((choice.gap for choice in getattr(row, kind) if choice is not None), default=np.inf)


def compare(
    history: Tokens[Row],
    tokens: Tokens[int],
    tree: Tree,
    drafted: Tokens[int],
    rows: Tokens[Row | None],
    truth: Truth,
    figures: Figures,
    *,
    every_node: bool = False,
    tie: float = 0.0,
) -> None:
    """Rows of `tree`, drafted after `tokens` whose rows are `history`, against the model run on each path alone.

    One run per leaf, whose earlier positions are its ancestors' rows; `every_node`: one per node, its last position.
    A choice may fall otherwise only within a gap of `tie`; rows from there on are set aside and counted.
    """
    batches: dict[int, list[list[int]]] = defaultdict(list)
    for node in range(tree.n) if every_node else tree.leaves():
        batches[len(tree.path(node))].append(tree.path(node))
    compared: set[int] = set()
    for paths in batches.values():
        run = truth.run([[*tokens, *(drafted[v] for v in path)] for path in paths])
        for item, path in enumerate(paths):
            along = [*history, *(rows[v] for v in path)]
            differ = choices_differ(along, run, item)
            if differ.any():
                where = int(np.flatnonzero(differ)[0])
                gap = min(narrowest(along[where], "entries"), narrowest(along[where], "experts"))
                assert gap <= tie, f"position {where} chose otherwise with a gap of {gap}"
            for at, node in enumerate(path, start=len(tokens)):
                if node in compared or (every_node and node != path[-1]):
                    continue
                compared.add(node)
                record(rows[node], run, item, at, bool(differ[at]), truth, figures)
    assert compared == {node for node in range(tree.n) if tree.alive[node]}
    figures.prefixes.add(len(tokens))


def record(row: Row, run: Run, item: int, at: int, set_aside: bool, truth: Truth, figures: Figures) -> None:
    kinds = [KIND[layer_type] for layer_type in truth.model.config.layer_types]
    figures.rows += 1
    for choice in row.entries:
        if choice is not None:
            figures.bound += choice.bound
            figures.free += not choice.bound
    for left, kind in zip(row.rows, kinds, strict=True):
        figures.closed[kind] += left.entry is not None
    figures.entry_gap = min(figures.entry_gap, narrowest(row, "entries"))
    figures.expert_gap = min(figures.expert_gap, narrowest(row, "experts"))
    if set_aside:
        figures.set_aside += 1
        return
    figures.logits = max(figures.logits, float(np.abs(row.logits - run.logits[item, at]).max()))
    for mine, theirs, kind in zip(row.attended, run.attended, kinds, strict=True):
        figures.attended[kind] = max(figures.attended[kind], float(np.abs(mine - theirs[item, at]).max()))
