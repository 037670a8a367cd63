"""95 % intervals of tokens per forward and of its differences, by bootstrap over prompts."""

from __future__ import annotations

import numpy as np

from acceptance_bench.walk import Walk

DRAWS = 4000
Interval = tuple[float, float]


class Bootstrap:
    """The same draws for everything that is measured, so that differences are paired."""

    def __init__(self, prompts: int, seed: int = 0):
        picks = np.random.default_rng(seed).integers(0, prompts, (DRAWS, prompts))
        self._weights = np.stack([np.bincount(row, minlength=prompts) for row in picks]).astype(np.float64)

    def samples(self, walk: Walk) -> np.ndarray:
        """Tokens per forward of each draw."""
        return (self._weights @ walk.tokens.numpy()) / (self._weights @ walk.forwards.numpy())

    def interval(self, walk: Walk) -> Interval:
        return _middle(self.samples(walk))

    def difference(self, walk: Walk, other: Walk) -> Interval:
        """Of ``walk`` minus ``other``."""
        return _middle(self.samples(walk) - self.samples(other))


def _middle(samples: np.ndarray) -> Interval:
    low, high = np.quantile(samples, (0.025, 0.975))
    return float(low), float(high)
