"""Rotary embedding of DeepSeek-V4: the last dimensions of a vector, in interleaved pairs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def frequencies(dim: int, theta: float, scaling: Mapping[str, Any] | None = None) -> np.ndarray:
    """Radians per position of each pair, [dim / 2]; with `scaling` those of YaRN (arXiv 2309.00071).

    A pair that turns more than beta_fast times over the original context keeps its frequency, one that turns less than
    beta_slow times is slowed down by `factor`, with a linear ramp between. DeepSeek-V4 does not use YaRN's mscale.
    """
    plain = theta ** -(np.arange(0, dim, 2) / dim)
    if scaling is None:
        return plain
    context = scaling["original_max_position_embeddings"]

    def pair_turning(times: float) -> float:
        return dim * math.log(context / (times * 2 * math.pi)) / (2 * math.log(theta))

    low = max(math.floor(pair_turning(scaling["beta_fast"])), 0)
    high = min(math.ceil(pair_turning(scaling["beta_slow"])), dim - 1)
    slowed = np.clip((np.arange(dim // 2) - low) / max(high - low, 0.001), 0, 1)
    return plain * (1 - slowed) + plain / scaling["factor"] * slowed


def turn(x: np.ndarray, position: int, freqs: np.ndarray, back: bool = False) -> np.ndarray:
    """x [..., D] with its last 2 * len(freqs) dimensions rotated by position * freqs, or by the opposite angles."""
    angle = (-position if back else position) * freqs
    first = x.shape[-1] - 2 * len(freqs)
    a, b = x[..., first::2], x[..., first + 1 :: 2]
    turned = x.copy()
    turned[..., first::2] = a * np.cos(angle) - b * np.sin(angle)
    turned[..., first + 1 :: 2] = b * np.cos(angle) + a * np.sin(angle)
    return turned


def tables(position: int, freqs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """cos and sin of one position, each repeated for the two dimensions of its pair, as the card's ops take them."""
    return np.repeat(np.cos(position * freqs), 2), np.repeat(np.sin(position * freqs), 2)
