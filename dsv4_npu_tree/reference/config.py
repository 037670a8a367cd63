"""The sizes and constants that the reference needs, by their names in a DeepSeek-V4 `config.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Config:
    compress_ratios: list[int]  # per layer: 0 window only, 4 and 128 compressed
    num_attention_heads: int
    head_dim: int
    qk_rope_head_dim: int
    sliding_window: int  # keys of a query, itself included
    index_n_heads: int
    index_head_dim: int
    index_topk: int
    o_groups: int
    num_experts_per_tok: int
    num_hash_layers: int  # the first layers take their experts from a table over token ids
    routed_scaling_factor: float
    swiglu_limit: float
    hc_mult: int  # residual streams
    hc_sinkhorn_iters: int
    hc_eps: float
    rms_norm_eps: float
    rope_theta: float  # window-only layers, unscaled
    compress_rope_theta: float  # compressed layers, with rope_scaling
    rope_scaling: Mapping[str, Any] | None

    @classmethod
    def of(cls, config_json: Mapping[str, Any]) -> Config:
        return cls(**{field.name: config_json[field.name] for field in fields(cls)})
