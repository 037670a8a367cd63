"""Values of the vector instructions and strided DMA, against numpy and torch."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import torch

from hostlayer.library import HAZARD, MODES, OK, HostLibrary

COUNT = 256


def operands(name: str) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(sum(map(ord, name)))
    a = generator.standard_normal(COUNT).astype(np.float32) * np.float32(3)
    b = np.abs(generator.standard_normal(COUNT).astype(np.float32)) + np.float32(0.01)
    if name in ("rint", "floor", "ceil", "trunc"):
        a[:12] = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 1e10, -1e10, np.inf, -np.inf, np.nan, -0.0]
    if name in ("bf16", "half"):
        a[:16] = np.array(
            [1.00390625, 1.01171875, 0, -0.0, np.inf, -np.inf, 3.4e38, -3.4e38, 65504, 65519, 65520, 6e-8, 2.9e-8]
            + [1e-40, 2.0**-14, 5.96e-8],
            dtype=np.float32,
        )
    return a, b


def pairwise(values: np.ndarray) -> np.float32:
    level = np.zeros(64, np.float32)
    level[: len(values)] = values
    while len(level) > 1:
        level = level[0::2] + level[1::2]
    return level[0]


def expected(name: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    three, half = np.float32(3), np.float32(0.5)
    plain = {
        "add": lambda: a + b,
        "sub": lambda: a - b,
        "mul": lambda: a * b,
        "div": lambda: a / b,
        "max": lambda: np.maximum(a, b),
        "min": lambda: np.minimum(a, b),
        "muls": lambda: a * three,
        "maxs": lambda: np.maximum(a, half),
        "mins": lambda: np.minimum(a, half),
        "sqrt": lambda: np.sqrt(b),
        "bf16": lambda: torch.from_numpy(a).to(torch.bfloat16).float().numpy(),
        "half": lambda: a.astype(np.float16).astype(np.float32),
        "compare_select": lambda: np.minimum(a, b),
        "scalar_select": lambda: np.where(a >= 0, a, np.float32(0)),
        "gather_reversed": lambda: a[::-1],
    }
    if name in plain:
        with np.errstate(over="ignore"):
            return plain[name]()
    if name in ("rint", "floor", "ceil", "trunc"):
        whole = getattr(np, name)(a.astype(np.float64))
        return np.nan_to_num(np.clip(whole, -(2.0**31), 2.0**31 - 1)).astype(np.int32).view(np.float32)
    out = np.zeros(COUNT, np.float32)
    if name == "reduce_sum":
        parts = [pairwise(a[i : min(i + 64, COUNT - 3)]) for i in range(0, COUNT, 64)]
        for part in parts:
            out[0] += part
    elif name == "reduce_max":
        out[0], out[1] = a.max(), np.array([a.argmax()], np.uint32).view(np.float32)[0]
    else:
        out[:4] = [pairwise(a[64 * r : 64 * r + 60]) for r in range(4)]
    return out


NAMES = [
    "add",
    "sub",
    "mul",
    "div",
    "max",
    "min",
    "muls",
    "maxs",
    "mins",
    "sqrt",
    "bf16",
    "half",
    "rint",
    "floor",
    "ceil",
    "trunc",
    "compare_select",
    "scalar_select",
    "gather_reversed",
    "reduce_sum",
    "reduce_max",
    "whole_reduce_sum",
]


def vector(suite: HostLibrary, name: str, mode: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    a, b = operands(name)
    out = np.full(COUNT, np.nan, np.float32)
    suite.configure(mode)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (a, b, out)]
    outcome = suite.call("hostlayer_vector", name.encode(), *pointers)
    assert outcome.status == OK, outcome.error
    return a, b, out


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_vector_instruction_bit_for_bit(suite: HostLibrary, name: str, mode: str) -> None:
    a, b, out = vector(suite, name, mode)
    np.testing.assert_array_equal(out.view(np.int32), np.ascontiguousarray(expected(name, a, b)).view(np.int32))


def test_exp_to_one_unit_in_the_last_place(suite: HostLibrary) -> None:
    a, _, out = vector(suite, "exp", "strict")
    exact = np.exp(a.astype(np.float64))
    assert (np.abs(out - exact) <= np.spacing(exact.astype(np.float32))).all()


@pytest.mark.parametrize(
    ("blocks", "size", "src_gap", "dst_gap"), [(1, 2, 0, 0), (5, 2, 7, 3), (4, 33, 31, 0), (3, 64, 64, 128)]
)
def test_strided_copy_touches_only_its_bytes(
    suite: HostLibrary, blocks: int, size: int, src_gap: int, dst_gap: int
) -> None:
    source = np.random.default_rng(0).integers(0, 255, blocks * (size + src_gap), dtype=np.uint8)
    out = np.full(blocks * (size + dst_gap), 0xEE, np.uint8)
    want = out.copy()
    for i in range(blocks):
        begin, to = i * (size + src_gap), i * (size + dst_gap)
        want[to : to + size] = source[begin : begin + size]
    suite.configure("strict")
    numbers = [ctypes.c_uint32(v) for v in (blocks, size, src_gap, dst_gap)]
    arguments = (ctypes.c_void_p(source.ctypes.data), ctypes.c_uint64(source.size))
    target = (ctypes.c_void_p(out.ctypes.data), ctypes.c_uint64(out.size))
    outcome = suite.call("hostlayer_strided", *arguments, *target, *numbers)
    assert outcome.status == OK, outcome.error
    np.testing.assert_array_equal(out, want)
    counters = suite.counters()
    assert (counters.dma_in_instructions, counters.dma_out_instructions) == (1, 1)
    assert (counters.dma_in_bytes, counters.dma_out_bytes) == (blocks * size, blocks * size)


def test_block_past_the_end_is_refused_before_it_moves(suite: HostLibrary) -> None:
    source, out = np.zeros(64, np.uint8), np.full(63, 0xEE, np.uint8)
    suite.configure("strict")
    numbers = [ctypes.c_uint32(v) for v in (2, 32, 0, 0)]
    arguments = (ctypes.c_void_p(source.ctypes.data), ctypes.c_uint64(64))
    outcome = suite.call(
        "hostlayer_strided", *arguments, ctypes.c_void_p(out.ctypes.data), ctypes.c_uint64(63), *numbers
    )
    assert outcome.status == HAZARD and "GM out of bounds" in outcome.error
    assert (out[32:] == 0xEE).all()
