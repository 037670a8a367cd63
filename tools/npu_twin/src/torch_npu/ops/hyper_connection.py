"""Manifold hyper-connections: mix the residual streams before a sublayer, spread its output after it."""

import torch

from torch_npu.ops.limits import Limits
from torch_npu.ops.registry import custom_op


@custom_op(
    "npu_hc_pre(Tensor x, Tensor hc_fn, Tensor hc_scale, Tensor hc_base, *, int hc_mult=4, int hc_sinkhorn_iters=20, "
    "float norm_eps=1e-06, float hc_eps=1e-06) -> (Tensor, Tensor, Tensor)"
)
def npu_hc_pre(
    x: torch.Tensor,
    hc_fn: torch.Tensor,
    hc_scale: torch.Tensor,
    hc_base: torch.Tensor,
    *,
    hc_mult: int = 4,
    hc_sinkhorn_iters: int = 20,
    norm_eps: float = 1e-6,
    hc_eps: float = 1e-6,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sublayer input and mixing weights of each token.

    Args:
        x: ``[T, h, D]`` residual streams, h = hc_mult. hc_fn: fp32 ``[(2 + h) h, h D]``. hc_scale: fp32 ``[3]``.
        hc_base: fp32 ``[(2 + h) h]``.

    Returns:
        fp32 y ``[T, D]`` = sum_j pre_j x_j, post ``[T, h]``, comb ``[T, h, h]`` (Sinkhorn-normalised).
    """
    limits = Limits("custom.npu_hc_pre")
    limits.require(x.dim() == 3 and x.shape[1] == hc_mult, "x.shape", tuple(x.shape), "must be [T, hc_mult, D]")
    h = hc_mult
    streams = x.double()
    flat = streams.flatten(1)
    mixes = flat @ hc_fn.double().T * torch.rsqrt(flat.square().mean(-1, keepdim=True) + norm_eps)
    pre, post, comb = mixes.split([h, h, h * h], -1)
    pre_base, post_base, comb_base = hc_base.double().split([h, h, h * h])
    scale = hc_scale.double()
    pre = torch.sigmoid(pre * scale[0] + pre_base) + hc_eps
    post = 2 * torch.sigmoid(post * scale[1] + post_base)
    comb = torch.softmax(comb.view(-1, h, h) * scale[2] + comb_base.view(h, h), -1) + hc_eps
    comb.div_(comb.sum(-2, keepdim=True).add_(hc_eps))
    for _ in range(hc_sinkhorn_iters - 1):
        comb.div_(comb.sum(-1, keepdim=True).add_(hc_eps))
        comb.div_(comb.sum(-2, keepdim=True).add_(hc_eps))
    return (pre.unsqueeze(-1) * streams).sum(1).float(), post.float(), comb.float()


@custom_op("npu_hc_post(Tensor x, Tensor residual, Tensor post, Tensor comb) -> Tensor")
def npu_hc_post(x: torch.Tensor, residual: torch.Tensor, post: torch.Tensor, comb: torch.Tensor) -> torch.Tensor:
    """New streams: out_k = post_k x + sum_j comb[j, k] residual_j.

    x: ``[T, D]``. residual: ``[T, h, D]``. post: fp32 ``[T, h]``. comb: fp32 ``[T, h, h]``. Returns ``[T, h, D]``
    in x's dtype.
    """
    limits = Limits("custom.npu_hc_post")
    limits.require(x.dim() == 2 and residual.dim() == 3, "residual.shape", tuple(residual.shape), "must be [T, h, D]")
    spread = post.double().unsqueeze(-1) * x.double().unsqueeze(1)
    kept = comb.double().transpose(-1, -2) @ residual.double()
    return (spread + kept).to(x.dtype)
