"""`dsv4_tree::tree_build`: from the draft's candidate pool to the topology of one verify round.

Candidate ids (ABI of SGLang 0.5.23, `sglang/kernels/ops/speculative/spec_tree.py`): ids `0 .. topk-1` are the children
of the root, every later draft step adds `topk*topk` ids. The parent of candidate `c` is the root if `c // topk == 0`,
else the candidate `parent_list[c // topk]`. Node 0 is the root (the previous bonus), node `i` is candidate
`selected_index[i-1]`.

A node that does not hang on the root is *inert*: its id or its parent's id is out of range, its parent was not
selected, its depth would exceed `steps`, or one of these holds for an ancestor. Inert nodes keep their row but have no
links, so they can never be accepted. A parent is looked up among lower node indices of the same request only: ids are
sorted level by level, so that loses nothing, and it makes cycles and reads of another request impossible.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dsv4_npu_tree.ops.library import define
from dsv4_npu_tree.ops.tree_mask import NO_MASK, check_mask, write_mask

SCHEMA = (
    "tree_build(Tensor parent_list, Tensor selected_index, Tensor scores, Tensor seq_lens, int topk, int steps, "
    "int num_draft_tokens, int max_branches, *, Tensor(a!)? mask=None, int mask_mode=-1) -> (Tensor positions, "
    "Tensor retrieve_index, Tensor retrieve_next_token, Tensor retrieve_next_sibling, Tensor parent, Tensor depth, "
    "Tensor ancestors, Tensor branch_table, Tensor home_branch)"
)
MAX_NODES = 64  # ancestors are one int64 bitmask
MAX_STEPS = 16
MAX_TOPK = 16
NO_PARENT = -1  # parent of the root
INERT = -2  # parent of an inert node

_INTEGERS = (torch.int32, torch.int64)

TreeBuildOutputs = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def tree_build(
    parent_list: Tensor,
    selected_index: Tensor,
    scores: Tensor,
    seq_lens: Tensor,
    topk: int,
    steps: int,
    num_draft_tokens: int,
    max_branches: int,
    *,
    mask: Tensor | None = None,
    mask_mode: int = NO_MASK,
) -> TreeBuildOutputs:
    """Build the topology of every request of a batch; n = `num_draft_tokens`, B = `max_branches`.

    Inputs (one device; the index tensors may be int32 too):
        parent_list     int64 [bs, topk*(steps-1)+1], or [bs, 0] if steps == 1; candidate ids
        selected_index  int64 [bs, n-1], ascending candidate ids
        scores          fp32 [bs, n-1], path probabilities of the selected candidates; NaN and ±inf count as lowest
        seq_lens        int64 [bs], KV-ready prefix lengths P in tokens
        mask            written in `mask_mode`, a `TreeMaskMode` of ops/tree_mask.py, where the layouts are described;
                        prefix columns of a FULL_MASK stay as the caller filled them

    Outputs:
        positions              int64 [bs*n], P + depth
        retrieve_index         int64 [bs, n], b*n + i
        retrieve_next_token    int64 [bs, n], lowest child or -1
        retrieve_next_sibling  int64 [bs, n], next higher child of the same parent or -1
        parent                 int32 [bs, n], root -1, inert -2
        depth                  int32 [bs, n], root and inert 0
        ancestors              int64 [bs, n], bit j set if node j is on the path root..i (i included); inert 0
        branch_table           int32 [bs, B, steps+1], nodes of one root-to-leaf path, then -1; branches ordered by leaf
        home_branch            int32 [bs, n], lowest branch that holds the node, inert -1

    If a tree has more than B leaves, the leaf with the lowest score (ties: the highest index) is made inert until B are
    left. Values of index tensors are not checked (that would stall the device): a bad id makes a node inert, a prefix
    that does not fit a FULL_MASK ends it.

    Raises ValueError for a shape, dtype, device or scalar outside these limits.
    """
    for name, value, limit in (
        ("topk", topk, MAX_TOPK),
        ("steps", steps, MAX_STEPS),
        ("max_branches", max_branches, MAX_NODES),
    ):
        if not 1 <= value <= limit:
            raise ValueError(f"{name}={value} is outside 1..{limit}; lower the matching --speculative-* argument")
    if not 2 <= num_draft_tokens <= MAX_NODES:
        raise ValueError(
            f"num_draft_tokens={num_draft_tokens} is outside 2..{MAX_NODES}; change --speculative-num-draft-tokens"
        )
    if seq_lens.dim() != 1:
        raise ValueError(f"seq_lens has shape {tuple(seq_lens.shape)}, expected [bs]; flatten it")
    bs = seq_lens.shape[0]
    expected = {
        "parent_list": (parent_list, (bs, topk * (steps - 1) + 1 if steps > 1 else 0)),
        "selected_index": (selected_index, (bs, num_draft_tokens - 1)),
        "scores": (scores, (bs, num_draft_tokens - 1)),
        "seq_lens": (seq_lens, (bs,)),
    }
    for name, (tensor, shape) in expected.items():
        if tuple(tensor.shape) != shape:
            raise ValueError(
                f"{name} has shape {tuple(tensor.shape)}, expected {shape} for bs={bs}, topk={topk}, steps={steps}, "
                f"num_draft_tokens={num_draft_tokens}"
            )
        if tensor.device != seq_lens.device:
            raise ValueError(f"{name} is on {tensor.device}, seq_lens on {seq_lens.device}; move them to one device")
        if name == "scores" and tensor.dtype != torch.float32:
            raise ValueError(f"scores has dtype {tensor.dtype}, expected torch.float32; pass scores.float()")
        if name != "scores" and tensor.dtype not in _INTEGERS:
            raise ValueError(f"{name} has dtype {tensor.dtype}, expected torch.int64 or torch.int32")
    check_mask(mask, mask_mode, bs, num_draft_tokens, seq_lens.device)
    return torch.ops.dsv4_tree.tree_build(
        parent_list,
        selected_index,
        scores,
        seq_lens,
        topk,
        steps,
        num_draft_tokens,
        max_branches,
        mask=mask,
        mask_mode=int(mask_mode),
    )


def _tree_build(
    parent_list: Tensor,
    selected_index: Tensor,
    scores: Tensor,
    seq_lens: Tensor,
    topk: int,
    steps: int,
    num_draft_tokens: int,
    max_branches: int,
    *,
    mask: Tensor | None = None,
    mask_mode: int = NO_MASK,
) -> TreeBuildOutputs:
    n = num_draft_tokens
    bs, device = seq_lens.shape[0], seq_lens.device
    if bs == 0:
        return _empty(n, steps, max_branches, device)
    node = torch.arange(n, device=device)
    parent = _parents(parent_list.long(), selected_index.long(), topk, steps, node)
    parent, depth, ancestors = _walk_up(parent, node, steps)
    parent = _prune(parent, scores, node, max_branches)

    alive = parent != INERT
    depth = torch.where(alive, depth, 0)
    ancestors = torch.where(alive, ancestors, 0)
    if mask is not None and mask_mode != NO_MASK:
        write_mask(mask, mask_mode, ancestors, seq_lens)
    next_token, next_sibling = _links(parent, node)
    branch_table, home_branch = _branches(parent, depth, ancestors, alive & (next_token < 0), node, steps, max_branches)
    return (
        (seq_lens.long()[:, None] + depth).reshape(-1),
        torch.arange(bs * n, device=device).view(bs, n),
        next_token,
        next_sibling,
        parent.int(),
        depth.int(),
        ancestors,
        branch_table,
        home_branch,
    )


def _empty(n: int, steps: int, max_branches: int, device: torch.device) -> TreeBuildOutputs:
    def none(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=device)

    return (
        none((0,), torch.int64),
        none((0, n), torch.int64),
        none((0, n), torch.int64),
        none((0, n), torch.int64),
        none((0, n), torch.int32),
        none((0, n), torch.int32),
        none((0, n), torch.int64),
        none((0, max_branches, steps + 1), torch.int32),
        none((0, n), torch.int32),
    )


def _parents(parent_list: Tensor, selected: Tensor, topk: int, steps: int, node: Tensor) -> Tensor:
    """Parent node of every node, INERT where there is none; int64 [bs, n]."""
    bs, n = selected.shape[0], node.shape[0]
    pool = topk + (steps - 1) * topk * topk
    in_range = (selected >= 0) & (selected < pool)
    parent_row = torch.where(in_range, selected, 0) // topk
    if steps > 1:
        parent_id = parent_list.gather(1, parent_row)
    else:
        parent_id = torch.full_like(selected, -1)
    # found[b, i, j]: candidate j is the parent of candidate i; only j < i counts. Two equal ids out of range may meet
    # here, which is harmless: such a parent is inert itself.
    found = parent_id[:, :, None] == selected[:, None, :]
    found &= node[1:, None] > node[None, 1:]
    lowest = torch.where(found, node[1:], n).amin(-1)
    parent = torch.where(lowest < n, lowest, INERT)
    parent = torch.where(parent_row == 0, 0, parent)
    parent = torch.where(in_range, parent, INERT)
    return torch.cat((torch.full((bs, 1), NO_PARENT, dtype=torch.int64, device=node.device), parent), dim=1)


def _walk_up(parent: Tensor, node: Tensor, steps: int) -> tuple[Tensor, Tensor, Tensor]:
    """Depths and ancestor masks by walking every node to the root at once; what does not arrive becomes INERT."""
    bit = torch.ones_like(node) << node
    current = node.expand_as(parent)
    ancestors = bit.expand_as(parent)
    depth = torch.zeros_like(parent)
    for _ in range(steps):
        above = parent.gather(1, current)
        moves = above >= 0
        current = torch.where(moves, above, current)
        ancestors = ancestors | bit[current]
        depth = depth + moves
    return torch.where(current == 0, parent, INERT), depth, ancestors


def _prune(parent: Tensor, scores: Tensor, node: Tensor, max_branches: int) -> Tensor:
    """Make the lowest leaf inert, one per pass, while a request has more than `max_branches` leaves."""
    n = node.shape[0]
    lowest = float("-inf")
    scores = torch.where(torch.isfinite(scores), scores, lowest)
    scores = torch.nn.functional.pad(scores, (1, 0), value=float("inf"))
    children = torch.zeros_like(parent).scatter_add(1, parent.clamp(min=0), (parent >= 0).long())
    # after n-1-B removals at most B nodes besides the root are left, hence at most B leaves
    for _ in range(n - 1 - max_branches):
        leaf = (parent != INERT) & (children == 0)
        worst = torch.where(leaf, scores, float("inf")).amin(1, keepdim=True)
        victim = torch.where(leaf & (scores == worst), node, -1).amax(1, keepdim=True)
        crowded = leaf.sum(1, keepdim=True) > max_branches
        is_victim = crowded & (node == victim)
        above = parent.gather(1, victim.clamp(min=0)).clamp(min=0)
        children = children - (crowded & (node == above)).long()
        parent = torch.where(is_victim, INERT, parent)
    return parent


def _links(parent: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
    """First child and next sibling of every node, children in ascending order; int64 [bs, n] each, -1 for none."""
    n = node.shape[0]
    child = torch.where(parent[:, None, :] == node[:, None], node, n).amin(-1)
    same = (parent[:, :, None] == parent[:, None, :]) & (parent >= 0)[:, :, None] & (node[None, :] > node[:, None])
    sibling = torch.where(same, node, n).amin(-1)
    return torch.where(child < n, child, -1), torch.where(sibling < n, sibling, -1)


def _branches(
    parent: Tensor, depth: Tensor, ancestors: Tensor, leaf: Tensor, node: Tensor, steps: int, max_branches: int
) -> tuple[Tensor, Tensor]:
    bs = parent.shape[0]
    # the leaf of each branch, -1 for an unused one; rows that are no leaf go to a column that is cut off
    column = torch.where(leaf, leaf.long().cumsum(1) - 1, max_branches)
    leaves = torch.full((bs, max_branches + 1), -1, dtype=torch.int64, device=node.device)
    leaves = leaves.scatter(1, column, node.expand_as(column))[:, :max_branches]
    used = leaves >= 0
    current = leaves
    table = torch.full((bs, max_branches, steps + 2), -1, dtype=torch.int64, device=node.device)
    for _ in range(steps + 1):
        on_path = current >= 0
        safe = current.clamp(min=0)
        level = torch.where(on_path, depth.gather(1, safe), steps + 1)
        table = table.scatter(2, level[..., None], current[..., None])
        current = torch.where(on_path, parent.gather(1, safe), NO_PARENT)
    holds = used[..., None] & (((ancestors.gather(1, leaves.clamp(min=0))[..., None] >> node) & 1) == 1)
    branch = torch.arange(max_branches, device=node.device)[:, None]
    home = torch.where(holds, branch, max_branches).amin(1)
    return table[..., : steps + 1].int(), torch.where(home < max_branches, home, -1).int()


define(SCHEMA, _tree_build)
