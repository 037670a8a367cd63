"""Accepted length of the tiny pair on fixed prompts: tokens per target forward, the same on every run of the twin.

python tests/engine/acceptance.py          # measure, compare with what is recorded
python tests/engine/acceptance.py --record # and record it (after a change that is meant to change it)
"""

from __future__ import annotations

import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "tools")] if __name__ == "__main__" else []

from demonstration.server import Server  # noqa: E402
from fleet import SERVERS, greedy  # noqa: E402
from prompts import Prompt, prompt  # noqa: E402

RECORD = HERE / "acceptance.json"
NEW_TOKENS = 96
SHAPES = ("tree", "deep tree")  # of the fleet


def prompts() -> list[Prompt]:
    """From all over the manual; most end inside a block of 16, whose rows each draft branch needs a copy of."""
    lengths = (9, 14, 23, 31, 45, 62, 79, 95, 111, 126, 140, 175, 207, 222, 254, 271)
    return [prompt(length, 9_000 + 10_300 * number) for number, length in enumerate(lengths)]


def answers(server: Server, **fields: Any) -> list[dict[str, Any]]:
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda p: greedy(server, p, NEW_TOKENS, **fields), prompts()))


def tokens_per_forward(found: list[dict[str, Any]]) -> float:
    """Over all prompts: one, and the accepted drafts."""
    forwards = sum(answer["meta_info"]["spec_verify_ct"] for answer in found)
    return 1 + sum(answer["meta_info"]["spec_num_correct_drafts"] for answer in found) / forwards


def recorded() -> dict[str, float]:
    return json.loads(RECORD.read_text())


def main() -> None:
    found = {}
    for name in SHAPES:
        with tempfile.TemporaryDirectory() as folder, Server(log=Path(folder, "log"), **SERVERS[name]) as server:
            found[name] = round(tokens_per_forward(answers(server.wait())), 4)
        print(f"{name}: {found[name]}, recorded {recorded().get(name)}", flush=True)
    if "--record" in sys.argv:
        RECORD.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
