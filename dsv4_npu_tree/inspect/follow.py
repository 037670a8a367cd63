"""One row of a dumped round, followed through the five identities: what is expected, from which numbers, and what is
there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dsv4_npu_tree.inspect.identities import IDENTITIES, NAMES, judge, provenance, visible_entries
from dsv4_npu_tree.inspect.record import INERT, CompressorRecord, RequestRound, SpaceRecord

Decode = Callable[[int], str]
LAST_SHOWN = 3  # prefix entries spelled out, the latest ones


def follow(entry: RequestRound, row: int, decode: Decode = str) -> str:
    """Text about row ``row``. Raises ValueError for a row that the round does not have."""
    if not 0 <= row < entry.n:
        raise ValueError(f"row {row}: request {entry.label} has rows 0..{entry.n - 1}")
    title = f"request {entry.label}, row {row} ({decode(entry.token[row])!r})"
    if entry.parent[row] == INERT:
        reason = "its candidate hangs on nothing that was selected, or it lost its branch"
        return f"{title}: inert, no link leads here: {reason}"
    if entry.stray() is not None:
        return f"{title}: the parents are no tree, nothing can be followed\n   ! {judge(entry)[0]}"
    path = entry.path(row)
    lines = [f"{title}, path {' > '.join(map(str, path))}"]
    about = {
        "candidate": _candidate(entry, row, decode),
        "position": _position(entry, row, path),
        "visibility": _visibility(entry, row, path),
        "traversal": _traversal(entry, row, decode),
        "kv": _kv(entry, row),
    }
    violations = judge(entry)
    for number, name in enumerate(IDENTITIES, 1):
        broken = [violation for violation in violations if violation.identity == name and violation.row == row]
        lines.append(f"{number}. {name}: {'BROKEN' if broken else 'holds'}")
        lines += [f"     {text}" for text in about[name]]
        lines += [f"   ! {violation}" for violation in broken]
    return "\n".join(lines)


def _candidate(entry: RequestRound, row: int, decode: Decode) -> Iterator[str]:
    if row == 0:
        known = "unknown, its first recorded round" if entry.expected_root is None else str(entry.expected_root)
        yield f"the root carries the last round's bonus: token {entry.token[0]}, expected {known}"
        return
    number, above = entry.candidate[row - 1], entry.candidate_parent[row - 1]
    at = f"row {entry.candidate.index(above) + 1}" if above in entry.candidate else "not selected"
    hangs = "the root" if above < 0 else f"candidate {above} ({at})"
    token = entry.candidate_token[row - 1]
    pool = "not recorded" if token is None else f"{token} {decode(token)!r}"
    yield f"candidate {number} of the draft's pool, child of {hangs}, path score {entry.score[row]:.4f}"
    yield f"token in the pool {pool}; token of the row {entry.token[row]}"


def _position(entry: RequestRound, row: int, path: list[int]) -> Iterator[str]:
    yield f"prefix {entry.prefix} + depth {len(path) - 1} = {entry.prefix + len(path) - 1}; given {entry.position[row]}"
    if entry.expected_prefix is not None:
        yield f"the last round ended at {entry.expected_prefix}"


def _visibility(entry: RequestRound, row: int, path: list[int]) -> Iterator[str]:
    yield f"sees {entry.seqused[row]} tokens: {entry.prefix} of the prefix and rows {', '.join(map(str, path))}"
    for space in entry.spaces:
        yield from _entries(entry, space, row)
    for compressor in entry.compressors:
        yield from _window(compressor, row)


def _entries(entry: RequestRound, space: SpaceRecord, row: int) -> Iterator[str]:
    name, found = NAMES[space.ratio], visible_entries(entry, space, row)
    if not found:
        yield f"{name}: no entry yet"
        return
    writer, copies = provenance(space)
    committed = [index for index in found if (index + 1) * space.ratio <= entry.prefix]
    own = sum(space.slot(row, index) == space.own_slot(index) for index in committed)
    yield (
        f"{name}: entries {found[0]}..{found[-1]}: {own} in the request's own pages, {len(committed) - own} in copies "
        f"of its tail, {len(found) - len(committed)} of the tree"
    )
    for index in [*committed[-LAST_SHOWN:], *(index for index in found if index not in committed)]:
        slot = space.slot(row, index)
        what = f"row {writer[slot]}" if slot in writer else f"copy of {copies[slot]}" if slot in copies else "own slot"
        yield f"  entry {index}: slot {slot}, {what}"


def _window(compressor: CompressorRecord, row: int) -> Iterator[str]:
    rows = dict(compressor.windows).get(row)
    if rows is None:
        yield f"C{compressor.ratio} compressor: closes no block"
        return
    ring = sum(value is not None and value >= 0 for value in rows)
    tree = [str(-1 - value) for value in rows if value is not None and value < 0]
    yield f"C{compressor.ratio} compressor: closes a block, pools {ring} ring rows and tree rows {', '.join(tree)}"


def _traversal(entry: RequestRound, row: int, decode: Decode) -> Iterator[str]:
    children = [node for node, parent in enumerate(entry.parent) if parent == row]
    yield f"children {children or 'none'}; first child {entry.next_token[row]}, next sibling {entry.next_sibling[row]}"
    if row in entry.accepted:
        target = entry.target[row]
        after = entry.accepted[entry.accepted.index(row) + 1 :]
        token = "unknown" if target is None else f"{target} {decode(target)!r}"
        yield f"accepted; the target goes on with {token}, " + (f"which is row {after[0]}" if after else "the bonus")
    else:
        yield "rejected"


def _kv(entry: RequestRound, row: int) -> Iterator[str]:
    for space in entry.spaces:
        slots = [slot for node, slot in space.writes if node == row and slot in _read(entry, space)]
        if slots:
            yield f"{NAMES[space.ratio]}: stored at {slots}, inside the request's arena rows {space.arena}"
    if row in entry.accepted:
        depth = entry.accepted.index(row)
        yield from (f"{NAMES[s.ratio]}: committed to slot {s.targets[depth]}" for s in entry.spaces if s.ratio == 1)
        yield from (f"C{c.ratio} state: committed to ring row {c.targets[depth]}" for c in entry.compressors)
    else:
        yield "never committed"


def _read(entry: RequestRound, space: SpaceRecord) -> set[int]:
    """Slots that some row reads; a branch's rows past its path are stored too, and read by nobody."""
    return {space.slot(node, index) for node in entry.live for index in visible_entries(entry, space, node)}
