"""Greedy verification. The Ascend kernel knows chains only, although SGLang calls it for every topk."""

import torch
from torch_npu import cpu_view
from torch_npu.ops.limits import Limits


def verify_tree_greedy(
    predicts: torch.Tensor,
    accept_index: torch.Tensor,
    accept_token_num: torch.Tensor,
    candidates: torch.Tensor,
    retrive_index: torch.Tensor,
    retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor,
    target_predict: torch.Tensor,
) -> None:
    """Accept drafts while candidate i equals the target's token after node i - 1.

    predicts: int32 ``[bs * N]``; accept_index: int32 ``[bs, N]``, pre-filled with -1; accept_token_num: int32
    ``[bs]``, accepted drafts without the bonus. All three are written in place. candidates, retrive_*,
    target_predict: int64 ``[bs, N]``. A tree, or an accept_index whose rows are not N wide (the kernel's stride),
    raises: the kernel would return wrong rows or write out of bounds.
    """
    limits = Limits("sgl_kernel_npu.verify_tree_greedy")
    predict, accepted, counts = cpu_view(predicts), cpu_view(accept_index), cpu_view(accept_token_num)
    drafts, index = cpu_view(candidates), cpu_view(retrive_index)
    requests, nodes = drafts.shape
    target = cpu_view(target_predict).reshape(requests, nodes)
    chain = torch.arange(1, nodes + 1).repeat(requests, 1)
    chain[:, -1] = -1
    is_chain = torch.equal(cpu_view(retrive_next_token), chain) and bool((cpu_view(retrive_next_sibling) == -1).all())
    limits.require(is_chain, "retrive_next_token, retrive_next_sibling", "a tree", "the kernel is chain-only")
    numbered = torch.arange(requests * nodes).view(requests, nodes)
    limits.require(torch.equal(index, numbered), "retrive_index", "renumbered", "must be b * N + i")
    limits.require(
        accepted.shape == (requests, nodes), "accept_index.shape", tuple(accepted.shape), f"row stride is {nodes}"
    )
    agree = torch.cumprod((drafts[:, 1:] == target[:, :-1]).long(), dim=1)
    accept = agree.sum(1)
    reached = torch.arange(nodes) <= accept[:, None]
    accepted[reached] = index[reached].to(accepted.dtype)
    predict.view(requests, nodes)[reached] = target[reached].to(predict.dtype)
    counts.copy_(accept)
