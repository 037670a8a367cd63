"""The five identities that tie one verify row together, each recomputed from the round's parents alone.

candidate: the row's token is that of its candidate. position: prefix length plus depth. visibility: prefix, ancestors
and itself, nothing else, in every address space and compressor window. traversal: the links describe the tree that
attention saw, and the accepted path is a walk through it. kv: its rows live in the request's branches and go to the
request's own slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from dsv4_npu_tree.inspect.record import INERT, WINDOW, CompressorRecord, RequestRound, SpaceRecord

NAMES = {1: "SWA", 4: "C4", 128: "C128"}
_BITS = (1 << 64) - 1


@dataclass(frozen=True)
class Violation:
    """An identity that does not hold for a row."""

    identity: str
    row: int
    what: str
    expected: Any
    found: Any

    def __str__(self) -> str:
        return f"row {self.row}, {self.identity}: {self.what}: expected {self.expected}, found {self.found}"


Violations = Iterator[Violation]


def candidate(entry: RequestRound) -> Violations:
    """Tokens and parents are those of the draft's candidates; the root is the previous bonus."""
    if entry.expected_root is not None and entry.token[0] != entry.expected_root:
        yield Violation("candidate", 0, "root token", entry.expected_root, entry.token[0])
    leaves_full = all(branch and branch[0] == 0 for branch in entry.branches)
    node_of: dict[int, int] = {}
    for node, (own, above, token) in enumerate(
        zip(entry.candidate, entry.candidate_parent, entry.candidate_token), start=1
    ):
        if token is not None and entry.token[node] != token:
            yield Violation("candidate", node, f"token of candidate {own}", token, entry.token[node])
        parent = 0 if above < 0 else node_of.get(above, INERT)
        node_of.setdefault(own, node)
        orphan = parent == INERT or entry.parent[parent] == INERT
        found = entry.parent[node]
        if orphan and found != INERT:
            yield Violation("candidate", node, "parent (its candidate was not selected)", INERT, found)
        # a leaf beyond the branch limit is inert too
        elif not orphan and found != parent and not (found == INERT and leaves_full):
            yield Violation("candidate", node, "parent", parent, found)


def position(entry: RequestRound) -> Violations:
    """Prefix length plus depth; the prefix goes on where the last round ended."""
    if entry.expected_prefix is not None and entry.prefix != entry.expected_prefix:
        yield Violation("position", 0, "prefix length", entry.expected_prefix, entry.prefix)
    for node in entry.live:
        depth = len(entry.path(node)) - 1
        if entry.depth[node] != depth:
            yield Violation("position", node, "depth", depth, entry.depth[node])
        if entry.position[node] != entry.prefix + depth:
            yield Violation("position", node, "position", entry.prefix + depth, entry.position[node])


