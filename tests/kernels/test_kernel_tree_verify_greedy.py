"""The tree_verify_greedy kernel against the oracle's walk, and on links that no builder would give."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from devices import Device, Host
from generators import BROKEN_KINDS, VALID_KINDS, Case, case, encode, tokens_and_target
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsv4_npu_tree.reference import tree as oracle

UNTOUCHED = -7
WIDTHS = (torch.int32, torch.int64)


def outputs(bs: int, n: int, columns: int, dtype: torch.dtype = torch.int32) -> tuple[torch.Tensor, ...]:
    """predicts, accept_index and accept_token_num as a caller prepares them."""
    predicts, count = torch.full((bs * n,), UNTOUCHED, dtype=dtype), torch.full((bs,), UNTOUCHED, dtype=dtype)
    return predicts, torch.full((bs, columns), -1, dtype=dtype), count


def links_of(trees: list[oracle.Tree], n: int) -> tuple[torch.Tensor, ...]:
    rows = [[b * n + i for i in range(n)] for b in range(len(trees))]
    next_token, next_sibling = [tree.next_token() for tree in trees], [tree.next_sibling() for tree in trees]
    return tuple(torch.tensor(x, dtype=torch.int64).reshape(-1, n) for x in (rows, next_token, next_sibling))


def walk(
    device: Device, made: Case, trees: list, tokens: list, target: list, rng: np.random.Generator
) -> tuple[torch.Tensor, ...]:
    """The op on `trees`, each tensor int32 or int64 as `rng` says, target flat or not."""

    def either(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(WIDTHS[rng.integers(2)])

    wanted = torch.tensor(target, dtype=torch.int64).reshape(made.bs, made.n)
    inputs = (torch.tensor(tokens, dtype=torch.int64).reshape(made.bs, made.n), *links_of(trees, made.n), wanted)
    written = outputs(made.bs, made.n, made.steps + 1)
    return device.tree_verify_greedy(*(either(tensor) for tensor in (*written, *inputs)))


def assert_is_the_oracles(result: tuple, trees: list, tokens: list, target: list, columns: int) -> int:
    predicts, accept_index, accept_token_num = result
    accepted = 0
    for b, tree in enumerate(trees):
        path, bonus = oracle.verify_greedy(tree, tokens[b], target[b])
        n = tree.n
        assert accept_index[b].tolist() == [b * n + v for v in path] + [-1] * (columns - len(path))
        assert accept_token_num[b] == len(path) - 1
        row = predicts[b * n : (b + 1) * n].tolist()
        assert row == [target[b][v] if v in path else UNTOUCHED for v in range(n)]
        assert row[path[-1]] == bonus
        accepted += len(path) - 1
    return accepted


@pytest.mark.parametrize("kind", VALID_KINDS + BROKEN_KINDS)
def test_random_trees(device: Device, kind: str) -> None:
    rng = np.random.default_rng(sum(map(ord, kind)))
    accepted = 0
    for bs in (0, 1, 3, 33) * 5 + (33,) * 4:
        made = case(rng, kind, bs)
        trees = made.trees()
        tokens, target = tokens_and_target(rng, trees, made.n, vocabulary=int(rng.choice([2, 6, 1000])))
        result = walk(device, made, trees, tokens, target, rng)
        accepted += assert_is_the_oracles(result, trees, tokens, target, made.steps + 1)
    assert accepted > 100  # the cases reach the deep part of the walk


def test_most_requests(device: Device) -> None:
    rng = np.random.default_rng(1)
    made = case(rng, "drafted", 1024)
    trees = made.trees()
    tokens, target = tokens_and_target(rng, trees, made.n, vocabulary=5)
    assert_is_the_oracles(walk(device, made, trees, tokens, target, rng), trees, tokens, target, made.steps + 1)


def small_tree() -> tuple[Case, list[oracle.Tree]]:
    """Root 9 with children 10 and 20; node 3 (token 30) under node 2."""
    parent_list, selected = encode([[1, 2], [], [3], []], topk=2, steps=2)
    made = Case(2, 2, 4, 3, [parent_list], [selected], [[0.1] * 3], [100])
    return made, made.trees()


@pytest.mark.parametrize(
    ("target", "accept", "predicts"),
    [
        ([20, 99, 30, 40], [0, 2, 3], [20, UNTOUCHED, 30, 40]),  # a chain-only kernel accepts 0 alone
        ([10, 20, 30, 40], [0, 1, -1], [10, 20, UNTOUCHED, UNTOUCHED]),  # and here 0, 1, 2, 3
    ],
)
def test_fixtures_of_the_field(device: Device, target: list, accept: list, predicts: list) -> None:
    made, trees = small_tree()
    result = walk(device, made, trees, [[9, 10, 20, 30]], [target], np.random.default_rng(0))
    assert result[1].tolist() == [accept] and result[0].tolist() == predicts


def test_first_of_equal_siblings_wins(device: Device) -> None:
    made, trees = small_tree()
    result = walk(device, made, trees, [[9, 5, 5, 6]], [[5, 6, 6, 6]], np.random.default_rng(0))
    assert result[1].tolist() == [[0, 1, -1]]


def test_an_inert_node_is_never_accepted(device: Device) -> None:
    made = Case(2, 2, 4, 3, [[-1, 0, 1]] * 2, [[0, 2, 4], [1, 4, 5]], [[0.1] * 3] * 2, [5, 7])
    result = walk(device, made, made.trees(), [[1] * 4] * 2, [[1] * 4] * 2, np.random.default_rng(0))
    assert result[1].tolist() == [[0, 1, 2], [4, 5, 6]]


def test_what_the_walk_does_not_write_stays(device: Device) -> None:
    """Columns behind the path keep the caller's values, in the last request as in the first."""
    made, trees = small_tree()
    links = links_of(trees * 3, 4)
    tokens, target = torch.tensor([[9, 10, 20, 30]] * 3), torch.tensor([[10, 99, 99, 99]] * 3)
    written = torch.arange(100, 112), torch.arange(200, 215).view(3, 5), torch.zeros(3, dtype=torch.int64)
    predicts, accept_index, _ = device.tree_verify_greedy(*written, tokens, *links, target)
    assert accept_index.tolist() == [[b * 4, b * 4 + 1, *range(202 + 5 * b, 205 + 5 * b)] for b in range(3)]
    assert predicts.view(3, 4).tolist() == [[10, 99, 102 + 4 * b, 103 + 4 * b] for b in range(3)]


