"""Held-out prompts of one length, continued greedily, with what the target says about every position."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import AutoTokenizer
from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4ForCausalLM

from tools.tiny_checkpoint import MODEL_DIR, target_streams
from tools.tiny_checkpoint.acceptance import greedy
from tools.tiny_checkpoint.corpus import corpus
from tools.tiny_checkpoint.tokenizer import BOS_ID

SPACING = 160  # tokens between the starts of two prompts: they never overlap
HALVES = ("fit", "measure")


@dataclass(frozen=True)
class Text:
    """ids [B, T] int64 and the target's streams [B, T, m, D] on them; generation began at column ``prompt``."""

    ids: Tensor
    streams: Tensor
    prompt: int

    def __len__(self) -> int:
        return len(self.ids)


def prompts(half: str, count: int, length: int) -> Tensor:
    """[count, length] int64, each behind a BOS, none overlapping another. Stretches of text take turns between the
    two halves: what is fitted on one is measured on text that it has not seen."""
    tokenizer = AutoTokenizer.from_pretrained(str(MODEL_DIR))
    rows = []
    for text in corpus().heldout[HALVES.index(half) :: len(HALVES)]:
        ids = tokenizer(text, add_special_tokens=False).input_ids
        rows += [[BOS_ID, *ids[at : at + length - 1]] for at in range(0, len(ids) - length + 2, max(SPACING, length))]
    if count > len(rows):
        raise ValueError(f"the held-out text has only {len(rows)} prompts of {length} tokens in this half")
    picked = torch.linspace(0, len(rows) - 1, count).round().long()
    return torch.tensor(rows)[picked]


def read(target: DeepseekV4ForCausalLM, ids: Tensor, prompt: int) -> Text:
    """A text whose continuation is known."""
    with torch.inference_mode():
        return Text(ids, target_streams(target, ids)[1], prompt)


def continued(target: DeepseekV4ForCausalLM, starts: Tensor, count: int) -> Tensor:
    """[B, S + count] int64: greedy continuations, a few prompts at a time."""
    return torch.cat([greedy(target, part, count) for part in starts.split(60)])
