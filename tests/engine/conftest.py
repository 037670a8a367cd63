"""Fixtures of the tests that start whole servers. Helper modules lie beside this file and in tools/demonstration."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tools")]

from demonstration.server import default_model  # noqa: E402
from fleet import Fleet, References  # noqa: E402
from identity import Tally  # noqa: E402

_TALLY = pytest.StashKey[Tally]()


def pytest_configure(config):
    config.stash[_TALLY] = Tally()


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents and "fleet" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.engine)


@pytest.fixture(scope="session")
def tally(request):
    return request.config.stash[_TALLY]


@pytest.fixture(scope="session")
def fleet(tmp_path_factory):
    if not Path(default_model(), "config.json").exists():
        pytest.fail(f"there is no checkpoint in {default_model()}")
    fleet = Fleet(tmp_path_factory.mktemp("servers"))
    yield fleet
    fleet.stop()


@pytest.fixture(scope="session")
def reference(fleet):
    return References(fleet)


def pytest_terminal_summary(terminalreporter, config):
    lines = config.stash[_TALLY].lines()
    if lines:
        terminalreporter.section("greedy text against no speculation")
        for line in lines:
            terminalreporter.write_line(line)
