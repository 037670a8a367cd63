"""The child of a trial: runs tests and writes down what happened: `python witness.py ANSWER NODE_ID ...`.

ANSWER: a JSON file with the folder that the package was imported from and, per test, outcome, seconds and failure.
A failure is `noticed` if an assertion outside the package did not hold.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


class Witness:
    def __init__(self) -> None:
        self.tests: dict[str, dict] = {}
        self.failures: dict[str, dict] = {}

    def package(self) -> str | None:
        module = sys.modules.get("dsv4_npu_tree")
        return None if module is None or module.__file__ is None else str(Path(module.__file__).resolve().parent)

    def pytest_exception_interact(self, node, call, report) -> None:
        error = call.excinfo
        package = self.package()
        where = Path(str(error.traceback[-1].path)).resolve()
        inside = package is not None and where.is_relative_to(package)
        first_line = (str(error.value).strip() or "no message").splitlines()[0]
        self.failures[report.nodeid] = {
            "noticed": report.when == "call" and issubclass(error.type, AssertionError) and not inside,
            "failure": f"{error.type.__name__}: {first_line}",
        }

    def pytest_runtest_logreport(self, report) -> None:
        test = self.tests.setdefault(report.nodeid, {"outcome": "passed", "seconds": 0.0})
        test["seconds"] += report.duration
        if report.outcome != "passed":
            test["outcome"] = report.outcome


def main(answer: str, tests: list[str]) -> None:
    del sys.path[0]  # this folder
    import pytest

    witness = Witness()
    pytest.main(["-q", "-p", "no:cacheprovider", "--no-header", *tests], plugins=[witness])
    found = {test: report | witness.failures.get(test, {}) for test, report in witness.tests.items()}
    Path(answer).write_text(json.dumps({"package": witness.package(), "tests": found}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
