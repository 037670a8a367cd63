"""Work-split tables of the attention and indexer kernels.

On a card they hold the cores' shares of the work, which depend on the row offsets and the kernel template. Here they
hold a fingerprint of exactly those, and the kernels compare it with their own call: a table that belongs to another
batch raises instead of silently splitting the work wrongly.
"""

import zlib
from dataclasses import dataclass

import torch

from torch_npu.ops.limits import Limits
from torch_npu.ops.registry import custom_op, host_op

_WORDS = 1024
_ATTENTION = 0x5A17
_INDEXER = 0x11D5


@dataclass(frozen=True)
class Plan:
    """What a work split depends on: row offsets (with leading 0), ratio of the compressed part (1: none), entries
    selected per row (0: all). Head counts are left out: under tensor parallelism SGLang states a rank's own heads here
    and pads them to 64 for the kernel."""

    kind: int
    row_ends: tuple[int, ...]
    cmp_ratio: int
    selected: int

    def encode(self) -> torch.Tensor:
        """int32 ``[1024]``."""
        table = torch.zeros(_WORDS, dtype=torch.int32)
        table[:5] = torch.tensor(self._words(), dtype=torch.int32)
        return table

    def check(self, limits: Limits, metadata: torch.Tensor) -> None:
        limits.tensor("metadata", metadata, (torch.int32,), dim=1)
        limits.require(metadata.numel() == _WORDS, "metadata.shape", tuple(metadata.shape), "must be [1024]")
        found = metadata[:5].tolist()
        wanted = self._words()
        names = ("kind", "batch", "cu_seqlens_q", "cmp_ratio", "cmp_topk")
        for name, have, need in zip(names, found, wanted, strict=True):
            limits.require(
                have == need, f"metadata ({name})", have, f"was built for another call, this one needs {need}"
            )

    def _words(self) -> list[int]:
        digest = zlib.crc32(",".join(map(str, self.row_ends)).encode()) & 0x7FFFFFFF
        return [self.kind, len(self.row_ends) - 1, digest, self.cmp_ratio, self.selected]


def attention_plan(row_ends: list[int], cmp_ratio: int, selected: int) -> Plan:
    return Plan(_ATTENTION, tuple(row_ends), cmp_ratio, selected)


def indexer_plan(row_ends: list[int], cmp_ratio: int, selected: int) -> Plan:
    return Plan(_INDEXER, tuple(row_ends), cmp_ratio, selected)


def _attention_table(
    op: str,
    num_heads_kv: int,
    head_dim: int,
    cu_seqlens_q: torch.Tensor | None,
    seqused_kv: torch.Tensor | None,
    batch_size: int,
    cmp_topk: int,
    cmp_ratio: int,
    ori_mask_mode: int,
    cmp_mask_mode: int,
    ori_win_left: int,
    ori_win_right: int,
    layout_q: str,
    layout_kv: str,
    has_cmp_kv: bool,
) -> torch.Tensor:
    limits = Limits(op)
    limits.require(layout_q == "TND", "layout_q", layout_q, "only TND is modelled")
    limits.require(layout_kv == "PA_ND", "layout_kv", layout_kv, "must be PA_ND")
    limits.require(num_heads_kv == 1, "num_heads_kv", num_heads_kv, "must be 1")
    limits.require_dim(head_dim == 512, "head_dim", head_dim, "must be 512")
    limits.tensor("cu_seqlens_q", cu_seqlens_q, (torch.int32,), dim=1)
    limits.tensor("seqused_kv", seqused_kv, (torch.int32,), dim=1)
    limits.require(ori_mask_mode == 4, "ori_mask_mode", ori_mask_mode, "must be 4")
    limits.require(cmp_mask_mode == 3, "cmp_mask_mode", cmp_mask_mode, "must be 3")
    limits.require(min(ori_win_left, ori_win_right) >= 0, "ori_win", (ori_win_left, ori_win_right), "must be >= 0")
    ends = cu_seqlens_q.tolist()
    limits.require(batch_size == len(ends) - 1, "batch_size", batch_size, f"cu_seqlens_q has {len(ends) - 1} requests")
    limits.require(
        seqused_kv.numel() == batch_size, "seqused_kv", tuple(seqused_kv.shape), "needs one length a request"
    )
    if not has_cmp_kv:
        return attention_plan(ends, 1, 0).encode()
    limits.require(cmp_ratio in (4, 128), "cmp_ratio", cmp_ratio, "must be 4 or 128")
    limits.require_dim(cmp_topk in (0, 512, 1024), "cmp_topk", cmp_topk, "must be 0, 512 or 1024")
    return attention_plan(ends, cmp_ratio, cmp_topk).encode()


