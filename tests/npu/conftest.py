"""Tests that only an Ascend card can run; everywhere else they are skipped with the reason."""

import pytest


def card_missing() -> str | None:
    """Why there is no card here, or None."""
    try:
        import torch
        import torch_npu
    except ImportError as error:
        return f"no torch_npu: {error}"
    if hasattr(torch_npu, "_twin"):
        return "torch_npu is the CPU twin"
    return None if torch.npu.is_available() else "no NPU visible"


@pytest.fixture(autouse=True)
def _needs_card():
    reason = card_missing()
    if reason is not None:
        pytest.skip(reason)
