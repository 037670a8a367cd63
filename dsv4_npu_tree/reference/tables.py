"""Page tables that make every row a sequence of its own: shared finished pages, then private ones.

The unfinished page of the prefix is copied for each row, and the tokens of its path follow the copy. A row's table and
its length, position + 1, say all that it sees; a window is the last entries of its own sequence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dsv4_npu_tree.reference.tree import Tree
from dsv4_npu_tree.reference.visibility import window


def build(tree: Tree, page: int, free: Iterator[int]) -> tuple[list[list[int]], dict[int, int]]:
    """Page ids of every row, taken from `free`, and the column that each written slot stores."""
    finished = tree.prefix // page
    shared = [next(free) for _ in range(finished)]
    stored = {shared[p // page] * page + p % page: p for p in range(finished * page)}
    rows = []
    for node in range(tree.n):
        private = [*range(finished * page, tree.prefix), *(tree.prefix + above for above in tree.path(node))]
        own = [next(free) for _ in range(-(-len(private) // page))]
        stored |= {own[i // page] * page + i % page: column for i, column in enumerate(private)}
        rows.append(shared + own)
    return rows, stored


def slots(table: Sequence[int], length: int, page: int, size: int | None = None) -> list[int]:
    """Slots that a row of `length` tokens reads, in the order of its positions."""
    seen = range(length) if size is None else window(length - 1, size)
    return [table[position // page] * page + position % page for position in seen]
