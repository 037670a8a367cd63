"""Numbers of files and flags, held against what they can be before anything is computed."""

from __future__ import annotations

from typing import Any

LARGEST = 1 << 32  # products of a few such numbers are still floats


def number(value: Any, name: str, low: float, high: float) -> float:
    """A finite number in ``low..high``, both included. Raises ValueError that names it."""
    if type(value) not in (int, float) or not low <= value <= high:  # NaN fails too
        raise ValueError(f"{name} {_shown(value)}: give a number from {low:g} to {high:g}")
    return value


def whole(value: Any, name: str, low: int = 1, high: int = LARGEST) -> int:
    """Like ``number`` for int alone."""
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{name} {_shown(value)}: give a whole number from {low} to {high}")
    return value


def _shown(value: Any) -> str:
    if type(value) is int and abs(value) >= 1 << 64:
        return "beyond 64 bits"  # str() refuses more than 4300 digits
    return repr(value)[:40]
