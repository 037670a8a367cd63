"""tree_build through the C ABI (`ascendc_kernels/tree_build/op_host/tree_build.h`)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import torch
from torch import Tensor

from dsv4_npu_tree.ops.kernels.library import KernelLibrary
from dsv4_npu_tree.ops.tree_mask import NO_MASK

_TENSORS = (
    "parent_list",
    "selected",
    "scores",
    "seq_lens",
    "positions",
    "retrieve_index",
    "next_token",
    "next_sibling",
    "parent",
    "depth",
    "ancestors",
    "branch_table",
    "home_branch",
    "mask",
)
_SIZES = (
    "mask_bytes",
    "mask_mode",
    "parent_list_bytes",
    "selected_bytes",
    "seq_lens_bytes",
    "bs",
    "topk",
    "steps",
    "n",
    "max_branches",
)


class Args(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in _TENSORS] + [(name, ctypes.c_int64) for name in _SIZES]


def implementation(library: KernelLibrary) -> Callable[..., tuple[Tensor, ...]]:
    """The function behind `torch.ops.dsv4_tree.tree_build` for tensors whose memory `library` can reach."""

    def tree_build(*args, **mask) -> tuple[Tensor, ...]:
        return launch(library, *args, **mask)

    return tree_build


def launch(
    library: KernelLibrary,
    parent_list: Tensor,
    selected_index: Tensor,
    scores: Tensor,
    seq_lens: Tensor,
    topk: int,
    steps: int,
    num_draft_tokens: int,
    max_branches: int,
    *,
    mask: Tensor | None = None,
    mask_mode: int = NO_MASK,
    stream: int = 0,
) -> tuple[Tensor, ...]:
    """Outputs as `ops.tree_build.tree_build`. `mask` is written in `mask_mode`; prefix columns of FULL_MASK are not."""
    n, bs, device = num_draft_tokens, seq_lens.shape[0], seq_lens.device
    inputs = [tensor.contiguous() for tensor in (parent_list, selected_index, scores, seq_lens)]

    def empty(dtype: torch.dtype, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=device)

    outputs = (
        empty(torch.int64, bs * n),
        empty(torch.int64, bs, n),
        empty(torch.int64, bs, n),
        empty(torch.int64, bs, n),
        empty(torch.int32, bs, n),
        empty(torch.int32, bs, n),
        empty(torch.int64, bs, n),
        empty(torch.int32, bs, max_branches, steps + 1),
        empty(torch.int32, bs, n),
    )
    args = Args(
        *(tensor.data_ptr() for tensor in (*inputs, *outputs)),
        mask.data_ptr() if mask is not None else None,
        mask.numel() * mask.element_size() if mask is not None else 0,
        mask_mode,
        inputs[0].element_size(),
        inputs[1].element_size(),
        inputs[3].element_size(),
        bs,
        topk,
        steps,
        n,
        max_branches,
    )
    library.call("tree_build", args, stream)
    return outputs
