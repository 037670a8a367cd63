"""Rotary embedding of part of the last dimension."""

import torch

from torch_npu.ops.limits import Limits
from torch_npu.ops.registry import custom_op


@custom_op(
    "inplace_partial_rotary_mul(Tensor(a!) x, Tensor r1, Tensor r2, *, str rotary_mode, int[] partial_slice) -> ()"
)
def inplace_partial_rotary_mul(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, rotary_mode: str, partial_slice: list[int]
) -> None:
    """Rotate columns ``[start, end)`` of x in place: pairs (2i, 2i+1), (a, b) -> (a cos - b sin, b cos + a sin).

    x: ``[T, 1, H, D]``. cos, sin: ``[T, 1, 1, end - start]``, each angle twice. Double, rounded once.
    """
    limits = Limits("custom.inplace_partial_rotary_mul")
    limits.require(rotary_mode == "interleave", "rotary_mode", rotary_mode, "only interleave is modelled")
    start, end = partial_slice
    limits.require(0 <= start < end <= x.shape[-1], "partial_slice", (start, end), f"x has {x.shape[-1]} columns")
    limits.require(x.dim() == cos.dim() == sin.dim() == 4, "x.shape", tuple(x.shape), "x, r1, r2 must be 4-D")
    limits.require(cos.shape == sin.shape, "r2.shape", tuple(sin.shape), "must be r1's")
    limits.require(cos.shape[-1] == end - start, "r1.shape", tuple(cos.shape), f"last must be {end - start}")
    limits.require(cos.shape[0] in (1, x.shape[0]), "r1.shape", tuple(cos.shape), f"x has {x.shape[0]} tokens")
    part = x[..., start:end]
    wide = part.double()
    turned = torch.stack((-wide[..., 1::2], wide[..., 0::2]), -1).flatten(-2)
    part.copy_((wide * cos.double() + turned * sin.double()).to(x.dtype))
