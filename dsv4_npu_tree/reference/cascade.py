"""Cascade attention over a tree: the prefix and the path as two normalised attentions, joined by their log-sum-exp.

In a full layer every row sees the whole prefix, so one pass over it serves all rows. In a layer with a window that no
longer holds: the row at depth d sees the prefix from P + d - size + 1 on, so each depth starts elsewhere. A common pass
from the root's start shows the deeper rows keys that have left their window, a pass from the deepest row's start hides
keys from the others, and a softmax cannot give back what it has summed. So the prefix has bounds per row here, which
rows of one depth share; a window may even have left the prefix altogether, and part of the path.

The halves must not overlap, or the keys in both count twice. The sink is a third part of its own, and counts once.
"""

from __future__ import annotations

import numpy as np

from dsv4_npu_tree.reference.attention import Part, attend, join
from dsv4_npu_tree.reference.tree import Tree
from dsv4_npu_tree.reference.visibility import window


def prefix_bounds(position: int, prefix: int, size: int | None = None) -> range:
    """Prefix positions that a row at `position` sees."""
    first = 0 if size is None else window(position, size).start
    return range(min(first, prefix), prefix)


def attention(
    q: np.ndarray,
    prefix_keys: np.ndarray,
    node_keys: np.ndarray,
    tree: Tree,
    scale: float,
    sink: np.ndarray,
    size: int | None = None,
) -> np.ndarray:
    """Output [n, H, D] of q [n, H, D] over prefix_keys [P, D] and node_keys [n, D]; 0 for a node on nothing."""
    n, heads, _ = q.shape
    live = [node for node in range(n) if tree.alive[node]]
    positions = tree.positions()
    bounds = {node: prefix_bounds(positions[node], tree.prefix, size) for node in live}
    above: dict[int, Part] = {}
    for seen in set(bounds.values()):  # one pass for all rows with these bounds
        rows = [node for node in live if bounds[node] == seen]
        out, lse = attend(q[rows].reshape(len(rows) * heads, -1), prefix_keys[seen.start : seen.stop], scale)
        above |= zip(rows, zip(out.reshape(len(rows), heads, -1), lse.reshape(len(rows), heads)))
    result = np.zeros_like(q)
    for node in live:
        path = tree.path(node)[0 if size is None else -size :]
        result[node], _ = join([above[node], attend(q[node], node_keys[path], scale), (result[node], sink)])
    return result
