"""The lightning indexer: which C4 entries a query attends to (DeepSeek-V4 report, section 2.3.1)."""

from __future__ import annotations

import numpy as np

from dsv4_npu_tree.reference.choice import Choice, best


def select(q: np.ndarray, weight: np.ndarray, keys: np.ndarray, topk: int) -> Choice:
    """The `topk` of keys [K, D] with the largest sum_h weight_h * relu(q_h . key); q [H, D], weight [H].

    Only keys that the query may see are passed in. Scores can be negative; with few heads many are exactly 0 and tie.
    """
    dots = np.maximum(q @ keys.reshape(-1, q.shape[1]).T, 0.0) / np.sqrt(q.shape[1])
    return best((weight / np.sqrt(len(q))) @ dots, topk)
