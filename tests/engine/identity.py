"""When two greedy answers count as the same: equal tokens, or a first difference where the reference had a tie."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

_NOISE = 2e-5  # fp32 rounding of logprobs: logit minus logsumexp


def logit_step(top_logprobs: list[float]) -> float:
    """One bf16 step of the leading logits, from the logprobs of one position (highest first).

    Logits are bf16, so their differences are multiples of the spacing of bf16 numbers around them: the step is the
    largest power of two that divides every difference to the first.
    """
    gaps = [top_logprobs[0] - value for value in top_logprobs[1:]]
    if len(gaps) < 4:
        raise ValueError("give five or more logprobs: fewer do not tell the step")
    for exponent in range(0, -12, -1):
        step = 2.0**exponent
        if all(abs(gap / step - round(gap / step)) * step <= _NOISE for gap in gaps):
            return step
    return 2.0**-12


def is_tie(top_logprobs: list[float]) -> bool:
    """True where the two best logits are at most one bf16 step apart, so that either token is a right answer."""
    return top_logprobs[0] - top_logprobs[1] <= logit_step(top_logprobs) + _NOISE


def first_difference(answer: list[int], reference: list[int]) -> int | None:
    """Index of the first token that differs; where one is a prefix of the other, its end."""
    for index, (a, b) in enumerate(zip(answer, reference)):
        if a != b:
            return index
    return None if len(answer) == len(reference) else min(len(answer), len(reference))


@dataclass
class Tally:
    """Comparisons of a test session, for the table at its end."""

    rows: list[tuple[str, int, str, float]] = field(default_factory=list)

    def add(self, run: str, length: int, outcome: str, accept_length: float) -> None:
        self.rows.append((run, length, outcome, accept_length))

    def lines(self) -> list[str]:
        """One line a run: prompts, how many were the same text, ties and differences, mean accept length."""
        lines = []
        for run in dict.fromkeys(row[0] for row in self.rows):
            rows = [row for row in self.rows if row[0] == run]
            count = {word: sum(row[2].startswith(word) for row in rows) for word in ("same", "tie", "differs")}
            lengths = [row[3] for row in rows if not math.isnan(row[3])]
            mean = sum(lengths) / len(lengths) if lengths else math.nan
            shown = ", ".join(f"{row[1]}: {row[2]}" for row in rows if not row[2].startswith("same"))
            lines.append(
                f"{run:28} {len(rows):3} prompts  same {count['same']:3}  tie {count['tie']:2}  differs "
                f"{count['differs']:2}  tokens per forward {mean:.2f}" + (f"  ({shown})" if shown else "")
            )
        return lines


def accept_length(answer: dict[str, Any]) -> float:
    return answer["meta_info"].get("spec_accept_length", math.nan)


def compare(answer: dict[str, Any], reference: dict[str, Any]) -> str:
    """``same``, ``tie at N`` or ``differs at N ...``. The answer may be shorter than the reference; the reference
    carries the leading logprobs of its tokens."""
    tokens = answer["output_ids"]
    index = first_difference(tokens, reference["output_ids"][: len(tokens)])
    if index is None:
        return "same"
    if index >= len(reference["output_ids"]):
        return f"differs at {index}: longer than the reference"
    top = [entry[0] for entry in reference["meta_info"]["output_top_logprobs"][index]]
    word = "tie" if is_tie(top) else "differs"
    return f"{word} at {index} (gap {top[0] - top[1]:.4f}, step {logit_step(top):.4f})"
