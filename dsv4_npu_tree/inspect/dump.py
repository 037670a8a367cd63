"""One verify round as a JSON file: the tree, its scores, and what was accepted."""

from __future__ import annotations

import itertools
import json
import logging
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

ENV_DUMP = "DSV4_TREE_DUMP"
_serial = itertools.count()
_refused: str | None = None

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RequestRound:
    """One request of a round; lists have n entries, one per node (0 is the root, the previous bonus token).

    parent: -1 for the root, -2 for an inert node. score: path probability given by the draft (root 1.0).
    accepted: node ids of the accepted path, root first. bonus: the token that the target adds after it.
    """

    request: str
    prefix: int
    token: list[int]
    parent: list[int]
    depth: list[int]
    score: list[float]
    accepted: list[int]
    bonus: int


@dataclass(frozen=True)
class Round:
    """A verify round of a batch."""

    topk: int
    steps: int
    requests: list[RequestRound]


def dump_directory() -> str | None:
    """Where rounds are written (environment setting DSV4_TREE_DUMP), or None."""
    return os.environ.get(ENV_DUMP) or None


def round_of(
    verify_input, names: list[str], accept_index: torch.Tensor, accept_lens: torch.Tensor, predict: torch.Tensor
) -> Round:
    """Collect a round from SGLang's verify input. accept_index ``[bs, S+1]``, accept_lens ``[bs]``, predict ``[bs*n]``
    (target token of every node on the accepted path). Waits for the device."""
    topology = verify_input.tree_topology
    n = topology.n
    columns = zip(
        names,
        topology.seq_lens.tolist(),
        verify_input.draft_token.view(-1, n).tolist(),
        topology.parent.tolist(),
        topology.depth.tolist(),
        verify_input.tree_scores.tolist(),
        accept_index.tolist(),
        accept_lens.tolist(),
        predict.view(-1, n).tolist(),
    )
    requests = []
    for row, (name, prefix, token, parent, depth, score, index, length, target) in enumerate(columns):
        accepted = [node - row * n for node in index[:length]]
        requests.append(RequestRound(name, prefix, token, parent, depth, [1.0, *score], accepted, target[accepted[-1]]))
    return Round(topology.topk, topology.steps, requests)


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
    partial.write_text(json.dumps(asdict(entry)))
    partial.rename(path)
    return path


def load_round(path: str | Path) -> Round:
    """Read a file of ``write_round``. Raises ValueError on anything else."""
    try:
        data = json.loads(Path(path).read_text())
        return Round(data["topk"], data["steps"], [RequestRound(**request) for request in data["requests"]])
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a round written by {ENV_DUMP}: {error!r}") from error
