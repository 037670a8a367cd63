"""compress_project: fp32 products that are not rounded to bf16, and a bound that tells the two apart."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dsv4_npu_tree.ops.compress_project import compress_project
from dsv4_npu_tree.ops.tree_compress import tree_compress
from dsv4_npu_tree.reference import compress as oracle

HIDDEN, DIM, RATIO = 128, 128, 4
SHAPE = {"rows": 24, "width": 4 * DIM}
# fp32 sums of HIDDEN products: HIDDEN + 1 roundings of 2**-24, as a share of the sum of the products' magnitudes.
FP32_BOUND = (HIDDEN + 1) * 2.0**-24


def inputs(seed: int = 0) -> tuple[torch.Tensor, ...]:
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(SHAPE["rows"], HIDDEN, generator=random).bfloat16()
    weight = torch.randn(SHAPE["width"], HIDDEN, generator=random).bfloat16().float()
    ape = torch.randn(RATIO, SHAPE["width"] // 2, generator=random)
    return x, weight, ape, torch.arange(5, 5 + SHAPE["rows"])


def share_of_magnitude(rows: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, ape: torch.Tensor, at) -> float:
    """Largest error against fp64, as a share of sum |x w| + |ape|: what no fp32 accumulation order exceeds."""
    exact = oracle.token_rows(*(t.float().numpy() for t in (x, weight, ape)), at.numpy())
    magnitude = oracle.token_rows(*(t.float().abs().numpy() for t in (x, weight, ape)), at.numpy())
    return float(np.max(np.abs(rows.cpu().double().numpy() - exact) / magnitude))


def rounded_variant(x: torch.Tensor, weight: torch.Tensor, ape: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """The fault: the product of a plain bf16 matmul, then the fp32 ape."""
    rows = (x.double() @ weight.double().T).bfloat16().float()
    rows[:, rows.shape[1] // 2 :] += ape[at % ape.shape[0]]
    return rows


def test_any_fp32_matmul_is_inside_the_bound() -> None:
    arguments = inputs()
    assert share_of_magnitude(compress_project(*arguments), *arguments) <= FP32_BOUND


def test_a_product_rounded_to_bf16_is_outside_the_bound() -> None:
    """The fault is seen in the worst element and in most rows, not by luck."""
    for seed in range(4):
        arguments = inputs(seed)
        rounded = rounded_variant(*arguments)
        assert share_of_magnitude(rounded, *arguments) > 4 * FP32_BOUND
        per_row = [
            share_of_magnitude(rounded[i : i + 1], arguments[0][i : i + 1], *arguments[1:3], arguments[3][i : i + 1])
            for i in range(SHAPE["rows"])
        ]
        assert min(per_row) > FP32_BOUND


def test_the_twin_rounds_the_fp64_product_once() -> None:
    pytest.importorskip("torch_npu._twin", reason="fp64 accumulation is the CPU twin's")
    x, weight, ape, at = inputs()
    rows = compress_project(*(tensor.to("npu") for tensor in (x, weight, ape, at))).cpu()
    product = torch.from_numpy(oracle.token_rows(x.float().numpy(), weight.numpy(), 0 * ape.numpy(), at.numpy()))
    half = SHAPE["width"] // 2
    assert torch.equal(rows[:, :half], product[:, :half].float())
    assert torch.equal(rows[:, half:], product[:, half:].float() + ape[at % RATIO])


def test_the_fault_reaches_the_entries() -> None:
    """Rows rounded to bf16 change the bits of compressed entries: chain and tree would differ."""
    x, weight, ape, at = inputs()
    window = (-1 - torch.arange(SHAPE["rows"])[:, None] + torch.arange(7, -1, -1)).clamp(max=-1)
    closes = ((at + 1) % RATIO == 0) & (torch.arange(SHAPE["rows"]) >= 7)
    angle = torch.rand(SHAPE["rows"], 32).repeat_interleave(2, -1)
    state = torch.zeros(1, SHAPE["width"])

    def entries(rows: torch.Tensor) -> torch.Tensor:
        tables = (window, closes, torch.ones(DIM), angle.cos(), angle.sin())
        return tree_compress(rows, state, *tables, coff=2, norm_eps=1e-6)[closes]

    right, wrong = entries(compress_project(x, weight, ape, at)), entries(rounded_variant(x, weight, ape, at))
    assert (right != wrong).float().mean() > 0.2


@pytest.mark.parametrize(
    "change, message",
    [
        ({1: torch.zeros(SHAPE["width"], HIDDEN, dtype=torch.bfloat16)}, "fp32"),
        ({0: torch.zeros(SHAPE["rows"], HIDDEN + 1)}, "shapes"),
        ({2: torch.zeros(RATIO, 3)}, "shapes"),
        ({3: torch.zeros(3, dtype=torch.int64)}, "position"),
    ],
)
def test_arguments_are_refused(change: dict, message: str) -> None:
    arguments = [change.get(i, value) for i, value in enumerate(inputs())]
    with pytest.raises(ValueError, match=message):
        compress_project(*arguments)
