"""tree_compress through the C ABI (`ascendc_kernels/tree_compress/op_host/tree_compress.h`)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import torch
from torch import Tensor

from dsv4_npu_tree.ops.kernels.library import KernelLibrary

_TENSORS = ("scratch", "state", "window", "closes", "norm_weight", "cos", "sin", "out")
_SIZES = ("rows", "state_rows", "dim", "coff", "ratio", "rope")
_DTYPES = (torch.float32, torch.float32, torch.int64, torch.bool, torch.float32, torch.float32, torch.float32)

FP32, PAIRS = 0, 1


class Args(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in _TENSORS),
        *((name, ctypes.c_int64) for name in _SIZES),
        ("norm_eps", ctypes.c_double),
        ("mode", ctypes.c_int64),
    ]


def implementation(library: KernelLibrary) -> Callable[..., Tensor]:
    """The function behind `torch.ops.dsv4_tree.tree_compress` for tensors whose memory `library` can reach."""

    def tree_compress(*args) -> Tensor:
        return launch(library, *args)

    return tree_compress


def launch(
    library: KernelLibrary,
    scratch: Tensor,
    state: Tensor,
    window: Tensor,
    closes: Tensor,
    norm_weight: Tensor,
    cos: Tensor,
    sin: Tensor,
    coff: int,
    norm_eps: float,
    *,
    mode: int = PAIRS,
    stream: int = 0,
) -> Tensor:
    """Arguments and result of the torch op. PAIRS rounds as the double formula of the CPU twin does; FP32 is the
    accuracy of a card's fused compressor. ValueError for a dtype or shape that the kernel would misread."""
    given = (scratch, state, window, closes, norm_weight, cos, sin)
    for name, tensor, dtype in zip(_TENSORS, given, _DTYPES):
        if tensor.dtype != dtype:
            raise ValueError(f"tree_compress {name} must be {dtype}, got {tensor.dtype}")
    rows, dim, rope = window.shape[0], norm_weight.shape[0], cos.shape[1]
    width = 2 * coff * dim
    if (
        scratch.shape != (rows, width)
        or state.shape[1:] != (width,)
        or closes.shape != (rows,)
        or cos.shape != (rows, rope)
        or sin.shape != (rows, rope)
        or window.shape[1] % coff != 0
    ):
        shapes = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in zip(_TENSORS, given))
        raise ValueError(f"tree_compress shapes do not fit coff {coff}: {shapes}")
    whole = [tensor.contiguous() for tensor in given]
    out = torch.empty(rows, dim, dtype=torch.bfloat16, device=scratch.device)
    args = Args(
        *(tensor.data_ptr() for tensor in (*whole, out)),
        rows,
        state.shape[0],
        dim,
        coff,
        window.shape[1] // coff,
        rope,
        norm_eps,
        mode,
    )
    library.call("tree_compress", args, stream)
    return out
