"""Attention of one query over the keys it can see, and how attentions over parts of the keys are joined."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Part = tuple[np.ndarray, np.ndarray]


def attend(q: np.ndarray, keys: np.ndarray, scale: float, sink: np.ndarray | None = None) -> Part:
    """Output [H, D] and log-sum-exp [H] of heads `q` [H, D] over shared `keys` [K, D], which are the values as well.

    `sink` [H] is one more logit without a value: it takes its share of the softmax, and of the log-sum-exp, and adds
    nothing to the output. No key and no sink: output 0, log-sum-exp -inf.
    """
    logits = scale * q @ keys.reshape(-1, q.shape[1]).T
    if sink is not None:
        logits = np.concatenate([logits, sink[:, None]], axis=1)
    top = logits.max(axis=1, keepdims=True, initial=-np.inf)
    mass = np.exp(logits - np.where(np.isfinite(top), top, 0.0))
    total = mass.sum(axis=1)
    out = mass[:, : len(keys)] @ keys.reshape(-1, q.shape[1]) / np.where(total > 0, total, 1.0)[:, None]
    with np.errstate(divide="ignore"):
        return out, np.log(total) + top[:, 0]


def join(parts: Sequence[Part]) -> Part:
    """One attention from normalised attentions over disjoint keys: outputs weighted by exp(log-sum-exp).

    A key, or the sink, that is in two parts is counted twice. The sink belongs to exactly one of them, or is a part of
    its own: `(0, sink)`.
    """
    outs, lses = np.stack([out for out, _ in parts]), np.stack([lse for _, lse in parts])
    top = lses.max(axis=0)
    mass = np.exp(lses - np.where(np.isfinite(top), top, 0.0))
    total = mass.sum(axis=0)
    out = (mass[..., None] * outs).sum(axis=0) / np.where(total > 0, total, 1.0)[:, None]
    with np.errstate(divide="ignore"):
        return out, np.log(total) + top
