"""A round as text: the candidate tree with tokens and scores, the accepted path marked."""

from __future__ import annotations

from collections.abc import Callable

from dsv4_npu_tree.inspect.record import RequestRound

ACCEPTED, CANDIDATE = "●", "○"


def draw_tree(entry: RequestRound, decode: Callable[[int], str] = str) -> str:
    """Lines of the tree of one request; decode turns a token id into text.

    Each line: marker (● accepted, ○ candidate), node id, token, path score, position.
    """
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(entry.parent[1:], 1):
        children.setdefault(parent, []).append(node)
    accepted = set(entry.accepted)

    drawn: set[int] = set()

    def line(node: int) -> str:
        drawn.add(node)
        marker = ACCEPTED if node in accepted else CANDIDATE
        return (
            f"{marker} {node} {decode(entry.token[node])!r}  score {entry.score[node]:.3f}  "
            f"pos {entry.prefix + entry.depth[node]}"
        )

    lines = [line(0)]

    def grow(node: int, stem: str) -> None:
        below = children.get(node, [])
        for child in below:
            last = child == below[-1]
            lines.append(f"{stem}{'└─ ' if last else '├─ '}{line(child)}")
            grow(child, stem + ("   " if last else "│  "))

    grow(0, "")
    inert = children.get(-2, [])
    if inert:
        lines.append(f"inert: {', '.join(map(str, inert))}")
    astray = [node for node in entry.live if node not in drawn]
    if astray:
        lines.append(f"parents that do not lead to the root: {', '.join(map(str, astray))}")
    path = " ".join(
        repr(decode(entry.token[node])) if 0 <= node < entry.n else f"no row {node}" for node in entry.accepted
    )
    lines.append(f"accepted {len(entry.accepted)} rows: {path}, then the target adds {decode(entry.bonus)!r}")
    return "\n".join(lines)
