"""What a server's log and metrics tell about a run."""

from __future__ import annotations

import re
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from demonstration.server import Server

_READY = "The server is fired up"
_ROUND = re.compile(r"Decode batch.*#running-req: (\d+), #full token: (\d+).*#swa token: (\d+)")
_RETRACTED = re.compile(r"#retracted_reqs: (\d+)")
# A line that names an exception, a leak or an error; a client that hung up is logged as one.
_TROUBLE = re.compile(
    r"Traceback|Error\b|Exception\b|[Ll]eak|ERROR\b|violat|double free|use-after-free|[Oo]ut of memory|OOM"
    r"|dsv4_tree check:"
)
_HUNG_UP = "Request is disconnected from the client side"


@dataclass(frozen=True)
class Evidence:
    """Log lines of a server since it was ready.

    rounds: (running requests, full tokens, SWA tokens) of every decode round, in order.
    """

    rounds: list[tuple[int, int, int]]
    retracted: int
    trouble: list[str]

    @classmethod
    def of_log(cls, log: Path) -> Evidence:
        lines = [line for line in log.read_text(errors="replace").splitlines() if "server_args=" not in line]
        lines = lines[next((number for number, line in enumerate(lines) if _READY in line), 0) :]
        rounds = [tuple(map(int, found.groups())) for line in lines if (found := _ROUND.search(line))]
        retracted = sum(int(found.group(1)) for line in lines if (found := _RETRACTED.search(line)))
        trouble = [line[:300] for line in lines if _TROUBLE.search(line) and _HUNG_UP not in line]
        return cls(rounds, retracted, trouble)

    @property
    def swa_evicted(self) -> int:
        """Most tokens that were held without their sliding-window rows at any time."""
        return max((full - swa for _, full, swa in self.rounds), default=0)


def metric(server: Server, name: str) -> float:
    """Sum over the labels of one of the server's counters or gauges."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if re.match(rf"sglang:{name}[{{ ]", line))
