"""Renormalised top-k and top-p probabilities."""

import torch
from torch_npu import cpu_view, npu_view


def _kept(probs: torch.Tensor, ranked: torch.Tensor, order: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    ranked = torch.where(keep, ranked, 0.0)
    ranked = ranked / ranked.sum(-1, keepdim=True).clamp_min(1e-20)
    return torch.zeros_like(ranked).scatter_(1, order, ranked).to(probs.dtype)


def _ranked(probs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if probs.dim() != 2:
        raise ValueError("probs must have shape [batch, vocab]")
    return torch.sort(probs.double(), dim=-1, descending=True, stable=True)


def _column(value, rows: int) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return cpu_view(value).reshape(-1, 1).double()
    return torch.full((rows, 1), float(value), dtype=torch.float64)


def top_k_renorm_prob(probs: torch.Tensor, top_ks: torch.Tensor | int) -> torch.Tensor:
    """The k largest probabilities of each row ``[B, V]``, scaled to sum to 1; the rest 0."""
    host = cpu_view(probs)
    ranked, order = _ranked(host)
    count = _column(top_ks, host.shape[0]).clamp(1, host.shape[1])
    return npu_view(_kept(host, ranked, order, torch.arange(host.shape[1]) < count))


def top_p_renorm_prob(probs: torch.Tensor, top_ps: torch.Tensor | float) -> torch.Tensor:
    """The nucleus of each row ``[B, V]``: tokens before which less than or exactly p of mass lies; scaled to 1."""
    host = cpu_view(probs)
    ranked, order = _ranked(host)
    before = ranked.cumsum(-1) - ranked
    return npu_view(_kept(host, ranked, order, before <= _column(top_ps, host.shape[0]).clamp(0, 1)))
