"""Target-only tree sampling in torch: SGLang's rule, for devices whose kernel package does not ship it.

The rule is `TreeSpeculativeSamplingTargetOnly` of SGLang 0.5.23
(sglang/kernels/jit/include/sgl_kernel/speculative/sampling.cuh). At an accepted node with target distribution q, one
coin serves all its children in order: child c is accepted once `coin < (q of the children tried so far, c included) /
threshold_acc`, or if `q[c] >= threshold_single`. The mass of rejected children is noted in `draft_probs`, and where the
walk ends the next token is drawn from relu(q - draft_probs). With both thresholds at 1 every emitted token is
distributed as q, whatever the draft proposed.

Two corners differ from that kernel, in favour of the distribution: a token that appears twice among siblings counts its
mass once (the kernel counts it twice), and if rounding leaves no mass at all the draw is repeated on q (the kernel
emits id V-1).
"""

from __future__ import annotations

import torch
from torch import Tensor

_INTEGERS = (torch.int32, torch.int64)
_LOWEST_THRESHOLD_ACC = 1e-9  # as upstream: threshold_acc may be 0


def tree_speculative_sampling_target_only(
    predicts: Tensor,
    accept_index: Tensor,
    accept_token_num: Tensor,
    candidates: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    uniform_samples: Tensor,
    uniform_samples_for_final_sampling: Tensor,
    target_probs: Tensor,
    draft_probs: Tensor,
    threshold_single: float = 1.0,
    threshold_acc: float = 1.0,
    deterministic: bool = True,
) -> None:
    """Accept a path and draw the bonus, in place; the argument names (`retrive`) are those of upstream's operator.

    Written:
        predicts          int32 [bs*n]: the token that follows each accepted node, the drawn one at the last
        accept_index      int32 [bs, S+1], prefilled with -1 by the caller: global ids of the accepted path, root first
        accept_token_num  int32 [bs]: accepted drafts, the drawn token not counted
        draft_probs       fp32 [bs, n, V], zeroed by the caller: q at every rejected child, in its parent's row
    Read:
        candidates, retrive_index, retrive_next_token, retrive_next_sibling  int64 [bs, n]
        uniform_samples  fp32 [bs, n] in [0, 1): the coin for the children of each node
        uniform_samples_for_final_sampling  fp32 [bs] in [0, 1)
        target_probs     fp32 [bs, n, V]: q after temperature, top-k and top-p

    The result depends on the coins only; `deterministic` is part of upstream's signature and changes nothing. A link
    outside 1..n-1 ends its list, at most n-1 are followed, a token outside 0..V-1 has no mass. Raises ValueError for a
    shape, dtype or threshold outside this contract.
    """
    del deterministic
    bs, n = _check(
        predicts,
        accept_index,
        accept_token_num,
        (candidates, retrive_index, retrive_next_token, retrive_next_sibling),
        (uniform_samples, uniform_samples_for_final_sampling, target_probs, draft_probs),
        (threshold_single, threshold_acc),
    )
    if bs == 0:
        return
    vocabulary, most, device = target_probs.shape[2], accept_index.shape[1] - 1, candidates.device
    threshold_acc = max(threshold_acc, _LOWEST_THRESHOLD_ACC)
    request = torch.arange(bs, device=device)
    column = torch.arange(most + 1, device=device)
    links = [
        torch.where((link > 0) & (link < n), link, -1).long() for link in (retrive_next_token, retrive_next_sibling)
    ]
    next_token, next_sibling = links

    last = torch.zeros(bs, dtype=torch.int64, device=device)
    last_id = retrive_index[:, 0]
    count, current = last, next_token[:, 0]
    mass = torch.zeros(bs, dtype=target_probs.dtype, device=device)
    rejected = torch.zeros((bs, n), dtype=torch.bool, device=device)  # children of `last` that were turned down
    accept_index[:, 0] = last_id
    emitted = predicts.clone()
    # A turn looks at one node and a tree has each node once: n-1 turns are enough for any tree and bound any cycle.
    for _ in range(n - 1):
        exists = (current >= 0) & (count < most)
        child = current.clamp(min=0)
        token = candidates[request, child].long()
        known = token.clamp(0, vocabulary - 1)
        again = (rejected & (candidates == token[:, None])).any(1)
        q = torch.where((token == known) & ~again, target_probs[request, last, known], 0.0)
        mass = torch.where(exists, mass + q, mass)
        coin = uniform_samples[request, last]
        accept = exists & (q > 0) & ((coin < mass / threshold_acc) | (q >= threshold_single))
        reject = exists & ~accept

        noted = draft_probs[request, last, known]
        draft_probs[request, last, known] = torch.where(reject & (token == known) & ~again, q, noted)
        rejected[request, child] |= reject
        child_id = retrive_index[request, child]
        count = count + accept
        accept_index.copy_(torch.where(accept[:, None] & (column == count[:, None]), child_id[:, None], accept_index))
        emitted = _write(emitted, last_id, token, accept)

        rejected &= ~accept[:, None]
        mass = torch.where(accept, 0.0, mass)
        last, last_id = torch.where(accept, child, last), torch.where(accept, child_id, last_id)
        current = torch.where(accept, next_token[request, child], next_sibling[request, child])
        current = torch.where(exists, current, -1)

    accept_token_num.copy_(count)
    q = target_probs[request, last]
    residual = torch.where((count < most)[:, None], (q - draft_probs[request, last]).clamp(min=0), q)
    residual = torch.where((residual > 0).any(1, keepdim=True), residual, q)
    drawn = _draw(residual, uniform_samples_for_final_sampling)
    predicts.copy_(_write(emitted, last_id, drawn, torch.ones_like(drawn, dtype=torch.bool)))


