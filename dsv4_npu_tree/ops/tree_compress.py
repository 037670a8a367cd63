"""tree_compress: pool the compressor window of every closing node along its own path."""

from __future__ import annotations

import torch

from dsv4_npu_tree.ops.library import define

SCHEMA = (
    "tree_compress(Tensor scratch, Tensor state, Tensor window, Tensor closes, Tensor norm_weight, Tensor cos, "
    "Tensor sin, int coff, float norm_eps) -> Tensor"
)
# A window entry is a state row (>= 0), a scratch row r as -1 - r, or ABSENT (a position before the sequence starts).
ABSENT = -(1 << 31)


def _tree_compress(
    scratch: torch.Tensor,
    state: torch.Tensor,
    window: torch.Tensor,
    closes: torch.Tensor,
    norm_weight: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    coff: int,
    norm_eps: float,
) -> torch.Tensor:
    dim = norm_weight.shape[0]
    out = torch.zeros(window.shape[0], dim, dtype=torch.bfloat16, device=scratch.device)
    work = closes.nonzero().flatten()
    if work.numel() == 0:
        return out
    table = window[work]
    rows = torch.where(
        (table >= 0)[..., None], state[table.clamp(min=0)], scratch[(-1 - table).clamp(0, scratch.shape[0] - 1)]
    )
    kv, score = rows.split(coff * dim, dim=-1)
    if coff == 2:
        # Overlap: the previous block enters with its left half, the closing block with its right half.
        ratio = window.shape[1] // 2
        kv = torch.cat([kv[:, :ratio, :dim], kv[:, ratio:, dim:]], 1)
        score = torch.cat([score[:, :ratio, :dim], score[:, ratio:, dim:]], 1)
    absent = (table == ABSENT)[..., None]
    kv = kv.masked_fill(absent, 0.0).double()
    weight = score.masked_fill(absent, float("-inf")).double().softmax(1)
    pooled = (kv * weight).sum(1)
    pooled = pooled * torch.rsqrt(pooled.square().mean(-1, keepdim=True) + norm_eps) * norm_weight
    rope = cos.shape[-1]
    tail = pooled[:, -rope:]
    turned = torch.stack((-tail[:, 1::2], tail[:, 0::2]), -1).flatten(-2)
    pooled = torch.cat([pooled[:, :-rope], tail * cos[work] + turned * sin[work]], -1)
    out[work] = pooled.to(torch.bfloat16)
    return out


define(SCHEMA, _tree_compress)


def tree_compress(
    scratch: torch.Tensor,
    state: torch.Tensor,
    window: torch.Tensor,
    closes: torch.Tensor,
    norm_weight: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    *,
    coff: int,
    norm_eps: float,
) -> torch.Tensor:
    """Compressed entries of the nodes that close a block, each from the tokens of its own path.

    scratch fp32 ``[T, 2*coff*D]``: rows of this tree (``kv | score + ape``). state fp32 ``[rows, 2*coff*D]``: the ring.
    window int64 ``[T, coff*ratio]``: oldest first; a state row, ``-1 - t`` for scratch row t, or ``ABSENT``.
    closes bool ``[T]``: rows to compute. norm_weight fp32 ``[D]``; cos, sin fp32 ``[T, 64]`` at the first position of
    the block, each value twice (interleaved pairs). Returns bf16 ``[T, D]``, zero where ``closes`` is false.

    Formula of the fused NPU compressor (sgl-kernel-npu csrc/compressor): softmax per channel over the window,
    weighted sum, RMSNorm, interleaved RoPE on the last 64 channels, one rounding to bf16.
    """
    width = 2 * coff * norm_weight.shape[0]
    if coff not in (1, 2):
        raise ValueError(f"tree_compress coff must be 1 (C128) or 2 (C4), got {coff}")
    if scratch.shape[1:] != (width,) or state.shape[1:] != (width,):
        raise ValueError(
            f"tree_compress rows must be {width} wide, got scratch {tuple(scratch.shape)}, state {tuple(state.shape)}"
        )
    if scratch.dtype != torch.float32 or state.dtype != torch.float32:
        raise ValueError(f"tree_compress needs fp32 rows, got {scratch.dtype} and {state.dtype}")
    if window.dtype != torch.int64 or window.shape[0] != scratch.shape[0] or closes.shape != scratch.shape[:1]:
        raise ValueError(f"tree_compress needs one int64 window per row, got {tuple(window.shape)} {window.dtype}")
    return torch.ops.dsv4_tree.tree_compress(scratch, state, window, closes, norm_weight, cos, sin, coff, norm_eps)
