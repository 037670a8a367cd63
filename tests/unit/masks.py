"""The mask of a batch of trees as the oracle of reference/tree.py sees it, in SGLang's three layouts."""

from __future__ import annotations

import numpy as np
import torch
from generators import BROKEN_KINDS, VALID_KINDS, Case, case

from dsv4_npu_tree.ops.tree_mask import TreeMaskMode

PREFIXES = (0, 1, 3, 127, 128, 1000)


def mask_of(made: Case, mode: TreeMaskMode) -> torch.Tensor:
    """The mask after the op, flat; prefix columns of FULL_MASK are True."""
    trees, n = made.trees(), made.n
    rows = [tree.visibility() | np.eye(n, dtype=bool) for tree in trees]
    if mode == TreeMaskMode.QLEN_ONLY_BITPACKING:
        size, dtype = (1, torch.uint8) if n <= 8 else (2, torch.uint16) if n <= 16 else (4, torch.uint32)
        bits = np.packbits(np.array(rows, dtype=bool).reshape(-1, n), axis=1, bitorder="little")
        padded = np.zeros((len(bits), size), dtype=np.uint8)
        padded[:, : bits.shape[1]] = bits
        return torch.tensor(padded.reshape(-1)).view(dtype)
    if mode == TreeMaskMode.FULL_MASK:
        rows = [np.pad(row, ((0, 0), (tree.prefix, 0)), constant_values=True) for row, tree in zip(rows, trees)]
    return torch.from_numpy(np.concatenate([np.zeros(0, dtype=bool), *(row.reshape(-1) for row in rows)]))


def before(want: torch.Tensor, mode: TreeMaskMode) -> torch.Tensor:
    """A mask that the op has still to write: the caller's True for FULL_MASK, else bytes that no mask has."""
    if mode == TreeMaskMode.FULL_MASK:
        return torch.ones_like(want)
    return torch.full_like(want.view(torch.uint8), 0xA5).view(want.dtype)


def same(got: torch.Tensor, want: torch.Tensor) -> bool:
    """Equal byte for byte: a bool of 0xA5 is no bool."""
    return got.dtype == want.dtype and torch.equal(got.view(torch.uint8), want.view(torch.uint8))


def masked_case(rng: np.random.Generator, bs: int, mode: TreeMaskMode) -> Case:
    """Trees of every kind, orphans among them, behind prefixes of different lengths."""
    while True:
        made = case(rng, str(rng.choice(VALID_KINDS + BROKEN_KINDS)), bs)
        if mode != TreeMaskMode.QLEN_ONLY_BITPACKING or made.n <= 32:
            made.seq_lens = [int(s) for s in rng.choice(PREFIXES, bs)]
            return made
