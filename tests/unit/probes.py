"""What tests run code under: Triton's CPU interpreter, and a guard against waiting for the device."""

from __future__ import annotations

import pytest
from torch.utils._python_dispatch import TorchDispatchMode


def interpreted(kernel):
    """Upstream's Triton kernel run by Triton's CPU interpreter."""
    pytest.importorskip("triton")
    from triton.runtime.interpreter import InterpretedFunction

    return kernel if isinstance(kernel, InterpretedFunction) else InterpretedFunction(kernel.fn)


class NoHostRead(TorchDispatchMode):
    """Fails on any op whose result shape or value the host has to wait for."""

    FORBIDDEN = ("_local_scalar_dense", "item", "nonzero", "masked_select", "unique", "is_nonzero", "equal.default")

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert not any(word in str(func) for word in self.FORBIDDEN), f"{func} waits for the device"
        return func(*args, **(kwargs or {}))
