"""Greedy verification against the oracle's walk, upstream's Triton kernel, and broken links."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch
from generators import BATCHES, BROKEN_KINDS, VALID_KINDS, Case, case, encode, tokens_and_target
from probes import NoHostRead, interpreted

from dsv4_npu_tree.ops import tree_verify_greedy as op
from dsv4_npu_tree.reference import tree as oracle
from dsv4_npu_tree.tree.verify import verify_greedy


def outputs(bs: int, n: int, columns: int, dtype: torch.dtype = torch.int32) -> tuple[torch.Tensor, ...]:
    """Fresh predicts (-7 marks what must stay untouched), accept_index and accept_token_num."""
    predicts, count = torch.full((bs * n,), -7, dtype=dtype), torch.full((bs,), -7, dtype=dtype)
    return predicts, torch.full((bs, columns), -1, dtype=dtype), count


def run(made: Case, tokens: list, target: list, dtype: torch.dtype = torch.int64) -> tuple[torch.Tensor, ...]:
    topology = made.topology()
    links = (topology.retrieve_index, topology.retrieve_next_token, topology.retrieve_next_sibling)
    return verify_greedy(
        *outputs(made.bs, made.n, made.steps + 1),
        torch.tensor(tokens, dtype=dtype).reshape(made.bs, made.n),
        *(link.to(dtype) for link in links),
        torch.tensor(target, dtype=dtype).reshape(made.bs, made.n),
    )


def assert_is(result: tuple[torch.Tensor, ...], trees: list, tokens: list, target: list, steps: int) -> int:
    predicts, accept_index, accept_token_num = result
    accepted = 0
    for b, tree in enumerate(trees):
        path, bonus = oracle.verify_greedy(tree, tokens[b], target[b])
        n = tree.n
        assert accept_index[b].tolist() == [b * n + v for v in path] + [-1] * (steps + 1 - len(path))
        assert accept_token_num[b] == len(path) - 1
        row = predicts[b * n : (b + 1) * n].tolist()
        assert row == [target[b][v] if v in path else -7 for v in range(n)]
        assert row[path[-1]] == bonus
        accepted += len(path) - 1
    return accepted


@pytest.mark.parametrize("kind", VALID_KINDS + BROKEN_KINDS)
def test_equals_the_oracle(kind):
    rng = np.random.default_rng(sum(map(ord, kind)))
    accepted = 0
    for bs in BATCHES * 6 + (33,) * 6:
        made = case(rng, kind, bs)
        trees = made.trees()
        tokens, target = tokens_and_target(rng, trees, made.n, vocabulary=int(rng.choice([2, 6, 1000])))
        accepted += assert_is(run(made, tokens, target), trees, tokens, target, made.steps)
    assert accepted > 150  # the cases reach the deep part of the walk


def test_fixtures_of_the_field():
    parent_list, selected = encode([[1, 2], [], [3], []], topk=2, steps=2)
    made = Case(2, 2, 4, 3, [parent_list], [selected], [[0.1] * 3], [100])
    tokens = [[9, 10, 20, 30]]
    predicts, accept_index, count = run(made, tokens, [[20, 99, 30, 40]])
    assert accept_index.tolist() == [[0, 2, 3]] and count.tolist() == [2]
    assert predicts.tolist() == [20, -7, 30, 40]
    # the chain-only kernel accepts 0, 1, 2, 3 here and emits 30, 40 from the wrong context
    predicts, accept_index, count = run(made, tokens, [[10, 20, 30, 40]])
    assert accept_index.tolist() == [[0, 1, -1]] and count.tolist() == [1]
    assert predicts.tolist() == [10, 20, -7, -7]


def test_first_of_equal_siblings_wins():
    parent_list, selected = encode([[1, 2], [], [3], []], topk=2, steps=2)
    made = Case(2, 2, 4, 3, [parent_list], [selected], [[0.1] * 3], [100])
    _, accept_index, _ = run(made, [[9, 5, 5, 6]], [[5, 6, 6, 6]])
    assert accept_index.tolist() == [[0, 1, -1]]


def test_an_inert_node_is_never_accepted():
    made = Case(2, 2, 4, 3, [[-1, 0, 1]] * 2, [[0, 2, 4], [1, 4, 5]], [[0.1] * 3] * 2, [5, 7])
    _, accept_index, _ = run(made, [[1, 1, 1, 1]] * 2, [[1, 1, 1, 1]] * 2)
    assert accept_index.tolist() == [[0, 1, 2], [4, 5, 6]]


@pytest.mark.parametrize("kind", VALID_KINDS)
def test_equals_upstreams_triton_kernel(kind):
    spec_tree = pytest.importorskip("sglang.kernels.ops.speculative.spec_tree")
    kernel = interpreted(spec_tree.verify_tree_greedy_kernel_triton)
    rng = np.random.default_rng(1)
    done = 0
    while done < 4:
        made = case(rng, kind, 3)
        if made.n > 16:
            continue
        done += 1
        topology, trees = made.topology(), made.trees()
        tokens, target = (torch.tensor(x) for x in tokens_and_target(rng, trees, made.n, vocabulary=4))
        links = (topology.retrieve_index, topology.retrieve_next_token, topology.retrieve_next_sibling)
        expected = outputs(3, made.n, made.steps + 1)
        kernel[(3,)](
            *expected,
            tokens,
            *links,
            target,
            batch_size=3,
            num_speculative_tokens=made.steps + 1,
            num_draft_tokens=made.n,
        )
        for ours, theirs in zip(run(made, tokens.tolist(), target.tolist()), expected, strict=True):
            assert torch.equal(ours, theirs)


def test_signature_is_upstreams():
    spec_tree = pytest.importorskip("sglang.kernels.ops.speculative.spec_tree")
    ours, theirs = (inspect.signature(f).parameters for f in (verify_greedy, spec_tree.verify_tree_greedy_func))
    assert [(p.name, p.default) for p in ours.values()] == [(p.name, p.default) for p in theirs.values()]


def test_broken_links_stay_inside_the_request_and_end():
    rng = np.random.default_rng(9)
    bs, n, columns = 33, 8, 5
    for _ in range(40):
        next_token, next_sibling = (torch.from_numpy(rng.integers(-3, n + 3, (bs, n))) for _ in range(2))
        tokens, target = (torch.from_numpy(rng.integers(0, 2, (bs, n))) for _ in range(2))
        index = torch.arange(bs * n).view(bs, n)
        predicts, accept_index, count = outputs(bs, n, columns)
        verify_greedy(predicts, accept_index, count, tokens, index, next_token, next_sibling, target)
        assert ((count >= 0) & (count < columns)).all()
        for b in range(bs):
            path = accept_index[b].tolist()
            taken = path[: int(count[b]) + 1]
            assert all(v // n == b for v in taken) and path[len(taken) :] == [-1] * (columns - len(taken))
            assert all(tokens.view(-1)[v] == target.view(-1)[u] for u, v in zip(taken, taken[1:]))
            written = (predicts[b * n : (b + 1) * n] != -7).nonzero().view(-1).tolist()
            assert written == sorted({v - b * n for v in taken})


def test_endless_cycles_end():
    index = torch.arange(3).view(1, 3)
    for next_token, next_sibling in (([1, 1, -1], [-1, -1, -1]), ([1, 2, 1], [-1, -1, -1]), ([1, -1, -1], [-1, 2, 1])):
        predicts, accept_index, count = outputs(1, 3, 40)
        tokens = torch.tensor([[1, 1, 1]]) if next_sibling[1] < 0 else torch.tensor([[1, 8, 9]])
        links = torch.tensor([next_token]), torch.tensor([next_sibling])
        verify_greedy(predicts, accept_index, count, tokens, index, *links, torch.ones(1, 3, dtype=torch.int64))
        assert 0 <= count[0] <= 2


def test_a_sibling_of_the_root_is_not_followed():
    index, same = torch.arange(3).view(1, 3), torch.ones(1, 3, dtype=torch.int64)
    links = torch.tensor([[-1, -1, -1]]), torch.tensor([[2, -1, -1]])
    predicts, accept_index, count = verify_greedy(*outputs(1, 3, 3), same, index, *links, same)
    assert accept_index.tolist() == [[0, -1, -1]] and count.tolist() == [0] and predicts.tolist() == [1, -7, -7]


def test_a_foreign_retrieve_index_is_not_followed():
    index = torch.arange(6).view(2, 3)
    index[0, 1], index[1, 1] = 4, 99
    links = torch.tensor([[1, -1, -1]] * 2), torch.tensor([[-1, 2, -1]] * 2)
    predicts, accept_index, count = outputs(2, 3, 3)
    same = torch.ones(2, 3, dtype=torch.int64)
    verify_greedy(predicts, accept_index, count, same, index, *links, same)
    assert accept_index.tolist() == [[0, 2, -1], [3, 5, -1]]


def test_depth_is_limited_by_the_columns():
    made = Case(1, 4, 5, 1, [[-1, 0, 1, 2]], [[0, 1, 2, 3]], [[0.5] * 4], [1])
    topology = made.topology()
    links = (topology.retrieve_index, topology.retrieve_next_token, topology.retrieve_next_sibling)
    same = torch.ones(1, 5, dtype=torch.int64)
    for columns in (1, 2, 3, 5, 9):
        predicts, accept_index, count = verify_greedy(*outputs(1, 5, columns), same, *links, same)
        accepted = min(columns, 5)
        assert accept_index.tolist() == [list(range(accepted)) + [-1] * (columns - accepted)]
        assert count.tolist() == [accepted - 1] and (predicts == 1).sum() == accepted


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_integer_widths_and_flat_targets_agree(dtype):
    rng = np.random.default_rng(6)
    made = case(rng, "drafted", 33)
    trees = made.trees()
    tokens, target = tokens_and_target(rng, trees, made.n, 5)
    assert_is(run(made, tokens, target, dtype), trees, tokens, target, made.steps)
    topology = made.topology()
    links = (topology.retrieve_index, topology.retrieve_next_token, topology.retrieve_next_sibling)
    flat = torch.tensor(target).view(-1)
    result = verify_greedy(*outputs(33, made.n, made.steps + 1), torch.tensor(tokens), *links, flat, topk=4)
    assert_is(result, trees, tokens, target, made.steps)


def test_empty_batch_and_misuse():
    empty = torch.empty(0, 4, dtype=torch.int64)
    verify_greedy(*outputs(0, 4, 3), empty, empty, empty, empty, empty)
    good = [*outputs(1, 4, 3), *(torch.zeros(1, 4, dtype=torch.int64) for _ in range(5))]
    for position, bad, message in (
        (0, torch.zeros(3, dtype=torch.int32), r"predicts has shape \(3,\), expected \(4,\)"),
        (1, torch.zeros(2, 3, dtype=torch.int32), "accept_index has shape"),
        (3, torch.zeros(4, dtype=torch.int64), "candidates has shape"),
        (5, torch.zeros(1, 4), "retrieve_next_token has dtype torch.float32"),
        (7, torch.zeros(1, 3, dtype=torch.int64), "target_predict has shape"),
    ):
        arguments = list(good)
        arguments[position] = bad
        with pytest.raises(ValueError, match=message):
            verify_greedy(*arguments)


def test_never_waits_for_the_device():
    made = case(np.random.default_rng(4), "drafted", 3)
    topology = made.topology()
    links = (topology.retrieve_index, topology.retrieve_next_token, topology.retrieve_next_sibling)
    same = torch.ones(3, made.n, dtype=torch.int64)
    with NoHostRead():
        op._tree_verify_greedy(*outputs(3, made.n, made.steps + 1), same, *links, same)
