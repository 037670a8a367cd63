"""Memory of the pretended card. Unit: bytes."""

import os

from torch_npu import _twin


def total_bytes() -> int:
    """Card size: ``NPU_TWIN_MEM_GB`` GiB, 8 by default."""
    return int(float(os.environ.get("NPU_TWIN_MEM_GB", "8")) * (1 << 30))


def mem_get_info(device=None) -> tuple[int, int]:
    """(free, total)."""
    total = total_bytes()
    return max(total - _twin.allocated(), 0), total


def memory_allocated(device=None) -> int:
    return _twin.allocated()


def max_memory_allocated(device=None) -> int:
    return _twin.peak()


def reset_peak_memory_stats(device=None) -> None:
    _twin.reset_peak()


def memory_stats(device=None) -> dict:
    return {}


def memory_summary(device=None, abbreviated=False) -> str:
    return f"npu twin: {_twin.allocated()} of {total_bytes()} bytes allocated, peak {_twin.peak()}"


def empty_cache() -> None:
    """Nothing is cached."""


def ipc_collect() -> None:
    pass


memory_reserved = memory_allocated
max_memory_reserved = max_memory_allocated
