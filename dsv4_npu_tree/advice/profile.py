"""An acceptance profile: what `tools/bench_acceptance --profile` measured of a draft, and the advisor reads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsv4_npu_tree.advice.boundary import number, whole
from dsv4_npu_tree.config import MAX_NODES, MAX_SCORE_EXPONENT, MAX_STEPS, MAX_TOPK
from dsv4_npu_tree.tree.shapes import Shape

LIMITS = (("n", MAX_NODES), ("steps", MAX_STEPS), ("topk", MAX_TOPK))  # what a server accepts


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
        if exponent is not None and number(exponent, "score_exponent", 0, MAX_SCORE_EXPONENT) == 0:
            raise ValueError("score_exponent 0: give a number above 0")
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is no acceptance profile of tools/bench_acceptance: {error!r}") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if not found:
        raise ValueError(f"{path} holds no shape")
    return Profile(found, exponent)


def _measured(entry: dict[str, Any]) -> Measured:
    shape = Shape(*(whole(entry[name], name, 1, most) for name, most in LIMITS))
    fault = shape.fault(shape)
    tokens = number(entry["tokens_per_forward"], f"shape {shape} cannot accept", 1, shape.steps + 1)
    if fault is not None:
        raise ValueError(fault)
    low, high = _interval(entry, shape, 1)
    over = entry.get("over_best_chain")
    gain = None
    if over is not None:
        steps, bound = whole(over["steps"], "over_best_chain steps", 1, MAX_NODES), MAX_NODES
        gain = Gain(steps, number(over["gain"], "gain", -bound, bound), *_interval(over, shape, -bound))
    return Measured(shape, tokens, low, high, gain)


def _interval(entry: dict[str, Any], shape: Shape, least: float) -> tuple[float, float]:
    low, high = (number(entry[name], f"shape {shape}: {name}", least, MAX_NODES) for name in ("low", "high"))
    if low > high:
        raise ValueError(f"shape {shape}: low {low} is above high {high}")
    return low, high