def plain_walk(n: int, columns: int, b: int, tokens: list, index: list, link: list, sibling: list, target: list):
    """Accepted global rows by column and their count, for any links: at most n-1 of them are followed."""

    def own(node: int) -> bool:
        return b * n <= index[node] < (b + 1) * n

    accepted = {0: index[0]} if own(0) else {}
    wanted = target[min(max(index[0] - b * n, 0), n - 1)]
    count, node = 0, link[0]
    for _ in range(n - 1):
        if not 0 < node < n or count == columns - 1:
            break
        if own(node) and tokens[node] == wanted:
            count += 1
            accepted[count] = index[node]
            wanted = target[index[node] - b * n]
            node = link[node]
        else:
            node = sibling[node]
    return accepted, count


@st.composite
def broken(draw: st.DrawFn) -> tuple:
    bs, n, columns = draw(st.integers(1, 4)), draw(st.integers(1, 9)), draw(st.integers(1, 6))
    link = st.integers(-3, n + 3) | st.sampled_from([-(2**63), 2**63 - 1, 2**32 + 1])
    row = st.integers(-2, bs * n + 2) | st.sampled_from([-(2**63), 2**63 - 1])

    def table(values: st.SearchStrategy) -> list:
        return draw(st.lists(st.lists(values, min_size=n, max_size=n), min_size=bs, max_size=bs))

    index = [[b * n + i for i in range(n)] for b in range(bs)] if draw(st.booleans()) else table(row)
    token = st.integers(0, 1)
    return n, columns, table(token), index, table(link), table(link), table(token)


