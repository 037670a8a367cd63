"""compress_project: token rows ``kv | score + ape`` of the compressor, fp32 and not rounded to bf16."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from dsv4_npu_tree.ops.library import define

SCHEMA = "compress_project(Tensor x, Tensor weight, Tensor ape, Tensor positions, Tensor(a!) out) -> ()"


def _compress_project(
    x: torch.Tensor, weight: torch.Tensor, ape: torch.Tensor, positions: torch.Tensor, out: torch.Tensor
) -> None:
    rows = F.linear(x.float(), weight)
    half = rows.shape[1] // 2
    rows[:, half:] += ape[positions % ape.shape[0]]
    out.copy_(rows)


define(SCHEMA, _compress_project)


def compress_project(
    x: torch.Tensor,
    weight: torch.Tensor,
    ape: torch.Tensor,
    positions: torch.Tensor,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Project T tokens to the rows that the compressor state stores.

    x ``[T, hidden]`` bf16 or fp32; weight fp32 ``[2*coff*D, hidden]`` (wkv over wgate); ape fp32 ``[ratio, coff*D]``;
    positions int64 ``[T]`` absolute. Returns fp32 ``[T, 2*coff*D]``: ``kv | score + ape[position % ratio]``, in ``out``
    where given (a buffer with a stable address spares kv_relocate a new plan).

    The stored score includes ape, as the fused NPU compressor stores it (sgl-kernel-npu csrc/compressor). The product
    is accumulated and returned in fp32: rounding it to bf16 would put errors of 2**-9 into tree rows only.
    """
    if weight.dtype != torch.float32 or ape.dtype != torch.float32:
        raise ValueError(f"compress_project needs fp32 weight and ape, got {weight.dtype} and {ape.dtype}")
    if x.dim() != 2 or x.shape[1] != weight.shape[1] or weight.shape[0] != 2 * ape.shape[1]:
        raise ValueError(
            f"compress_project shapes do not fit: x {tuple(x.shape)}, weight {tuple(weight.shape)}, "
            f"ape {tuple(ape.shape)}"
        )
    if positions.shape != x.shape[:1]:
        raise ValueError(f"compress_project needs one position per row, got {tuple(positions.shape)}")
    if out is None:
        out = torch.empty(x.shape[0], weight.shape[0], dtype=torch.float32, device=x.device)
    elif out.shape != (x.shape[0], weight.shape[0]) or out.dtype != torch.float32:
        raise ValueError(f"compress_project out must be fp32 {(x.shape[0], weight.shape[0])}, got {tuple(out.shape)}")
    torch.ops.dsv4_tree.compress_project(x, weight, ape, positions, out)
    return out
