"""What a row of a tree sees, from the definition: the prefix and its own path, and of these the latest positions.

A *column* names a token that a row may see: column c < P is position c of the committed prefix, column P + j is node j.
Columns of nodes are not positions: siblings share one. A window counts positions.
"""

from __future__ import annotations

from dsv4_npu_tree.reference.tree import Tree


def window(position: int, size: int) -> range:
    """Positions in the sliding window of a query; the query's own position is the last of `size`."""
    return range(max(0, position - size + 1), position + 1)


def closed_blocks(position: int, ratio: int) -> int:
    """How many compressed entries a query sees: a block as soon as its last position is not after the query."""
    return (position + 1) // ratio


def columns(tree: Tree, node: int, size: int | None = None) -> list[int]:
    """Columns that `node` sees in a full layer, or in a layer with a window of `size`; none if it hangs on nothing."""
    path = tree.path(node)
    if not path:
        return []
    by_position = [*range(tree.prefix), *(tree.prefix + above for above in path)]
    seen = range(len(by_position)) if size is None else window(len(by_position) - 1, size)
    return [by_position[position] for position in seen]
