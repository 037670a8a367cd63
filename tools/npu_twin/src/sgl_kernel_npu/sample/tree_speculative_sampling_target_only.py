"""Lossless sampling verification of a draft tree against the target's probabilities."""

import torch
from torch_npu import cpu_view

_INT32 = ("predicts", "accept_index", "accept_token_num")
_INT64 = ("candidates", "retrive_index", "retrive_next_token", "retrive_next_sibling")
_FP32 = ("uniform_samples", "uniform_samples_for_final_sampling", "target_probs", "draft_probs")


def tree_speculative_sampling_target_only(
    predicts: torch.Tensor,
    accept_index: torch.Tensor,
    accept_token_num: torch.Tensor,
    candidates: torch.Tensor,
    retrive_index: torch.Tensor,
    retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor,
    uniform_samples: torch.Tensor,
    uniform_samples_for_final_sampling: torch.Tensor,
    target_probs: torch.Tensor,
    draft_probs: torch.Tensor,
    threshold_single: float = 1.0,
    threshold_acc: float = 1.0,
    deterministic: bool = True,
) -> None:
    """Walk down from the root; at each level try the siblings in order.

    A sibling is accepted if its target probability reaches ``threshold_single``, or if the coin is at most the mass
    of the siblings tried so far (itself included) / ``threshold_acc``. Rejected mass is recorded in ``draft_probs``
    (scratch, cleared first), and the last token is drawn from relu(target - draft) at the last accepted node.

    predicts: int32 ``[bs * N]``. accept_index: int32 ``[bs, D]``, D <= N. accept_token_num: int32 ``[bs]``.
    candidates, retrive_*: int64 ``[bs, N]``. uniform_samples: fp32 ``[bs, N]``, the coin of a node serves its
    children. uniform_samples_for_final_sampling: fp32 ``[bs]``. target_probs, draft_probs: fp32 ``[bs, N, V]``.
    """
    tensors = {name: value for name, value in locals().items() if isinstance(value, torch.Tensor)}
    _check(tensors, threshold_single, threshold_acc)
    host = {name: cpu_view(value) for name, value in tensors.items()}
    host["draft_probs"].zero_()
    threshold_acc = max(float(threshold_acc), 1e-9)
    for request in range(candidates.shape[0]):
        node, slot = _walk(request, host, threshold_single, threshold_acc)
        residual = (host["target_probs"][request, node] - host["draft_probs"][request, node]).clamp_min(0)
        coin = float(host["uniform_samples_for_final_sampling"][request])
        host["predicts"][slot] = _draw(residual.double(), coin)


def _walk(
    request: int, host: dict[str, torch.Tensor], threshold_single: float, threshold_acc: float
) -> tuple[int, int]:
    """Accept as deep as the coins allow. Returns (last accepted node, its output slot)."""
    tokens, slots = host["candidates"][request].tolist(), host["retrive_index"][request].tolist()
    children, siblings = host["retrive_next_token"][request].tolist(), host["retrive_next_sibling"][request].tolist()
    coins, probs = host["uniform_samples"][request], host["target_probs"][request]
    accepted = host["accept_index"][request]
    node, count = 0, 0
    accepted[0] = slots[0]
    while count + 1 < accepted.numel():
        mass = torch.zeros((), dtype=torch.float32)
        tried = children[node]
        while tried != -1:
            prob = probs[node, tokens[tried]]
            mass = mass + prob
            if bool(coins[node] <= mass / threshold_acc) or bool(prob >= threshold_single):
                break
            host["draft_probs"][request, node, tokens[tried]] = prob
            tried = siblings[tried]
        if tried == -1:
            break
        host["predicts"][slots[node]] = tokens[tried]
        count += 1
        accepted[count] = slots[tried]
        node = tried
    host["accept_token_num"][request] = count
    return node, slots[node]


def _draw(weights: torch.Tensor, coin: float) -> int:
    """First token whose cumulative weight exceeds coin * total; the last token with weight if rounding runs past it."""
    cumulative = weights.cumsum(0)
    token = int((cumulative <= coin * cumulative[-1]).sum())
    if token < weights.numel():
        return token
    alive = (weights > 0).nonzero()
    return int(alive[-1]) if alive.numel() else weights.numel() - 1


def _check(tensors: dict[str, torch.Tensor], threshold_single: float, threshold_acc: float) -> None:
    for names, dtype in ((_INT32, torch.int32), (_INT64, torch.int64), (_FP32, torch.float32)):
        for name in names:
            if tensors[name].dtype != dtype:
                raise TypeError(f"{name} must be {dtype}, got {tensors[name].dtype}")
    for name, tensor in tensors.items():
        if not tensor.is_contiguous():
            raise ValueError(f"{name} must be contiguous")
    shape = tensors["candidates"].shape
    if len(shape) != 2 or tensors["target_probs"].shape[:2] != shape:
        raise ValueError("candidates must be [batch, N] and target_probs [batch, N, vocab]")
    for name in (*_INT64, "uniform_samples"):
        if tensors[name].shape != shape:
            raise ValueError(f"{name} must have the shape of candidates")
    depth = tensors["accept_index"].shape
    if len(depth) != 2 or depth[0] != shape[0] or not 1 <= depth[1] <= shape[1]:
        raise ValueError(f"accept_index must be [batch, 1..N], got {tuple(depth)}")
    for name in ("accept_token_num", "uniform_samples_for_final_sampling"):
        if tensors[name].shape != shape[:1]:
            raise ValueError(f"{name} must be [batch]")
    if tensors["draft_probs"].shape != tensors["target_probs"].shape:
        raise ValueError("draft_probs must have the shape of target_probs")
    if tensors["draft_probs"].data_ptr() == tensors["target_probs"].data_ptr():
        raise ValueError("draft_probs must not be target_probs")
    if not (0.0 <= threshold_single <= 1.0 and 0.0 <= threshold_acc <= 1.0):
        raise ValueError("thresholds must lie in [0, 1]")
