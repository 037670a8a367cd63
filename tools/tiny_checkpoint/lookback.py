"""A head start for the window layers: head h looks h + 1 tokens back before any training.

Only 64 of the 512 channels of a head carry positions, and nothing in a token's embedding is the same for all tokens,
so a "previous token" head takes long to form.  Here channel 0 of the embedding is one constant; keys read it into the
fastest rotary pairs, and each head's query reads it into the same pairs, rotated so that the score peaks at its
distance.  Training is free to undo it.
"""

import torch
from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4Attention

CONSTANT = 3.0  # channel 0 of every embedding row; the rows have rms 1
PAIRS = 4
GAIN = 3.0


@torch.no_grad()
def look_back(attention: DeepseekV4Attention, rope_dim: int, theta: float) -> None:
    """Set the constant channel's part of ``kv_proj``, ``q_a_proj`` and ``q_b_proj`` of a window layer."""
    start = attention.head_dim - rope_dim  # rotary channels come last, as pairs (2i, 2i + 1)
    pairs = start + 2 * torch.arange(PAIRS)
    frequency = theta ** (-2.0 * torch.arange(PAIRS) / rope_dim)

    keys = attention.kv_proj.weight  # [hd, D]
    keys[start:] *= 0.3
    keys[:, 0] = 0.0
    keys[pairs, 0] = GAIN

    attention.q_a_proj.weight[0] = 0.0
    attention.q_a_proj.weight[:, 0] = 0.0
    attention.q_a_proj.weight[0, 0] = 1.0
    queries = attention.q_b_proj.weight.view(attention.num_heads, attention.head_dim, -1)
    queries[:, start:] *= 0.3
    queries[:, :, 0] = 0.0
    for head in range(attention.num_heads):
        angle = -(head + 1) * frequency  # a key h + 1 back is rotated this much less than the query
        queries[head, pairs, 0] = 2 * GAIN * angle.cos()
        queries[head, pairs + 1, 0] = 2 * GAIN * angle.sin()