def visible_entries(entry: RequestRound, space: SpaceRecord, node: int) -> range:
    """Entries that row ``node`` must see in ``space``, as far as the record has them."""
    end = entry.prefix + len(entry.path(node))  # exclusive position
    first = max(0, end - WINDOW) if space.ratio == 1 else 0
    return range(max(first, space.first_column * space.block), end // space.ratio)


def provenance(space: SpaceRecord) -> tuple[dict[int, int], dict[int, int]]:
    """slot -> node that writes it, slot -> own slot that it is a copy of."""
    copies = {to + i: source + i for source, to, rows in space.tails for i in range(rows)}
    return {slot: node for node, slot in space.writes}, copies


def visibility(entry: RequestRound) -> Violations:
    """Every table leads every row to its prefix, its ancestors and itself; the ancestor mask says the same."""
    for node in entry.live:
        path = entry.path(node)
        mask = sum(1 << above for above in path)
        given = entry.ancestors[node] & _BITS  # node 63 is the sign of an int64
        if given != mask:
            yield Violation("visibility", node, "ancestor mask", bin(mask), bin(given))
        if entry.seqused[node] != entry.prefix + len(path):
            yield Violation("visibility", node, "tokens seen", entry.prefix + len(path), entry.seqused[node])
    for space in entry.spaces:
        yield from _visible(entry, space)
    for compressor in entry.compressors:
        yield from _windows(entry, compressor)


def _visible(entry: RequestRound, space: SpaceRecord) -> Violations:
    writer, copies = provenance(space)
    for node in entry.live:
        path = entry.path(node)
        for index in visible_entries(entry, space, node):
            slot, last = space.slot(node, index), (index + 1) * space.ratio - 1
            if last < entry.prefix:
                own = space.own_slot(index)
                # slot 0 belongs to nobody: a prefix entry there is evicted or was never stored
                good = own > 0 and slot not in writer and own in (slot, copies.get(slot))
                expected = f"the prefix's own row {own} or a copy of it"
            else:
                good = writer.get(slot) == path[last - entry.prefix]
                expected = f"node {path[last - entry.prefix]}"
            if not good:
                found = _describe(slot, writer, copies)
                yield Violation("visibility", node, f"{NAMES[space.ratio]} entry {index}", expected, found)
                break  # one per row and space is enough to stop the request


def _describe(slot: int, writer: dict[int, int], copies: dict[int, int]) -> str:
    if slot in writer:
        return f"node {writer[slot]} (slot {slot})"
    return (
        f"slot {slot}, a copy of {copies[slot]}" if slot in copies else f"slot {slot}, which this round does not fill"
    )


def _windows(entry: RequestRound, compressor: CompressorRecord) -> Violations:
    ratio, windows = compressor.ratio, dict(compressor.windows)
    for node in entry.live:
        path = entry.path(node)
        end = entry.prefix + len(path)
        if (end % ratio == 0) != (node in windows):
            yield Violation("visibility", node, f"closes a C{ratio} block", end % ratio == 0, node in windows)
            continue
        if node not in windows:
            continue
        width = len(windows[node])
        expected: list[int | None] = [
            None if p < 0 else compressor.ring_row(p) if p < entry.prefix else -1 - path[p - entry.prefix]
            for p in range(end - width, end)
        ]
        if expected != windows[node]:
            at = next(i for i in range(width) if expected[i] != windows[node][i])
            what = f"C{ratio} window, position {end - width + at} (negative: -1 - node)"
            yield Violation("visibility", node, what, expected[at], windows[node][at])


def traversal(entry: RequestRound) -> Violations:
    """Links list the children of the tree in order; the accepted path follows them and the target's tokens."""
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(entry.parent):
        if parent >= 0:
            children.setdefault(parent, []).append(node)
    for node in range(entry.n):
        below = children.get(node, [])
        first = below[0] if below else -1
        if entry.next_token[node] != first:
            yield Violation("traversal", node, "first child", first, entry.next_token[node])
        siblings = children.get(entry.parent[node], [])
        later = next((other for other in siblings if other > node), -1) if entry.parent[node] >= 0 else -1
        if entry.next_sibling[node] != later:
            yield Violation("traversal", node, "next sibling", later, entry.next_sibling[node])
    yield from _accepted(entry, children)


def _accepted(entry: RequestRound, children: dict[int, list[int]]) -> Violations:
    if not entry.accepted or entry.accepted[0] != 0:
        yield Violation("traversal", 0, "accepted path", "a path that starts at the root", entry.accepted)
        return
    for above, node in zip(entry.accepted, entry.accepted[1:]):
        wanted = entry.target[above]
        matching = [child for child in children.get(above, []) if entry.token[child] == wanted]
        if node not in children.get(above, []) or node not in matching[:1]:
            what = f"accepted child with the target's token {wanted}"
            yield Violation("traversal", above, what, matching[0] if matching else "none", node)
            return
    for node, token in zip(entry.accepted, entry.emitted):
        if token != entry.target[node]:
            yield Violation("traversal", node, "emitted token", entry.target[node], token)
    last = entry.accepted[-1]
    if entry.target[last] != entry.bonus:
        yield Violation("traversal", last, "bonus", entry.target[last], entry.bonus)
    missed = [child for child in children.get(last, []) if entry.token[child] == entry.bonus]
    if entry.greedy and missed and len(entry.accepted) <= entry.steps:
        yield Violation("traversal", last, f"child with the target's token {entry.bonus}", "accepted", "rejected")


def kv(entry: RequestRound) -> Violations:
    """Rows are written inside the request's arena, one node per slot; commits go to the request's own slots."""
    for space in entry.spaces:
        yield from _stores(entry, space)
        first, end = entry.prefix // space.ratio, (entry.prefix + len(entry.accepted)) // space.ratio
        for i, target in enumerate(space.targets):
            own = space.own_slot(first + i)
            if target != own:
                what = f"{NAMES[space.ratio]} commit of entry {first + i}"
                yield Violation("kv", 0, what, f"slot {own}", f"slot {target}")
            elif own <= 0 and first + i < end:
                what = f"{NAMES[space.ratio]} commit of accepted entry {first + i}"
                yield Violation("kv", 0, what, "a slot of the request", f"slot {target}, which keeps nothing")
    for compressor in entry.compressors:
        for depth, target in enumerate(compressor.targets):
            own = compressor.ring_row(entry.prefix + depth)
            if target != own:
                what = f"C{compressor.ratio} state of position {entry.prefix + depth}"
                yield Violation("kv", 0, what, f"ring row {own}", f"ring row {target}")


def _stores(entry: RequestRound, space: SpaceRecord) -> Violations:
    name, inside = NAMES[space.ratio], range(*space.arena)
    owner: dict[int, int] = {}
    for node, slot in space.writes:
        if slot not in inside:
            yield Violation("kv", node, f"{name} row is stored", f"inside the arena rows {space.arena}", slot)
        elif owner.setdefault(slot, node) != node:
            yield Violation("kv", node, f"{name} slot {slot}", f"of node {owner[slot]} alone", f"of node {node} too")
    for source, to, rows in space.tails:
        if rows and not (to in inside and to + rows - 1 in inside):
            yield Violation("kv", 0, f"{name} tail copy", f"inside the arena rows {space.arena}", [to, to + rows])
        first = entry.prefix // space.ratio - rows
        if rows and source != space.own_slot(first):
            yield Violation("kv", 0, f"{name} tail from entry {first}", f"slot {space.own_slot(first)}", source)


IDENTITIES: dict[str, Callable[[RequestRound], Violations]] = {
    "candidate": candidate,
    "position": position,
    "visibility": visibility,
    "traversal": traversal,
    "kv": kv,
}


def judge(entry: RequestRound) -> list[Violation]:
    """Every violation of the round; parents that lead nowhere are one of their own."""
    stray = entry.stray()
    if stray is not None:
        return [Violation("visibility", stray[0], "path to the root", "parents below their children", stray[1])]
    return [violation for identity in IDENTITIES.values() for violation in identity(entry)]
