"""The draft's candidates at many positions at once, chosen step by step as SGLang's EAGLE worker does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from acceptance_bench.attention import Beams, Committed
from acceptance_bench.text import Text
from tools.tiny_checkpoint.nextn import NextN

Score = Callable[[Tensor, int], Tensor]
"""(draft probabilities [..., K] of a step's candidates, best first; their depth, 1 = children of the root) -> what a
path's score is multiplied with."""


@dataclass(frozen=True)
class Candidates:
    """C = K + (S-1) * K * K candidates at R positions of B texts, numbered as SGLang does (`ops/tree_build.py`).

    token, probability, score [B, R, C]: probability is the draft's, score that of the whole path.
    parents [B, R, K * (S-1) + 1]: candidate c continues candidate parents[c // K]; the root if c < K.
    roots [R]: column of the root token of each tree.
    """

    token: Tensor
    probability: Tensor
    score: Tensor
    parents: Tensor
    roots: Tensor
    topk: int
    steps: int

    def cut(self, steps: int) -> Candidates:
        """What fewer steps would have proposed: a step does not know whether another one follows."""
        if not 1 <= steps <= self.steps:
            raise ValueError(f"{steps} steps of {self.steps}")
        pool, rows = pool_size(self.topk, steps), self.topk * (steps - 1) + 1
        parts = (x[..., :pool] for x in (self.token, self.probability, self.score))
        return Candidates(*parts, self.parents[..., :rows], self.roots, self.topk, steps)

    def path(self, b: int, r: int, candidate: int) -> tuple[int, ...]:
        """Tokens from the root's child to a candidate."""
        tokens: tuple[int, ...] = ()
        while candidate >= 0:
            tokens = (int(self.token[b, r, candidate]), *tokens)
            above = candidate // self.topk
            candidate = int(self.parents[b, r, above]) if above else -1
        return tokens

    def depth(self) -> Tensor:
        """[C], 1 for the children of the root."""
        c = torch.arange(self.token.shape[-1])
        return torch.where(c < self.topk, 1, 2 + (c - self.topk) // self.topk**2)

    def right(self, text: Text) -> Tensor:
        """bool [B, R, C]: the path to the candidate is what the target goes on with."""
        depth = self.depth()
        right = self.token == text.ids[:, self.roots[:, None] + depth]
        above = torch.ones_like(right[..., :1])
        for reached in range(2, self.steps + 1):
            above = torch.cat([above, right[..., depth == reached - 1]], dim=-1)
            rows = self.parents[..., 1 + (reached - 2) * self.topk :][..., : self.topk]  # beams of this step
            kept = above.gather(-1, rows + 1).repeat_interleave(self.topk, dim=-1)
            right[..., depth == reached] &= kept
        return right


def pool_size(topk: int, steps: int) -> int:
    return topk + (steps - 1) * topk**2


def roots(text: Text, steps: int) -> Tensor:
    """Columns at which a tree of ``steps`` can be judged; the first is that of the first generated token."""
    return torch.arange(text.prompt, text.ids.shape[1] - steps)


def draft_rows(
    draft: NextN, text: Text, roots: Tensor, beams: int, *, stale: bool = False
) -> Iterator[tuple[Tensor, Tensor]]:
    """A conversation with the draft: yields logits [B, R, beams, V] (first [B, R, 1, V], of the committed row), and
    takes by ``send`` the beams to go on with: (row [B, R, beams] of the last logits, token [B, R, beams]).

    stale: a row reads what its branch stored before, whichever row it continues. That is what SGLang's draft workers
    do: they hand on streams and tokens when beams change places, but not the rows in the cache.
    """
    committed = Committed(draft.config.sliding_window)
    rows = text.ids.shape[1] - 1
    logits, streams = draft(text.streams[:, :rows], text.ids[:, 1:], torch.arange(rows)[None], committed)
    anchors = roots - 1
    logits, streams = logits[:, anchors, None], streams[:, anchors, None]
    tree = Beams(committed, anchors, beams)
    while True:
        row, token = yield logits, streams
        index = row[..., None, None].expand(*row.shape, *streams.shape[3:])
        positions = tree.step(None if stale else row)
        inputs = streams.gather(2, index).flatten(1, 2)
        logits, own = draft(inputs, token.flatten(1, 2), positions, tree)
        logits = logits.view(*row.shape, -1)
        streams = own.view(*row.shape, *own.shape[2:])


@torch.inference_mode()
def candidates(
    draft: NextN,
    text: Text,
    roots: Tensor,
    topk: int,
    steps: int,
    score: Score,
    *,
    stale: bool = False,
    temperature: float = 1.0,
) -> Candidates:
    """All that the draft proposes at each root. temperature: of the draft's softmax."""
    conversation = draft_rows(draft, text, roots, topk, stale=stale)
    logits, _ = next(conversation)
    tokens, probabilities, scores, parents = [], [], [], [torch.arange(-1, topk).expand(*logits.shape[:2], -1)]
    beam = torch.ones(logits.shape[:3])
    for step in range(steps):
        probability, token = (logits / temperature).softmax(-1).topk(topk)
        path = (beam[..., None] * score(probability, step + 1)).flatten(2)
        probabilities.append(probability.flatten(2))
        tokens.append(token.flatten(2))
        scores.append(path)
        if step == steps - 1:
            break
        # The first K candidates all go on; later the best K of K * K do, in the order of their scores.
        if step == 0:
            beam, chosen = path, torch.arange(topk).expand_as(path)
        else:
            beam, chosen = path.topk(topk)
            parents.append(chosen + pool_size(topk, step))
        row = chosen // topk
        logits, _ = conversation.send((row, tokens[-1].gather(-1, chosen)))
    lists = (torch.cat(x, dim=-1) for x in (tokens, probabilities, scores, parents))
    return Candidates(*lists, roots, topk, steps)
