"""Random attention calls and their result by definition."""

import copy
from dataclasses import dataclass, field

import torch

from .exact import npu
from .pools import attention_metadata, rows, scattered_table

HEADS, WIDTH, LEFT = 4, 32, 127


@dataclass
class AttentionCase:
    """q_lens and used (total stored tokens, 0 for padding) per request; ratio 0: no compressed part; selected: entries
    per row."""

    q_lens: list[int]
    used: list[int]
    ratio: int = 0
    selected: int = 0
    heads: int = HEADS
    width: int = WIDTH
    block: int = 16
    cmp_block: int = 16
    change: dict = field(default_factory=dict)

    def __post_init__(self):
        requests = len(self.used)
        self.ends = [0, *torch.tensor(self.q_lens).cumsum(0).tolist()]
        columns = -(-max(1, *self.used) // self.block)
        total = requests * columns + 2
        self.q = torch.randn(self.ends[-1], self.heads, self.width).bfloat16()
        self.ori = torch.randn(total, self.block, 1, self.width).bfloat16()
        self.ori_table = scattered_table(requests, columns, total)
        self.sinks = torch.randn(self.heads)
        if self.ratio:
            entries = max(1, max(self.used) // self.ratio)
            columns = -(-entries // self.cmp_block)
            self.cmp = torch.randn(requests * columns + 2, self.cmp_block, 1, self.width).bfloat16()
            self.cmp_table = scattered_table(requests, columns, requests * columns + 2)
        self.indices = self._selection() if self.selected else None

    def _selection(self) -> torch.Tensor:
        chosen = torch.full((self.ends[-1], 1, self.selected), -1, dtype=torch.int32)
        for _request, token, position in self.rows():
            limit = max(0, (position + 1) // self.ratio)
            picked = torch.randperm(limit)[: self.selected]
            chosen[token, 0, : picked.numel()] = picked.int()
        return chosen

    def rows(self):
        """(request, query row, position)."""
        for request, length in enumerate(self.q_lens):
            for i in range(length):
                yield request, self.ends[request] + i, self.used[request] - length + i

    def as_rows(self, tokens: list[int]) -> "AttentionCase":
        """The same query rows as requests of one row each, on the same pools (for a case of one request)."""
        places = {token: position for _, token, position in self.rows()}
        other = copy.copy(self)
        other.q_lens, other.used = [1] * len(tokens), [places[token] + 1 for token in tokens]
        other.ends = list(range(len(tokens) + 1))
        other.q = self.q[tokens]
        other.ori_table = self.ori_table.repeat(len(tokens), 1)
        other.indices = None if self.indices is None else self.indices[tokens]
        if self.ratio:
            other.cmp_table = self.cmp_table.repeat(len(tokens), 1)
        return other

    def arguments(self) -> dict:
        metadata = attention_metadata(
            self.ends, self.used, self.heads, self.width, self.ratio or 1, self.selected, bool(self.ratio)
        )
        call = {
            "q": npu(self.q),
            "ori_kv": npu(self.ori),
            "ori_block_table": npu(self.ori_table),
            "cu_seqlens_q": npu(torch.tensor(self.ends, dtype=torch.int32)),
            "seqused_kv": npu(torch.tensor(self.used, dtype=torch.int32)),
            "sinks": npu(self.sinks),
            "metadata": metadata,
            "softmax_scale": self.width**-0.5,
            "cmp_ratio": self.ratio or 1,
            "ori_win_left": LEFT,
            "ori_win_right": 0,
            "layout_q": "TND",
            "layout_kv": "PA_ND",
        }
        if self.ratio:
            call |= {"cmp_kv": npu(self.cmp), "cmp_block_table": npu(self.cmp_table)}
        if self.selected:
            call["cmp_sparse_indices"] = npu(self.indices)
        return call | self.change

    def run(self, op=None) -> torch.Tensor:
        call = self.arguments()
        op = op or torch.ops.custom.npu_sparse_attn_sharedkv
        return op(call.pop("q"), **call)[0].cpu()

    def window(self, request: int, position: int, left: int = LEFT) -> torch.Tensor:
        return rows(self.ori, self.ori_table, request, list(range(max(0, position - left), position + 1)))

    def compressed(self, request: int, token: int, position: int) -> torch.Tensor:
        if not self.ratio:
            return self.ori.new_empty(0, self.width)
        limit = max(0, (position + 1) // self.ratio)
        entries = list(range(limit))
        if self.indices is not None:
            entries = self.indices[token, 0, : min(limit, self.selected)].tolist()
        return rows(self.cmp, self.cmp_table, request, entries)

    def expected(self) -> torch.Tensor:
        out = torch.zeros_like(self.q)
        for request, token, position in self.rows():
            keys = [self.window(request, position), self.compressed(request, token, position)]
            out[token] = self.mix(token, torch.cat(keys))
        return out

    def mix(self, token: int, keys: torch.Tensor) -> torch.Tensor:
        """softmax over the keys and the sink, values are the keys."""
        kv = keys.double()
        logits = self.q[token].double() @ kv.T * self.width**-0.5
        weights = torch.cat([logits, self.sinks.double()[:, None]], 1).softmax(1)[:, :-1]
        return (weights @ kv).bfloat16()
