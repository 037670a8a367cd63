"""Attention masks of a topology in upstream's three layouts, against the oracle's visibility."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from generators import Case, encode
from test_tree_build import fixture

from dsv4_npu_tree.tree.build import TreeMaskMode, tree_mask


@pytest.mark.parametrize("n", [2, 8, 9, 16, 17, 32])
def test_masks(n):
    rng = np.random.default_rng(n)
    children = [[] for _ in range(n)]
    depth = [0] * n
    for node in range(1, n):  # level order needs non-decreasing parents
        low = max((p for p, below in enumerate(children) if below), default=0)
        options = [p for p in range(low, node) if depth[p] < 16 and len(children[p]) < 16]
        parent = int(rng.choice(options[:3]))
        children[parent].append(node)
        depth[node] = depth[parent] + 1
    parent_list, selected = encode(children, topk=16, steps=max(depth))
    made = Case(16, max(depth), n, n - 1, [parent_list] * 2, [selected] * 2, [[0.1] * (n - 1)] * 2, [5, 2])
    topology = made.topology()
    seen = [tree.visibility() for tree in made.trees()]
    assert tree_mask(topology, TreeMaskMode.QLEN_ONLY).tolist() == [bool(x) for square in seen for x in square.ravel()]
    full = np.concatenate([np.pad(s, ((0, 0), (p, 0)), constant_values=True).ravel() for s, p in zip(seen, (5, 2))])
    assert tree_mask(topology, TreeMaskMode.FULL_MASK, 7).tolist() == full.tolist()
    packed = tree_mask(topology, TreeMaskMode.QLEN_ONLY_BITPACKING)
    assert packed.dtype == (torch.uint8 if n <= 8 else torch.uint16 if n <= 16 else torch.uint32)
    words = packed.to(torch.int64).tolist()
    assert words == [sum(1 << j for j in np.flatnonzero(row)) for square in seen for row in square]


def test_mask_of_an_inert_row_is_never_empty_and_misuse_is_named():
    topology = fixture([[0, 2, 4]], [5]).topology()
    assert tree_mask(topology, TreeMaskMode.QLEN_ONLY).view(4, 4)[3].tolist() == [False, False, False, True]
    with pytest.raises(ValueError, match="sum to 5"):
        tree_mask(topology, TreeMaskMode.FULL_MASK, 6)
    with pytest.raises(ValueError, match="mode 7"):
        tree_mask(topology, 7)
    big = Case(8, 2, 40, 39, [list(range(-1, 8))], [list(range(39))], [[0.1] * 39], [5]).topology()
    with pytest.raises(ValueError, match="=40 does not fit"):
        tree_mask(big, TreeMaskMode.QLEN_ONLY_BITPACKING)
