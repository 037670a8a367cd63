"""What the hooks of one draft call tell each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from dsv4_npu_tree.tree.topology import Topology


@dataclass
class DraftRound:
    """One call of EagleDraftWorker.draft.

    draft_backend: the multi-step draft backend, None with a single step. chain: keep the first candidate only.
    exponent: of tree/scores.py, None ranks paths by draft probability as SGLang does. scores: fp32 ``[bs, n-1]`` path
    scores of the selected candidates. token_list: the candidates' tokens, a tensor per step. selected, parents: what
    the tree was built from. topology: the tree, once it is built.
    """

    draft_backend: Any
    steps: int
    chain: bool = False
    exponent: float | None = None
    scores: torch.Tensor | None = None
    token_list: list[torch.Tensor] | None = None
    selected: torch.Tensor | None = None
    parents: torch.Tensor | None = None
    topology: Topology | None = None


_current: DraftRound | None = None


@contextmanager
def draft_round(
    draft_backend: Any, steps: int, chain: bool = False, exponent: float | None = None
) -> Iterator[DraftRound]:
    global _current
    assert _current is None, "draft calls do not nest"
    _current = DraftRound(draft_backend, steps, chain, exponent)
    try:
        yield _current
    finally:
        _current = None


def current_round() -> DraftRound:
    assert _current is not None, "not inside EagleDraftWorker.draft; is its hook installed?"
    return _current
