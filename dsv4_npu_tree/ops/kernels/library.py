"""The compiled kernel library: where it is, its C ABI (`ascendc_kernels/include/abi.h`), its errors and counters."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

VARIABLE = "DSV4_TREE_KERNELS"
FOLDER = Path(__file__).resolve().parents[2] / "lib"
HOST_LIBRARIES = {"fast": "libdsv4_kernels_host_fast.so", "check": "libdsv4_kernels_host_check.so"}
NPU_LIBRARY = "libdsv4_kernels_npu.so"
TORCH_LIBRARY = "libdsv4_kernels_torch.so"

_BAD_ARGUMENT, _HAZARD = 1, 2


class HazardError(RuntimeError):
    """The checking host build saw a kernel break a rule; the caller's tensors are as they were."""


class Counters(ctypes.Structure):
    """`dsv4_counters`: what one launch did, summed over its cores."""

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

    def as_dict(self) -> dict[str, int]:
        return {name: int(getattr(self, name)) for name, *_ in self._fields_}


class KernelLibrary:
    """One loaded shared library. Raises OSError if `path` does not load."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle = ctypes.CDLL(str(path))
        self._handle.dsv4_build.restype = ctypes.c_char_p
        self._handle.dsv4_host_configure.argtypes = [ctypes.c_char_p, ctypes.c_int32, ctypes.c_uint64]
        self.build: str = self._handle.dsv4_build().decode()

    def has(self, op: str) -> bool:
        return hasattr(self._handle, f"dsv4_{op}")

    def call(self, op: str, args: ctypes.Structure, stream: int = 0) -> None:
        """Launch `dsv4_<op>`. ValueError: refused, nothing written. HazardError, RuntimeError: the launch failed."""
        error = ctypes.create_string_buffer(512)
        entry = getattr(self._handle, f"dsv4_{op}")
        status = entry(ctypes.byref(args), ctypes.c_void_p(stream or None), error, ctypes.c_size_t(len(error)))
        if status == 0:
            return
        message = error.value.decode(errors="replace") or f"dsv4_{op} returned {status}"
        if status == _BAD_ARGUMENT:
            raise ValueError(message)
        raise HazardError(message) if status == _HAZARD else RuntimeError(message)

    def counters(self) -> Counters:
        """Counters of this thread's last launch; all zero in builds that do not count."""
        counters = Counters()
        self._handle.dsv4_counters_last(ctypes.byref(counters))
        return counters

    def configure(self, mode: str | None = None, cores: int = 0, seed: int = 1) -> None:
        """Host builds: hazard mode ("strict", "autosync", None keeps), cores (0 keeps), order of the cores."""
        if self._handle.dsv4_host_configure(mode.encode() if mode else None, cores, seed):
            raise ValueError(f"{self.path.name} refuses mode={mode!r}, cores={cores}")


def library_path(wanted: str | None = None) -> Path | None:
    """The host library to load: `wanted` or $DSV4_TREE_KERNELS ("fast", "check" or a file), else the packaged fast
    build, or None if the package was installed without kernels. FileNotFoundError if a wanted one is missing."""
    wanted = wanted or os.environ.get(VARIABLE)
    path = FOLDER / HOST_LIBRARIES.get(wanted or "fast", wanted or "")
    if path.is_file():
        return path
    if wanted:
        raise FileNotFoundError(
            f"{VARIABLE}={wanted}: there is no kernel library {path}; use 'fast', 'check' or a file, "
            "or build them with `pip install .`"
        )
    return None