def _write(predicts: Tensor, node_id: Tensor, token: Tensor, where: Tensor) -> Tensor:
    """`predicts` with `token[b]` at `node_id[b]` for the requests of `where`; the ids of two requests never meet."""
    index = node_id.clamp(0, predicts.shape[0] - 1).long()
    return predicts.scatter(0, index, torch.where(where, token.to(predicts.dtype), predicts[index]))


def _draw(weights: Tensor, coin: Tensor) -> Tensor:
    """Inverse-CDF draw from each row of unnormalised `weights` [bs, V]; a token without weight is never drawn."""
    vocabulary = weights.shape[1]
    token = torch.arange(vocabulary, device=weights.device)
    cdf = weights.cumsum(1)
    hit = (cdf > (coin * cdf[:, -1])[:, None]) & (weights > 0)
    first = torch.where(hit, token, vocabulary).amin(1)
    # coin * total can round up to total; then the last token with weight is the right one
    heaviest_end = torch.where(weights > 0, token, 0).amax(1)
    return torch.where(first < vocabulary, first, heaviest_end)


def _check(
    predicts: Tensor,
    accept_index: Tensor,
    accept_token_num: Tensor,
    tree: tuple[Tensor, ...],
    reals: tuple[Tensor, ...],
    thresholds: tuple[float, float],
) -> tuple[int, int]:
    candidates, target_probs = tree[0], reals[2]
    if candidates.dim() != 2 or target_probs.dim() != 3 or accept_index.dim() != 2:
        raise ValueError(
            f"candidates {tuple(candidates.shape)}, target_probs {tuple(target_probs.shape)} and accept_index "
            f"{tuple(accept_index.shape)} must be [bs, n], [bs, n, V] and [bs, S+1]; reshape them"
        )
    bs, n, vocabulary = candidates.shape[0], candidates.shape[1], target_probs.shape[2]
    expected = [
        ("predicts", predicts, (bs * n,)),
        ("accept_index", accept_index, (bs, accept_index.shape[1])),
        ("accept_token_num", accept_token_num, (bs,)),
        ("candidates", tree[0], (bs, n)),
        ("retrive_index", tree[1], (bs, n)),
        ("retrive_next_token", tree[2], (bs, n)),
        ("retrive_next_sibling", tree[3], (bs, n)),
        ("uniform_samples", reals[0], (bs, n)),
        ("uniform_samples_for_final_sampling", reals[1], (bs,)),
        ("target_probs", reals[2], (bs, n, vocabulary)),
        ("draft_probs", reals[3], (bs, n, vocabulary)),
    ]
    for position, (name, tensor, shape) in enumerate(expected):
        if tuple(tensor.shape) != shape:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}, expected {shape}")
        if position < 7 and tensor.dtype not in _INTEGERS:
            raise ValueError(f"{name} has dtype {tensor.dtype}, expected torch.int32 or torch.int64")
        if position >= 7 and tensor.dtype != torch.float32:
            raise ValueError(f"{name} has dtype {tensor.dtype}, expected torch.float32; pass {name}.float()")
    if accept_index.shape[1] < 1 or n < 1 or vocabulary < 1:
        raise ValueError(f"n={n}, V={vocabulary} and accept_index columns={accept_index.shape[1]} must be at least 1")
    for name, value in zip(("threshold_single", "threshold_acc"), thresholds):
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"{name}={value} is outside 0..1; set --speculative-accept-{name.replace('_', '-')}")
    return bs, n
