"""Manifold-constrained hyper-connections: the residual of a token is a few streams, mixed around each sublayer.

arXiv 2512.24880; as in DeepSeek-V4 the coefficients depend on the token's own streams and on nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dsv4_npu_tree.reference.config import Config
from dsv4_npu_tree.reference.norm import rms
from dsv4_npu_tree.reference.weights import Weights


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


@dataclass(frozen=True)
class Mixing:
    """Coefficients of one sublayer for one token; n streams of [D]."""

    pre: np.ndarray  # [n] streams into the sublayer
    post: np.ndarray  # [n] its output into the streams
    mix: np.ndarray  # [n, n] stream j into stream k, made doubly stochastic by Sinkhorn's iteration

    @classmethod
    def of(cls, streams: np.ndarray, weights: Weights, config: Config) -> Mixing:
        n, eps = config.hc_mult, config.hc_eps
        drawn = weights["fn"] @ rms(streams.ravel(), config.rms_norm_eps)
        scale, base = weights["scale"], weights["base"]
        pre = sigmoid(drawn[:n] * scale[0] + base[:n]) + eps
        post = 2 * sigmoid(drawn[n : 2 * n] * scale[1] + base[n : 2 * n])
        mix = np.exp((drawn[2 * n :] * scale[2] + base[2 * n :]).reshape(n, n))
        mix = mix / mix.sum(axis=1, keepdims=True) + eps
        for step in range(config.hc_sinkhorn_iters):
            if step > 0:  # the softmax was the first normalisation of the rows
                mix = mix / (mix.sum(axis=1, keepdims=True) + eps)
            mix = mix / (mix.sum(axis=0, keepdims=True) + eps)
        return cls(pre, post, mix)

    def inward(self, streams: np.ndarray) -> np.ndarray:
        """[D] of streams [n, D]."""
        return self.pre @ streams

    def outward(self, streams: np.ndarray, out: np.ndarray) -> np.ndarray:
        """[n, D] after the sublayer's output [D]."""
        return self.post[:, None] * out + self.mix.T @ streams


def collapsed(streams: np.ndarray, weights: Weights, config: Config) -> np.ndarray:
    """The one vector [D] that the head of the model reads."""
    drawn = weights["hc_fn"] @ rms(streams.ravel(), config.rms_norm_eps)
    return (sigmoid(drawn * weights["hc_scale"] + weights["hc_base"]) + config.hc_eps) @ streams
