"""Stretches of an id stream, each behind a BOS, as the tokenizer encodes a prompt."""

import torch

from tools.tiny_checkpoint.tokenizer import BOS_ID


class Windows:
    """Random or evenly spaced windows over ids [N] int64."""

    def __init__(self, ids: list[int]):
        self._ids = torch.tensor(ids)

    def _take(self, starts: torch.Tensor, length: int) -> torch.Tensor:
        rows = self._ids[starts[:, None] + torch.arange(length - 1)]
        return torch.cat([torch.full((len(starts), 1), BOS_ID), rows], dim=1)

    def sample(self, count: int, length: int, generator: torch.Generator) -> torch.Tensor:
        """[count, length] int64 at random offsets."""
        return self._take(torch.randint(len(self._ids) - length, (count,), generator=generator), length)

    def spread(self, count: int, length: int) -> torch.Tensor:
        """[count, length] int64 at evenly spaced offsets."""
        return self._take(torch.arange(count) * (len(self._ids) - length) // count, length)
