"""``torch.npu``: ``NPU_TWIN_DEVICES`` devices (1 by default), always there. Work is finished when a call returns."""

import sys
from types import SimpleNamespace

import torch

from torch_npu import _twin
from torch_npu.npu import memory
from torch_npu.npu.graph import NPUGraph, NpuGraphOpHandler, graph, graph_pool_handle, register_npu_graph_handler
from torch_npu.npu.memory import (
    empty_cache,
    ipc_collect,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_peak_memory_stats,
)
from torch_npu.npu.stream import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
)

__all__ = [
    "Event",
    "ExternalStream",
    "NPUGraph",
    "NpuGraphOpHandler",
    "Stream",
    "StreamContext",
    "current_stream",
    "default_stream",
    "empty_cache",
    "graph",
    "graph_pool_handle",
    "ipc_collect",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "register_npu_graph_handler",
    "reset_peak_memory_stats",
    "set_stream",
    "stream",
]

config = SimpleNamespace(allow_internal_format=True)
default_generators = [torch.random.default_generator]


class DeviceProperties:
    """What SGLang reads of a card. Core counts are those of one Atlas A3 die (24 cube, 48 vector)."""

    name = "Ascend910_9391"
    uuid = "npu-twin-0"
    major = 0
    minor = 0
    cube_core_num = 24
    vector_core_num = 48
    multi_processor_count = 24
    L2_cache_size = 192 << 20
    warp_size = 32
    max_threads_per_multi_processor = 1024

    @property
    def total_memory(self) -> int:
        return memory.total_bytes()


class device:  # noqa: N801 - torch's name
    """Context manager that selects a device by index, name or ``torch.device``; None keeps the current one."""

    def __init__(self, index=None):
        self.index = _index(index)

    def __enter__(self):
        self._before = _twin.current_device()
        _twin.set_device(self.index)
        return self

    def __exit__(self, *exception):
        _twin.set_device(self._before)
        return False


device_of = device


def publish() -> None:
    """Make ``import torch.npu`` find this module."""
    sys.modules["torch.npu"] = sys.modules[__name__]


def is_available() -> bool:
    return True


def is_initialized() -> bool:
    return True


def init() -> None:
    pass


def _lazy_init() -> None:
    pass


def _is_in_bad_fork() -> bool:
    return False


def device_count() -> int:
    return _twin.device_count()


def current_device() -> int:
    return _twin.current_device()


def set_device(index) -> None:
    """Select the calling thread's device."""
    _twin.set_device(_index(index))


def _index(which) -> int:
    """Index of a device given as int, name, torch.device or None (-1: the current one)."""
    if which is None:
        return -1
    if isinstance(which, int):
        return which
    index = torch.device(which).index
    return -1 if index is None else index


def synchronize(device=None) -> None:
    pass


def get_device_properties(device=None) -> DeviceProperties:
    return DeviceProperties()


def get_device_name(device=None) -> str:
    return DeviceProperties.name


def get_device_capability(device=None) -> None:
    """Ascend has no compute capability."""
    return


def get_soc_version() -> int:
    """Number that torch_npu reports for Ascend910_93 (Atlas A3)."""
    return 252


def is_bf16_supported(*_) -> bool:
    return True


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.float16, torch.bfloat16]


def is_current_stream_capturing() -> bool:
    return False


def set_compile_mode(jit_compile=False) -> None:
    pass


def set_stream_limit(stream, cube_num=-1, vector_num=-1) -> None:
    pass


def utilization(device=None) -> int:
    return 0


def manual_seed(seed: int) -> None:
    torch.random.default_generator.manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """The device's generator is the CPU's, which torch.manual_seed has already seeded."""


def seed() -> None:
    torch.random.default_generator.seed()


seed_all = seed


def initial_seed() -> int:
    return torch.random.default_generator.initial_seed()


def get_rng_state(device="npu") -> torch.Tensor:
    return torch.random.default_generator.get_state()


def set_rng_state(state: torch.Tensor, device="npu") -> None:
    torch.random.default_generator.set_state(state)
