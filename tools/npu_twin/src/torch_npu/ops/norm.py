"""RMSNorm, in double, rounded once."""

import torch

from torch_npu.ops.limits import Limits
from torch_npu.ops.registry import npu_op


def _normed(limits: Limits, x: torch.Tensor, gamma: torch.Tensor, epsilon: float) -> tuple[torch.Tensor, torch.Tensor]:
    limits.require(
        gamma.shape == x.shape[x.dim() - gamma.dim() :],
        "gamma.shape",
        tuple(gamma.shape),
        "must be x's last dimensions",
    )
    axes = tuple(range(x.dim() - gamma.dim(), x.dim()))
    wide = x.double()
    inverse = torch.rsqrt(wide.square().mean(axes, keepdim=True) + epsilon)
    return (wide * inverse * gamma.double()).to(x.dtype), inverse.float()


@npu_op("npu_rms_norm(Tensor self, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor)")
def npu_rms_norm(x: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6):
    """x / rms(x) * gamma over gamma's dimensions. Returns (like x, fp32 1/rms)."""
    return _normed(Limits("npu.npu_rms_norm"), x, gamma, epsilon)


@npu_op("npu_add_rms_norm(Tensor x1, Tensor x2, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor, Tensor)")
def npu_add_rms_norm(x1: torch.Tensor, x2: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6):
    """RMSNorm of x1 + x2, the sum rounded to x1's dtype first. Returns (normed, fp32 1/rms, sum)."""
    limits = Limits("npu.npu_add_rms_norm")
    limits.require(x1.shape == x2.shape and x1.dtype == x2.dtype, "x2", (tuple(x2.shape), x2.dtype), "must match x1")
    total = x1 + x2
    return *_normed(limits, total, gamma, epsilon), total
