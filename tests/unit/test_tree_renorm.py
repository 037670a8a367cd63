"""Top-k and top-p renormalisation against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dsv4_npu_tree.tree.renorm import top_k_renorm_prob, top_p_renorm_prob


def kept(row: np.ndarray, top_k: int, top_p: float) -> set[int]:
    """Tokens that top-k, then top-p of the renormalised rest, keep; ties to the lower id. In float64."""
    ranked = sorted(range(len(row)), key=lambda t: (-row[t], t))[:top_k]
    total, before, tokens = sum(float(row[t]) for t in ranked), 0.0, set()
    for token in ranked:
        if top_p < 1 and before / total > top_p:
            break
        tokens.add(token)
        before += float(row[token])
    return tokens


def test_renormalisation_keeps_the_right_tokens():
    rng = np.random.default_rng(0)
    undecided = 0
    for vocabulary in (1, 2, 7, 300):
        probs = rng.dirichlet(np.full(vocabulary, 0.5), 40).astype(np.float32)
        probs[::3] = np.round(probs[::3] * 8) / 8 + 1e-3  # many ties
        probs /= probs.sum(-1, keepdims=True)
        top_k = torch.from_numpy(rng.choice([1, 2, 5, 1 << 30], 40)).int()
        top_p = torch.from_numpy(rng.choice([0.05, 0.31, 0.77, 1.0], 40).astype(np.float32))
        ours = top_p_renorm_prob(top_k_renorm_prob(torch.from_numpy(probs), top_k), top_p)
        assert torch.allclose(ours.sum(-1), torch.ones(40), atol=1e-6)
        for row, k, p, mine in zip(probs, top_k.tolist(), top_p.tolist(), ours, strict=True):
            tokens = mine.nonzero().view(-1).tolist()
            # fp32 sums may place a token that ends exactly at top_p on either side
            assert kept(row, k, p - 1e-6) <= set(tokens) <= kept(row, k, p + 1e-6 if p < 1 else p)
            undecided += len(kept(row, k, p + 1e-6 if p < 1 else p)) - len(kept(row, k, p - 1e-6 if p < 1 else p))
            assert np.allclose(mine[tokens], row[tokens] / row[tokens].sum(), atol=1e-6)
    assert undecided < 5


def test_top_k_one_is_argmax_and_scalars_work():
    probs = torch.tensor([[0.2, 0.3, 0.3, 0.2], [0.25, 0.25, 0.25, 0.25]])
    assert torch.equal(top_k_renorm_prob(probs, 1).argmax(-1), probs.argmax(-1))
    assert top_k_renorm_prob(probs, torch.tensor([1])).tolist() == [[0, 1, 0, 0], [1, 0, 0, 0]]
    assert torch.equal(top_p_renorm_prob(probs, 1.0), probs)
    overfull = torch.tensor([[0.6, 0.4000002, 1e-9]])  # sums past 1 before the last token
    assert (top_p_renorm_prob(overfull, 1.0) > 0).all()
    assert top_p_renorm_prob(torch.full((1, 3), torch.nan), 0.5).shape == (1, 3)
    assert top_p_renorm_prob(probs, 0.3)[0].tolist() == [0, 0.5, 0.5, 0]
    assert top_p_renorm_prob(torch.empty(0, 4), 0.5).shape == top_k_renorm_prob(torch.empty(0, 4), 2).shape == (0, 4)
    for call, message in (
        (lambda: top_k_renorm_prob(probs, 0), "top_k=0 keeps nothing"),
        (lambda: top_p_renorm_prob(probs, 1.5), "top_p=1.5 is outside"),
        (lambda: top_k_renorm_prob(probs, torch.tensor([1, 2, 3])), "top_k has 3 values for 2 rows"),
        (lambda: top_p_renorm_prob(probs.double(), 0.5), "probs is torch.float64"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
