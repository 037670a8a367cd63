"""RMS normalisation."""

from __future__ import annotations

import numpy as np


def rms(x: np.ndarray, eps: float, weight: np.ndarray | float = 1.0) -> np.ndarray:
    """x / sqrt(mean(x**2) + eps) * weight over the last dimension."""
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps) * weight
