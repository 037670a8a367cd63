"""tree_build against the oracle, against upstream's Triton kernel, and against inputs no draft should give."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from generators import BATCHES, BROKEN_KINDS, VALID_KINDS, Case, case, encode
from hypothesis import given, settings
from hypothesis import strategies as st
from probes import NoHostRead, interpreted

from dsv4_npu_tree.ops import tree_build as op
from dsv4_npu_tree.reference import tree as oracle
from dsv4_npu_tree.tree.build import TreeMaskMode, build, tree_mask

FIXTURE_PARENTS = [-1, 0, 1]  # topk 2, depth 2: ids 0,1 at depth 1, ids 2,3 under 0, ids 4,5 under 1


def fixture(selected: list[list[int]], seq_lens: list[int]) -> Case:
    bs = len(selected)
    return Case(2, 2, 4, 3, [FIXTURE_PARENTS] * bs, selected, [[0.5, 0.3, 0.2]] * bs, seq_lens)


def assert_is(topology, trees: list[oracle.Tree], max_branches: int) -> None:
    """Every output of the op, request by request, against the oracle's trees."""
    n, steps = topology.n, topology.steps
    assert topology.positions.dtype == torch.int64 and topology.parent.dtype == torch.int32
    assert topology.positions.tolist() == [p for tree in trees for p in tree.positions()]
    assert topology.retrieve_index.tolist() == [[b * n + i for i in range(n)] for b in range(len(trees))]
    for b, tree in enumerate(trees):
        assert topology.parent[b].tolist() == tree.parents()
        assert topology.depth[b].tolist() == tree.depths()
        assert topology.retrieve_next_token[b].tolist() == tree.next_token()
        assert topology.retrieve_next_sibling[b].tolist() == tree.next_sibling()
        assert topology.ancestors[b].tolist() == tree.bitmasks()
        padded = [path + [-1] * (steps + 1 - len(path)) for path in tree.branches()]
        padded += [[-1] * (steps + 1)] * (max_branches - len(padded))
        assert topology.branch_table[b].tolist() == padded
        assert topology.home_branch[b].tolist() == tree.home_branches()
        assert topology.paths(b) == tree.branches()
        assert all(topology.children(b, v) == tree.children[v] for v in range(n))


@pytest.mark.parametrize("kind", VALID_KINDS + BROKEN_KINDS)
def test_equals_the_oracle(kind):
    rng = np.random.default_rng(sum(map(ord, kind)))
    for bs in BATCHES * 6 + (33,) * 6:
        made = case(rng, kind, bs)
        assert_is(made.topology(), made.trees(), made.max_branches)


def test_broken_kinds_really_break_and_valid_kinds_do_not():
    rng = np.random.default_rng(5)
    for kind in VALID_KINDS:
        made = case(rng, kind, 33)
        made.max_branches = made.n - 1
        assert all(all(tree.alive) for tree in made.trees()), kind
    for kind in BROKEN_KINDS:
        inert = sum(not all(tree.alive) for tree in (t for _ in range(8) for t in case(rng, kind, 33).trees()))
        assert inert > 100, kind


def test_fixtures_of_the_field():
    one = fixture([[0, 1, 4]], [100]).topology()
    assert one.retrieve_next_token.tolist() == [[1, -1, 3, -1]]
    assert one.retrieve_next_sibling.tolist() == [[-1, 2, -1, -1]]
    assert one.positions.tolist() == [100, 101, 101, 102]
    assert tree_mask(one, TreeMaskMode.QLEN_ONLY).view(4, 4).int().tolist() == [
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [1, 0, 1, 0],
        [1, 0, 1, 1],
    ]
    # id 4's parent is not selected in request 0 and is selected in request 1
    neighbour = fixture([[0, 2, 4], [1, 4, 5]], [5, 7]).topology()
    assert neighbour.parent.tolist() == [[-1, 0, 1, -2], [-1, 0, 1, 1]]
    assert neighbour.ancestors[0].tolist() == [1, 3, 7, 0]
    assert neighbour.positions[:4].tolist() == [5, 6, 7, 5]
    # the shipped kernel never returns from this one
    endless = fixture([[0, 2, 4], [0, 4, 5]], [5, 7]).topology()
    assert endless.parent.tolist() == [[-1, 0, 1, -2], [-1, 0, -2, -2]]
    assert endless.paths(1) == [[0, 1]]


