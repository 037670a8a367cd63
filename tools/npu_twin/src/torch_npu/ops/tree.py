"""Draft tree -> positions, traversal links and mask."""

import torch

from torch_npu.ops.limits import Limits
from torch_npu.ops.registry import npu_op

_FULL_MASK, _QLEN_ONLY = 0, 1


@npu_op(
    "build_tree_kernel_efficient(Tensor parent_list, Tensor selected_index, Tensor verified_seq_len, "
    "Tensor(a!) tree_mask, Tensor(b!) positions, Tensor(c!) retrive_index, Tensor(d!) retrive_next_token, "
    "Tensor(e!) retrive_next_sibling, int topk, int depth, int draft_token_num, int tree_mask_mode) -> ()"
)
def build_tree_kernel_efficient(
    parent_list: torch.Tensor,
    selected_index: torch.Tensor,
    verified_seq_len: torch.Tensor,
    tree_mask: torch.Tensor,
    positions: torch.Tensor,
    retrive_index: torch.Tensor,
    retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor,
    topk: int,
    depth: int,
    draft_token_num: int,
    tree_mask_mode: int,
) -> None:
    """Fill the outputs in place.

    Node 0 is the root, node i + 1 the candidate ``selected_index[b, i]``. Its parent candidate is
    ``parent_list[b, candidate // topk]``; candidates below ``topk`` hang on the root.

    Args:
        parent_list: int64 ``[bs, topk * (depth - 1) + 1]``. selected_index: int64 ``[bs, N - 1]``.
        verified_seq_len: int64 ``[bs]``. positions: int64 ``[bs * N]``. retrive_*: int64 ``[bs, N]``.
        tree_mask: bool. FULL_MASK (0): per request ``[N, L + N]``, the L prefix columns are not written.
            QLEN_ONLY (1): ``[bs, N, N]``, but the kernel puts every row of request b at ``(N + 1) N b`` (the last row
            survives) and runs past the end once bs > N.
    """
    limits = Limits("npu.build_tree_kernel_efficient")
    nodes, requests = draft_token_num, verified_seq_len.numel()
    limits.require(requests > 0, "verified_seq_len.shape", tuple(verified_seq_len.shape), "bs 0 divides by zero")
    limits.require(tree_mask_mode in (_FULL_MASK, _QLEN_ONLY), "tree_mask_mode", tree_mask_mode, "must be 0 or 1")
    for name, tensor in (
        ("parent_list", parent_list),
        ("selected_index", selected_index),
        ("verified_seq_len", verified_seq_len),
        ("positions", positions),
        ("retrive_index", retrive_index),
        ("retrive_next_token", retrive_next_token),
        ("retrive_next_sibling", retrive_next_sibling),
    ):
        limits.tensor(name, tensor, (torch.int64,))
    limits.tensor("tree_mask", tree_mask, (torch.bool,))
    limits.require(
        selected_index.shape == (requests, nodes - 1),
        "selected_index.shape",
        tuple(selected_index.shape),
        "[bs, N - 1]",
    )
    lengths = verified_seq_len.tolist()
    mask = tree_mask.view(-1)
    needed = sum(lengths) * nodes + requests * nodes * nodes
    if tree_mask_mode == _QLEN_ONLY:
        needed = (nodes + 1) * nodes * (requests - 1) + nodes
    limits.require(mask.numel() >= needed, "tree_mask.shape", tuple(tree_mask.shape), f"{needed} bytes are written")
    start = 0
    for request, length in enumerate(lengths):
        parents = _parents(limits, request, selected_index[request].tolist(), parent_list[request].tolist(), topk)
        ancestors = torch.eye(nodes, dtype=torch.bool)
        level = [0] * nodes
        for node in range(1, nodes):
            level[node] = level[parents[node]] + 1
            ancestors[node] |= ancestors[parents[node]]
        ancestors[:, 0] = True
        positions.view(-1)[request * nodes : (request + 1) * nodes] = length + torch.tensor(level)
        retrive_index[request] = torch.arange(nodes) + request * nodes
        child, sibling = _links(parents)
        retrive_next_token[request] = torch.tensor(child)
        retrive_next_sibling[request] = torch.tensor(sibling)
        if tree_mask_mode == _FULL_MASK:
            rows = mask[start : start + nodes * (length + nodes)].view(nodes, length + nodes)
            rows[:, length:] = ancestors
            start += rows.numel()
        else:
            place = (nodes + 1) * nodes * request
            mask[place : place + nodes] = ancestors[-1]


def _parents(limits: Limits, request: int, selected: list[int], parent_list: list[int], topk: int) -> list[int]:
    """Parent node of each node; the root's is -1."""
    parents = [-1]
    for place, candidate in enumerate(selected):
        column = candidate // topk
        if column == 0:
            parents.append(0)
            continue
        name = f"selected_index[{request}, {place}]"
        limits.require(column < len(parent_list), name, candidate, f"parent_list has {len(parent_list)} columns")
        wanted = parent_list[column]
        limits.require(wanted in selected, name, candidate, f"its parent {wanted} is not selected: the kernel may hang")
        parent = 1 + selected.index(wanted)
        limits.require(parent <= place, name, candidate, "its parent comes after it: the kernel may hang")
        parents.append(parent)
    return parents


def _links(parents: list[int]) -> tuple[list[int], list[int]]:
    """First child and next sibling of each node, -1 where there is none; siblings in node order."""
    child, sibling = [-1] * len(parents), [-1] * len(parents)
    for node in range(len(parents) - 1, 0, -1):
        sibling[node] = child[parents[node]]
        child[parents[node]] = node
    return child, sibling
