"""The attention mask of a verify round in SGLang's three layouts: what `tree_build` writes on request.

Layouts are those of `build_tree_kernel_efficient` of SGLang 0.5.23, for bs requests of n nodes with prefixes P:

    FULL_MASK             bool, per request n rows of P+n columns, requests behind each other. The caller fills the mask
                          with True: prefix columns are not written
    QLEN_ONLY             bool [bs, n, n]
    QLEN_ONLY_BITPACKING  uint8, uint16 or uint32 [bs, n] for n up to 8, 16 or 32; bit j is node j

Row i is True at the path root..i. The row of an inert node shows itself only (SGLang leaves such rows undefined).
"""

from __future__ import annotations

from enum import IntEnum

import torch
from torch import Tensor

NO_MASK = -1
MAX_PACKED_NODES = 32
# Longer prefixes end a FULL_MASK: the kernel addresses a row's gap with 32 bits.
_MAX_PREFIX = 0xFFFFFFFF


class TreeMaskMode(IntEnum):
    """Mask layouts by their number in SGLang (`TreeMaskMode` in sglang/kernels/ops/speculative/spec_tree.py)."""

    FULL_MASK = 0
    QLEN_ONLY = 1
    QLEN_ONLY_BITPACKING = 2


def mask_dtype(mode: int, n: int) -> torch.dtype:
    """Dtype of a mask of n nodes. Raises ValueError for an unknown mode or more nodes than a packed row has bits."""
    if mode in (TreeMaskMode.FULL_MASK, TreeMaskMode.QLEN_ONLY):
        return torch.bool
    if mode != TreeMaskMode.QLEN_ONLY_BITPACKING:
        raise ValueError(
            f"tree mask mode {mode} is unknown; use one of {[f'{m.name}={m.value}' for m in TreeMaskMode]}"
        )
    if n > MAX_PACKED_NODES:
        raise ValueError(f"num_draft_tokens={n} does not fit the 32 bits of a packed mask; use QLEN_ONLY")
    return torch.uint8 if n <= 8 else torch.uint16 if n <= 16 else torch.uint32


def check_mask(mask: Tensor | None, mode: int, bs: int, n: int, device: torch.device) -> None:
    """Raises ValueError unless `mask` can take the mask of bs requests of n nodes, and None goes with NO_MASK."""
    if mask is None:
        if mode != NO_MASK:
            raise ValueError(f"mask_mode={mode} without a mask; pass the tensor to write, or mask_mode={NO_MASK}")
        return
    if mode == NO_MASK:
        raise ValueError(f"mask_mode={mode} writes no mask, and one is given; choose a TreeMaskMode")
    dtype = mask_dtype(mode, n)
    if mask.dtype != dtype:
        raise ValueError(f"mask has dtype {mask.dtype}, mode {mode} of {n} nodes writes {dtype}; allocate it so")
    if mask.device != device:
        raise ValueError(f"mask is on {mask.device}, seq_lens on {device}; move them to one device")
    if not mask.is_contiguous():
        raise ValueError(f"mask has strides {mask.stride()} for shape {tuple(mask.shape)}; pass a contiguous tensor")
    least = bs * n * (1 if mode == TreeMaskMode.QLEN_ONLY_BITPACKING else n)
    # How much longer a FULL_MASK must be is known to the device only.
    if mask.numel() < least or (mode != TreeMaskMode.FULL_MASK and mask.numel() != least):
        wanted = f"{least} and n*sum(seq_lens) more" if mode == TreeMaskMode.FULL_MASK else str(least)
        raise ValueError(f"mask has {mask.numel()} elements, expected {wanted} for bs={bs}, n={n}, mode {mode}")


def write_mask(mask: Tensor, mode: int, ancestors: Tensor, seq_lens: Tensor) -> None:
    """Write what `ancestors` int64 [bs, n] says into a mask that passes `check_mask`; bs > 0.

    A prefix that does not fit a FULL_MASK ends it: its request and those behind are not written. Waits for nothing.
    """
    bs, n = ancestors.shape
    node = torch.arange(n, device=ancestors.device)
    visible = ancestors | (torch.ones_like(node) << node)
    if mode == TreeMaskMode.QLEN_ONLY_BITPACKING:
        octets = visible.contiguous().view(torch.uint8).view(bs * n, 8)
        mask.view(-1).view(torch.uint8).view(bs * n, -1).copy_(octets[:, : mask.element_size()])
        return
    square = ((visible[..., None] >> node) & 1).bool()
    if mode == TreeMaskMode.QLEN_ONLY:
        mask.view(-1).copy_(square.view(-1))
        return
    _write_full(mask.view(-1), square, seq_lens.long())


def _write_full(mask: Tensor, square: Tensor, prefix: Tensor) -> None:
    bs, n, _ = square.shape
    size = mask.numel()
    alone = (prefix >= 0) & (prefix <= min(size // n - n, _MAX_PREFIX))
    prefix = torch.where(alone, prefix, 0)  # no sum below overflows
    end = ((prefix + n) * n).cumsum(0)
    fits = (alone & (end <= size)).long().cumprod(0).bool()
    first = end - (prefix + n) * n + prefix  # of a request's node columns
    row, column = torch.arange(n, device=mask.device)[:, None], torch.arange(n, device=mask.device)
    index = first[:, None, None] + row * (prefix[:, None, None] + n) + column
    # A request that does not fit repeats the first one's cells; if that does not fit either, cell 0 keeps its value.
    chosen = fits[:, None, None]
    index = torch.where(chosen, index, torch.where(fits[0], index[:1], 0))
    value = torch.where(chosen, square, torch.where(fits[0], square[:1], mask[0]))
    mask.scatter_(0, index.reshape(-1), value.reshape(-1))
