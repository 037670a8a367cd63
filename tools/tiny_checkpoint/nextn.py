"""The NextN (MTP) draft layer as a torch module with the semantics of SGLang's ``deepseek_v4_nextn``.

Row p combines the target's residual streams at position p with the embedding of token p + 1 and predicts token p + 2.
The layer is window-only (no compressor, plain rope, never hash routed); embedding and head are the target's.  Its own
output streams are what the next draft step consumes in place of the target's.
"""

import copy
from pathlib import Path

import torch
from torch import nn
from transformers.models.deepseek_v4.modeling_deepseek_v4 import (
    DeepseekV4DecoderLayer,
    DeepseekV4ForCausalLM,
    DeepseekV4HyperHead,
    DeepseekV4RMSNorm,
    DeepseekV4RotaryEmbedding,
)

from tools.tiny_checkpoint.layout import DRAFT_PREFIX, draft_from_upstream, load_weights
from tools.tiny_checkpoint.lookback import look_back
from tools.tiny_checkpoint.target import hf_model, initialise


class NextN(nn.Module):
    """One draft layer hanging off a target; the target's embedding and head are borrowed, not owned."""

    def __init__(self, target: DeepseekV4ForCausalLM):
        super().__init__()
        config = copy.deepcopy(target.config)
        config.layer_types, config.mlp_layer_types, config.num_hidden_layers = ["sliding_attention"], ["moe"], 1
        self.config = config
        hidden, eps = config.hidden_size, config.rms_norm_eps
        self.enorm = DeepseekV4RMSNorm(hidden, eps)
        self.hnorm = DeepseekV4RMSNorm(hidden, eps)
        self.e_proj = nn.Linear(hidden, hidden, bias=False)
        self.h_proj = nn.Linear(hidden, hidden, bias=False)
        self.layer = DeepseekV4DecoderLayer(config, 0)
        self.hc_head = DeepseekV4HyperHead(config)
        self.norm = DeepseekV4RMSNorm(hidden, eps)
        self.rotary = DeepseekV4RotaryEmbedding(config)
        self._target = [target]  # in a list, so that its parameters are not ours

    @property
    def target(self) -> DeepseekV4ForCausalLM:
        return self._target[0]

    def forward(
        self, streams: torch.Tensor, tokens: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Draft logits and streams of every row.

        streams    [B, S, hc_mult, D]  of position p (the target's, or a draft row's own)
        tokens     [B, S] int64        token p + 1
        positions  [B or 1, S] int64   p: rope position of the row
        mask       [B or 1, 1, S, S]   additive: 0 where row i may read row j (its ancestors, itself), else very low
        -> logits [B, S, V] for token p + 2, streams [B, S, hc_mult, D]
        """
        embedded = self.target.model.embed_tokens(tokens)
        rows = self.h_proj(self.hnorm(streams)) + self.e_proj(self.enorm(embedded)).unsqueeze(2)
        rows = self.layer(
            rows,
            position_embeddings={"main": self.rotary(embedded, position_ids=positions, layer_type="main")},
            position_ids=positions,
            attention_mask=mask,
            past_key_values=None,
            input_ids=tokens,
        )
        return self.target.lm_head(self.norm(self.hc_head(rows))), rows


def additive_mask(allowed: torch.Tensor) -> torch.Tensor:
    """bool [S, S] (row may read column) -> float32 [1, 1, S, S] additive mask."""
    return torch.zeros(allowed.shape).masked_fill(~allowed, torch.finfo(torch.float32).min)[None, None]


def window_mask(length: int, window: int) -> torch.Tensor:
    """Additive mask [1, 1, S, S] of a plain sequence: the last ``window`` rows, the row itself included."""
    i = torch.arange(length)
    return additive_mask((i[None] <= i[:, None]) & (i[None] > i[:, None] - window))


def ancestor_mask(parents: list[int], positions: torch.Tensor, window: int) -> torch.Tensor:
    """Additive mask [1, 1, S, S] of a tree of rows: row i reads itself and its ancestors inside the window.

    parents[i] is the row before i on its path (-1 for the first row of all); positions [S] int64.
    """
    allowed = torch.zeros(len(parents), len(parents), dtype=torch.bool)
    for row, parent in enumerate(parents):
        if parent >= 0:
            allowed[row] = allowed[parent]
        allowed[row, row] = True
    return additive_mask(allowed & (positions[None] > positions[:, None] - window))


def fresh_nextn(target: DeepseekV4ForCausalLM, seed: int) -> NextN:
    """An untrained draft: passes the token's embedding on, so it starts from what embedding and head know."""
    draft = NextN(target)
    initialise(draft, torch.Generator().manual_seed(seed))
    look_back(draft.layer.self_attn, draft.config.qk_rope_head_dim, draft.config.rope_theta)
    with torch.no_grad():
        draft.e_proj.weight.copy_(torch.eye(draft.config.hidden_size))
        draft.h_proj.weight.copy_(0.25 * torch.eye(draft.config.hidden_size))
    return draft


def nextn_model(path: str | Path, target: DeepseekV4ForCausalLM | None = None) -> NextN:
    """The checkpoint's draft layer in fp32 eval mode; ``target`` saves loading the target again."""
    draft = NextN(target if target is not None else hf_model(path))
    draft.load_state_dict(draft_from_upstream(load_weights(Path(path), DRAFT_PREFIX)), strict=True)
    return draft.eval()
