"""Attention of draft rows, without a mask over everything.

A draft row reads the committed rows inside its window and a few rows of its own tree. The draft layer hands its mask to
the attention function untouched, so an object of this module goes in the mask's place and does the attention itself.
"""

from __future__ import annotations

import torch
from torch import Tensor
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from tools.tiny_checkpoint.nextn import NextN

NAME = "acceptance_bench"


def _attention(module, query, key, value, attention_mask, scaling, s_aux=None, **kwargs):
    """``value`` is ``key``, one head for all: query [B, H, S, hd], key [B, 1, S, hd] -> [B, S, H, hd]."""
    return attention_mask.attend(query * scaling, key[:, 0], s_aux.view(1, -1, 1, 1)).transpose(1, 2), None


ALL_ATTENTION_FUNCTIONS.register(NAME, _attention)


def use_row_attention(draft: NextN) -> NextN:
    """From here on the draft takes objects of this module as its ``mask``."""
    draft.config._attn_implementation = NAME
    return draft


class Committed:
    """Rows of a text, each behind the target's own streams: a plain window. Keeps their keys [B, L, hd]."""

    def __init__(self, window: int):
        self.window = window
        self.keys: Tensor = torch.empty(0)

    def attend(self, query: Tensor, keys: Tensor, sinks: Tensor) -> Tensor:
        self.keys = keys
        position = torch.arange(keys.shape[1])
        back = position[:, None] - position
        scores = (query @ keys[:, None].transpose(2, 3)).masked_fill((back < 0) | (back >= self.window), -torch.inf)
        scores = torch.cat([scores, sinks.expand(*scores.shape[:3], 1)], dim=-1)
        return scores.softmax(-1)[..., :-1] @ keys[:, None]


class Beams:
    """Rows of trees that grow at R positions of B texts, K a step, in the order [B, R * K].

    anchors [R]: the committed row that a tree hangs on. Call ``step`` before each draft forward.
    """

    def __init__(self, committed: Committed, anchors: Tensor, beams: int):
        self._committed, self._anchors, self._beams = committed, anchors, beams
        batch, _, width = committed.keys.shape
        self._past = committed.keys.new_empty(batch, len(anchors), 0, width)
        self._steps = 0
        self._own = torch.ones(batch, len(anchors), beams, 0, dtype=torch.bool)

    def step(self, parent: Tensor | None) -> Tensor:
        """A step begins: row t continues row ``parent[b, r, t]`` of the step before, or, with None, stays on branch t
        and reads what that branch stored. -> positions [1, R * K] of the new rows."""
        own = self._own
        if parent is not None and self._steps:
            own = own.gather(2, parent[..., None].expand(*parent.shape, own.shape[3]))
        itself = torch.eye(self._beams, dtype=torch.bool).expand(*own.shape[:3], self._beams)
        self._own = torch.cat([own, itself], dim=-1)
        self._steps += 1
        return (self._anchors + self._steps).repeat_interleave(self._beams)[None]

    def attend(self, query: Tensor, keys: Tensor, sinks: Tensor) -> Tensor:
        batch, heads, rows, width = query.shape
        trees, beams, text = len(self._anchors), self._beams, self._committed.keys
        self._past = torch.cat([self._past, keys.view(batch, trees, beams, width)], dim=2)
        # A row's position is anchor + step; its window ends with itself.
        column = torch.arange(text.shape[1])
        first = self._anchors + self._steps - self._committed.window + 1
        closed = (column > self._anchors[:, None]) | (column < first[:, None])  # [R, L]
        on_text = (query.reshape(batch, heads * rows, width) @ text.transpose(1, 2)).view(
            batch, heads, trees, beams, -1
        )
        on_text = on_text.masked_fill(closed[:, None], -torch.inf).view(batch, heads, rows, -1)
        grouped = query.view(batch, heads, trees, beams, width)
        on_tree = grouped @ self._past[:, None].transpose(3, 4)
        on_tree = on_tree.masked_fill(~self._own[:, None], -torch.inf).view(batch, heads, rows, -1)
        scores = torch.cat([on_text, on_tree, sinks.expand(batch, heads, rows, 1)], dim=-1)
        weights = scores.softmax(-1)
        length = text.shape[1]
        from_text = (weights[..., :length].reshape(batch, heads * rows, length) @ text).view(query.shape)
        from_tree = weights[..., length:-1].reshape(batch, heads, trees, beams, -1) @ self._past[:, None]
        return from_text + from_tree.view(query.shape)
