"""`python -m tools.mutants`: does every mutant fail its test?"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict, dataclass

from .catalog import MUTANTS
from .mutant import Mutant
from .trial import ROOT, TrialError, Verdict, run


@dataclass(frozen=True)
class Result:
    mutant: Mutant
    line: int
    killed: bool
    seconds: float
    how: str

    @property
    def cells(self) -> tuple[str, ...]:
        state = "killed" if self.killed else "SURVIVES"
        place = f"{self.mutant.file}:{self.line}"
        return state, self.mutant.rule, place, self.mutant.test, f"{self.seconds:.0f}", self.how


def attempt(mutant: Mutant) -> Result:
    line = mutant.line(ROOT)
    try:
        (verdict,) = run([mutant.test], mutant)
    except (TrialError, subprocess.TimeoutExpired) as error:
        return Result(mutant, line, False, 0.0, f"not run: {error}")
    if verdict.outcome == "failed" and not verdict.noticed:
        return Result(mutant, line, False, verdict.seconds, f"broken rather than noticed: {verdict.failure}")
    return Result(mutant, line, verdict.noticed, verdict.seconds, verdict.failure or f"the test {verdict.outcome}")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def sound(tests: list[str]) -> list[Verdict]:
    """Tests that do not pass without a mutant."""
    say(f"{len(tests)} tests without a mutant ...")
    return [verdict for verdict in run(tests) if verdict.outcome != "passed"]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutants",
        description="Puts one wrong line at a time into a copy of the package and runs the test that must notice it. "
        "Takes about ten minutes. The exit code is 1 if a mutant survives.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, one object per mutant")
    parser.add_argument("--only", metavar="TEXT", default="", help="mutants whose rule or file contains TEXT")
    arguments = parser.parse_args()
    chosen = [m for m in MUTANTS if arguments.only in f"{m.rule} {m.file}"]
    if not chosen:
        parser.error(f"no mutant's rule or file contains {arguments.only!r}")
    for mutant in chosen:
        mutant.line(ROOT)  # a stale entry stops here, not after minutes
    unsound = sound(sorted({m.test for m in chosen}))
    if unsound:
        sys.exit("\n".join(f"{v.test} {v.outcome} without a mutant: {v.failure}" for v in unsound))
    results = []
    for number, mutant in enumerate(chosen, 1):
        results.append(attempt(mutant))
        say(f"{number} / {len(chosen)} {'  '.join(results[-1].cells)}")
    killed = sum(result.killed for result in results)
    if arguments.json:
        print(
            json.dumps([{**asdict(r.mutant), **{k: v for k, v in asdict(r).items() if k != "mutant"}} for r in results])
        )
    else:
        columns = ("", "rule", "line", "test", "seconds", "how")
        rows = [columns, *(result.cells for result in results)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(columns) - 1)]
        for row in rows:
            print("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[-1]]))
    print(f"{killed} / {len(results)}", file=sys.stderr if arguments.json else sys.stdout)
    sys.exit(0 if killed == len(results) else 1)


if __name__ == "__main__":
    main()
