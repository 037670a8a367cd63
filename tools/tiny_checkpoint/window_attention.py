"""An attention function for training that skips the keys outside the sliding window.

HF's eager attention scores every query against every key of the sequence.  Here queries are taken ``window`` at a
time against the 2 * window - 1 raw keys they can see, plus all compressed entries, and the one shared key head is not
repeated.  The result is the same as eager attention's.

It also leaves, on the module, how much probability the compressed entries got: what the indexer is taught.
"""

import torch
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, eager_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

NAME = "tiny_checkpoint_window"


def window_attention(
    module, query, key, value, attention_mask, scaling, dropout=0.0, sliding_window=None, s_aux=None, **kwargs
):
    """Joint softmax over window, compressed entries and sink.

    query           [B, H, S, hd]       key is value [B, 1, S + C, hd]: S raw rows, then C compressed entries
    attention_mask  [B, 1, S, S + C]    additive
    -> ([B, S, H, hd], None); sets, without gradient, module.compressed_mass [B, S, C] (summed over heads) and
       module.compressed_open [B, S, C] bool (entries the query may read)
    """
    batch, heads, length, dim = query.shape
    window = sliding_window
    raw, entries = key[:, 0, :length], key[:, 0, length:]
    sink = s_aux.view(1, heads, 1, 1)
    outputs, masses = [], []
    for begin in range(0, length, window):
        end = min(begin + window, length)
        first = max(0, begin - window + 1)
        keys = torch.cat([raw[:, first:end], entries], dim=1)
        mask = torch.cat([attention_mask[:, :, begin:end, first:end], attention_mask[:, :, begin:end, length:]], dim=-1)
        queries = query[:, :, begin:end].reshape(batch, heads * (end - begin), dim)
        scores = (queries @ keys.transpose(1, 2)).view(batch, heads, end - begin, -1) * scaling + mask
        scores = torch.cat([scores, sink.expand(batch, heads, end - begin, 1)], dim=-1)
        probabilities = scores.softmax(dim=-1)[..., :-1]
        masses.append(probabilities[..., end - first :].detach().sum(dim=1))
        mixed = probabilities.reshape(batch, heads * (end - begin), -1) @ keys
        outputs.append(mixed.view(batch, heads, end - begin, dim))
    module.compressed_mass = torch.cat(masses, dim=1)
    module.compressed_open = attention_mask[:, 0, :, length:] > torch.finfo(attention_mask.dtype).min / 2
    return torch.cat(outputs, dim=2).transpose(1, 2), None


ALL_ATTENTION_FUNCTIONS.register(NAME, window_attention)
ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, eager_mask)
