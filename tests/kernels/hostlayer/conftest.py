"""The fault suite as a library, built once."""

from __future__ import annotations

import pytest

from hostlayer.build import CASES, build
from hostlayer.library import HostLibrary


@pytest.fixture(scope="session")
def suite(tmp_path_factory: pytest.TempPathFactory) -> HostLibrary:
    output = tmp_path_factory.mktemp("hostlayer") / "libhostlayer_cases.so"
    return HostLibrary(build(output, sorted(CASES.glob("*.cpp"))))
