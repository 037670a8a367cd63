"""Kernel tests run here on the host layer in both hazard modes, and on a card with `-m npu`: see devices.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "unit"))  # tree generators

from devices import Card, Device, Host, why_no_card  # noqa: E402
from hostlayer.build import build, kernel_sources  # noqa: E402
from hostlayer.library import HostLibrary  # noqa: E402

from dsv4_npu_tree.ops.kernels.library import KernelLibrary  # noqa: E402

TREE_OPS = ("tree_build", "tree_verify_greedy")


@pytest.fixture(scope="session")
def tree_kernels(tmp_path_factory: pytest.TempPathFactory) -> KernelLibrary:
    """The checking host library of the two tree ops, built from the sources as they are."""
    sources = [source for op in TREE_OPS for source in kernel_sources(op)]
    return KernelLibrary(build(tmp_path_factory.mktemp("tree_kernels") / "check.so", sources))


@pytest.fixture(scope="session")
def relocate_kernels(tmp_path_factory: pytest.TempPathFactory) -> HostLibrary:
    """The checking host library of kv_relocate."""
    return HostLibrary(build(tmp_path_factory.mktemp("relocate_kernels") / "check.so", kernel_sources("kv_relocate")))


@pytest.fixture(params=["strict", "autosync", pytest.param("npu", marks=pytest.mark.npu)])
def device(request: pytest.FixtureRequest) -> Device:
    """Where a kernel test runs its ops."""
    if request.param != "npu":
        return Host(request.getfixturevalue("tree_kernels"), request.param)
    reason = why_no_card()
    if reason is not None:
        pytest.skip(reason)
    return Card()


@pytest.fixture
def host(tree_kernels: KernelLibrary) -> Host:
    """The host layer in strict mode, for what only it can tell."""
    return Host(tree_kernels, "strict")
