"""A dumped round as SVG: the tree with tokens and scores, the mask, and each row's block table."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape

from dsv4_npu_tree.inspect.dump import Round
from dsv4_npu_tree.inspect.identities import NAMES, judge
from dsv4_npu_tree.inspect.record import INERT, RequestRound, SpaceRecord

NODE_WIDTH, NODE_HEIGHT, LEVEL, GAP = 116, 46, 78, 14
CELL, MARGIN = 18, 24
SHOWN_COLUMNS = 6
INK, PALE, ACCEPTED, PREFIX, BRANCH, BROKEN = "#1c2430", "#c9d1dc", "#1a7f4b", "#dbe4f0", "#f2c14e", "#c62828"
_STYLE = (
    "text{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:11px;fill:" + INK + "}"
    ".title{font-size:13px;font-weight:600}.small{font-size:9px;fill:#5a6675}"
)


_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # names and tokens are anybody's text


class Canvas:
    """SVG elements and the extent that they need."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.width = self.height = 0.0

    def _reach(self, x: float, y: float) -> None:
        self.width, self.height = max(self.width, x), max(self.height, y)

    def text(self, x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> None:
        text = _NOT_XML.sub("\ufffd", text)
        self.parts.append(f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>')
        self._reach(x + (7 * len(text) if anchor == "start" else 0), y + 4)

    def box(self, x: float, y: float, width: float, height: float, fill: str, stroke: str = "none", r: int = 0) -> None:
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{r}" fill="{fill}" stroke="{stroke}" '
            f'stroke-width="1.5"/>'
        )
        self._reach(x + width, y + height)

    def line(self, x1: float, y1: float, x2: float, y2: float, stroke: str, width: float) -> None:
        middle = (y1 + y2) / 2
        self.parts.append(
            f'<path d="M{x1:g} {y1:g} C{x1:g} {middle:g} {x2:g} {middle:g} {x2:g} {y2:g}" fill="none" '
            f'stroke="{stroke}" stroke-width="{width:g}"/>'
        )

    def svg(self) -> str:
        width, height = self.width + MARGIN, self.height + MARGIN
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
            f'viewBox="0 0 {width:g} {height:g}"><style>{_STYLE}</style>'
            f'<rect width="100%" height="100%" fill="#ffffff"/>' + "".join(self.parts) + "</svg>\n"
        )


def picture(entry: Round, decode: Callable[[int], str] = str) -> str:
    """SVG text of the whole round, requests below each other."""
    canvas, y = Canvas(), float(MARGIN)
    for request in entry.requests:
        canvas.text(MARGIN, y, f"round {entry.serial}, request {request.label}, prefix {request.prefix}", "title")
        y = _tree(canvas, request, decode, y + 18)
        x = _mask(canvas, request, MARGIN, y)
        bottom = canvas.height
        for space in request.spaces:
            x = _table(canvas, request, space, x + 2 * MARGIN, y)
            bottom = max(bottom, canvas.height)
        y = _verdict(canvas, request, bottom + 24) + 2 * MARGIN
    return canvas.svg()


