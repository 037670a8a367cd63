"""A dumped round for the terminal: tree, rows, mask, links, tables, accepted path, and the verdict on each identity."""

from __future__ import annotations

from collections.abc import Callable

from dsv4_npu_tree.inspect.draw import ACCEPTED, CANDIDATE, draw_tree
from dsv4_npu_tree.inspect.dump import Round
from dsv4_npu_tree.inspect.identities import IDENTITIES, NAMES, judge
from dsv4_npu_tree.inspect.record import INERT, RequestRound, SpaceRecord

Decode = Callable[[int], str]
SHOWN_COLUMNS = 6  # last table columns printed per row


def explain(entry: Round, decode: Decode = str) -> str:
    """The whole round, one section per request."""
    sections = [
        f"round {entry.serial}: {len(entry.requests)} request{'s' * (len(entry.requests) != 1)}, "
        f"topk {entry.topk}, {entry.steps} draft steps"
    ]
    return "\n\n".join(sections + [explain_request(request, decode) for request in entry.requests])


def explain_request(entry: RequestRound, decode: Decode = str) -> str:
    used = sum(bool(branch) for branch in entry.branches)
    parts = [
        f"request {entry.label}: prefix {entry.prefix} tokens, {entry.n} rows, "
        f"{used} of {len(entry.branches)} branches",
        draw_tree(entry, decode),
        _rows(entry, decode),
        _mask(entry),
        *(_table(entry, space) for space in entry.spaces),
        _verdicts(entry),
    ]
    return "\n\n".join(parts)


def columns(lines: list[list[str]]) -> str:
    """Lines of cells as aligned text."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


def _or_dash(value: int) -> str:
    return "-" if value < 0 else str(value)


def _rows(entry: RequestRound, decode: Decode) -> str:
    lines = [["row", "", "token", "parent", "depth", "position", "sees", "branch", "child", "sibling"]]
    for node in range(entry.n):
        inert = entry.parent[node] == INERT
        marker = " " if inert else ACCEPTED if node in entry.accepted else CANDIDATE
        lines.append(
            [
                str(node),
                marker,
                repr(decode(entry.token[node])),
                "inert" if inert else _or_dash(entry.parent[node]),
                str(entry.depth[node]),
                str(entry.position[node]),
                str(entry.seqused[node]),
                _or_dash(entry.home[node]),
                _or_dash(entry.next_token[node]),
                _or_dash(entry.next_sibling[node]),
            ]
        )
    return "rows (sees: tokens in its attention; child, sibling: links that verification walks)\n" + columns(lines)


def _mask(entry: RequestRound) -> str:
    lines = ["mask among the tree's rows (■ visible); every row also sees the prefix, in a window its last positions"]
    width = len(str(entry.n - 1))
    lines.append(" " * (width + 2) + " ".join(str(node % 10) for node in range(entry.n)))
    for node in range(entry.n):
        cells = " ".join("■" if entry.ancestors[node] >> other & 1 else "·" for other in range(entry.n))
        lines.append(f"{node:>{width}}  {cells}")
    return "\n".join(lines)


def _table(entry: RequestRound, space: SpaceRecord) -> str:
    """The last columns of each row's block table; blocks of the request's arena are marked."""
    inside = range(space.arena[0] // space.block, space.arena[1] // space.block)
    end = (entry.prefix + max(entry.depth) + 1 + space.ratio - 1) // space.ratio
    last = min(len(space.table[0]) + space.first_column, -(-end // space.block))
    first = max(space.first_column, last - SHOWN_COLUMNS)
    lines = [["row", *(f"{column * space.block}.." for column in range(first, last))]]
    for node in range(entry.n):
        cells = space.table[node][first - space.first_column : last - space.first_column]
        lines.append([str(node), *(f"{block}{'*' if block in inside else ''}" for block in cells)])
    tails = sum(rows for _, _, rows in space.tails)
    title = (
        f"{NAMES[space.ratio]} block table, blocks of {space.block} entries, by first entry "
        f"(* = a branch of this request); {tails} tail rows copied, {len(space.writes)} stored"
    )
    return title + "\n" + columns(lines)


def _verdicts(entry: RequestRound) -> str:
    violations = judge(entry)
    lines = ["identities, recomputed from the parents"]
    for name in IDENTITIES:
        broken = [violation for violation in violations if violation.identity == name]
        lines.append(f"  {name:<11}" + ("holds" if not broken else f"BROKEN, {len(broken)}x"))
        lines += [f"    {violation}" for violation in broken]
    return "\n".join(lines)
