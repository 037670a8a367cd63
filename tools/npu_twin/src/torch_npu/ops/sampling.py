"""Top-k / top-p filter of logits."""

import torch

from torch_npu.ops.limits import Limits
from torch_npu.ops.registry import npu_op


@npu_op("npu_top_k_top_p(Tensor logits, Tensor? p=None, Tensor? k=None) -> Tensor")
def npu_top_k_top_p(logits: torch.Tensor, p: torch.Tensor | None = None, k: torch.Tensor | None = None) -> torch.Tensor:
    """Set to -inf what lies outside the k best, then outside the nucleus of mass p.

    logits: ``[B, V]``. p: ``[B]`` in logits' dtype. k: int32 ``[B]`` in 1..1024. The ascending cumulative
    probability of a dropped token is at most 1 - p; the best token always stays.
    """
    limits = Limits("npu.npu_top_k_top_p")
    limits.require(logits.dim() == 2, "logits.shape", tuple(logits.shape), "must be [B, V]")
    values, order = torch.sort(logits.double(), dim=-1, stable=True)
    vocabulary = logits.shape[1]
    if k is not None:
        low, high = int(k.min()), int(k.max())
        limits.require(low >= 1 and high <= 1024, "k", (low, high), "must be in 1..1024")
        dropped = torch.arange(vocabulary) < vocabulary - k.long().unsqueeze(1)
        values = values.masked_fill(dropped, float("-inf"))
    if p is not None:
        mass = torch.softmax(values, -1).cumsum(-1)
        dropped = mass <= 1 - p.double().unsqueeze(1)
        dropped[:, -1] = False
        values = values.masked_fill(dropped, float("-inf"))
    return torch.empty_like(values).scatter_(1, order, values).to(logits.dtype)
