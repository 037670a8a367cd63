"""Attention masks in upstream's three layouts: of the op and of a topology, against the oracle's visibility."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from generators import Case, encode
from masks import before, mask_of, masked_case, same
from probes import NoHostRead
from test_tree_build import fixture

from dsv4_npu_tree.ops import tree_build as op
from dsv4_npu_tree.ops.tree_mask import TreeMaskMode
from dsv4_npu_tree.tree.build import build, tree_mask


def shape_of(made: Case) -> dict[str, int]:
    return {"topk": made.topk, "steps": made.steps, "num_draft_tokens": made.n, "max_branches": made.max_branches}


@pytest.mark.parametrize("mode", TreeMaskMode)
def test_the_op_writes_the_oracles_mask(mode):
    rng = np.random.default_rng(20 + int(mode))
    for turn, bs in enumerate((0, 1, 3, 33) * 10):
        made = masked_case(rng, bs, mode)
        want = mask_of(made, mode)
        mask = before(want, mode)
        inputs = made.tensors(torch.int32 if turn % 3 == 0 else torch.int64)
        topology = build(*inputs, **shape_of(made), mask=mask, mask_mode=mode)
        assert same(mask, want), made
        assert same(tree_mask(topology, mode), want)
        assert torch.equal(topology.ancestors, made.topology().ancestors)


def test_prefix_columns_stay_and_a_longer_mask_is_taken():
    made = fixture([[0, 1, 4], [1, 4, 5]], [5, 3])
    mask = torch.zeros(4 * (9 + 7) + 11, dtype=torch.bool)
    op.tree_build(*made.tensors(), **shape_of(made), mask=mask, mask_mode=TreeMaskMode.FULL_MASK)
    first, second = mask[:36].view(4, 9), mask[36:64].view(4, 7)
    assert not first[:, :5].any() and not second[:, :3].any() and not mask[64:].any()
    assert first[:, 5:].int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 1, 1]]


@pytest.mark.parametrize("broken", [-5, 20, 1 << 20, 1 << 33, 1 << 62, -(1 << 63)])
@pytest.mark.parametrize("request_", [0, 1, 2])
def test_a_prefix_that_does_not_fit_ends_the_mask(broken, request_):
    made = fixture([[0, 1, 4], [1, 4, 5], [0, 1, 2]], [2, 3, 2])
    want = mask_of(made, TreeMaskMode.FULL_MASK)
    made.seq_lens[request_] = broken
    written = [0, 4 * (2 + 4), 4 * (2 + 4 + 3 + 4)][request_]
    for fill in (True, False):
        mask = torch.full_like(want, fill)
        op.tree_build(*made.tensors(), **shape_of(made), mask=mask, mask_mode=TreeMaskMode.FULL_MASK)
        assert (mask[written:] == fill).all()
        if fill:
            assert torch.equal(mask[:written], want[:written])


def test_a_mask_never_waits_for_the_device():
    for mode in TreeMaskMode:
        made = masked_case(np.random.default_rng(4), 3, mode)
        mask, tensors = before(mask_of(made, mode), mode), made.tensors()
        with NoHostRead():
            op._tree_build(*tensors, **shape_of(made), mask=mask, mask_mode=int(mode))


@pytest.mark.parametrize(
    ("mode", "mask", "message"),
    [
        (1, None, "mask_mode=1 without a mask"),
        (-1, torch.ones(16, dtype=torch.bool), "mask_mode=-1 writes no mask"),
        (3, torch.ones(16, dtype=torch.bool), "mode 3 is unknown"),
        (1, torch.ones(16, dtype=torch.uint8), "mask has dtype torch.uint8, mode 1 of 4 nodes writes torch.bool"),
        (2, torch.ones(4, dtype=torch.uint16), "mask has dtype torch.uint16, mode 2 of 4 nodes writes torch.uint8"),
        (1, torch.ones(17, dtype=torch.bool), "mask has 17 elements, expected 16 for bs=1, n=4"),
        (2, torch.ones(5, dtype=torch.uint8), "mask has 5 elements, expected 4 "),
        (0, torch.ones(15, dtype=torch.bool), r"mask has 15 elements, expected 16 and n\*sum\(seq_lens\) more"),
        (1, torch.ones(16, 2, dtype=torch.bool)[:, 0], "pass a contiguous tensor"),
        (1, torch.ones(16, dtype=torch.bool, device="meta"), "mask is on meta, seq_lens on cpu"),
    ],
)
def test_a_mask_that_cannot_be_written_is_named(mode, mask, message):
    made = fixture([[0, 1, 4]], [3])
    with pytest.raises(ValueError, match=message):
        op.tree_build(*made.tensors(), **shape_of(made), mask=mask, mask_mode=mode)


def test_more_nodes_than_bits_are_named():
    big = Case(8, 2, 40, 39, [list(range(-1, 8))], [list(range(39))], [[0.1] * 39], [5])
    with pytest.raises(ValueError, match="=40 does not fit the 32 bits"):
        op.tree_build(*big.tensors(), **shape_of(big), mask=torch.ones(40, dtype=torch.uint32), mask_mode=2)


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