@pytest.mark.parametrize("kind", VALID_KINDS)
@pytest.mark.parametrize("mode", [TreeMaskMode.QLEN_ONLY, TreeMaskMode.FULL_MASK])
def test_equals_upstreams_triton_kernel_on_valid_trees(kind, mode):
    spec_tree = pytest.importorskip("sglang.kernels.ops.speculative.spec_tree")
    kernel = interpreted(spec_tree.sgl_build_tree_kernel_efficient_triton)
    rng = np.random.default_rng(int(mode))
    done = 0
    while done < 4:
        made = case(rng, kind, 3)
        if made.n > 12:
            continue
        done += 1
        made.seq_lens = [int(s) for s in rng.integers(1, 9, 3)]
        made.max_branches = made.n - 1
        topology = made.topology()
        parent_list, selected, _, seq_lens = made.tensors()
        n, prefix = made.n, sum(made.seq_lens)
        links = torch.full((3, 3, n), -1)
        positions = torch.empty(3 * n, dtype=torch.int64)
        mask = torch.ones(3 * n * n + (prefix * n if mode == TreeMaskMode.FULL_MASK else 0), dtype=torch.bool)
        kernel[(3,)](
            parent_list,
            selected,
            seq_lens,
            seq_lens.cumsum(0) - seq_lens,
            mask,
            positions,
            *links,
            topk=made.topk,
            depth=made.steps,
            draft_token_num=n,
            tree_mask_mode=int(mode),
            batch_size=3,
            parent_list_stride=parent_list.stride(0),
            selected_index_stride=selected.stride(0),
        )
        assert torch.equal(links[0], topology.retrieve_index)
        assert torch.equal(links[1], topology.retrieve_next_token)
        assert torch.equal(links[2], topology.retrieve_next_sibling)
        assert torch.equal(positions, topology.positions)
        assert torch.equal(mask, tree_mask(topology, mode, prefix if mode == TreeMaskMode.FULL_MASK else None))


