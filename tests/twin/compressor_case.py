"""Compressor calls on a ring of state rows, and the blocks of a whole sequence by definition."""

from dataclasses import dataclass

import torch

from .exact import npu

HIDDEN, ROPE, EPS = 24, 4, 1e-6


@dataclass
class Layer:
    """Weights of one compressor; ratio 4 overlaps (coff 2), ratio 128 does not."""

    ratio: int
    width: int = 8

    def __post_init__(self):
        self.coff = 2 if self.ratio == 4 else 1
        span = self.coff * self.width
        self.wkv = torch.randn(span, HIDDEN).bfloat16()
        self.wgate = torch.randn(span, HIDDEN).bfloat16()
        self.ape = torch.randn(self.ratio, span)
        self.norm = torch.randn(self.width)
        angle = torch.rand(512, ROPE // 2)
        self.cos = angle.cos().repeat_interleave(2, -1)
        self.sin = angle.sin().repeat_interleave(2, -1)

    def token_rows(self, x: torch.Tensor, start: int) -> torch.Tensor:
        """fp32 ``[T, 2 * coff * width]``: kv | score + ape, as the state stores them."""
        kv = (x.double() @ self.wkv.double().T).float()
        score = (x.double() @ self.wgate.double().T).float()
        ape = self.ape[torch.arange(start, start + x.shape[0]) % self.ratio]
        return torch.cat([kv, score + ape], 1)

    def block(self, rows: torch.Tensor, index: int) -> torch.Tensor:
        """Entry ``index`` from the token rows of the sequence (row = position)."""
        r, d, span = self.ratio, self.width, self.coff * self.width
        slots = []
        if self.coff == 2 and index > 0:
            slots += [(rows[p, :d], rows[p, span : span + d]) for p in range((index - 1) * r, index * r)]
        right = slice(span - d, span), slice(2 * span - d, 2 * span)
        slots += [(rows[p, right[0]], rows[p, right[1]]) for p in range(index * r, (index + 1) * r)]
        values = torch.stack([kv for kv, _ in slots]).double()
        weights = torch.softmax(torch.stack([score for _, score in slots]).double(), 0)
        pooled = (weights * values).sum(0)
        out = pooled / torch.sqrt(pooled.square().mean() + EPS) * self.norm.double()
        cos, sin = self.cos[index * r].double(), self.sin[index * r].double()
        for pair in range(d - ROPE, d, 2):
            a, b = out[pair].clone(), out[pair + 1].clone()
            c, s = cos[pair - (d - ROPE)], sin[pair - (d - ROPE)]
            out[pair], out[pair + 1] = a * c - b * s, b * c + a * s
        return out.bfloat16()


@dataclass
class Ring:
    """State rows of several sequences: row = sequence * size + position % size; the last row is the dummy."""

    layer: Layer
    sequences: int = 1
    size: int = 256

    def __post_init__(self):
        rows = self.sequences * self.size + self.size
        span = 2 * self.layer.coff * self.layer.width
        self.state = npu(torch.full((rows // 16, 16, span), 77.0))
        self.dummy = rows - 1

    def rows(self) -> torch.Tensor:
        return self.state.cpu().flatten(0, 1)

    def table(self, starts: list[int], used: list[int], sequences: list[int]) -> torch.Tensor:
        history = self.layer.coff * self.layer.ratio
        table = torch.full((len(starts), history + max(max(used), 1)), self.dummy, dtype=torch.int32)
        for line, (start, count, sequence) in enumerate(zip(starts, used, sequences)):
            for column in range(history + count):
                position = start - history + column
                if position >= 0:
                    table[line, column] = sequence * self.size + position % self.size
        return table

    def call(
        self, xs: list[torch.Tensor], starts: list[int], sequences: list[int], used=None, **change
    ) -> torch.Tensor:
        """One op call; returns the emitted rows only."""
        layer, ratio = self.layer, self.layer.ratio
        used = used or [x.shape[0] for x in xs]
        x = torch.cat(xs)
        ends = [0, *torch.tensor([part.shape[0] for part in xs]).cumsum(0).tolist()]
        firsts = [
            block * ratio
            for start, count in zip(starts, used)
            for block in range(start // ratio, (start + count) // ratio)
        ]
        lines = torch.tensor(firsts + [0] * (min(x.shape[0], x.shape[0] // ratio + len(xs)) - len(firsts)))
        arguments = {
            "x": npu(x),
            "wkv": npu(layer.wkv),
            "wgate": npu(layer.wgate),
            "state_cache": self.state,
            "ape": npu(layer.ape),
            "norm_weight": npu(layer.norm),
            "rope_sin": npu(layer.sin[lines]),
            "rope_cos": npu(layer.cos[lines]),
            "rope_head_dim": ROPE,
            "cmp_ratio": ratio,
            "state_block_table": npu(self.table(starts, used, sequences)),
            "cu_seqlens": npu(torch.tensor(ends, dtype=torch.int32)),
            "seqused": npu(torch.tensor(used, dtype=torch.int32)),
            "start_pos": npu(torch.tensor(starts, dtype=torch.int32)),
            "coff": layer.coff,
            "norm_eps": EPS,
            "rotary_mode": 2,
            "cache_mode": 2,
        } | change
        out = torch.ops.npu.compressor(**arguments)
        assert out.shape == (min(x.shape[0], x.shape[0] // ratio + len(xs)), layer.width)
        return out.cpu()[: len(firsts)]
