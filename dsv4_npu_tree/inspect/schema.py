"""What a round file must look like: types of every field, and sizes that fit each other.

Values are left alone, since a file may hold a round that went wrong; what reads it relies on the sizes.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from dsv4_npu_tree.config import BLOCK_ROWS, MAX_NODES
from dsv4_npu_tree.inspect.record import CompressorRecord, RequestRound, SpaceRecord

_PER_NODE = ("parent", "depth", "score", "position", "ancestors", "next_token", "next_sibling", "home", "seqused")
_PER_CANDIDATE = ("candidate", "candidate_parent", "candidate_token")


def check_types(value: Any, where: str, hint: Any = None) -> None:
    """Compare a value, dataclasses and lists inside included, with its annotation. Raises TypeError."""
    if is_dataclass(value) and not isinstance(value, type):
        hints = get_type_hints(type(value))
        for one in fields(value):
            check_types(getattr(value, one.name), f"{where}.{one.name}", hints[one.name])
    elif get_origin(hint) is list and isinstance(value, list):
        for i, one in enumerate(value):
            check_types(one, f"{where}[{i}]", get_args(hint)[0])
    elif get_origin(hint) is tuple and isinstance(value, tuple) and len(value) == len(get_args(hint)):
        for i, (one, its) in enumerate(zip(value, get_args(hint))):
            check_types(one, f"{where}[{i}]", its)
    else:
        allowed = get_args(hint) if get_origin(hint) is UnionType else (hint,)
        # JSON knows one kind of number, Python calls true an int
        kinds = {kind for one in allowed for kind in ((int, float) if one is float else (one,))}
        if type(value) not in kinds:
            names = " or ".join("null" if one is NoneType else getattr(one, "__name__", str(one)) for one in allowed)
            raise TypeError(f"{where} is no {names}")
        if type(value) is int and not -(1 << 63) <= value < 1 << 63:
            raise TypeError(f"{where} is no 64-bit number")


def check_request(entry: RequestRound) -> None:
    """Sizes of a request whose types are right. Raises ValueError."""
    n = entry.n
    _require(1 <= n <= MAX_NODES, f"{n} rows")
    for name in (*_PER_NODE, "target"):
        _require(len(getattr(entry, name)) == n, f"{name} does not have {n} entries")
    for name in _PER_CANDIDATE:
        _require(len(getattr(entry, name)) == n - 1, f"{name} does not have {n - 1} entries")
    _require(entry.prefix >= 0, f"prefix {entry.prefix}")
    _require(0 <= len(entry.accepted) <= entry.steps + 1 <= n, f"{len(entry.accepted)} rows accepted")
    _require(len(entry.emitted) in (0, len(entry.accepted)), f"{len(entry.emitted)} tokens emitted")
    ratios = [space.ratio for space in entry.spaces]
    _require(ratios in ([1], [1, 4], [1, 128], [1, 4, 128]), f"address spaces {ratios}")
    compressed = sorted(compressor.ratio for compressor in entry.compressors)
    _require(compressed == ratios[1:], f"compressors {compressed} for address spaces {ratios}")
    for space in entry.spaces:
        _check_space(entry, space)
    for compressor in entry.compressors:
        _check_compressor(entry, compressor)


def _check_space(entry: RequestRound, space: SpaceRecord) -> None:
    _require(0 < space.block <= max(BLOCK_ROWS), f"blocks of {space.block}")
    done, end = entry.prefix // space.ratio, (entry.prefix + entry.steps + 1) // space.ratio
    known = max(end, done) - space.first_column * space.block
    _require(space.first_column >= 0 and len(space.own) == max(known, 0), f"own slots of ratio {space.ratio}")
    _require(len(space.targets) == end - done, f"targets of ratio {space.ratio}")
    _require(len(space.arena) == 2, f"arena of ratio {space.ratio}")
    _require(len(space.table) == entry.n and len(set(map(len, space.table))) == 1, f"table of ratio {space.ratio}")
    _require(all(len(x) == 2 and 0 <= x[0] < entry.n for x in space.writes), f"writes of ratio {space.ratio}")
    _require(all(len(x) == 3 and 0 <= x[2] <= space.block for x in space.tails), f"tails of ratio {space.ratio}")


def _check_compressor(entry: RequestRound, compressor: CompressorRecord) -> None:
    widest = max((len(rows) for _, rows in compressor.windows), default=1)
    first, targets = compressor.first_position, len(compressor.targets)
    _require(0 <= first <= max(0, entry.prefix + 1 - widest), f"first ring position {first}")
    _require(targets == entry.steps + 1, f"ring targets of ratio {compressor.ratio}")
    _require(len(compressor.ring) == entry.prefix + targets - first, f"ring of ratio {compressor.ratio}")
    _require(all(0 <= node < entry.n for node, _ in compressor.windows), f"windows of ratio {compressor.ratio}")


def _require(good: bool, what: str) -> None:
    if not good:
        raise ValueError(f"{what}: the sizes of the round do not fit each other")
