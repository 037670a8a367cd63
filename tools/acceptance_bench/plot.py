"""Tokens per forward over verify rows as an SVG: the best chain, and the best tree under each scoring."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import log2

from acceptance_bench.results import Row

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 400, 60, 20, 210, 50
COLOURS = ("#555555", "#1b7fb5", "#c4472b", "#3f8f3f", "#8a5bb5", "#b58a1b", "#2ba8a0", "#a03060", "#607020")


def series(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Label -> the best row of each n. Chains of at most n rows stand at n."""
    nodes = sorted({r.nodes for r in rows if r.kind == "tree"})
    chains = [r for r in rows if r.kind == "chain"]
    found = {"chain": [_best([r for r in chains if r.nodes <= n]) for n in nodes]}
    for label in dict.fromkeys((r.scoring, r.history) for r in rows if r.kind == "tree"):
        mine = [r for r in rows if r.kind == "tree" and (r.scoring, r.history) == label]
        name = f"tree, {label[0]}" + (", stale" if label[1] == "stale" else "")
        found[name] = [_best([r for r in mine if r.nodes == n]) for n in nodes if any(r.nodes == n for r in mine)]
    return found


def svg(rows: Sequence[Row]) -> str:
    lines = series(rows)
    nodes = sorted({r.nodes for r in rows if r.kind == "tree"})
    low, high = 1.0, max(r.interval[1] for line in lines.values() for r in line)
    high = -(-high * 2 // 1) / 2  # the next half

    def x(n: int) -> float:
        span = log2(nodes[-1] / nodes[0]) or 1.0
        return LEFT + (WIDTH - LEFT - RIGHT) * log2(n / nodes[0]) / span

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / (high - low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for step in range(round((high - low) * 2) + 1):
        value = low + step / 2
        parts.append(f'<path d="M{LEFT} {y(value):.1f}H{WIDTH - RIGHT}" stroke="#dddddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value:g}</text>')
    for n in nodes:
        parts.append(f'<text x="{x(n):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{n}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle:.1f}" y="{HEIGHT - 10}" text-anchor="middle">verify rows per request</text>')
    parts.append(f'<text x="14" y="{HEIGHT / 2}" transform="rotate(-90 14 {HEIGHT / 2})" text-anchor="middle">')
    parts[-1] += "accepted tokens per forward</text>"
    for index, (label, line) in enumerate(lines.items()):
        # side by side, or the intervals would cover each other; a chain stands at the n that it is the best of
        shift = 3 * (index - (len(lines) - 1) / 2)
        at = [(x(n) + shift, r) for n, r in zip(nodes if index == 0 else [r.nodes for r in line], line)]
        colour = COLOURS[index % len(COLOURS)]
        points = " ".join(f"{px:.1f},{y(r.per_forward):.1f}" for px, r in at)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        for px, r in at:
            bar = f"M{px:.1f} {y(r.interval[0]):.1f}V{y(r.interval[1]):.1f}"
            parts.append(f'<path d="{bar}" stroke="{colour}" stroke-width="1.5"/>')
            parts.append(f'<circle cx="{px:.1f}" cy="{y(r.per_forward):.1f}" r="2.5" fill="{colour}"/>')
        high_up = TOP + 16 + 18 * index
        parts.append(f'<path d="M{WIDTH - RIGHT + 16} {high_up - 4}h18" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 40}" y="{high_up}">{escape(label)}</text>')
    return "\n".join([*parts, "</svg>\n"])


def _best(rows: Sequence[Row]) -> Row:
    return max(rows, key=lambda r: r.per_forward)
