"""DeepSeek-V4 for one token, given the history of that token in each layer.

Every function below takes one token. A row's numbers therefore do not depend on the rows beside it, and a tree can be
compared with serial decoding bit by bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dsv4_npu_tree.reference.choice import Choice
from dsv4_npu_tree.reference.config import Config
from dsv4_npu_tree.reference.experts import mixture
from dsv4_npu_tree.reference.layer import Layer
from dsv4_npu_tree.reference.norm import rms
from dsv4_npu_tree.reference.state import History, Rows
from dsv4_npu_tree.reference.streams import Mixing, collapsed
from dsv4_npu_tree.reference.weights import Weights


@dataclass
class Row:
    """One token after all layers; the lists are over layers."""

    logits: np.ndarray = field(default_factory=lambda: np.empty(0))  # [vocabulary]
    rows: list[Rows] = field(default_factory=list)
    attended: list[np.ndarray] = field(default_factory=list)  # [hidden] output of the attention sublayer
    entries: list[Choice | None] = field(default_factory=list)
    experts: list[Choice | None] = field(default_factory=list)


class Model:
    """`tensors` by their names in transformers' state dict; `config_json` as stored beside a checkpoint."""

    def __init__(self, tensors: Mapping[str, np.ndarray], config_json: Mapping) -> None:
        self.weights = Weights.of(tensors)
        self.config = Config.of(config_json)
        self.blocks = [self.weights.under(f"model.layers.{i}.") for i in range(len(self.config.compress_ratios))]
        self.layers = [
            Layer(block.under("self_attn."), self.config, ratio)
            for block, ratio in zip(self.blocks, self.config.compress_ratios, strict=True)
        ]

    def decode(self, token: int, position: int, histories: Sequence[History]) -> Row:
        """`token` at `position`, where the history of each layer ends at the position before."""
        w, c, row = self.weights, self.config, Row()
        streams = np.tile(w["model.embed_tokens.weight"][token], (c.hc_mult, 1))
        for i, (layer, block) in enumerate(zip(self.layers, self.blocks, strict=True)):
            mixing = Mixing.of(streams, block.under("attn_hc."), c)
            x = rms(mixing.inward(streams), c.rms_norm_eps, block["input_layernorm.weight"])
            out, rows, entries = layer.forward(x, position, histories[i])
            streams = mixing.outward(streams, out)
            row.rows.append(rows)
            row.attended.append(out)
            row.entries.append(entries)

            mixing = Mixing.of(streams, block.under("ffn_hc."), c)
            x = rms(mixing.inward(streams), c.rms_norm_eps, block["post_attention_layernorm.weight"])
            out, experts = mixture(x, token, block.under("mlp."), c, hashed=i < c.num_hash_layers)
            streams = mixing.outward(streams, out)
            row.experts.append(experts)
        out = rms(collapsed(streams, w.under("model.hc_head."), c), c.rms_norm_eps, w["model.norm.weight"])
        row.logits = w["lm_head.weight"] @ out
        return row
