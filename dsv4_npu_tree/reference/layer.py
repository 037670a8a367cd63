"""The attention sublayer of DeepSeek-V4 for one token: window, compressed entries and sink in one softmax.

Section 2.3 of the report. A token inside the window is seen as itself and through the blocks it is part of.
"""

from __future__ import annotations

import numpy as np

from dsv4_npu_tree.reference import indexer
from dsv4_npu_tree.reference.attention import attend
from dsv4_npu_tree.reference.choice import Choice
from dsv4_npu_tree.reference.compressor import Compressor
from dsv4_npu_tree.reference.config import Config
from dsv4_npu_tree.reference.norm import rms
from dsv4_npu_tree.reference.rotary import frequencies, turn
from dsv4_npu_tree.reference.state import History, Rows
from dsv4_npu_tree.reference.visibility import closed_blocks, window
from dsv4_npu_tree.reference.weights import Weights


class Layer:
    def __init__(self, weights: Weights, config: Config, ratio: int) -> None:
        self.weights, self.config, self.ratio = weights, config, ratio
        dim, scaling = config.qk_rope_head_dim, config.rope_scaling
        if ratio:
            self.freqs = frequencies(dim, config.compress_rope_theta, scaling)
            below = weights.under("compressor.")
            self.compressor = Compressor(ratio, below, self.freqs, config.rms_norm_eps)
            if ratio == 4:
                self.indexer = Compressor(ratio, below.under("indexer."), self.freqs, config.rms_norm_eps)
        else:
            self.freqs = frequencies(dim, config.rope_theta)

    def forward(self, x: np.ndarray, position: int, history: History) -> tuple[np.ndarray, Rows, Choice | None]:
        """Output [hidden] of x [hidden], what the token leaves behind, and the indexer's choice of entries (C4)."""
        w, c = self.weights, self.config
        lora = rms(w["q_a_proj.weight"] @ x, c.rms_norm_eps, w["q_a_norm.weight"])
        q = rms((w["q_b_proj.weight"] @ lora).reshape(-1, c.head_dim), c.rms_norm_eps)
        kv = rms(w["kv_proj.weight"] @ x, c.rms_norm_eps, w["kv_norm.weight"])
        rows = Rows(turn(kv, position, self.freqs))
        history = history.extended(rows)
        entries, choice = self._entries(x, lora, position, history)
        keys = [history.row("kv", t) for t in window(position, c.sliding_window)] + entries
        q = turn(q, position, self.freqs)
        out, _ = attend(q, np.array(keys), c.head_dim**-0.5, w["sinks"])
        # The values carry their rotary position; turning back by the query's leaves the relative one.
        groups = turn(out, position, self.freqs, back=True).reshape(c.o_groups, -1)
        narrow = w["o_a_proj.weight"].reshape(c.o_groups, -1, groups.shape[1])
        mixed = np.concatenate([a @ group for a, group in zip(narrow, groups, strict=True)])
        return w["o_b_proj.weight"] @ mixed, rows, choice

    def _entries(
        self, x: np.ndarray, lora: np.ndarray, position: int, history: History
    ) -> tuple[list[np.ndarray], Choice | None]:
        """Compressed entries that the token attends to. One that it closes itself is among them, or may be."""
        if not self.ratio:
            return [], None
        rows = history.path[-1]
        rows.main = self.compressor.row(x, position)
        if self.compressor.closes(position):
            rows.entry = self.compressor.close(position, lambda t: history.row("main", t))
        entries = history.all("entry")[: closed_blocks(position, self.ratio)]
        if self.ratio == 128:
            return entries, None
        rows.index = self.indexer.row(x, position)
        if self.indexer.closes(position):
            rows.index_key = self.indexer.close(position, lambda t: history.row("index", t))
        keys = history.all("index_key")[: closed_blocks(position, self.ratio)]
        w, c = self.weights.under("compressor.indexer."), self.config
        q = turn((w["q_b_proj.weight"] @ lora).reshape(-1, c.index_head_dim), position, self.freqs)
        choice = indexer.select(q, w["scorer.weights_proj.weight"] @ x, np.array(keys), c.index_topk)
        return [entries[i] for i in choice.kept], choice
