"""Start-up probe: call each attention template once at the block size and row count that serving will use.

The installed attention op may be another build than the public source that states its limits, so block size and
answer are checked against a plain fp32 computation before any pool is built. The lightning indexer is not probed.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

import torch

from dsv4_npu_tree.config import BLOCK_ROWS, TreeConfig

WINDOW = 128
TOLERANCE = 0.02  # bf16 output of values of unit scale
_TOKENS = 600  # prefix of the probe rows: every template reads blocks at both sides of several block borders

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ProbeShape:
    """heads: query heads on this rank. head_dim: channels of a KV row. index_topk: C4 entries a row may select.
    rows: verify rows T of a full batch. ratios: compress ratios the model uses."""

    heads: int
    head_dim: int
    index_topk: int
    rows: int
    ratios: tuple[int, ...]
    device: str = "npu"


class _Paged:
    """The same random entries dense, fp32 ``[entries, dim]``, and in shuffled blocks, bf16 ``[blocks, block, 1, dim]``
    with a table int32 ``[rows, columns]``. Block 0 stays unused, as in the pools."""

    def __init__(self, entries: int, block: int, dim: int, rows: int, device: str):
        columns = -(-entries // block)
        generator = torch.Generator().manual_seed(block + entries)
        values = torch.randn(columns * block, dim, generator=generator).to(torch.bfloat16)
        order = torch.randperm(columns, generator=generator) + 1
        pages = torch.zeros(columns + 1, block, 1, dim, dtype=torch.bfloat16)
        pages[order] = values.view(columns, block, 1, dim)
        self.dense = values[:entries].float()
        self.pages = pages.to(device)
        self.table = order.to(torch.int32).expand(rows, -1).contiguous().to(device)


class _Template:
    """One call of the attention op: SWA only (ratio 0), C4 with selected entries, or C128."""

    def __init__(self, shape: ProbeShape, ratio: int, block: int, cmp_block: int):
        self.shape, self.ratio = shape, ratio
        rows = shape.rows
        self.seqused = [_TOKENS - row % 150 for row in range(rows)]
        generator = torch.Generator().manual_seed(1)
        self.q = torch.randn(rows, shape.heads, shape.head_dim, generator=generator).to(torch.bfloat16)
        self.sinks = torch.randn(shape.heads, generator=generator)
        self.window = _Paged(_TOKENS, block, shape.head_dim, rows, shape.device)
        self.entries = _Paged(_TOKENS // ratio, cmp_block, shape.head_dim, rows, shape.device) if ratio else None
        self.selected = None
        if ratio == 4:  # the newest entries, as many as a row may select
            self.selected = torch.full((rows, shape.index_topk), -1, dtype=torch.int32)
            for row, used in enumerate(self.seqused):
                count = min(shape.index_topk, used // 4)
                self.selected[row, :count] = torch.arange(used // 4 - count, used // 4)

    def answer(self) -> torch.Tensor:
        """The op's output ``[rows, heads, dim]``."""
        from sglang.srt.hardware_backend.npu.attention.ascend_dsv4_backend import _sparse_attn_ops

        metadata_op, attention_op = _sparse_attn_ops()
        shape, device = self.shape, self.shape.device
        common: dict[str, Any] = {
            "cu_seqlens_q": torch.arange(shape.rows + 1, dtype=torch.int32, device=device),
            "seqused_kv": torch.tensor(self.seqused, dtype=torch.int32, device=device),
            "cmp_ratio": self.ratio or 1,
            "ori_mask_mode": 4,
            "cmp_mask_mode": 3,
            "ori_win_left": WINDOW - 1,
            "ori_win_right": 0,
            "layout_q": "TND",
            "layout_kv": "PA_ND",
        }
        described: dict[str, Any] = {"has_cmp_kv": self.entries is not None}
        called: dict[str, Any] = {}
        if self.entries is not None:
            called |= {"cmp_kv": self.entries.pages, "cmp_block_table": self.entries.table}
        if self.selected is not None:
            described["cmp_topk"] = shape.index_topk
            called["cmp_sparse_indices"] = self.selected[:, None].to(device)
        metadata = metadata_op(
            batch_size=shape.rows,
            num_heads_q=shape.heads,
            num_heads_kv=1,
            head_dim=shape.head_dim,
            has_ori_kv=True,
            **described,
            **common,
        )
        return attention_op(
            self.q.to(device),
            ori_kv=self.window.pages,
            ori_block_table=self.window.table,
            sinks=self.sinks.to(device),
            metadata=metadata,
            softmax_scale=shape.head_dim**-0.5,
            **called,
            **common,
        )[0]

    def expected(self, row: int) -> torch.Tensor:
        """fp32 ``[heads, dim]`` of one row: softmax over window, entries and sink, the sink carrying no value."""
        used = self.seqused[row]
        keys = self.window.dense[max(0, used - WINDOW) : used]
        if self.entries is not None:
            index = torch.arange(used // self.ratio)
            if self.selected is not None:
                index = self.selected[row][self.selected[row] >= 0].long()
            keys = torch.cat([keys, self.entries.dense[index]])
        logits = self.q[row].float() @ keys.T * self.shape.head_dim**-0.5
        return torch.cat([logits, self.sinks[:, None]], 1).softmax(-1)[:, :-1] @ keys


def probe_block(block: int, cmp_block: dict[int, int], shape: ProbeShape) -> str | None:
    """Run every template with SWA blocks of ``block`` rows; None if all answers are right, else what went wrong.

    cmp_block: entries of a block of the C4 and C128 pools, by ratio.
    """
    for ratio in (0, *shape.ratios):
        template = _Template(shape, ratio, block, cmp_block.get(ratio, block))
        try:
            answer = template.answer().float().cpu()
        except (RuntimeError, ValueError) as error:
            return f"ratio {ratio}, block {block}: {error}"
        for row in sorted({0, 1, shape.rows - 1} & set(range(shape.rows))):
            off = (answer[row] - template.expected(row)).abs().max().item()
            if not off <= TOLERANCE:  # also true for NaN
                return f"ratio {ratio}, block {block}: row {row} is off by {off:.3g} from fp32, allowed {TOLERANCE}"
    return None


def settled_block_rows(config: TreeConfig, c128_page: int, shape: ProbeShape) -> int:
    """The configured block size if the attention op answers rightly with it, else the next larger one that does.

    c128_page: entries of a C128 page. Raises RuntimeError where no block size works.
    """
    reasons: list[str] = []
    for block_rows in (size for size in BLOCK_ROWS if size >= config.block_rows):
        candidate = replace(config, block_rows=block_rows)
        reason = probe_block(block_rows, {4: candidate.c4_block, 128: candidate.c128_block(c128_page)}, shape)
        if reason is None:
            if reasons:
                logger.warning("dsv4_tree uses blocks of %d rows: %s", block_rows, "; ".join(reasons))
            return block_rows
        reasons.append(reason)
    raise RuntimeError("dsv4_tree: the installed attention op fails its probe: " + "; ".join(reasons))
