"""Named weights in fp64, and those below a prefix of the names."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


class Weights:
    """Tensors by their names in the state dict of transformers' `deepseek_v4`; floats are widened to fp64."""

    def __init__(self, tensors: Mapping[str, np.ndarray], prefix: str = "") -> None:
        self._tensors = tensors
        self._prefix = prefix

    @classmethod
    def of(cls, tensors: Mapping[str, np.ndarray]) -> Weights:
        return cls({name: t.astype(np.float64) if t.dtype.kind == "f" else t for name, t in tensors.items()})

    def __getitem__(self, name: str) -> np.ndarray:
        return self._tensors[self._prefix + name]

    def under(self, prefix: str) -> Weights:
        return Weights(self._tensors, self._prefix + prefix)
