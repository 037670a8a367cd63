"""Grouped matmul of the routed experts."""

import torch

from torch_npu.ops.limits import Limits
from torch_npu.ops.registry import npu_op


@npu_op(
    "npu_grouped_matmul(Tensor[] x, Tensor[] weight, *, Tensor[]? bias=None, Tensor[]? scale=None, "
    "Tensor[]? offset=None, Tensor[]? antiquant_scale=None, Tensor[]? antiquant_offset=None, "
    "Tensor[]? per_token_scale=None, Tensor? group_list=None, Tensor[]? activation_input=None, "
    "Tensor[]? activation_quant_scale=None, Tensor[]? activation_quant_offset=None, int? split_item=0, "
    "int? group_type=None, int? group_list_type=0, int? act_type=0, int[]? tuning_config=None, "
    "ScalarType? output_dtype=None, int? x_dtype=None, int? weight_dtype=None, int? scale_dtype=None, "
    "int? per_token_scale_dtype=None) -> Tensor[]"
)
def npu_grouped_matmul(
    x: list[torch.Tensor],
    weight: list[torch.Tensor],
    *,
    group_list: torch.Tensor | None = None,
    split_item: int | None = 0,
    group_type: int | None = None,
    group_list_type: int | None = 0,
    output_dtype: torch.dtype | None = None,
    **options,
) -> list[torch.Tensor]:
    """Rows of group g times weight g; double sums, rounded once.

    x: one ``[rows, K]``. weight: one ``[E, K, N]``. group_list: int64 ``[E]``, cumulative ends (type 0) or row counts
    (type 1). Returns one ``[rows, N]``; rows past the last group are zero.
    """
    limits = Limits("npu.npu_grouped_matmul")
    for name, value in options.items():
        limits.require(value is None or value == 0, name, "given", "is not modelled (bf16/fp16/fp32 only)")
    limits.require(len(x) == len(weight) == 1, "x, weight", (len(x), len(weight)), "one tensor each is modelled")
    limits.require(
        split_item in (2, 3) and group_type == 0, "split_item, group_type", (split_item, group_type), "(2, 0)"
    )
    limits.require(group_list_type in (0, 1), "group_list_type", group_list_type, "must be 0 or 1")
    rows, experts = x[0], weight[0]
    limits.tensor("group_list", group_list, (torch.int64,), dim=1)
    limits.require(group_list.numel() == experts.shape[0], "group_list.shape", tuple(group_list.shape), "one a weight")
    limits.require(rows.shape[1] == experts.shape[1], "weight.shape", tuple(experts.shape), f"K is {rows.shape[1]}")
    numbers = group_list.tolist()
    counts = numbers if group_list_type == 1 else [b - a for a, b in zip([0, *numbers], numbers, strict=False)]
    limits.require(min(counts) >= 0, "group_list", numbers, "groups must not be negative")
    limits.require(sum(counts) <= rows.shape[0], "group_list", numbers, f"x has {rows.shape[0]} rows")
    out = torch.zeros(rows.shape[0], experts.shape[2], dtype=output_dtype or rows.dtype)
    start = 0
    for expert, count in enumerate(counts):
        if count:
            group = rows[start : start + count].double()
            out[start : start + count] = (group @ experts[expert].double()).to(out.dtype)
        start += count
    return [out]
