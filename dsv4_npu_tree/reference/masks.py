"""Tree masks in the layouts of SGLang's `build_tree_kernel_efficient`, written from trees and read back as columns.

All trees of a batch have n nodes; prefixes differ. Upstream leaves the row of a node that hangs on nothing undefined;
here it shows itself. Masks know no window: a reader with one compares positions, see `within`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dsv4_npu_tree.reference.tree import Tree

Columns = list[list[list[int]]]  # request, row, columns in ascending order


def square(tree: Tree) -> np.ndarray:
    return tree.visibility() | np.eye(tree.n, dtype=bool)


def full(trees: Sequence[Tree]) -> np.ndarray:
    """FULL_MASK, bool [sum n * (P + n)]: per request n rows over the prefix, all True, and the nodes."""
    rows = [np.pad(square(tree), ((0, 0), (tree.prefix, 0)), constant_values=True).ravel() for tree in trees]
    return np.concatenate(rows)


def qlen(trees: Sequence[Tree]) -> np.ndarray:
    """QLEN_ONLY, bool [bs * n * n]: the nodes alone."""
    return np.concatenate([square(tree).ravel() for tree in trees])


def packed(trees: Sequence[Tree]) -> np.ndarray:
    """QLEN_ONLY_BITPACKING, uint8 / uint16 / uint32 [bs * n] for n up to 8 / 16 / 32: bit j of a row is node j."""
    n = trees[0].n
    word = np.uint8 if n <= 8 else np.uint16 if n <= 16 else np.uint32
    return np.array([sum(1 << int(j) for j in np.flatnonzero(row)) for t in trees for row in square(t)], dtype=word)


def read_full(mask: np.ndarray, prefixes: Sequence[int], n: int) -> Columns:
    read, offset = [], 0
    for prefix in prefixes:
        size = n * (prefix + n)
        rows = mask[offset : offset + size].reshape(n, prefix + n)
        read.append([np.flatnonzero(row).tolist() for row in rows])
        offset += size
    return read


def read_qlen(mask: np.ndarray, prefixes: Sequence[int], n: int) -> Columns:
    squares = mask.reshape(len(prefixes), n, n)
    return [
        [[*range(prefix), *(prefix + int(j) for j in np.flatnonzero(row))] for row in rows]
        for prefix, rows in zip(prefixes, squares, strict=True)
    ]


def read_packed(words: np.ndarray, prefixes: Sequence[int], n: int) -> Columns:
    bits = np.array([[int(word) >> j & 1 for j in range(n)] for word in words], dtype=bool)
    return read_qlen(bits, prefixes, n)


def within(columns: Sequence[int], prefix: int, positions: Sequence[int], row: int, size: int) -> list[int]:
    """Those columns of `row` whose positions are in its window; `positions` [n] are those of the nodes."""
    first = positions[row] - size + 1
    return [c for c in columns if (c if c < prefix else positions[c - prefix]) >= first]
