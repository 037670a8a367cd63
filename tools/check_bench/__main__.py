"""`tools/bench_check`: CPU time of a verify round with DSV4_TREE_CHECK off, sampled and full, as ratios."""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
from demonstration.server import SHARING, TREE, Server

NEW_TOKENS = 64


def cpu_seconds(server: Server) -> float:
    """User and system time of the server and its children so far."""
    times = [child.cpu_times() for child in psutil.Process(server.pid).children(recursive=True)]
    return sum(t.user + t.system for t in times)


def round_seconds(server: Server, prompts: list[list[int]]) -> float:
    """CPU seconds of the server's processes per verify round of one batch, by the rounds of its longest request. On the
    twin the card's work is in it; unlike wall time it does not feel what else runs on the machine."""
    sampling = {"temperature": 0, "max_new_tokens": NEW_TOKENS, "ignore_eos": True}
    server.flush()
    for prompt in prompts:  # its prefill, so that the time below is rounds alone
        server.generate(prompt, sampling_params={**sampling, "max_new_tokens": 1})
    before = cpu_seconds(server)
    with ThreadPoolExecutor(len(prompts)) as pool:
        answers = list(pool.map(lambda prompt: server.generate(prompt, sampling_params=sampling), prompts))
    return (cpu_seconds(server) - before) / max(answer["meta_info"]["spec_verify_ct"] for answer in answers)


def measure(every: list[int], batches: list[int], repeats: int) -> list[dict]:
    """Servers run side by side and take turns, so that a busy moment of the machine meets all of them."""
    draw = random.Random(0)
    prompts = [[draw.randrange(3, 1000) for _ in range(100)] for _ in range(max(batches))]
    with tempfile.TemporaryDirectory() as logs:
        servers = [Server((*TREE, *SHARING), Path(logs) / f"{n}.log", env={"DSV4_TREE_CHECK": str(n)}) for n in every]
        try:
            for server in servers:
                server.wait()
            found: dict[tuple[int, int], list[float]] = {}
            for repeat in range(repeats + 1):  # the first one warms up
                for batch in batches:
                    for n, server in zip(every, servers):
                        seconds = round_seconds(server, prompts[:batch])
                        if repeat:
                            found.setdefault((batch, n), []).append(seconds)
        finally:
            for server in servers:
                server.stop()
    rows = []
    for (batch, n), seconds in found.items():
        base = statistics.median(found[batch, every[0]])
        middle = statistics.median(seconds)
        rows.append(
            {"batch": batch, "check": n, "CPU ms per round": round(middle * 1e3, 1), "ratio": round(middle / base, 3)}
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="tools/bench_check",
        description="CPU time per verify round of servers on the twin, one per setting of DSV4_TREE_CHECK, in one run. "
        "Only the ratio means anything, and on a card it is another one.",
    )
    parser.add_argument("--every", type=int, nargs="+", default=[0, 64, 16, 1], help="settings; the first is the base")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = measure(arguments.every, arguments.batches, arguments.repeats)
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    print(f"{'batch':>5}  {'DSV4_TREE_CHECK':>15}  {'CPU ms per round':>16}  {'ratio':>6}")
    for row in rows:
        print(f"{row['batch']:>5}  {row['check']:>15}  {row['CPU ms per round']:>16}  {row['ratio']:>6.3f}")


if __name__ == "__main__":
    main()
