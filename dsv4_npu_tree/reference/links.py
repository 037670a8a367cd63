"""The links of a tree, first child and next sibling, walked as acceptance walks them."""

from __future__ import annotations

from collections.abc import Sequence


def paths(next_token: Sequence[int], next_sibling: Sequence[int]) -> dict[int, list[int]]:
    """Path from the root to every node that the links reach; -1 ends a list. Other nodes are never accepted."""
    found: dict[int, list[int]] = {}
    pending: list[tuple[int, list[int]]] = [(0, [])]
    while pending:
        node, above = pending.pop()
        found[node] = [*above, node]
        child = next_token[node]
        while child != -1:
            pending.append((child, found[node]))
            child = next_sibling[child]
    return found
