"""Paged pools with scattered blocks, and the call arguments that read them."""

import torch

from .exact import npu


def scattered_table(requests: int, columns: int, blocks: int) -> torch.Tensor:
    """int32 ``[requests, columns]``: distinct blocks in random order; block 0 stays unused."""
    order = torch.randperm(blocks - 1)[: requests * columns] + 1
    return order.view(requests, columns).to(torch.int32)


def rows(pool: torch.Tensor, table: torch.Tensor, request: int, logical: list[int]) -> torch.Tensor:
    """Pool rows ``[len(logical), D]`` behind logical rows."""
    place = torch.tensor(logical, dtype=torch.int64)
    size = pool.shape[1]
    return pool[table[request, place // size].long(), place % size, 0]


def attention_metadata(
    ends: list[int], used: list[int], heads: int, width: int, ratio: int = 1, selected: int = 0, cmp: bool = False
) -> torch.Tensor:
    return torch.ops.custom.npu_sparse_attn_sharedkv_metadata(
        num_heads_q=heads,
        num_heads_kv=1,
        head_dim=width,
        cu_seqlens_q=npu(torch.tensor(ends, dtype=torch.int32)),
        seqused_kv=npu(torch.tensor(used, dtype=torch.int32)),
        batch_size=len(used),
        cmp_topk=selected,
        cmp_ratio=ratio,
        layout_q="TND",
        layout_kv="PA_ND",
        has_cmp_kv=cmp,
    )


def indexer_metadata(ends: list[int], used: list[int], heads: int, width: int, count: int) -> torch.Tensor:
    return torch.ops.custom.npu_quant_lightning_indexer_metadata(
        device="npu",
        num_heads_q=heads,
        num_heads_k=1,
        head_dim=width,
        query_quant_mode=0,
        key_quant_mode=0,
        actual_seq_lengths_query=npu(torch.tensor(ends[1:], dtype=torch.int32)),
        actual_seq_lengths_key=npu(torch.tensor(used, dtype=torch.int32)),
        layout_query="TND",
        layout_key="PA_BSND",
        sparse_count=count,
        sparse_mode=3,
        cmp_ratio=4,
    )
