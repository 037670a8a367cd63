"""Top-k and top-p renormalisation, and seeded coins, against their definitions."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import torch

from dsv4_npu_tree.tree.coins import murmur_hash32, seeded_verify_coins
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


def murmur3(key: bytes) -> int:
    """MurmurHash3_x86_32 with seed 0 for keys of whole words, from the published algorithm."""
    mask, state = 0xFFFFFFFF, 0
    for (word,) in struct.iter_unpack("<I", key):
        word = word * 0xCC9E2D51 & mask
        word = (word << 15 | word >> 17) & mask
        state ^= word * 0x1B873593 & mask
        state = (state << 13 | state >> 19) & mask
        state = (state * 5 + 0xE6546B64) & mask
    state ^= len(key)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state = (state ^ state >> shift) * factor & mask
    return state ^ state >> 16


def test_seeded_coins():
    assert murmur3(b"test") == 0xBA6BD213  # published vector
    seeds = torch.tensor([0, 1, 42, 2**40 + 7, -5])
    positions = torch.tensor([0, 7, 1 << 20, 129, 3])
    hashed = murmur_hash32(seeds, positions, torch.arange(9))
    for row, seed, position in zip(hashed.tolist(), seeds.tolist(), positions.tolist(), strict=True):
        assert row == [murmur3(struct.pack("<QII", seed % 2**64, position, column)) for column in range(9)]
    coins, final = seeded_verify_coins(seeds, positions, 8)
    assert coins.shape == (5, 8) and final.shape == (5,) and coins.dtype == final.dtype == torch.float32
    everything = torch.cat([coins, final[:, None]], 1).double()
    assert ((everything - hashed.double() / (2**32 - 1)).abs() < 2**-23).all()
    assert everything.max() < 1 and everything.min() >= 0
    alone, alone_final = seeded_verify_coins(seeds[2:3], positions[2:3], 8)
    assert torch.equal(alone[0], coins[2]) and alone_final[0] == final[2]
    with pytest.raises(ValueError, match="flatten"):
        murmur_hash32(seeds, positions[:2], torch.arange(3))
