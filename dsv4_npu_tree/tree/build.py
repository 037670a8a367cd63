"""Build a `Topology` from the draft's candidates, and the attention masks that say the same thing."""

from __future__ import annotations

from enum import IntEnum

import torch
import torch.nn.functional as F
from torch import Tensor

from dsv4_npu_tree.ops.tree_build import tree_build
from dsv4_npu_tree.tree.topology import Topology


class TreeMaskMode(IntEnum):
    """Mask layouts by their number in SGLang (`TreeMaskMode` in sglang/kernels/ops/speculative/spec_tree.py)."""

    FULL_MASK = 0
    QLEN_ONLY = 1
    QLEN_ONLY_BITPACKING = 2


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
    )
    return Topology(*outputs, n=num_draft_tokens, steps=steps, topk=topk)


def tree_mask(topology: Topology, mode: TreeMaskMode | int, seq_lens_sum: int | None = None) -> Tensor:
    """The mask upstream's builder would give for this topology. For tests and comparisons: the backend reads no mask.

    FULL_MASK             bool [n*seq_lens_sum + bs*n*n]: per request n rows of P+n columns, prefix True;
                          `seq_lens_sum` is the sum of the prefix lengths, taken from the device if None
    QLEN_ONLY             bool [bs*n*n]
    QLEN_ONLY_BITPACKING  uint8 / uint16 / uint32 [bs*n] for n up to 8 / 16 / 32, bit j = node j

    An inert node's row shows itself only (upstream leaves such rows undefined). Raises ValueError for an unknown mode,
    a `seq_lens_sum` that is not the sum, or more than 32 nodes to pack.
    """
    bs, n = topology.bs, topology.n
    node = torch.arange(n, device=topology.device)
    visible = topology.ancestors | (torch.ones_like(node) << node)
    if mode == TreeMaskMode.QLEN_ONLY_BITPACKING:
        if n > 32:
            raise ValueError(f"num_draft_tokens={n} does not fit the 32 bits of a packed mask; use QLEN_ONLY")
        size, dtype = (1, torch.uint8) if n <= 8 else (2, torch.uint16) if n <= 16 else (4, torch.uint32)
        octets = visible.contiguous().view(torch.uint8).view(bs * n, 8)
        return octets[:, :size].contiguous().view(dtype).view(bs * n)
    square = ((visible[..., None] >> node) & 1).bool()
    if mode == TreeMaskMode.QLEN_ONLY:
        return square.reshape(-1)
    if mode != TreeMaskMode.FULL_MASK:
        raise ValueError(f"tree mask mode {mode} is unknown; use one of {[m.name for m in TreeMaskMode]}")
    prefixes = topology.seq_lens.tolist()
    if seq_lens_sum is not None and seq_lens_sum != sum(prefixes):
        raise ValueError(f"seq_lens_sum={seq_lens_sum} but the prefix lengths sum to {sum(prefixes)}")
    rows = [F.pad(square[b], (prefix, 0), value=True).reshape(-1) for b, prefix in enumerate(prefixes)]
    return torch.cat(rows) if rows else torch.empty(0, dtype=torch.bool, device=topology.device)
