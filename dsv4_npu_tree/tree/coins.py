"""Seeded verification coins in torch: SGLang's hash of (seed, position, column) without its Triton kernel.

`_seeded_verify_coins` of SGLang 0.5.23 (speculative/eagle_utils.py) hashes with a Triton kernel over uint64 tensors and
divides in float64. Here the same 32-bit hash is computed in int64, and its upper 24 bits are the coin, which needs
neither type and cannot round up to 1. A coin is within 2^-23 of upstream's.
"""

from __future__ import annotations

import torch
from torch import Tensor

_WORD = 0xFFFFFFFF


def murmur_hash32(seed: Tensor, positions: Tensor, columns: Tensor) -> Tensor:
    """MurmurHash3 of (seed low, seed high, position, column), as sglang/kernels/ops/sampling/murmur_hash.py does it.

    seed, positions int64 [rows]; columns int64 [m]. Returns int64 [rows, m] with values below 2^32.
    """
    if seed.dim() != 1 or seed.shape != positions.shape or columns.dim() != 1:
        raise ValueError(
            f"seed {tuple(seed.shape)} and positions {tuple(positions.shape)} must be [rows], columns "
            f"{tuple(columns.shape)} [m]; flatten them"
        )
    seed, positions = seed.long(), positions.long()
    state = torch.zeros_like(seed)
    for word in (seed & _WORD, (seed >> 32) & _WORD, positions & _WORD):
        state = _mix(state, word)
    state = _mix(state[:, None], (columns.long() & _WORD)[None, :])
    state = state ^ 16  # length of the key in bytes
    state = ((state ^ (state >> 16)) * 0x85EBCA6B) & _WORD
    state = ((state ^ (state >> 13)) * 0xC2B2AE35) & _WORD
    return state ^ (state >> 16)


def seeded_verify_coins(sampling_seed: Tensor, seq_lens: Tensor, draft_token_num: int) -> tuple[Tensor, Tensor]:
    """Coins of a verify round in [0, 1): fp32 [bs, n] for the children of each node, fp32 [bs] for the last draw.

    sampling_seed, seq_lens int64 [bs]. The same seed and prefix length give the same coins, whatever else is in the
    batch.
    """
    columns = torch.arange(draft_token_num + 1, device=seq_lens.device)
    coins = (murmur_hash32(sampling_seed, seq_lens, columns) >> 8).to(torch.float32) * 2.0**-24
    return coins[:, :draft_token_num].contiguous(), coins[:, draft_token_num].contiguous()


def _mix(state: Tensor, word: Tensor) -> Tensor:
    # int64 products wrap, which leaves the lower 32 bits right
    word = _rotate((word * 0xCC9E2D51) & _WORD, 15)
    word = (word * 0x1B873593) & _WORD
    return (_rotate(state ^ word, 13) * 5 + 0xE6546B64) & _WORD


def _rotate(word: Tensor, by: int) -> Tensor:
    return ((word << by) | (word >> (32 - by))) & _WORD
