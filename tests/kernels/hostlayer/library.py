"""ctypes view of a checking host library."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path

ERROR_BYTES = 1024
MODES = ("strict", "autosync")
OK, BAD_ARGUMENT, HAZARD, LAUNCH_FAILED = 0, 1, 2, 3


class Counters(ctypes.Structure):
    """`dsv4_counters` of ascendc_kernels/include/abi.h."""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "blocks",
            "dma_in_instructions",
            "dma_in_bytes",
            "dma_out_instructions",
            "dma_out_bytes",
            "scalar_gm_reads",
            "scalar_gm_writes",
            "scalar_ub_reads",
            "scalar_ub_writes",
            "vector_instructions",
            "vector_repeats",
            "sync_all",
            "peak_ub_bytes",
        )
    ]


@dataclass
class Outcome:
    """Status and error text of one call."""

    status: int
    error: str


class HostLibrary:
    """A loaded library; `call` adds the error buffer."""

    def __init__(self, path: Path) -> None:
        self.native = ctypes.CDLL(str(path))

    def configure(self, mode: str, cores: int = 0, seed: int = 1) -> None:
        if self.native.dsv4_host_configure(mode.encode(), ctypes.c_int32(cores), ctypes.c_uint64(seed)) != OK:
            raise ValueError(f"mode {mode!r} or {cores} cores refused")

    def call(self, name: str, *args) -> Outcome:
        error = ctypes.create_string_buffer(ERROR_BYTES)
        status = getattr(self.native, name)(*args, error, ctypes.c_size_t(ERROR_BYTES))
        return Outcome(status, error.value.decode())

    def counters(self) -> Counters:
        counters = Counters()
        self.native.dsv4_counters_last(ctypes.byref(counters))
        return counters