def test_reads_what_upstreams_draft_writes():
    """The candidate ids of organize_draft_results, with the beams of select_top_k_tokens, name the true parents."""
    eagle_utils = pytest.importorskip("sglang.srt.speculative.eagle_utils")
    torch.manual_seed(0)
    bs, topk, steps, n = 5, 3, 4, 10
    scores_list, tokens_list, parents_list = [], [], []
    beam_scores = beam_paths = None
    paths: list[list[tuple]] = [[] for _ in range(bs)]  # by candidate id: tokens from the root
    for step in range(steps):
        if step == 0:
            scores = torch.rand(bs, 1, topk).sort(-1, descending=True).values
            tokens = torch.randint(0, 10**6, (bs, topk))
            parents = torch.arange(-1, topk).repeat(bs, 1)
            chosen = torch.arange(topk).repeat(bs, 1)
            histories = [[()] * topk for _ in range(bs)]
        else:
            scores = beam_scores[:, :, None] * torch.rand(bs, topk, topk) * 0.99
            tokens = torch.randint(0, 10**6, (bs, topk * topk))
            top = torch.topk(scores.flatten(1), topk)
            chosen, base = top.indices, topk * topk * (step - 1) + topk
            parents = chosen + base
            histories = [[beam_paths[b][c // topk] for c in range(topk * topk)] for b in range(bs)]
        for b in range(bs):
            paths[b] += [(*histories[b][c], int(tokens[b, c])) for c in range(tokens.shape[1])]
        offset = len(paths[0]) - tokens.shape[1]
        beam_paths = [[paths[b][offset + int(c)] for c in chosen[b]] for b in range(bs)]
        beam_scores = scores.flatten(1).gather(1, chosen)
        scores_list.append(scores)
        tokens_list.append(tokens)
        parents_list.append(parents)
    parent_list, selected, draft_tokens = eagle_utils.organize_draft_results(scores_list, tokens_list, parents_list, n)
    kept = torch.cat([s.flatten(1) for s in scores_list], 1).gather(1, selected)
    topology = build(parent_list, selected, kept, torch.full((bs,), 9), topk=topk, steps=steps, num_draft_tokens=n)
    assert (topology.parent != op.INERT).all()
    for b in range(bs):
        token = [None, *draft_tokens[b].tolist()]
        for path in topology.paths(b):
            leaf = path[-1]
            assert tuple(token[v] for v in path[1:]) == paths[b][int(selected[b, leaf - 1])]


def test_a_request_does_not_depend_on_its_batch():
    rng = np.random.default_rng(11)
    for kind in BROKEN_KINDS:
        made = case(rng, kind, 33)
        whole = made.topology()
        for b in (0, 7, 32):
            rows = [made.parent_list[b : b + 1], made.selected[b : b + 1], made.scores[b : b + 1]]
            alone = Case(made.topk, made.steps, made.n, made.max_branches, *rows, made.seq_lens[b : b + 1]).topology()
            for name in ("parent", "depth", "ancestors", "branch_table", "home_branch", "retrieve_next_token"):
                assert torch.equal(getattr(alone, name)[0], getattr(whole, name)[b]), (kind, b, name)


def test_lowest_leaves_go_first_and_parents_may_follow():
    # root with children 1, 2, 3; node 4 under 1
    parent_list, selected = encode([[1, 2, 3], [4], [], [], []], topk=3, steps=2)
    scores = [0.3, 0.5, 0.4, 0.1]
    kept = {
        branches: Case(3, 2, 5, branches, [parent_list], [selected], [scores], [8]).topology().paths(0)
        for branches in (1, 2, 3, 4)
    }
    assert kept[4] == kept[3] == [[0, 2], [0, 3], [0, 1, 4]]
    assert kept[2] == [[0, 2], [0, 3]]  # 4 (0.1) leaves three leaves, so 1 (0.3) goes too
    assert kept[1] == [[0, 2]]


def test_ties_and_unusable_scores():
    parent_list, selected = encode([[1, 2, 3, 4], [], [], [], []], topk=4, steps=1)
    for scores, survivor in (
        ([0.2, 0.2, 0.2, 0.2], 1),
        ([float("nan"), 0.1, float("inf"), float("-inf")], 2),
        ([float("nan"), float("inf"), float("-inf"), float("nan")], 1),
    ):
        assert Case(4, 1, 5, 1, [parent_list], [selected], [scores], [8]).topology().paths(0) == [[0, survivor]]


def test_root_alone_is_a_tree():
    topology = Case(2, 2, 4, 3, [FIXTURE_PARENTS], [[-5, 77, 99]], [[0.1] * 3], [6]).topology()
    assert topology.paths(0) == [[0]]
    assert topology.parent.tolist() == [[-1, -2, -2, -2]]
    assert topology.positions.tolist() == [6, 6, 6, 6]
    assert topology.home_branch.tolist() == [[0, -1, -1, -1]]


def test_a_path_longer_than_steps_is_cut():
    # forged parents inside one level: 2 under 1 under 0, but only one step was drafted beyond the first
    topology = Case(1, 2, 4, 3, [[-1, 0]], [[0, 1, 1]], [[0.1] * 3], [6]).topology()
    assert topology.parent.tolist() == [[-1, 0, 1, 1]]
    deep = Case(2, 2, 4, 3, [[-1, 0, 2]], [[0, 2, 4]], [[0.1] * 3], [6]).topology()
    assert deep.parent.tolist() == [[-1, 0, 1, -2]]


def test_largest_tree_uses_the_sign_bit():
    parent_list, selected = encode([list(range(1, 17)), *([] for _ in range(16))], topk=16, steps=1)
    assert Case(16, 1, 17, 16, [parent_list], [selected], [[0.1] * 16], [1]).topology().branch_table.shape == (1, 16, 2)
    rng = np.random.default_rng(2)
    made = next(made for made in iter(lambda: case(rng, "drafted", 3), None) if made.n == 64)
    made.max_branches = 63
    topology = made.topology()
    assert (topology.ancestors[:, 63] < 0).all()
    assert_is(topology, made.trees(), 63)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_integer_widths_agree(dtype):
    rng = np.random.default_rng(3)
    for kind in ("drafted", "garbage"):
        made = case(rng, kind, 3)
        assert_is(made.topology(dtype), made.trees(), made.max_branches)


@given(
    st.integers(1, 4).flatmap(
        lambda topk: st.integers(1, 4).flatmap(
            lambda steps: st.tuples(
                st.just(topk),
                st.just(steps),
                st.integers(1, 12),
                st.lists(
                    st.integers(-2, topk + steps * topk * topk),
                    min_size=topk * (steps - 1) + 1,
                    max_size=topk * (steps - 1) + 1,
                ),
                st.lists(
                    st.tuples(st.integers(-2, topk + steps * topk * topk), st.floats(width=32)),
                    min_size=1,
                    max_size=12,
                ),
            )
        )
    )
)
@settings(max_examples=250, deadline=None, derandomize=True)
def test_any_input_gives_a_tree(drawn):
    topk, steps, branches, parent_list, nodes = drawn
    selected, scores = zip(*nodes, strict=True)
    made = Case(
        topk, steps, len(nodes) + 1, branches, [parent_list if steps > 1 else []], [list(selected)], [list(scores)], [3]
    )
    assert_is(made.topology(), made.trees(), branches)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"topk": 17}, "topk=17 is outside"),
        ({"steps": 0}, "steps=0 is outside"),
        ({"num_draft_tokens": 65}, "num_draft_tokens=65 is outside"),
        ({"num_draft_tokens": 5}, r"selected_index has shape \(1, 3\), expected \(1, 4\)"),
        ({"max_branches": 0}, "max_branches=0 is outside"),
        ({"scores": torch.ones(1, 3, dtype=torch.float64)}, "scores has dtype torch.float64"),
        ({"seq_lens": torch.ones(1)}, "seq_lens has dtype torch.float32"),
        ({"seq_lens": torch.ones(1, 1, dtype=torch.int64)}, "seq_lens has shape"),
        ({"parent_list": torch.ones(1, 4, dtype=torch.int64)}, "parent_list has shape"),
    ],
)
def test_boundary_names_value_and_fix(change, message):
    names = ("parent_list", "selected_index", "scores", "seq_lens")
    arguments = dict(zip(names, fixture([[0, 1, 4]], [100]).tensors(), strict=True))
    arguments |= {"topk": 2, "steps": 2, "num_draft_tokens": 4, "max_branches": 3} | change
    with pytest.raises(ValueError, match=message):
        op.tree_build(**arguments)


def test_never_waits_for_the_device():
    made = case(np.random.default_rng(4), "garbage", 3)
    with NoHostRead():
        op._tree_build(*made.tensors(), made.topk, made.steps, made.n, made.max_branches)
    with pytest.raises(AssertionError, match="waits"), NoHostRead():
        torch.ones(1).item()
