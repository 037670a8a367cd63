"""One verify round as a JSON file: the tree, its scores, and what was accepted."""

from __future__ import annotations

import itertools
import json
import logging
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dsv4_npu_tree.inspect.record import RequestRound
from dsv4_npu_tree.inspect.schema import check_request, check_types

ENV_DUMP = "DSV4_TREE_DUMP"
VERSION = 1  # of the file format
TABLE_COLUMNS = 64  # last columns of each block table that a file keeps
_serial = itertools.count()
_refused: str | None = None

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Round:
    """A verify round of a batch. serial: counted in its process."""

    serial: int
    topk: int
    steps: int
    requests: list[RequestRound]


def dump_directory() -> str | None:
    """Where rounds are written (environment setting DSV4_TREE_DUMP), or None."""
    return os.environ.get(ENV_DUMP) or None


def try_write_round(directory: str, entry: Round) -> None:
    """``write_round`` for a serving process: a folder that cannot be written is reported once and left alone."""
    global _refused
    if _refused == directory:
        return
    try:
        write_round(directory, entry)
    except OSError as error:
        _refused = directory
        logger.warning("%s=%s: rounds are not written any more: %s", ENV_DUMP, directory, error)


def write_round(directory: str, entry: Round) -> Path:
    """Write one file, ``round-<process>-<serial>.json``; returns its path."""
    Path(directory).mkdir(parents=True, exist_ok=True)
    path = Path(directory) / f"round-{os.getpid()}-{next(_serial):06d}.json"
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps({"version": VERSION, **asdict(entry)}))
    partial.rename(path)
    return path


def load_round(path: str | Path) -> Round:
    """Read a file of ``write_round``. Raises ValueError on anything else."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        version = data["version"]
        if version == VERSION and version is not True:
            return _round(data)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is not a round written by {ENV_DUMP}: {error!r}") from error
    raise ValueError(f"{path} is a round of format {version!r:.20}, this version reads format {VERSION}")


def _round(data: dict[str, Any]) -> Round:
    entry = Round(data["serial"], data["topk"], data["steps"], [RequestRound.of_json(one) for one in data["requests"]])
    check_types(entry, "round")
    if not entry.requests:
        raise ValueError("no request")
    for request in entry.requests:
        check_request(request)
    return entry
