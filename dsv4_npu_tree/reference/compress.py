"""First-principles oracle of the compressor on a path in numpy fp64, and how far a result is from a rounding tie."""

from __future__ import annotations

import numpy as np

ABSENT = -(1 << 31)


def token_rows(x: np.ndarray, weight: np.ndarray, ape: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """fp64 ``[T, 2*coff*D]``: kv | score + ape[position % ratio]; no rounding anywhere."""
    rows = np.empty((len(x), len(weight)))
    for t, position in enumerate(positions):
        rows[t] = weight.astype(np.float64, copy=False) @ x[t].astype(np.float64)
        rows[t, len(weight) // 2 :] += ape[position % len(ape)].astype(np.float64)
    return rows


def entry(
    tokens: list[np.ndarray | None],
    overlap: bool,
    norm_weight: np.ndarray,
    cos: np.ndarray,
    sin: np.ndarray,
    eps: float,
) -> np.ndarray:
    """fp64 ``[D]`` from the rows of a window, oldest first, None where the sequence had not begun.

    overlap: the first half of the window is the previous block and uses the left columns of kv and of score.
    """
    dim = len(norm_weight)
    values, logits = [], []
    for slot, row in enumerate(tokens):
        if row is None:
            continue
        first = dim if overlap and slot >= len(tokens) // 2 else 0
        values.append(row[first : first + dim].astype(np.float64))
        logits.append(row[len(row) // 2 + first :][:dim].astype(np.float64))
    if not values:
        return np.full(dim, np.nan)
    with np.errstate(invalid="ignore"):
        weights = np.exp(np.array(logits) - np.max(logits, axis=0))
        pooled = (weights * np.array(values)).sum(0) / weights.sum(0)
        normed = pooled / np.sqrt(np.mean(pooled**2) + eps) * norm_weight.astype(np.float64)
    first = dim - len(cos)
    for pair in range(0, len(cos), 2):
        a, b = normed[first + pair], normed[first + pair + 1]
        normed[first + pair] = a * float(cos[pair]) - b * float(sin[pair])
        normed[first + pair + 1] = b * float(cos[pair + 1]) + a * float(sin[pair + 1])
    return normed


def entries(
    scratch: np.ndarray,
    state: np.ndarray,
    window: np.ndarray,
    closes: np.ndarray,
    norm_weight: np.ndarray,
    cos: np.ndarray,
    sin: np.ndarray,
    coff: int,
    eps: float,
) -> np.ndarray:
    """fp64 ``[T, D]``, 0 where ``closes`` is false; arguments as `ops.tree_compress.tree_compress`."""
    result = np.zeros((len(window), len(norm_weight)))
    for t in np.flatnonzero(closes):
        tokens = [
            None if source == ABSENT else state[source] if source >= 0 else scratch[-1 - source] for source in window[t]
        ]
        result[t] = entry(tokens, coff == 2, norm_weight, cos[t], sin[t], eps)
    return result


def bf16_steps(values: np.ndarray) -> np.ndarray:
    """bf16 steps at the values: 8 significant bits, never below the smallest subnormal."""
    return np.exp2(np.maximum(np.frexp(values)[1] - 8, -133).astype(np.float64))


def bf16(values: np.ndarray) -> np.ndarray:
    """fp64 values rounded once to bf16 (nearest, ties to even), as fp32."""
    step = bf16_steps(values)
    return (np.rint(values / step) * step).astype(np.float32)


def ulps_to_tie(values: np.ndarray) -> np.ndarray:
    """Distance of fp64 values to the nearest bf16 rounding tie, in fp32 ulps (2**-16 of a bf16 step)."""
    scaled = values / bf16_steps(values)
    return np.abs(scaled - np.floor(scaled) - 0.5) * 65536.0
