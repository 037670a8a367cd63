"""The k best of some scores, and by how much the choice was made."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Choice:
    """`kept` [k] in ascending order; `gap` between the worst kept and the best dropped score, inf if none was dropped.

    A gap of 0 is a tie, here to the lower index. Another implementation may choose otherwise where the gap is within
    its rounding, and what follows then differs by much more than rounding: comparisons must look at the gap.
    """

    kept: np.ndarray
    gap: float

    @property
    def bound(self) -> bool:
        return bool(np.isfinite(self.gap))


def best(scores: np.ndarray, k: int) -> Choice:
    order = np.argsort(-scores, kind="stable")
    gap = scores[order[k - 1]] - scores[order[k]] if len(order) > k else np.inf
    return Choice(np.sort(order[:k]), float(gap))