@given(drawn=broken())
@settings(
    max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_broken_links_stay_inside_the_request_and_end(device: Device, drawn: tuple) -> None:
    n, columns, *tables = drawn
    bs = len(tables[0])
    tensors = [torch.tensor(table, dtype=torch.int64) for table in tables]
    predicts, accept_index, count = device.tree_verify_greedy(*outputs(bs, n, columns, torch.int64), *tensors)
    for b, (tokens, index, link, sibling, target) in enumerate(zip(*tables, strict=True)):
        accepted, accepted_count = plain_walk(n, columns, b, tokens, index, link, sibling, target)
        assert accept_index[b].tolist() == [accepted.get(column, -1) for column in range(columns)]
        assert count[b] == accepted_count
        rows = {row - b * n for row in accepted.values()}
        assert predicts[b * n : (b + 1) * n].tolist() == [target[v] if v in rows else UNTOUCHED for v in range(n)]


def test_endless_cycles_end(device: Device) -> None:
    index = torch.arange(3).view(1, 3)
    for next_token, next_sibling in (([1, 1, -1], [-1, -1, -1]), ([1, 2, 1], [-1, -1, -1]), ([1, -1, -1], [-1, 2, 1])):
        tokens = torch.tensor([[1, 1, 1]]) if next_sibling[1] < 0 else torch.tensor([[1, 8, 9]])
        links = torch.tensor([next_token]), torch.tensor([next_sibling])
        *_, count = device.tree_verify_greedy(*outputs(1, 3, 40), tokens, index, *links, torch.ones_like(index))
        assert 0 <= count[0] <= 2


@pytest.mark.parametrize("columns", [1, 2, 3, 5, 9, 1024])
def test_depth_is_limited_by_the_columns(device: Device, columns: int) -> None:
    trees = Case(1, 4, 5, 1, [[-1, 0, 1, 2]], [[0, 1, 2, 3]], [[0.5] * 4], [1]).trees()
    same = torch.ones(1, 5, dtype=torch.int64)
    predicts, accept_index, count = device.tree_verify_greedy(*outputs(1, 5, columns), same, *links_of(trees, 5), same)
    accepted = min(columns, 5)
    assert accept_index.tolist() == [list(range(accepted)) + [-1] * (columns - accepted)]
    assert count.tolist() == [accepted - 1] and (predicts == 1).sum() == accepted


@pytest.mark.parametrize(
    ("n", "columns", "message"), [(65, 4, "n=65 is outside"), (4, 1025, "columns=1025 is outside")]
)
def test_refused(host: Host, n: int, columns: int, message: str) -> None:
    same = torch.zeros(1, n, dtype=torch.int64)
    with pytest.raises(ValueError, match=message):
        host.tree_verify_greedy(*outputs(1, n, columns), same, same, same, same, same)


def test_work_is_linear_in_nodes(host: Host) -> None:
    """The longest walk, down a chain of 16 and along siblings: scalar accesses per followed link are bounded."""
    accesses, sizes, fixed = [], (8, 16, 32, 64), set()
    for n in sizes:
        index, one = torch.arange(n).view(1, n), torch.ones(1, n, dtype=torch.int64)
        sibling = torch.where(index > 0, index + 1, -1)
        tokens = torch.where(index == n - 1, 1, 0)
        host.tree_verify_greedy(*outputs(1, n, 17), tokens, index, one, sibling, one)
        counters = host.library.counters()
        assert counters.scalar_gm_reads == counters.scalar_gm_writes == 0
        accesses.append(counters.scalar_ub_reads + counters.scalar_ub_writes)
        fixed.add((counters.dma_in_instructions, counters.dma_out_instructions, counters.vector_instructions))
    assert fixed == {(7, 3, 0)}
    assert set(np.diff(accesses) / np.diff(sizes)) == {3.0}
