"""One rig at a time: two runners of a process share SGLang's published configuration."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import random

import pytest

from .launch import Shape, checkpoint
from .rig import Rig

_alive: dict[Shape, Rig] = {}


def rig_of(shape: Shape) -> Rig:
    """The rig of this shape, built if the last one had another shape."""
    for package in ("torch_npu", "sglang"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    model = checkpoint()
    if model is None:
        pytest.skip("no tiny checkpoint: build it with tools/tiny_checkpoint or set DSV4_TREE_CHECKPOINT")
    if shape not in _alive:
        _alive.clear()
        _alive[shape] = Rig(shape, model)
    return _alive[shape]


@pytest.fixture(autouse=True)
def nothing_held():
    """A test that fails leaves no request behind for the next one."""
    yield
    for rig in _alive.values():
        rig.release_all()


@pytest.fixture(autouse=True)
def torch_ops(monkeypatch):
    """The plugin's ops in torch, whose sums are exact like the twin's: equality below means equal bits.

    test_kernels.py runs the Ascend C kernels instead; they are loaded before the choice is made.
    """
    with contextlib.suppress(ImportError):
        importlib.import_module("dsv4_npu_tree.ops.kernels")
    monkeypatch.setenv("DSV4_TREE_OPS", "reference")


@pytest.fixture
def rig() -> Rig:
    """The launch shape of the documentation: n 8, three steps, topk 4, blocks of 16 rows."""
    return rig_of(Shape())


@pytest.fixture
def draw(request):
    """Token ids, reproducible per test: ``draw(k)`` gives k of them."""
    rng = random.Random(request.node.nodeid)
    return lambda count: [rng.randrange(3, 1000) for _ in range(count)]