def _tree(canvas: Canvas, entry: RequestRound, decode: Callable[[int], str], top: float) -> float:
    """Boxes by depth; leaves share the width, a parent stands over the middle of its children."""
    if entry.stray() is not None:
        canvas.text(MARGIN, top, "the parents are no tree")
        return top + 26
    children: dict[int, list[int]] = {}
    for node in entry.live[1:]:
        children.setdefault(entry.parent[node], []).append(node)
    middle: dict[int, float] = {}
    leaves = 0

    def place(node: int) -> None:
        nonlocal leaves
        below = children.get(node, [])
        for child in below:
            place(child)
        if not below:
            middle[node] = MARGIN + leaves * (NODE_WIDTH + GAP) + NODE_WIDTH / 2
            leaves += 1
        else:
            middle[node] = (middle[below[0]] + middle[below[-1]]) / 2

    place(0)
    level = {node: top + (len(entry.path(node)) - 1) * LEVEL for node in entry.live}
    for node in entry.live[1:]:
        above, good = entry.parent[node], node in entry.accepted
        canvas.line(
            middle[above],
            level[above] + NODE_HEIGHT,
            middle[node],
            level[node],
            ACCEPTED if good else PALE,
            3 if good else 1.5,
        )
    for node in entry.live:
        good = node in entry.accepted
        x, y = middle[node] - NODE_WIDTH / 2, level[node]
        canvas.box(x, y, NODE_WIDTH, NODE_HEIGHT, "#e7f5ec" if good else "#ffffff", ACCEPTED if good else PALE, 6)
        token = decode(entry.token[node])
        token = repr(token if len(token) <= 11 else token[:10] + "…")
        canvas.text(middle[node], y + 17, f"{node} {token}", "", "middle")
        canvas.text(middle[node], y + 33, f"p {entry.score[node]:.3f} · pos {entry.position[node]}", "small", "middle")
    bottom = max(level.values()) + NODE_HEIGHT + 20
    inert = [node for node, parent in enumerate(entry.parent) if parent == INERT]
    note = f"accepted {entry.accepted}, bonus {decode(entry.bonus)!r}" + (f"; inert rows {inert}" if inert else "")
    canvas.text(MARGIN, bottom, note)
    return bottom + 26


def _mask(canvas: Canvas, entry: RequestRound, x: float, y: float) -> float:
    canvas.text(x, y, "mask: row sees row")
    for node in range(entry.n):
        canvas.text(x + 14, y + 22 + node * CELL + 13, str(node), "small", "end")
        canvas.text(x + 20 + node * CELL + CELL / 2, y + 17, str(node), "small", "middle")
        for other in range(entry.n):
            seen = entry.ancestors[node] >> other & 1
            good = seen and node in entry.accepted and other in entry.accepted
            fill = ACCEPTED if good else INK if seen else "#f4f6f9"
            canvas.box(x + 20 + other * CELL, y + 22 + node * CELL, CELL - 2, CELL - 2, fill)
    return x + max(20 + entry.n * CELL, 126)


def _table(canvas: Canvas, entry: RequestRound, space: SpaceRecord, x: float, y: float) -> float:
    inside = range(space.arena[0] // space.block, space.arena[1] // space.block)
    end = -(-(entry.prefix + max(entry.depth) + 1) // space.ratio)
    last = min(len(space.table[0]) + space.first_column, max(1, -(-end // space.block)))
    first = max(space.first_column, last - SHOWN_COLUMNS)
    width = 52
    canvas.text(x, y, f"{NAMES[space.ratio]} blocks of {space.block}:")
    at = x + 7.2 * len(f"{NAMES[space.ratio]} blocks of {space.block}: ")
    for fill, name in ((PREFIX, "own"), (BRANCH, "branch")):
        canvas.box(at, y - 9, 10, 10, fill)
        canvas.text(at + 14, y, name)
        at += 44
    for column in range(first, last):
        at = x + 20 + (column - first) * width
        canvas.text(at + width / 2, y + 17, f"{column * space.block}..", "small", "middle")
        for node in range(entry.n):
            block = space.table[node][column - space.first_column]
            top = y + 22 + node * CELL
            canvas.box(at, top, width - 2, CELL - 2, BRANCH if block in inside else PREFIX)
            canvas.text(at + width / 2 - 1, top + 12, str(block), "small", "middle")
    for node in range(entry.n):
        canvas.text(x + 14, y + 22 + node * CELL + 13, str(node), "small", "end")
    return x + max(20 + (last - first) * width, 7 * 30)


def _verdict(canvas: Canvas, entry: RequestRound, y: float) -> float:
    violations = judge(entry)
    if not violations:
        canvas.text(MARGIN, y, "candidate, position, visibility, traversal, kv: all five identities hold")
        return y
    for violation in violations:
        canvas.box(MARGIN, y - 9, 10, 10, BROKEN)
        canvas.text(MARGIN + 18, y, str(violation))
        y += 18
    return y
