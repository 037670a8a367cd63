"""Build a `Topology` from the draft's candidates, and the attention masks that say the same thing."""

from __future__ import annotations

import torch
from torch import Tensor

from dsv4_npu_tree.ops.tree_build import tree_build
from dsv4_npu_tree.ops.tree_mask import NO_MASK, TreeMaskMode, mask_dtype, write_mask
from dsv4_npu_tree.tree.topology import Topology


def build(
    parent_list: Tensor,
    selected_index: Tensor,
    scores: Tensor,
    seq_lens: Tensor,
    *,
    topk: int,
    steps: int,
    num_draft_tokens: int,
    max_branches: int | None = None,
    mask: Tensor | None = None,
    mask_mode: int = NO_MASK,
) -> Topology:
    """Topology of a batch of trees; the arguments are those of `ops.tree_build.tree_build`.

    `max_branches` None means n-1, which drops nothing. Raises ValueError as the op does.
    """
    outputs = tree_build(
        parent_list,
        selected_index,
        scores,
        seq_lens,
        topk,
        steps,
        num_draft_tokens,
        num_draft_tokens - 1 if max_branches is None else max_branches,
        mask=mask,
        mask_mode=mask_mode,
    )
    return Topology(*outputs, n=num_draft_tokens, steps=steps, topk=topk)


def tree_mask(topology: Topology, mode: TreeMaskMode | int, seq_lens_sum: int | None = None) -> Tensor:
    """The mask upstream's builder would give for this topology, flat, in a layout of `ops/tree_mask.py`: what
    `tree_build` writes on request. For tests and comparisons: the backend reads no mask.

    `seq_lens_sum`: the sum of the prefix lengths, which FULL_MASK needs; taken from the device if None.

    Raises ValueError for an unknown mode, a `seq_lens_sum` that is not the sum, or more than 32 nodes to pack.
    """
    bs, n = topology.bs, topology.n
    dtype, size = mask_dtype(mode, n), bs * n * n
    if mode == TreeMaskMode.QLEN_ONLY_BITPACKING:
        size = bs * n
    elif mode == TreeMaskMode.FULL_MASK:
        prefixes = int(topology.seq_lens.sum())
        if seq_lens_sum is not None and seq_lens_sum != prefixes:
            raise ValueError(f"seq_lens_sum={seq_lens_sum} but the prefix lengths sum to {prefixes}")
        size += n * prefixes
    mask = torch.ones(size, dtype=dtype, device=topology.device)
    if bs > 0:
        write_mask(mask, mode, topology.ancestors, topology.seq_lens)
    return mask
