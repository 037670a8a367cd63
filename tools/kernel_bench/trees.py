"""Cases of tree_build and tree_verify_greedy: complete trees of 8 to 64 nodes, alone and in batches."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from dsv4_npu_tree.ops.kernels import tree_build, tree_verify_greedy
from kernel_bench.measure import Launch, sizes, use_test_cases

use_test_cases()

from generators import Case, encode  # noqa: E402

TOPK, STEPS = 16, 8
MASKS = {"FULL_MASK": 0, "QLEN_ONLY": 1, "packed": 2}


def tree(bs: int, n: int, branches: int) -> Case:
    """Four children per node, level by level; scores fall with the index."""
    children = [[c for c in range(4 * v + 1, 4 * v + 5) if c < n] for v in range(n)]
    parent_list, selected = encode(children, TOPK, STEPS)
    scores = [1 - 0.01 * v for v in range(n - 1)]
    return Case(TOPK, STEPS, n, branches, [parent_list] * bs, [selected] * bs, [scores] * bs, [1000] * bs)


def build(bs: int, n: int, branches: int, label: str, mask_mode: int | None = None) -> Launch:
    made = tree(bs, n, branches)
    tensors, shape = made.tensors(), (TOPK, STEPS, n, branches)
    mask, written = None, 0
    if mask_mode is not None:
        packed = 1 if n <= 8 else 2 if n <= 16 else 4
        written = bs * n * (packed if mask_mode == MASKS["packed"] else n)
        prefixes = sum(made.seq_lens) * n if mask_mode == MASKS["FULL_MASK"] else 0
        mask = torch.ones(written + prefixes, dtype=torch.uint8)
    run = partial(
        lambda tensors, shape, options, library: tree_build.launch(library, *tensors, *shape, **options),
        tensors,
        shape,
        {"mask": mask, "mask_mode": mask_mode} if mask is not None else {},
    )
    outputs = bs * (5 * n * 8 + 3 * n * 4 + branches * (STEPS + 1) * 4)
    return Launch("tree_build", label, run, sizes(tensors) + outputs + written, "request", bs, bs * n)


def verify(bs: int, n: int, label: str) -> Launch:
    """The longest walk: nothing matches until the last sibling of each level."""
    index = torch.arange(bs * n).view(bs, n)
    local = torch.arange(n).expand(bs, n)
    tokens, one = torch.where(local == n - 1, 1, 0), torch.ones(bs, n, dtype=torch.int64)
    sibling = torch.where(local > 0, local + 1, -1)
    written = [
        torch.zeros(bs * n, dtype=torch.int32),
        torch.full((bs, STEPS + 1), -1, dtype=torch.int32),
        torch.zeros(bs, dtype=torch.int32),
    ]
    tensors = (*written, tokens, index, one, sibling, one)
    run = partial(lambda tensors, library: tree_verify_greedy.launch(library, *tensors), tensors)
    return Launch("tree_verify_greedy", label, run, sizes(tensors), "request", bs, bs * n)


def launches() -> Iterator[Launch]:
    for n in (8, 16, 32, 64):
        yield build(1, n, n - 1, f"n={n}")
    for n in (8, 16, 32, 64):
        yield build(1, n, 1, f"n={n}, pruned to 1 branch")
    for bs in (32, 1024):
        yield build(bs, 8, 8, f"n=8, bs={bs}")
    for name, mode in MASKS.items():
        yield build(32, 16, 15, f"n=16, bs=32, {name}", mode)
    for n in (8, 16, 32, 64):
        yield verify(1, n, f"n={n}")
    for bs in (32, 1024):
        yield verify(bs, 8, f"n=8, bs={bs}")
