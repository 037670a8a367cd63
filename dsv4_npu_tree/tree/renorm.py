"""Top-k and top-p renormalisation in torch, for devices whose kernel package does not ship it.

`eagle_sample` of SGLang 0.5.23 applies top-k first and top-p to the renormalised result; both functions keep that order
possible by returning normalised rows. Ties at the edge go to the lower token id, so a row keeps exactly the tokens that
fit: top_k = 1 is torch.argmax, which makes a greedy request exact in a batch that also samples. (Upstream's kernels
keep all ties.)
"""

from __future__ import annotations

import torch
from torch import Tensor


def top_k_renorm_prob(probs: Tensor, top_k: Tensor | int) -> Tensor:
    """Keep the `top_k` most likely tokens of every row and renormalise.

    probs fp32 [rows, V], rows summing to 1; top_k an int or an integer tensor [rows] or [1], at least 1, V or more
    keeps all. Returns fp32 [rows, V]. Raises ValueError for another shape or dtype, or an int below 1.
    """
    rows, vocabulary = _shape(probs)
    if isinstance(top_k, int) and top_k < 1:
        raise ValueError(f"top_k={top_k} keeps nothing; use 1 or more")
    kept = _per_row(top_k, "top_k", probs, torch.int64).clamp(1, max(vocabulary, 1))
    if rows == 0:
        return probs.clone()
    return _keep(probs, probs.sort(dim=-1, descending=True).values, kept)


def top_p_renorm_prob(probs: Tensor, top_p: Tensor | float) -> Tensor:
    """Keep, in every row, the most likely tokens until their mass reaches `top_p`, and renormalise.

    probs fp32 [rows, V], rows summing to 1; top_p a float or a float tensor [rows] or [1] in (0, 1], 1 keeps all. At
    least one token is kept. Returns fp32 [rows, V]. Raises ValueError for another shape or dtype, or a float outside
    (0, 1].
    """
    rows, vocabulary = _shape(probs)
    if isinstance(top_p, float) and not 0.0 < top_p <= 1.0:
        raise ValueError(f"top_p={top_p} is outside (0, 1]")
    limit = _per_row(top_p, "top_p", probs, torch.float32)
    if rows == 0:
        return probs.clone()
    ordered = probs.sort(dim=-1, descending=True).values
    before = ordered.cumsum(-1) - ordered
    # a token is in while the mass before it is at most top_p, as in the sampler of plain decode; a row of NaN keeps one
    kept = (before <= limit[:, None]).sum(-1).clamp(min=1)
    # sums of V rounded terms may exceed 1 early: top_p = 1 must not cut the tail
    return _keep(probs, ordered, torch.where(limit < 1.0, kept, vocabulary))


def _keep(probs: Tensor, ordered: Tensor, kept: Tensor) -> Tensor:
    """Renormalised `probs` cut to its `kept[row]` largest entries, ties to the lower id; needs no stable sort."""
    edge = ordered.gather(1, (kept - 1)[:, None])
    above = probs > edge
    level = probs == edge
    room = kept[:, None] - above.sum(-1, keepdim=True)
    selected = above | (level & (level.cumsum(-1) <= room))
    weights = torch.where(selected, probs, 0.0)
    return weights / weights.sum(-1, keepdim=True)


def _shape(probs: Tensor) -> tuple[int, int]:
    if probs.dim() != 2 or probs.dtype != torch.float32:
        raise ValueError(
            f"probs is {probs.dtype} {tuple(probs.shape)}, expected torch.float32 [rows, V]; flatten and .float()"
        )
    return probs.shape[0], probs.shape[1]


def _per_row(value: Tensor | float, name: str, probs: Tensor, dtype: torch.dtype) -> Tensor:
    rows = probs.shape[0]
    if not isinstance(value, Tensor):
        return torch.full((rows,), value, dtype=dtype, device=probs.device)
    flat = value.reshape(-1)
    if flat.shape[0] not in (1, rows):
        raise ValueError(f"{name} has {flat.shape[0]} values for {rows} rows; give one per row or a scalar")
    return flat.to(device=probs.device, dtype=dtype).expand(rows)
