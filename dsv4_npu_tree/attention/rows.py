"""Attention on rows: every verify or draft node is its own pseudo-request with one query token."""

from __future__ import annotations

import torch
from sglang.srt.hardware_backend.npu.attention import ascend_dsv4_backend as upstream
from sglang.srt.hardware_backend.npu.attention.ascend_backend import ForwardMetadata

from dsv4_npu_tree.paging.arena import Arena


def row_metadata(backend, seqused: torch.Tensor, swa_table: torch.Tensor) -> ForwardMetadata:
    """Metadata of T rows with q_len 1. seqused int32 ``[T]``, swa_table int32 ``[T, columns]`` in arena blocks.

    The attention kernels tile one query token at a time, so T rows of one token cost what one request of T tokens
    costs, and each row gets its own exact causal limits.
    """
    rows = seqused.shape[0]
    metadata = ForwardMetadata()
    device = seqused.device
    metadata.actual_seq_lengths_q_pa = torch.arange(rows + 1, dtype=torch.int32, device=device)
    metadata.actual_seq_lengths_q = torch.arange(1, rows + 1, dtype=torch.int32, device=device)
    metadata.actual_seq_lengths_kv = seqused
    metadata.block_tables = metadata.swa_page_table = swa_table
    backend.forward_metadata = metadata
    metadata.kernel_metadata = backend._kernel_metadata_from_parts(
        bs=rows,
        actual_seq_lengths_q_pa=metadata.actual_seq_lengths_q_pa,
        actual_seq_lengths_kv=seqused,
        block_tables=swa_table,
        max_seqlen_q=1,
        is_nextn=False,
    )
    return metadata


def attend_rows(backend, arena: Arena, q: torch.Tensor, layer, sinks: torch.Tensor | None, ratio: int) -> torch.Tensor:
    """Sparse shared-KV attention of q ``[T, heads, 512]`` over small-block views of the pools.

    Attention-DP pads a draft step's tokens after its metadata was built: rows behind the last one answer zero.
    """
    metadata, pool = backend.forward_metadata, backend.token_to_kv_pool
    rows = metadata.actual_seq_lengths_kv.shape[0]
    if q.shape[0] > rows:
        padded = torch.zeros_like(q)
        padded[:rows] = attend_rows(backend, arena, q[:rows], layer, sinks, ratio)
        return padded
    kwargs = {
        "cu_seqlens_q": metadata.actual_seq_lengths_q_pa,
        "seqused_kv": metadata.actual_seq_lengths_kv,
        "ori_mask_mode": 4,
        "ori_win_left": backend._dsv4_sliding_window_size - 1,
        "ori_win_right": 0,
        "layout_q": "TND",
        "layout_kv": "PA_ND",
        "ori_kv": arena.swa.view(pool.get_swa_buffer(layer.layer_id)),
        "ori_block_table": metadata.swa_page_table,
        "sinks": sinks,
        "metadata": metadata.kernel_metadata[f"c{ratio or 1}a_metadata"],
        "softmax_scale": layer.scaling,
        "cmp_ratio": ratio or 1,
    }
    if ratio:
        space = arena.c4 if ratio == 4 else arena.c128
        assert space is not None, "a draft pool has no compressed layers"
        topk = metadata.c4_topk_indices if ratio == 4 else None
        kwargs |= {
            "cmp_mask_mode": 3,
            "cmp_kv": space.view(pool.get_compress_buffer(layer.layer_id, False)),
            "cmp_block_table": metadata.c4_page_table if ratio == 4 else metadata.c128_page_table,
            "cmp_sparse_indices": None if topk is None else topk.view(-1, 1, topk.shape[-1]),
        }
    _, attention = upstream._sparse_attn_ops()
    return attention(q, **kwargs)[0]
