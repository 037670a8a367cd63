"""Quantised lightning indexer: which compressed rows a query row attends to."""

import torch

from torch_npu.ops.attention_metadata import indexer_plan
from torch_npu.ops.limits import Limits
from torch_npu.ops.paging import physical_slots
from torch_npu.ops.registry import custom_op

_OP = "custom.npu_quant_lightning_indexer"
# Score cells (requests * query rows * keys) of one pass over the heads.
_CELLS = 1 << 22


@custom_op(
    "npu_quant_lightning_indexer(*, Tensor query, Tensor key, Tensor weights, Tensor query_dequant_scale, "
    "Tensor key_dequant_scale, int query_quant_mode=0, int key_quant_mode=0, Tensor? actual_seq_lengths_query=None, "
    "Tensor? actual_seq_lengths_key=None, Tensor? block_table=None, Tensor? metadata=None, str layout_query='BSND', "
    "str layout_key='BSND', int sparse_count=2048, int sparse_mode=3, int cmp_ratio=1, bool return_value=False) "
    "-> (Tensor, Tensor)"
)
def npu_quant_lightning_indexer(
    *,
    query: torch.Tensor,
    key: torch.Tensor,
    weights: torch.Tensor,
    query_dequant_scale: torch.Tensor,
    key_dequant_scale: torch.Tensor,
    query_quant_mode: int = 0,
    key_quant_mode: int = 0,
    actual_seq_lengths_query: torch.Tensor | None = None,
    actual_seq_lengths_key: torch.Tensor | None = None,
    block_table: torch.Tensor | None = None,
    metadata: torch.Tensor | None = None,
    layout_query: str = "BSND",
    layout_key: str = "BSND",
    sparse_count: int = 2048,
    sparse_mode: int = 3,
    cmp_ratio: int = 1,
    return_value: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Top-k compressed rows per query row.

    score[t, j] = sum_h weights[t, h] * relu(q[t, h] . k[j] * q_scale[t, h] * k_scale[j]), over
    j < (S - s1 + i + 1) // cmp_ratio with S the uncompressed key length.

    Args:
        query: int8 ``[T, N, D]``; query_dequant_scale and weights: fp16 ``[T, N]``.
        key: int8 ``[blocks, rows, 1, D]``; key_dequant_scale: fp16 ``[blocks, rows, 1]``.
        actual_seq_lengths_query: int32 ``[B]``, cumulative, no leading 0. actual_seq_lengths_key: int32 ``[B]``.
        block_table: int32 ``[B, columns]`` of compressed blocks.

    Returns:
        int32 ``[T, 1, sparse_count]``: logical indices, best first, the lower index first among equals, then -1; and
        an empty tensor.
    """
    limits = Limits(_OP)
    limits.require(layout_query == "TND", "layout_query", layout_query, "only TND is modelled")
    limits.require(layout_key == "PA_BSND", "layout_key", layout_key, "only PA_BSND is modelled")
    limits.require(
        query_quant_mode == key_quant_mode == 0, "quant_mode", (query_quant_mode, key_quant_mode), "must be 0"
    )
    limits.require(sparse_mode == 3, "sparse_mode", sparse_mode, "only 3 (causal) is modelled")
    limits.require(not return_value, "return_value", return_value, "scores are not returned")
    limits.tensor("query", query, (torch.int8,), dim=3)
    limits.tensor("key", key, (torch.int8,), dim=4)
    for name, value in (
        ("weights", weights),
        ("query_dequant_scale", query_dequant_scale),
        ("key_dequant_scale", key_dequant_scale),
    ):
        limits.tensor(name, value, (torch.float16,))
    for name, value in (
        ("actual_seq_lengths_query", actual_seq_lengths_query),
        ("actual_seq_lengths_key", actual_seq_lengths_key),
    ):
        limits.tensor(name, value, (torch.int32,), dim=1)
    limits.tensor("block_table", block_table, (torch.int32,), dim=2)
    rows, heads, width = query.shape
    limits.require_dim(heads == 64, "query.shape[1]", heads, "must be 64 heads")
    limits.require_dim(width == 128, "query.shape[2]", width, "must be 128")
    limits.require(weights.shape == (rows, heads), "weights.shape", tuple(weights.shape), "must be [T, N]")
    limits.require(
        query_dequant_scale.shape == (rows, heads),
        "query_dequant_scale.shape",
        tuple(query_dequant_scale.shape),
        "must be [T, N]",
    )
    limits.block_size("key.shape[1]", key.shape[1])
    limits.require(0 < sparse_count <= 2048, "sparse_count", sparse_count, "must be in 1..2048")
    ends = [0, *actual_seq_lengths_query.tolist()]
    stored = actual_seq_lengths_key.tolist()
    limits.cumulative("actual_seq_lengths_query", ends, rows)
    limits.require(len(stored) == len(ends) - 1, "actual_seq_lengths_key.shape", (len(stored),), "one a request")
    limits.require(
        block_table.shape[0] == len(stored), "block_table.shape[0]", block_table.shape[0], "must be the requests"
    )
    limits.stored("actual_seq_lengths_key", stored, ends)
    indexer_plan(ends, cmp_ratio, sparse_count).check(limits, metadata)

    scale = (weights.double(), query_dequant_scale.double())
    flat_scale = key_dequant_scale.reshape(-1)
    out = torch.full((rows, 1, sparse_count), -1, dtype=torch.int32)
    for first, last in _groups(ends, stored, cmp_ratio):
        lengths = [ends[b + 1] - ends[b] for b in range(first, last)]
        start, end = ends[first], ends[last]
        batch = torch.repeat_interleave(torch.arange(first, last), torch.tensor(lengths))
        position = torch.tensor(stored)[batch] - torch.tensor(ends[1:])[batch] + torch.arange(start, end)
        limit = ((position + 1) // cmp_ratio).clamp(min=0)
        most = int(limit.max()) if limit.numel() else 0
        if most == 0:
            continue
        logical = torch.arange(most).expand(last - first, -1)
        counts = torch.tensor([stored[b] // cmp_ratio for b in range(first, last)])[:, None]
        slots = physical_slots(
            limits, "block_table", block_table, key, torch.arange(first, last)[:, None], logical, logical < counts
        )
        keys = key.view(-1, width)[slots].float()
        key_scales = flat_scale[slots].double()
        step = max(1, _CELLS // (most * (last - first)))
        longest = max(lengths)
        for offset in range(0, longest, step):
            place = torch.arange(offset, min(offset + step, longest))
            padded = torch.tensor(ends[first:last])[:, None] + place
            live = place < torch.tensor(lengths)[:, None]
            token = torch.where(live, padded, start)
            scores = _scores(query, keys, key_scales, scale, token)
            chosen = limit[token - start]
            picked = _top(scores, chosen, sparse_count)
            out[token[live], 0, : picked.shape[-1]] = picked[live]
    return out, torch.empty(0, dtype=torch.float16)


def _groups(ends: list[int], stored: list[int], ratio: int):
    """Consecutive requests [first, last) that are padded to a common shape: a long one stands alone."""
    first = 0
    while first < len(stored):
        last, longest, keys = first, 1, 1
        while last < len(stored):
            longest = max(longest, ends[last + 1] - ends[last])
            keys = max(keys, stored[last] // ratio)
            if last > first and (longest > 16 or (last - first + 1) * longest * keys * 8 > _CELLS):
                break
            last += 1
        yield first, last
        first = last


def _scores(query, keys, key_scales, scale, token) -> torch.Tensor:
    """double ``[G, L, U]``. The int8 products are exact in fp32; heads are added in order, one by one."""
    weights, query_scales = scale
    total = torch.zeros(*token.shape, keys.shape[1], dtype=torch.float64)
    for head in range(query.shape[1]):
        products = torch.bmm(query[:, head][token].float(), keys.transpose(1, 2)).double()
        products *= query_scales[:, head][token].unsqueeze(-1)
        products *= key_scales.unsqueeze(1)
        total += products.relu_() * weights[:, head][token].unsqueeze(-1)
    return total


def _top(scores: torch.Tensor, limit: torch.Tensor, count: int) -> torch.Tensor:
    """int32 ``[G, L, min(count, U)]``; a stable sort gives equal scores to the lower index."""
    column = torch.arange(scores.shape[-1])
    scores.masked_fill_(column >= limit.unsqueeze(-1), float("-inf"))
    order = torch.sort(scores, dim=-1, descending=True, stable=True).indices[..., :count]
    return torch.where(column[: order.shape[-1]] < limit.unsqueeze(-1), order, -1).to(torch.int32)
