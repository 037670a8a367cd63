"""An acceptance profile: what `tools/bench_acceptance --profile` measured of a draft, and the advisor reads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsv4_npu_tree.config import MAX_SCORE_EXPONENT
from dsv4_npu_tree.tree.shapes import Shape


@dataclass(frozen=True)
class Gain:
    """Tokens per forward more than the best chain of at most as many rows, which has ``steps`` steps; a paired interval
    from ``low`` to ``high``."""

    steps: int
    gain: float
    low: float
    high: float


@dataclass(frozen=True)
class Measured:
    """A shape with its accepted tokens per target forward. over_chain: None for a chain, or if not measured."""

    shape: Shape
    tokens: float
    low: float
    high: float
    over_chain: Gain | None = None


@dataclass(frozen=True)
class Profile:
    """exponent: the DSV4_TREE_SCORE_EXPONENT that the trees were measured with, None without."""

    shapes: list[Measured]
    exponent: float | None = None


def load_profile(path: str | Path) -> Profile:
    """Raises OSError, and ValueError for anything else than a profile with shapes."""
    try:
        data: dict[str, Any] = json.loads(Path(path).read_text())
        found = [_measured(entry) for entry in data["shapes"]]
        exponent = data.get("score_exponent")
        if exponent is not None and not 0 < exponent <= MAX_SCORE_EXPONENT:
            raise ValueError(f"score_exponent {exponent} is outside 0..{MAX_SCORE_EXPONENT:g}")
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is no acceptance profile of tools/bench_acceptance: {error!r}") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if not found:
        raise ValueError(f"{path} holds no shape")
    return Profile(found, exponent)


def _measured(entry: dict[str, Any]) -> Measured:
    shape = Shape(entry["n"], entry["steps"], entry["topk"])
    fault = shape.fault(shape)
    tokens = entry["tokens_per_forward"]
    if fault is not None or not 1 <= tokens <= shape.steps + 1:
        raise ValueError(fault or f"shape {shape} cannot accept {tokens} tokens per forward")
    over = entry.get("over_best_chain")
    gain = None if over is None else Gain(over["steps"], over["gain"], over["low"], over["high"])
    return Measured(shape, tokens, entry["low"], entry["high"], gain)
