"""SwiGLU variants, in double, rounded once."""

import torch

from torch_npu.ops.limits import Limits
from torch_npu.ops.registry import npu_op


@npu_op("npu_swiglu(Tensor self, int dim=-1) -> Tensor")
def npu_swiglu(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """silu(first half) * second half along ``dim``; no clamp."""
    Limits("npu.npu_swiglu").require(x.shape[dim] % 2 == 0, "self.shape", tuple(x.shape), "needs an even dimension")
    gate, up = x.double().chunk(2, dim)
    return (gate * torch.sigmoid(gate) * up).to(x.dtype)


@npu_op(
    "npu_clipped_swiglu(Tensor x, *, Tensor? group_index=None, int dim=-1, float alpha=1.702, float limit=7.0, "
    "float bias=1.0, bool interleaved=True) -> Tensor"
)
def npu_clipped_swiglu(
    x: torch.Tensor,
    *,
    group_index: torch.Tensor | None = None,
    dim: int = -1,
    alpha: float = 1.702,
    limit: float = 7.0,
    bias: float = 1.0,
    interleaved: bool = True,
) -> torch.Tensor:
    """a * sigmoid(alpha * a) * (b + bias) with a = min(gate, limit), b = clamp(up, -limit, limit).

    ``interleaved`` takes gate and up from even and odd columns, otherwise from the halves.
    """
    limits = Limits("npu.npu_clipped_swiglu")
    limits.require(group_index is None, "group_index", "given", "is not modelled")
    limits.require(dim in (-1, x.dim() - 1), "dim", dim, "only the last dimension is modelled")
    limits.require(x.shape[-1] % 2 == 0, "x.shape", tuple(x.shape), "needs an even last dimension")
    wide = x.double()
    gate, up = (wide[..., 0::2], wide[..., 1::2]) if interleaved else wide.chunk(2, -1)
    gate = gate.clamp(max=limit)
    up = up.clamp(-limit, limit)
    return (gate * torch.sigmoid(alpha * gate) * (up + bias)).to(x.dtype)
