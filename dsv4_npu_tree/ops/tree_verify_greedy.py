"""`dsv4_tree::tree_verify_greedy`: follow the target's argmax down the links and accept the matching path.

Walk and outputs are those of SGLang 0.5.23 (`verify_tree_greedy_kernel_triton` in
`sglang/kernels/ops/speculative/spec_tree.py`). The operator that sgl-kernel-npu ships under this name compares node i
with node i-1 and is right for chains only.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dsv4_npu_tree.ops.library import define

SCHEMA = (
    "tree_verify_greedy(Tensor(a!) predicts, Tensor(b!) accept_index, Tensor(c!) accept_token_num, Tensor candidates, "
    "Tensor retrieve_index, Tensor retrieve_next_token, Tensor retrieve_next_sibling, Tensor target_predict) -> ()"
)

_INTEGERS = (torch.int32, torch.int64)


def tree_verify_greedy(
    predicts: Tensor,
    accept_index: Tensor,
    accept_token_num: Tensor,
    candidates: Tensor,
    retrieve_index: Tensor,
    retrieve_next_token: Tensor,
    retrieve_next_sibling: Tensor,
    target_predict: Tensor,
) -> None:
    """Accept the longest path whose tokens are the target's argmax, first matching sibling first. Writes in place.

    Written:
        predicts          int32 [bs*n]: the target's token at every accepted node, the bonus being the one at the last
        accept_index      int32 [bs, S+1], prefilled with -1 by the caller: global ids of the accepted path, root first
        accept_token_num  int32 [bs]: accepted drafts, the bonus not counted
    Read (int64, int32 accepted):
        candidates, retrieve_index, retrieve_next_token, retrieve_next_sibling  [bs, n]
        target_predict    [bs, n] or [bs*n], token ids

    A link outside 1..n-1 ends its list and at most n-1 links are followed per request, so no input can hang or leave
    the request's own rows. Raises ValueError for a shape, dtype or device outside this contract.
    """
    if candidates.dim() != 2 or candidates.shape[1] < 1:
        raise ValueError(f"candidates has shape {tuple(candidates.shape)}, expected [bs, n]; reshape it")
    bs, n = candidates.shape
    depth = accept_index.shape[1] if accept_index.dim() == 2 else -1
    expected: dict[str, tuple[Tensor, tuple[tuple[int, ...], ...]]] = {
        "predicts": (predicts, ((bs * n,),)),
        "accept_index": (accept_index, ((bs, depth),)),
        "accept_token_num": (accept_token_num, ((bs,),)),
        "retrieve_index": (retrieve_index, ((bs, n),)),
        "retrieve_next_token": (retrieve_next_token, ((bs, n),)),
        "retrieve_next_sibling": (retrieve_next_sibling, ((bs, n),)),
        "target_predict": (target_predict, ((bs, n), (bs * n,))),
        "candidates": (candidates, ((bs, n),)),
    }
    for name, (tensor, shapes) in expected.items():
        if tuple(tensor.shape) not in shapes:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}, expected {' or '.join(map(str, shapes))}")
        if tensor.dtype not in _INTEGERS:
            raise ValueError(f"{name} has dtype {tensor.dtype}, expected torch.int32 or torch.int64")
        if tensor.device != candidates.device:
            raise ValueError(f"{name} is on {tensor.device}, candidates on {candidates.device}; use one device")
    if depth < 1:
        raise ValueError("accept_index needs at least one column, for the root")
    torch.ops.dsv4_tree.tree_verify_greedy(
        predicts,
        accept_index,
        accept_token_num,
        candidates,
        retrieve_index,
        retrieve_next_token,
        retrieve_next_sibling,
        target_predict,
    )


def _tree_verify_greedy(
    predicts: Tensor,
    accept_index: Tensor,
    accept_token_num: Tensor,
    candidates: Tensor,
    retrieve_index: Tensor,
    retrieve_next_token: Tensor,
    retrieve_next_sibling: Tensor,
    target_predict: Tensor,
) -> None:
    bs, n = candidates.shape
    if bs == 0:
        return
    device, most = candidates.device, accept_index.shape[1] - 1
    first_row = torch.arange(bs, device=device)[:, None] * n
    local = retrieve_index.long() - first_row
    owned = (local >= 0) & (local < n)
    target = target_predict.reshape(bs, n).long()
    next_token, next_sibling = _safe(retrieve_next_token, n), _safe(retrieve_next_sibling, n)

    root = torch.zeros((bs, 1), dtype=torch.int64, device=device)
    last, count = root, root
    current = next_token.gather(1, root)
    # the last column takes what is not accepted
    accepted = torch.full((bs, most + 2), -1, dtype=torch.int64, device=device)
    accepted[:, :1] = 0
    # A turn looks at one node and a tree has each node once: n-1 turns are enough for any tree and bound any cycle.
    for _ in range(n - 1):
        exists = (current > 0) & (count < most)
        looked_at = current.clamp(min=0)
        wanted = target.gather(1, local.gather(1, last).clamp(0, n - 1))
        match = exists & owned.gather(1, looked_at) & (candidates.gather(1, looked_at) == wanted)
        count = count + match
        accepted = accepted.scatter(1, torch.where(match, count, most + 1), looked_at)
        last = torch.where(match, looked_at, last)
        current = torch.where(match, next_token.gather(1, looked_at), next_sibling.gather(1, looked_at))
        current = torch.where(exists, current, -1)

    on_path = accepted[:, : most + 1] >= 0
    row = local.gather(1, accepted[:, : most + 1].clamp(min=0))
    on_path &= (row >= 0) & (row < n)  # only a root with a foreign retrieve_index can fail here
    accept_index.copy_(torch.where(on_path, first_row + row, accept_index))
    accept_token_num.copy_(count[:, 0])
    written = torch.zeros((bs, n + 1), dtype=torch.bool, device=device)
    written = written.scatter(1, torch.where(on_path, row, n), True)[:, :n]
    predicts.copy_(torch.where(written, target, predicts.view(bs, n)).view(-1))


def _safe(links: Tensor, n: int) -> Tensor:
    links = links.long()
    return torch.where((links > 0) & (links < n), links, -1)


define(SCHEMA, _tree_verify_greedy)
