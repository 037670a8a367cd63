"""`tools/bench_check`: host time of a verify round with DSV4_TREE_CHECK off, sampled and full, as ratios."""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from demonstration.server import SHARING, TREE, Server

NEW_TOKENS = 64


def round_seconds(server: Server, prompts: list[list[int]]) -> float:
    """Seconds per verify round of one batch: decode time over the rounds of its longest request."""
    sampling = {"temperature": 0, "max_new_tokens": NEW_TOKENS, "ignore_eos": True}
    server.flush()
    for prompt in prompts:  # its prefill, so that the time below is rounds alone
        server.generate(prompt, sampling_params={**sampling, "max_new_tokens": 1})
    started = time.perf_counter()
    with ThreadPoolExecutor(len(prompts)) as pool:
        answers = list(pool.map(lambda prompt: server.generate(prompt, sampling_params=sampling), prompts))
    elapsed = time.perf_counter() - started
    return elapsed / max(answer["meta_info"]["spec_verify_ct"] for answer in answers)


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
            {"batch": batch, "check": n, "ms per round": round(middle * 1e3, 1), "ratio": round(middle / base, 3)}
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="tools/bench_check",
        description="Host time per verify round of servers on the CPU twin, one per setting of DSV4_TREE_CHECK, in one "
        "run. Only the ratio means anything, and on a card it is another one.",
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
    print(f"{'batch':>5}  {'DSV4_TREE_CHECK':>15}  {'ms per round':>12}  {'ratio':>6}")
    for row in rows:
        print(f"{row['batch']:>5}  {row['check']:>15}  {row['ms per round']:>12}  {row['ratio']:>6.3f}")


if __name__ == "__main__":
    main()
