"""Tests of the CPU twin of torch_npu; they need the twin, not a card."""

import pytest
import torch

pytest.importorskip("torch_npu._twin", reason="torch_npu is not the CPU twin")


# Small tensors: a second thread only waits.
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture
def relaxed(monkeypatch):
    """Tiny heads and widths are accepted."""
    monkeypatch.setenv("NPU_TWIN_RELAXED_DIMS", "1")


@pytest.fixture
def strict(monkeypatch):
    """The card's fixed heads and widths are enforced."""
    monkeypatch.delenv("NPU_TWIN_RELAXED_DIMS", raising=False)
