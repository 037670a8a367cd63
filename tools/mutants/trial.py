"""Tests run against a copy of the package, in a process of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .mutant import PACKAGE, Mutant

ROOT = Path(__file__).resolve().parents[2]
WITNESS = Path(__file__).with_name("witness.py")
TIMEOUT = 600.0  # a test


class TrialError(Exception):
    """The tests did not run as asked; the message ends with what the process printed."""


@dataclass(frozen=True)
class Verdict:
    """One test. outcome: passed, failed or skipped. noticed: an assertion of the test did not hold. failure: type and
    first line of what it raised."""

    test: str
    outcome: str
    noticed: bool
    failure: str
    seconds: float


def run(tests: Sequence[str], mutant: Mutant | None = None) -> list[Verdict]:
    """Run tests, in this order, on a copy of the package with ``mutant`` in it. Raises TrialError if they did not run,
    or ran on another package than the copy."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = Path(folder).resolve()
        shutil.copytree(ROOT / PACKAGE, copy / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
        if mutant is not None:
            mutant.apply(copy)
        answer = copy / "answer.json"
        began = time.monotonic()
        path = os.pathsep.join(filter(None, (str(copy), os.environ.get("PYTHONPATH"))))
        child = subprocess.run(
            [sys.executable, str(WITNESS), str(answer), *tests],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT * len(tests),
        )
        seconds = time.monotonic() - began
        printed = child.stdout[-2000:]
        if not answer.is_file():
            raise TrialError(f"{' '.join(tests)} did not finish:\n{printed}")
        found = json.loads(answer.read_text())
        if found["package"] != str(copy / PACKAGE):
            raise TrialError(f"{' '.join(tests)} ran on {found['package']} instead of {copy / PACKAGE}:\n{printed}")
        missing = [test for test in tests if test not in found["tests"]]
        if missing:
            raise TrialError(f"{', '.join(missing)} did not run:\n{printed}")
        return [_verdict(test, found["tests"][test], seconds if len(tests) == 1 else None) for test in tests]


def _verdict(test: str, found: dict, seconds: float | None) -> Verdict:
    """seconds: of the whole process, where it ran one test."""
    return Verdict(
        test,
        found["outcome"],
        found.get("noticed", False),
        found.get("failure", ""),
        found["seconds"] if seconds is None else seconds,
    )
