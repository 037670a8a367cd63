"""The rows as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from acceptance_bench.reliability import Bin
from acceptance_bench.results import Difference, Row

FEW = 50  # candidates: a smaller bin says nothing


def _difference(found: Difference | None) -> str:
    return "" if found is None else f"{_gain(found)} S={found.steps}"


def _gain(found: Difference | None) -> str:
    if found is None:
        return ""
    low, high = found.interval
    return f"{found.mean:+.2f} [{low:+.2f}, {high:+.2f}]"


COLUMNS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("n", lambda r: str(r.nodes)),
    (
        "shape",
        lambda r: {"none": "no speculation", "chain": f"chain S={r.steps}"}.get(r.kind, f"K={r.topk} S={r.steps}"),
    ),
    ("scores", lambda r: r.scoring),
    ("history", lambda r: r.history),
    ("per forward", lambda r: f"{r.per_forward:.2f} [{r.interval[0]:.2f}, {r.interval[1]:.2f}]"),
    ("vs best chain of n", lambda r: _difference(r.best_chain)),
    ("vs chain of S", lambda r: _difference(r.same_steps)),
    ("vs as drafted", lambda r: _gain(r.drafted)),
    ("vs stale", lambda r: _gain(r.stale)),
    (
        "accepted to depth 1, 2, ...",
        lambda r: " ".join(f"{share:.2f}"[1:] if share < 1 else "1" for share in r.by_depth[:8]),
    ),
)


def table(rows: Sequence[Row]) -> str:
    cells = [[name for name, _ in COLUMNS]] + [[cell(row) for _, cell in COLUMNS] for row in rows]
    columns = [column for column in zip(*cells) if any(column[1:])]  # nothing to compare with: no column
    widths, cells = [max(map(len, column)) for column in columns], [list(row) for row in zip(*columns)]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in cells]
    ruled = [lines[0]]
    for line, row, before in zip(lines[1:], rows, [None, *rows]):
        if before is None or before.nodes != row.nodes and row.kind != "none":
            ruled.append("-" * max(map(len, lines)))
        ruled.append(line)
    return "\n".join(ruled)


def reliability_table(name: str, bins: Sequence[Bin]) -> str:
    """One line per depth: mean path score and, behind it, the share of paths that are right, bin by bin."""
    lines = [f"{name}: path score > share right, by depth"]
    for depth in sorted({b.depth for b in bins}):
        cells = [f"{b.score:.3f} > {b.right:.3f}" for b in bins if b.depth == depth and b.count >= FEW]
        lines.append(f"{depth:>3}  " + "  ".join(cells))
    return "\n".join(lines)
