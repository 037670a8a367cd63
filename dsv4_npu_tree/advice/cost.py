"""Bytes and operations of a DeepSeek-V4 forward over T rows, from the model's config.json.

Counted: weights, KV and indexer reads, products. Not counted: communication, vector work, launches, activations.
Experts are taken to be drawn independently, so T rows touch E (1 - (1 - k/E)^T) of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dsv4_npu_tree.advice.boundary import whole

SWA_WINDOW = 128
KV_BYTES = 1024  # a bf16 row of 512 channels
INDEX_BYTES = 130  # int8 key and fp16 scale

_COUNTS = (
    "hidden_size", "num_attention_heads", "head_dim", "q_lora_rank", "moe_intermediate_size", "o_groups",
    "o_lora_rank", "index_n_heads", "index_head_dim", "index_topk", "n_routed_experts", "vocab_size",
    "num_hidden_layers",
)  # fmt: skip


@dataclass(frozen=True)
class LayerCost:
    """Parameters of one layer that every row uses, of one routed expert, and expert counts. ratio: 0, 4 or 128."""

    ratio: int
    dense: int
    expert: int
    experts: int
    chosen: int

    def touched(self, rows: int) -> float:
        return self.experts * (1 - (1 - self.chosen / self.experts) ** rows)


@dataclass(frozen=True)
class ForwardCost:
    """bytes: read from HBM; operations: multiply and add count as two. layers: how many run."""

    bytes: float
    operations: float
    layers: int


@dataclass(frozen=True)
class ModelCost:
    """layers: of the target. draft: the NextN layer. head: parameters of the output projection. weight_bytes: per
    parameter as stored."""

    layers: tuple[LayerCost, ...]
    draft: LayerCost
    head: int
    heads: int
    head_dim: int
    index_heads: int
    index_dim: int
    index_topk: int
    weight_bytes: float

    @classmethod
    def of_config(cls, config: dict[str, Any], weight_bytes: float) -> ModelCost:
        """From a HuggingFace config.json of DeepSeek-V4. Raises KeyError on a missing field, ValueError
        on a value that no model has."""
        for name in _COUNTS:
            whole(config[name], name)
        whole(config.get("n_shared_experts", 1), "n_shared_experts", 0)
        whole(config["num_experts_per_tok"], "num_experts_per_tok", 1, config["n_routed_experts"])
        ratios = config["compress_ratios"][: config["num_hidden_layers"]]
        if len(ratios) != config["num_hidden_layers"] or any(
            type(r) is not int or r not in (0, 4, 128) for r in ratios
        ):
            raise ValueError("compress_ratios: give 0, 4 or 128 for each of num_hidden_layers")
        hidden, heads, head_dim = config["hidden_size"], config["num_attention_heads"], config["head_dim"]
        q_lora, inter = config["q_lora_rank"], config["moe_intermediate_size"]
        groups, o_lora = config["o_groups"], config["o_lora_rank"]
        attention = (
            hidden * q_lora + q_lora * heads * head_dim + hidden * head_dim  # q, kv
            + heads * head_dim * o_lora + groups * o_lora * hidden  # grouped output projection
        )  # fmt: skip
        index_heads, index_dim = config["index_n_heads"], config["index_head_dim"]
        # C4 compresses with overlap (2 x kv | gate), for the layer and for its indexer; C128 without
        extra = {
            0: 0,
            4: hidden * 4 * (head_dim + index_dim) + q_lora * index_heads * index_dim + hidden * index_heads,
            128: hidden * 2 * head_dim,
        }
        expert = 3 * hidden * inter
        shared = config.get("n_shared_experts", 1) * expert

        def layer(ratio: int) -> LayerCost:
            dense = attention + extra[ratio] + shared
            return LayerCost(ratio, dense, expert, config["n_routed_experts"], config["num_experts_per_tok"])

        return cls(
            tuple(layer(ratio) for ratio in ratios),
            layer(0),
            config["vocab_size"] * hidden,
            heads,
            head_dim,
            index_heads,
            index_dim,
            config["index_topk"],
            weight_bytes,
        )

    def target(self, rows: int, context: int) -> ForwardCost:
        """One forward of the target over ``rows`` rows that each see ``context`` tokens."""
        return self._forward(self.layers, rows, context)

    def draft_step(self, rows: int, context: int) -> ForwardCost:
        """One forward of the draft layer with the head."""
        return self._forward((self.draft,), rows, context)

    def _forward(self, layers: tuple[LayerCost, ...], rows: int, context: int) -> ForwardCost:
        weights, products, kv, attended = float(self.head), float(self.head * rows), 0.0, 0.0
        for layer in layers:
            weights += layer.dense + layer.touched(rows) * layer.expert
            products += rows * (layer.dense + layer.chosen * layer.expert)
            seen = min(context, SWA_WINDOW)
            if layer.ratio == 4:
                seen += min(context // 4, self.index_topk)
                kv += rows * (context // 4) * INDEX_BYTES
                attended += rows * (context // 4) * self.index_heads * self.index_dim
            elif layer.ratio == 128:
                seen += context // 128
            kv += rows * seen * KV_BYTES
            attended += rows * seen * 2 * self.heads * self.head_dim
        return ForwardCost(weights * self.weight_bytes + kv, 2 * (products + attended), len(layers))
