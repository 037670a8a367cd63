"""Prompts of exact token lengths, cut from Python's own manual."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pydoc_data import topics

from demonstration.server import default_model

# Short ones, both sides of a 128-token page and of 256, and one of several pages.
LENGTHS = (1, 2, 3, 4, 6, 9, 127, 128, 129, 130, 255, 256, 257, 258, 650)


@dataclass(frozen=True)
class Prompt:
    name: str
    ids: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.ids)


@functools.cache
def manual() -> tuple[int, ...]:
    """Token ids of the whole manual."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(default_model())
    text = "\n".join(topics.topics[name] for name in sorted(topics.topics))
    return tuple(tokenizer.encode(text, add_special_tokens=False))


def prompt(length: int, start: int = 0) -> Prompt:
    """``length`` tokens of the manual from token ``start`` on."""
    ids = manual()[start : start + length]
    if len(ids) < length:
        raise ValueError(f"the manual has only {len(manual())} tokens")
    return Prompt(f"{length}@{start}", ids)


def standard_prompts() -> list[Prompt]:
    """One prompt of each length, from different places, so that no two share a prefix."""
    return [prompt(length, 700 * number) for number, length in enumerate(LENGTHS)]
