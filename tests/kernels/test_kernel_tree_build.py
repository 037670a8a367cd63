"""The tree_build kernel against the oracle of reference/tree.py, which shares no code with it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from devices import Device, Host
from generators import BROKEN_KINDS, VALID_KINDS, Case, case, encode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsv4_npu_tree.reference import tree as oracle

NAMES = (
    "positions",
    "retrieve_index",
    "retrieve_next_token",
    "retrieve_next_sibling",
    "parent",
    "depth",
    "ancestors",
    "branch_table",
    "home_branch",
)
FIXTURE_PARENTS = [-1, 0, 1]  # topk 2, depth 2: ids 0,1 at depth 1, ids 2,3 under 0, ids 4,5 under 1


def shape_of(made: Case) -> tuple[int, int, int, int]:
    return made.topk, made.steps, made.n, made.max_branches


def expected(made: Case, trees: list[oracle.Tree]) -> tuple[torch.Tensor, ...]:
    bs, n, columns = made.bs, made.n, made.steps + 1

    def table(rows: list, dtype: torch.dtype, *shape: int) -> torch.Tensor:
        return torch.tensor(rows, dtype=dtype).reshape(*shape)

    def branches(tree: oracle.Tree) -> list[list[int]]:
        paths = [path + [-1] * (columns - len(path)) for path in tree.branches()]
        return paths + [[-1] * columns] * (made.max_branches - len(paths))

    return (
        table([tree.positions() for tree in trees], torch.int64, bs * n),
        table([[b * n + i for i in range(n)] for b in range(bs)], torch.int64, bs, n),
        table([tree.next_token() for tree in trees], torch.int64, bs, n),
        table([tree.next_sibling() for tree in trees], torch.int64, bs, n),
        table([tree.parents() for tree in trees], torch.int32, bs, n),
        table([tree.depths() for tree in trees], torch.int32, bs, n),
        table([tree.bitmasks() for tree in trees], torch.int64, bs, n),
        table([branches(tree) for tree in trees], torch.int32, bs, made.max_branches, columns),
        table([tree.home_branches() for tree in trees], torch.int32, bs, n),
    )


def assert_is_the_oracles(device: Device, made: Case, dtype: torch.dtype = torch.int64) -> None:
    outputs = device.tree_build(made.tensors(dtype), *shape_of(made))
    for name, got, want in zip(NAMES, outputs, expected(made, made.trees()), strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape, name
        assert torch.equal(got, want), f"{name}\n{got}\n{want}\n{made}"


@pytest.mark.parametrize("kind", VALID_KINDS + BROKEN_KINDS)
def test_random_trees(device: Device, kind: str) -> None:
    rng = np.random.default_rng(sum(map(ord, kind)))
    for turn, bs in enumerate((0, 1, 3, 33) * 5 + (33,) * 4):
        assert_is_the_oracles(device, case(rng, kind, bs), torch.int32 if turn % 3 == 0 else torch.int64)


IDS = st.integers(-2, 70) | st.sampled_from([-(2**63), -(2**31), 2**31 - 1, 2**31, 2**63 - 1])


@st.composite
def arbitrary(draw: st.DrawFn) -> Case:
    topk, steps, n = draw(st.integers(1, 5)), draw(st.integers(1, 4)), draw(st.integers(2, 14))
    bs, width = draw(st.integers(1, 3)), topk * (steps - 1) + 1 if steps > 1 else 0
    made = Case(topk, steps, n, draw(st.integers(1, 13)))
    for _ in range(bs):
        made.parent_list.append(draw(st.lists(IDS, min_size=width, max_size=width)))
        made.selected.append(draw(st.lists(IDS, min_size=n - 1, max_size=n - 1)))
        made.scores.append(draw(st.lists(st.floats(width=32), min_size=n - 1, max_size=n - 1)))
        made.seq_lens.append(draw(st.integers(0, 1 << 20)))
    return made


@given(made=arbitrary())
@settings(
    max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_input_gives_a_tree(device: Device, made: Case) -> None:
    assert_is_the_oracles(device, made)


@pytest.mark.parametrize("shape", [(16, 16, 64, 64), (16, 16, 64, 1), (1, 16, 17, 1), (16, 1, 17, 16), (8, 5, 2, 1)])
@pytest.mark.parametrize(("bs", "cores"), [(1, 1), (50, 1), (50, 8)])
def test_limits(device: Device, shape: tuple[int, int, int, int], bs: int, cores: int) -> None:
    """One core takes 50 requests of the largest shapes in several groups, eight cores in one each."""
    device.cores = cores
    topk, steps, n, branches = shape
    rng = np.random.default_rng(n + branches)
    pool = topk + (steps - 1) * topk * topk
    made = Case(topk, steps, n, branches, seq_lens=[1 << 20] * bs)
    for _ in range(bs):
        beams = [-1, *range(pool)][: topk * (steps - 1) + 1] if steps > 1 else []
        made.parent_list.append(beams)
        made.selected.append(sorted(int(c) for c in rng.choice(pool, n - 1, replace=False)))
        made.scores.append([float(s) for s in rng.random(n - 1, dtype=np.float32)])
    assert_is_the_oracles(device, made)


@pytest.mark.parametrize("cores", [1, 8])
def test_most_requests(device: Device, cores: int) -> None:
    device.cores = cores
    assert_is_the_oracles(device, case(np.random.default_rng(8), "garbage", 1024))


def fixture(selected: list[list[int]], seq_lens: list[int]) -> Case:
    bs = len(selected)
    return Case(2, 2, 4, 3, [FIXTURE_PARENTS] * bs, selected, [[0.5, 0.3, 0.2]] * bs, seq_lens)


def test_fixtures_of_the_field(device: Device) -> None:
    one = fixture([[0, 1, 4]], [100])
    outputs = dict(zip(NAMES, device.tree_build(one.tensors(), *shape_of(one))))
    assert outputs["retrieve_next_token"].tolist() == [[1, -1, 3, -1]]
    assert outputs["retrieve_next_sibling"].tolist() == [[-1, 2, -1, -1]]
    assert outputs["positions"].tolist() == [100, 101, 101, 102]
    # id 4's parent is not selected in request 0 and is selected in request 1
    neighbour = fixture([[0, 2, 4], [1, 4, 5]], [5, 7])
    outputs = dict(zip(NAMES, device.tree_build(neighbour.tensors(), *shape_of(neighbour))))
    assert outputs["parent"].tolist() == [[-1, 0, 1, -2], [-1, 0, 1, 1]]
    assert outputs["ancestors"][0].tolist() == [1, 3, 7, 0]
    # the kernel of sgl-kernel-npu never returns from this one
    endless = fixture([[0, 2, 4], [0, 4, 5]], [5, 7])
    outputs = dict(zip(NAMES, device.tree_build(endless.tensors(), *shape_of(endless))))
    assert outputs["parent"].tolist() == [[-1, 0, 1, -2], [-1, 0, -2, -2]]


def test_ties_and_unusable_scores(device: Device) -> None:
    parent_list, selected = encode([[1, 2, 3, 4], [], [], [], []], topk=4, steps=1)
    nan, inf = float("nan"), float("inf")
    tiny = float(np.float32(1e-45))
    for scores, survivor in (
        ([0.2, 0.2, 0.2, 0.2], 1),
        ([nan, 0.1, inf, -inf], 2),
        ([nan, inf, -inf, nan], 1),
        ([nan, -3.4028234663852886e38, -inf, inf], 2),
        ([0.0, -0.0, -0.0, 0.0], 1),
        ([-0.0, tiny, 0.0, -tiny], 2),
        ([-0.5, -0.25, -1.0, -0.25], 2),
    ):
        made = Case(4, 1, 5, 1, [parent_list], [selected], [scores], [8])
        assert made.trees()[0].leaves() == [survivor]
        assert_is_the_oracles(device, made)


def test_every_leaf_may_go_and_parents_follow(device: Device) -> None:
    rng = np.random.default_rng(12)
    for _ in range(60):
        made = case(rng, "drafted", 3)
        assert_is_the_oracles(device, replace(made, max_branches=int(rng.integers(1, 4))))


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((17, 2, 4, 3), "topk=17 is outside 1..16"),
        ((2, 17, 4, 3), "steps=17 is outside 1..16"),
        ((2, 2, 65, 3), "n=65 is outside 2..64"),
        ((2, 2, 4, 65), "max_branches=65 is outside 1..64"),
    ],
)
def test_refused(host: Host, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        host.tree_build(fixture([[0, 1, 4]], [100]).tensors(), *shape)


@pytest.mark.parametrize("branches", ["all", "one"])
def test_work_is_linear_in_nodes(host: Host, branches: str) -> None:
    """An added node costs a bounded number of scalar accesses, no DMA or vector instruction, no scalar GM access."""
    sizes, accesses, fixed = (8, 16, 32, 64), [], set()
    for n in sizes:
        children = [[c for c in range(4 * v + 1, 4 * v + 5) if c < n] for v in range(n)]
        parent_list, selected = encode(children, topk=16, steps=8)
        limit = n - 1 if branches == "all" else 1
        scores = [1 - 0.01 * v for v in range(n - 1)]
        made = Case(16, 8, n, limit, [parent_list], [selected], [scores], [77])
        assert_is_the_oracles(host, made)
        counters = host.library.counters()
        assert counters.scalar_gm_reads == counters.scalar_gm_writes == 0
        accesses.append(counters.scalar_ub_reads + counters.scalar_ub_writes)
        fixed.add((counters.dma_in_instructions, counters.dma_out_instructions, counters.vector_instructions))
    assert fixed == {(4, 9, 7)}
    added = np.diff(accesses) / np.diff(sizes)
    # Pruning takes leaves from a heap of at most n: a logarithm on top.
    assert added.max() < (28 if branches == "all" else 60) and added[-1] < 1.4 * added[0], added
