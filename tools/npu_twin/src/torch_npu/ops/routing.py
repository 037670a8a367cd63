"""Expert routing: choose, sort tokens by expert, bring them back."""

import itertools
import os

import torch
import torch.nn.functional as F

from torch_npu.ops.limits import Limits
from torch_npu.ops.registry import custom_op, npu_op

_recorded = itertools.count()


@custom_op(
    "npu_moe_gating_top_k(Tensor x, int k, *, Tensor? bias=None, Tensor? input_ids=None, Tensor? tid2eid=None, "
    "int k_group=1, int group_count=1, float routed_scaling_factor=1., float eps=9.9999999999999995e-21, "
    "int group_select_mode=0, int renorm=0, int norm_type=0, bool out_flag=False) -> (Tensor, Tensor, Tensor)"
)
def npu_moe_gating_top_k(
    x: torch.Tensor,
    k: int,
    *,
    bias: torch.Tensor | None = None,
    input_ids: torch.Tensor | None = None,
    tid2eid: torch.Tensor | None = None,
    k_group: int = 1,
    group_count: int = 1,
    routed_scaling_factor: float = 1.0,
    eps: float = 1e-20,
    group_select_mode: int = 0,
    renorm: int = 0,
    norm_type: int = 0,
    out_flag: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """norm_type 2: s = sqrt(softplus(x)); the k best of s + bias, weights s / (sum + eps) * factor.

    x: fp32 ``[T, E]``. Returns fp32 weights ``[T, k]``, int32 experts ``[T, k]`` (best first, the lower expert first
    among equals), fp32 s ``[T, E]``.
    """
    limits = Limits("custom.npu_moe_gating_top_k")
    limits.require(norm_type == 2, "norm_type", norm_type, "only 2 (sqrt softplus) is modelled")
    limits.require(input_ids is None and tid2eid is None, "tid2eid", "given", "hash routing is not modelled")
    limits.require(k_group == group_count == 1, "k_group, group_count", (k_group, group_count), "must be 1")
    limits.tensor("x", x, (torch.float32,), dim=2)
    limits.require(0 < k <= x.shape[1], "k", k, f"there are {x.shape[1]} experts")
    scores = F.softplus(x.double()).sqrt().float()
    ranked = scores if bias is None else scores + bias.float()
    experts = torch.sort(ranked, dim=-1, descending=True, stable=True).indices[:, :k]
    chosen = scores.gather(1, experts).double()
    weights = chosen / (chosen.sum(-1, keepdim=True) + eps) * routed_scaling_factor
    return weights.float(), experts.to(torch.int32), scores


@npu_op(
    "npu_moe_init_routing_v2(Tensor x, Tensor expert_idx, *, Tensor? scale=None, Tensor? offset=None, "
    "int active_num=-1, int expert_capacity=-1, int expert_num=-1, int drop_pad_mode=0, "
    "int expert_tokens_num_type=0, bool expert_tokens_num_flag=False, int quant_mode=-1, "
    "int[2] active_expert_range=[], int row_idx_type=0, int? x_dtype=None) -> (Tensor, Tensor, Tensor, Tensor)"
)
def npu_moe_init_routing_v2(
    x: torch.Tensor,
    expert_idx: torch.Tensor,
    *,
    expert_num: int = -1,
    drop_pad_mode: int = 0,
    expert_tokens_num_type: int = 0,
    expert_tokens_num_flag: bool = False,
    quant_mode: int = -1,
    active_expert_range: list[int] = (),
    row_idx_type: int = 0,
    **_,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Copy every token once per expert, sorted by expert (token order kept inside one).

    x: ``[T, H]``. expert_idx: int32 ``[T, k]``. Returns sorted rows ``[T k, H]``, int32 place of (token, choice) in
    them ``[T k]``, int64 rows per expert ``[expert_num]``, empty scale.
    """
    limits = Limits("npu.npu_moe_init_routing_v2")
    limits.require(quant_mode == -1, "quant_mode", quant_mode, "only -1 (none) is modelled")
    limits.require(drop_pad_mode == 0, "drop_pad_mode", drop_pad_mode, "only 0 (dropless) is modelled")
    limits.require(row_idx_type == 0, "row_idx_type", row_idx_type, "only 0 is modelled")
    limits.require(
        expert_tokens_num_type == 1 and expert_tokens_num_flag,
        "expert_tokens_num_type",
        expert_tokens_num_type,
        "only 1 (counts) is modelled",
    )
    limits.tensor("expert_idx", expert_idx, (torch.int32,), dim=2)
    whole = list(active_expert_range) in ([], [0, expert_num])
    limits.require(whole, "active_expert_range", list(active_expert_range), "must be every expert")
    flat = expert_idx.reshape(-1).long()
    inside = flat.numel() == 0 or (int(flat.min()) >= 0 and int(flat.max()) < expert_num)
    limits.require(inside, "expert_idx", "out of range", f"there are {expert_num} experts")
    _record(expert_idx)
    order = torch.argsort(flat, stable=True)
    place = torch.empty_like(order)
    place[order] = torch.arange(order.numel())
    counts = torch.bincount(flat, minlength=expert_num)
    return x[order // expert_idx.shape[1]], place.to(torch.int32), counts, torch.empty(0)


@npu_op(
    "npu_moe_finalize_routing(Tensor expanded_permuted_rows, Tensor? skip1, Tensor? skip2, Tensor? bias, "
    "Tensor? scales, Tensor expanded_src_to_dst_row, Tensor? export_for_source_row, int? drop_pad_mode=0, "
    "int? k=1) -> Tensor"
)
def npu_moe_finalize_routing(
    rows: torch.Tensor,
    skip1: torch.Tensor | None,
    skip2: torch.Tensor | None,
    bias: torch.Tensor | None,
    scales: torch.Tensor | None,
    place: torch.Tensor,
    experts: torch.Tensor | None = None,
    drop_pad_mode: int | None = 0,
    k: int | None = 1,
) -> torch.Tensor:
    """Weighted sum of a token's expert rows: double sum, rounded once.

    rows: ``[T k, H]``. scales: ``[T, k]``. place: int32 ``[T k]``, token-major for drop_pad_mode 2, choice-major for 0.
    """
    limits = Limits("npu.npu_moe_finalize_routing")
    limits.require(skip1 is None and skip2 is None and bias is None, "skip1, skip2, bias", "given", "is not modelled")
    limits.require(drop_pad_mode in (0, 2), "drop_pad_mode", drop_pad_mode, "only 0 and 2 (dropless) are modelled")
    tokens, choices = scales.shape
    limits.require(place.numel() == tokens * choices, "expanded_src_to_dst_row", tuple(place.shape), "must be [T k]")
    index = place.long()
    if drop_pad_mode == 0:
        index = index.view(choices, tokens).T.reshape(-1)
    gathered = rows[index].view(tokens, choices, rows.shape[1]).double()
    return (gathered * scales.double().unsqueeze(-1)).sum(1).to(rows.dtype)


def _record(expert_idx: torch.Tensor) -> None:
    """``NPU_TWIN_RECORD_EXPERTS=<folder>``: save the expert ids of every routed call, one file a call."""
    folder = os.environ.get("NPU_TWIN_RECORD_EXPERTS")
    if folder:
        os.makedirs(folder, exist_ok=True)
        torch.save(expert_idx.clone(), os.path.join(folder, f"{os.getpid()}-{next(_recorded):06d}.pt"))
