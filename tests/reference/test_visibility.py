"""Six ways to say what a row of a tree sees, on random trees: the same columns and attention, window or not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from dsv4_npu_tree.reference import cascade, links, masks, tables
from dsv4_npu_tree.reference.attention import attend, join
from dsv4_npu_tree.reference.tree import Tree
from dsv4_npu_tree.reference.visibility import columns

from . import shapes

WINDOWS = (None, 128, 1, 3, 17)  # None: a full layer; the short ones end inside a tree
PREFIXES = (0, 1, 3, 15, 16, 17, 100, 126, 127, 128, 129, 140, 255, 260)
SEEDS, EQUAL, FAR = range(300), 1e-12, 1e-5
HEADS, DIM, SCALE = 2, 6, 6**-0.5


def batch(seed: int) -> tuple[list[Tree], np.random.Generator]:
    """One to three trees of one size, prefixes and shapes mixed, some with nodes that hang on nothing."""
    rng = np.random.default_rng(seed)
    n, bs = int(rng.integers(1, 33)), int(rng.integers(1, 4))
    return [
        shapes.tree(str(rng.choice(shapes.KINDS)), n, int(rng.choice(PREFIXES)), rng, inert=int(rng.integers(0, 4)))
        for _ in range(bs)
    ], rng


def by_pairs(tree: Tree, node: int, size: int | None) -> list[int]:
    """The rule once more, column by column: on the way to the root, and not too far back in positions."""
    ancestors, current = set(), node
    while current is not None:
        ancestors.add(current)
        current = tree.parent[current]
    depth = {v: len(tree.path(v)) - 1 for v in range(tree.n)}
    position = [*range(tree.prefix), *(tree.prefix + depth[v] for v in range(tree.n))]
    return [
        c
        for c in range(tree.prefix + tree.n)
        if (c < tree.prefix or c - tree.prefix in ancestors)
        and (size is None or position[tree.prefix + node] - position[c] < size)
    ]


def live(tree: Tree) -> list[int]:
    return [node for node in range(tree.n) if tree.alive[node]]


def reads(trees: list[Tree], size: int | None, rng: np.random.Generator) -> dict[str, list[list[list[int]]]]:
    """Columns of every row as each statement gives them: statement, request, row."""
    prefixes, n = [tree.prefix for tree in trees], trees[0].n
    positions = [tree.positions() for tree in trees]
    found = {
        "FULL_MASK": masks.read_full(masks.full(trees), prefixes, n),
        "QLEN_ONLY": masks.read_qlen(masks.qlen(trees), prefixes, n),
        "packed": masks.read_packed(masks.packed(trees), prefixes, n),
    }
    if size is not None:
        for requests in found.values():
            for b, tree in enumerate(trees):
                at = (tree.prefix, positions[b])
                requests[b] = [masks.within(seen, *at, row, size) for row, seen in enumerate(requests[b])]
    for page in (1, 16, 128):
        requests = []
        for b, tree in enumerate(trees):
            rows, stored = tables.build(tree, page, iter(rng.permutation(2000).tolist()))
            lengths = [position + 1 for position in positions[b]]
            requests.append(
                [
                    [stored[slot] for slot in tables.slots(rows[v], lengths[v], page, size)] if tree.alive[v] else []
                    for v in range(n)
                ]
            )
        found[f"tables of {page}"] = requests
    found["links"], found["cascade"] = [], []
    for b, tree in enumerate(trees):
        walked = links.paths(tree.next_token(), tree.next_sibling())
        assert sorted(walked) == live(tree)
        sequence = {v: [*range(tree.prefix), *(tree.prefix + u for u in path)] for v, path in walked.items()}
        latest = slice(None) if size is None else slice(-size, None)
        found["links"].append([sequence.get(v, [])[latest] for v in range(n)])
        found["cascade"].append(
            [
                [
                    *cascade.prefix_bounds(positions[b][v], tree.prefix, size),
                    *(tree.prefix + u for u in tree.path(v)[latest]),
                ]
                for v in range(n)
            ]
        )
    return found


@pytest.mark.parametrize("size", WINDOWS)
def test_all_statements_show_the_same_columns(size):
    rows = 0
    for seed in SEEDS[::2]:
        trees, rng = batch(seed)
        for statement, requests in reads(trees, size, rng).items():
            for tree, request in zip(trees, requests, strict=True):
                for node in live(tree):
                    rows += 1
                    expected = by_pairs(tree, node, size)
                    assert expected == columns(tree, node, size)
                    assert request[node] == expected, (statement, seed, node)
    assert rows > 25_000


def test_no_statement_shows_a_node_that_hangs_on_nothing():
    shown = 0
    for seed in SEEDS:
        trees, rng = batch(seed)
        for requests in reads(trees, None, rng).values():
            for tree, request in zip(trees, requests, strict=True):
                for node in live(tree):
                    assert all(c < tree.prefix or tree.alive[c - tree.prefix] for c in request[node])
                shown += sum(not alive for alive in tree.alive)
        assert all(columns(t, v) == [] for t in trees for v in range(t.n) if not t.alive[v])
    assert shown > 1000


class Drawn:
    """Random q [n, H, D], keys [P + n, D] and sink [H] of one tree."""

    def __init__(self, tree: Tree, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.q = rng.normal(size=(tree.n, HEADS, DIM)) * 2
        self.keys = rng.normal(size=(tree.prefix + tree.n, DIM))
        self.sink = rng.normal(size=HEADS)

    def softmax(self, node: int, seen: list[int]) -> np.ndarray:
        """The definition: one softmax over the seen keys in order, and the sink, whose share is dropped."""
        logits = torch.from_numpy(self.q[node] @ self.keys[seen].T * SCALE)
        shares = torch.cat([logits, torch.from_numpy(self.sink)[:, None]], 1).softmax(-1)[:, :-1]
        return (shares @ torch.from_numpy(self.keys[seen])).numpy()

    def masked(self, mask: np.ndarray) -> np.ndarray:
        """Dense attention of all rows over all columns, -inf where the mask [n, P + n] is False."""
        logits = torch.from_numpy(np.einsum("nhd,kd->nhk", self.q, self.keys) * SCALE)
        logits = logits.masked_fill(~torch.from_numpy(mask)[:, None], float("-inf"))
        sink = torch.from_numpy(self.sink).view(1, HEADS, 1).expand(len(self.q), -1, -1)
        return (torch.cat([logits, sink], -1).softmax(-1)[..., :-1] @ torch.from_numpy(self.keys)).numpy()

    def through(self, table: list[int], stored: dict[int, int], length: int, page: int, size, node: int) -> np.ndarray:
        """Attention over the slots of a pool in which everything else is NaN."""
        pool = np.full(((max(stored) // page + 1) * page, DIM), np.nan)
        pool[[*stored]] = self.keys[[*stored.values()]]
        keys = pool[tables.slots(table, length, page, size)]
        return attend(self.q[node], keys, SCALE, self.sink)[0]

    def along(self, path: list[int], prefix: int, size: int | None) -> np.ndarray:
        """A part for the prefix and one for each token of a walked path, joined."""
        node, sequence = path[-1], [*range(prefix), *(prefix + u for u in path)]
        own = sequence[-(size or len(sequence)) :]
        split = [[c for c in own if c < prefix], *([c] for c in own if c >= prefix)]
        parts = [attend(self.q[node], self.keys[seen], SCALE) for seen in split]
        return join([*parts, (np.zeros((HEADS, DIM)), self.sink)])[0]

    def cascaded(self, tree: Tree, size: int | None) -> np.ndarray:
        return cascade.attention(
            self.q, self.keys[: tree.prefix], self.keys[tree.prefix :], tree, SCALE, self.sink, size
        )


def dense(seen: list[list[int]], tree: Tree) -> np.ndarray:
    mask = np.zeros((tree.n, tree.prefix + tree.n), dtype=bool)
    for row, own in enumerate(seen):
        mask[row, own] = True
    return mask


@pytest.mark.parametrize("size", WINDOWS)
def test_all_statements_give_the_same_attention(size):
    worst, rows = 0.0, 0
    for seed in SEEDS[::3]:
        trees, rng = batch(seed)
        prefixes, n = [tree.prefix for tree in trees], trees[0].n
        full = masks.read_full(masks.full(trees), prefixes, n)
        packed = masks.read_packed(masks.packed(trees), prefixes, n)
        for b, tree in enumerate(trees):
            drawn, positions = Drawn(tree, seed), tree.positions()
            outputs = {"cascade": drawn.cascaded(tree, size)}
            for name, seen in (("FULL_MASK", full[b]), ("packed", packed[b])):
                if size is not None:
                    at = (tree.prefix, positions)
                    seen = [masks.within(own, *at, row, size) for row, own in enumerate(seen)]
                outputs[name] = drawn.masked(dense(seen, tree))
            walked = links.paths(tree.next_token(), tree.next_sibling())
            table, stored = tables.build(tree, 16, iter(rng.permutation(2000).tolist()))
            for node in live(tree):
                expected = drawn.softmax(node, columns(tree, node, size))
                got = {name: output[node] for name, output in outputs.items()}
                got["links"] = drawn.along(walked[node], tree.prefix, size)
                got["tables"] = drawn.through(table[node], stored, positions[node] + 1, 16, size, node)
                for name, output in got.items():
                    difference = np.abs(output - expected).max()
                    worst = max(worst, difference)
                    assert difference <= EQUAL, (name, seed, node)
                rows += 1
    print(f"\nwindow {size}: {rows} rows, statements differ by {worst:.1e}")
    assert rows > 1500


def test_any_split_of_the_keys_joins_and_the_sink_counts_once():
    rng = np.random.default_rng(0)
    for _ in range(300):
        count, parts = int(rng.integers(0, 12)), int(rng.integers(1, 5))
        q, keys, sink = rng.normal(size=(HEADS, DIM)), rng.normal(size=(count, DIM)), rng.normal(size=HEADS)
        owner = rng.integers(0, parts, count)  # some parts stay empty
        expected = attend(q, keys, SCALE, sink)
        for holder in range(parts + 1):
            split = [attend(q, keys[owner == p], SCALE, sink if p == holder else None) for p in range(parts)]
            if holder == parts:
                split.append((np.zeros((HEADS, DIM)), sink))
            for got, wanted in zip(join(split), expected, strict=True):
                assert np.abs(got - wanted).max() <= EQUAL
    out, lse = join([attend(q, keys[:0], SCALE), attend(q, keys[:0], SCALE)])
    assert (out == 0).all() and (lse == -np.inf).all()


@pytest.mark.parametrize("size", [None, 128, 3])
def test_a_key_or_the_sink_in_both_halves_is_seen(size):
    for kind, prefix in itertools.product(shapes.KINDS, (2, 130)):
        tree = shapes.tree(kind, 8, prefix, np.random.default_rng(1))
        drawn, node = Drawn(tree, 2), 1
        own = columns(tree, node, size)
        expected = drawn.softmax(node, own)
        for overlap, left_sink, right_sink, equal in (
            (0, drawn.sink, None, True),
            (0, None, drawn.sink, True),
            (1, drawn.sink, None, False),
            (0, drawn.sink, drawn.sink, False),
            (0, None, None, False),
        ):
            left = attend(drawn.q[node], drawn.keys[own[: 1 + overlap]], SCALE, left_sink)
            right = attend(drawn.q[node], drawn.keys[own[1:]], SCALE, right_sink)
            difference = np.abs(join([left, right])[0] - expected).max()
            assert difference <= EQUAL if equal else difference > FAR, (kind, prefix, overlap)


def by_rows(tree: Tree, node: int, size: int) -> list[int]:
    """The fault: the window counts rows of the batch, as if node j stood at position P + j."""
    return [c for c in columns(tree, node) if c > tree.prefix + node - size]


def test_a_window_counted_by_rows_is_right_for_chains_only():
    for kind, size in itertools.product(shapes.KINDS, (3, 128)):
        tree = shapes.tree(kind, 9, 140, np.random.default_rng(3))
        drawn = Drawn(tree, 4)
        wrong = [v for v in range(tree.n) if by_rows(tree, v, size) != columns(tree, v, size)]
        assert bool(wrong) == (kind != "chain"), (kind, size)
        for node in wrong:
            fault = drawn.softmax(node, by_rows(tree, node, size))
            assert np.abs(fault - drawn.softmax(node, columns(tree, node, size))).max() > FAR


@pytest.mark.parametrize("start_of", ["root", "deepest"])
def test_one_shared_pass_over_the_prefix_holds_without_a_window_only(start_of, monkeypatch):
    """All rows get the prefix bounds of one of them; rows of that depth stay right, the others do not."""
    tree = shapes.tree("comb", 9, 140, np.random.default_rng(5))
    drawn, bounds = Drawn(tree, 6), cascade.prefix_bounds
    depths = tree.depths()
    shared = tree.prefix + (0 if start_of == "root" else max(depths))
    monkeypatch.setattr(cascade, "prefix_bounds", lambda position, prefix, size: bounds(shared, prefix, size))
    for size in (None, 128):
        output = drawn.cascaded(tree, size)
        for node in range(tree.n):
            difference = np.abs(output[node] - drawn.softmax(node, columns(tree, node, size))).max()
            right = size is None or tree.prefix + depths[node] == shared
            assert difference <= EQUAL if right else difference > FAR, (size, node)