@custom_op(
    "npu_sparse_attn_sharedkv_metadata(*, int num_heads_q, int num_heads_kv, int head_dim, Tensor? cu_seqlens_q=None, "
    "Tensor? cu_seqlens_ori_kv=None, Tensor? cu_seqlens_cmp_kv=None, Tensor? seqused_q=None, Tensor? seqused_kv=None, "
    "int batch_size=0, int max_seqlen_q=0, int max_seqlen_kv=0, int ori_topk=0, int cmp_topk=0, int cmp_ratio=-1, "
    "int ori_mask_mode=4, int cmp_mask_mode=3, int ori_win_left=127, int ori_win_right=0, str layout_q='BSND', "
    "str layout_kv='PA_ND', bool has_ori_kv=True, bool has_cmp_kv=True, str device='npu') -> Tensor"
)
def npu_sparse_attn_sharedkv_metadata(
    *,
    num_heads_q,
    num_heads_kv,
    head_dim,
    cu_seqlens_q=None,
    cu_seqlens_ori_kv=None,
    cu_seqlens_cmp_kv=None,
    seqused_q=None,
    seqused_kv=None,
    batch_size=0,
    max_seqlen_q=0,
    max_seqlen_kv=0,
    ori_topk=0,
    cmp_topk=0,
    cmp_ratio=-1,
    ori_mask_mode=4,
    cmp_mask_mode=3,
    ori_win_left=127,
    ori_win_right=0,
    layout_q="BSND",
    layout_kv="PA_ND",
    has_ori_kv=True,
    has_cmp_kv=True,
    device="npu",
) -> torch.Tensor:
    """Work split of ``custom::npu_sparse_attn_sharedkv``; int32 ``[1024]``. ``cmp_topk`` counts only with
    ``has_cmp_kv``."""
    return _attention_table(
        "custom.npu_sparse_attn_sharedkv_metadata",
        num_heads_kv,
        head_dim,
        cu_seqlens_q,
        seqused_kv,
        batch_size,
        cmp_topk,
        cmp_ratio,
        ori_mask_mode,
        cmp_mask_mode,
        ori_win_left,
        ori_win_right,
        layout_q,
        layout_kv,
        has_cmp_kv,
    )


@host_op(
    "sparse_attn_sharedkv_metadata_host(int num_heads_q, int num_heads_kv, int head_dim, str layout_q, str layout_kv, "
    "Tensor? cu_seqlens_q=None, Tensor? seqused_kv=None, int batch_size=0, int cmp_topk=0, int cmp_ratio=-1, "
    "int ori_mask_mode=4, int cmp_mask_mode=3, int ori_win_left=127, int ori_win_right=0, bool has_ori_kv=True, "
    "bool has_cmp_kv=True) -> Tensor"
)
def sparse_attn_sharedkv_metadata_host(
    num_heads_q,
    num_heads_kv,
    head_dim,
    layout_q,
    layout_kv,
    cu_seqlens_q=None,
    seqused_kv=None,
    batch_size=0,
    cmp_topk=0,
    cmp_ratio=-1,
    ori_mask_mode=4,
    cmp_mask_mode=3,
    ori_win_left=127,
    ori_win_right=0,
    has_ori_kv=True,
    has_cmp_kv=True,
) -> torch.Tensor:
    """Work split of ``npu::sparse_attn_sharedkv`` from CPU lengths; npu int32 ``[1024]``."""
    return _attention_table(
        "npu.sparse_attn_sharedkv_metadata_host",
        num_heads_kv,
        head_dim,
        cu_seqlens_q,
        seqused_kv,
        batch_size,
        cmp_topk,
        cmp_ratio,
        ori_mask_mode,
        cmp_mask_mode,
        ori_win_left,
        ori_win_right,
        layout_q,
        layout_kv,
        has_cmp_kv,
    )


@custom_op(
    "npu_quant_lightning_indexer_metadata(*, str device, int num_heads_q, int num_heads_k, int head_dim, "
    "int query_quant_mode, int key_quant_mode, Tensor? actual_seq_lengths_query=None, "
    "Tensor? actual_seq_lengths_key=None, str layout_query='BSND', str layout_key='BSND', int sparse_count=2048, "
    "int sparse_mode=3, int cmp_ratio=1) -> Tensor"
)
def npu_quant_lightning_indexer_metadata(
    *,
    device,
    num_heads_q,
    num_heads_k,
    head_dim,
    query_quant_mode,
    key_quant_mode,
    actual_seq_lengths_query=None,
    actual_seq_lengths_key=None,
    layout_query="BSND",
    layout_key="BSND",
    sparse_count=2048,
    sparse_mode=3,
    cmp_ratio=1,
) -> torch.Tensor:
    """Work split of ``custom::npu_quant_lightning_indexer``; int32 ``[1024]``. Query lengths are cumulative, without
    a leading 0."""
    limits = Limits("custom.npu_quant_lightning_indexer_metadata")
    limits.require(layout_query == "TND", "layout_query", layout_query, "only TND is modelled")
    limits.tensor("actual_seq_lengths_query", actual_seq_lengths_query, (torch.int32,), dim=1)
    limits.tensor("actual_seq_lengths_key", actual_seq_lengths_key, (torch.int32,), dim=1)
    ends = [0, *actual_seq_lengths_query.tolist()]
    return indexer_plan(ends, cmp_ratio, sparse_count).encode()
