"""The mixture of experts of one layer for one token."""

from __future__ import annotations

import numpy as np

from dsv4_npu_tree.reference.choice import Choice, best
from dsv4_npu_tree.reference.config import Config
from dsv4_npu_tree.reference.weights import Weights


def expert(x: np.ndarray, gate: np.ndarray, up: np.ndarray, down: np.ndarray, limit: float) -> np.ndarray:
    """SwiGLU with its inputs clamped: the gate from above, the other factor on both sides."""
    g, u = np.minimum(gate @ x, limit), np.clip(up @ x, -limit, limit)
    return down @ (g / (1 + np.exp(-g)) * u)


def mixture(
    x: np.ndarray, token: int, weights: Weights, config: Config, hashed: bool
) -> tuple[np.ndarray, Choice | None]:
    """Output [D] for x [D], and the choice of experts where it was made by score (None: by the table of token ids).

    The bias of the router moves the choice only; the shares come from the bare scores.
    """
    scores = np.sqrt(np.logaddexp(0, weights["gate.weight"] @ x))
    if hashed:
        chosen, choice = weights["gate.tid2eid"][token], None
    else:
        choice = best(scores + weights["gate.e_score_correction_bias"], config.num_experts_per_tok)
        chosen = choice.kept
    shares = scores[chosen] / (scores[chosen].sum() + 1e-20) * config.routed_scaling_factor
    shared = weights.under("shared_experts.")
    gate, up, down = (shared[f"{name}_proj.weight"] for name in ("gate", "up", "down"))
    out = expert(x, gate, up, down, config.swiglu_limit)
    for e, share in zip(chosen, shares, strict=True):
        gate, up = np.split(weights["experts.gate_up_proj"][e], 2)
        out = out + share * expert(x, gate, up, weights["experts.down_proj"][e], config.swiglu_limit)
    return out, choice
