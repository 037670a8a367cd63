"""Compiles host-layer libraries for tests, once per session and flag set."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

KERNELS = Path(__file__).resolve().parents[3] / "ascendc_kernels"
CASES = Path(__file__).resolve().parent / "cases"
RUNTIME = ("fibers", "numbers", "transfer", "settings", "launch")
CHECKER = ("monitor", "instruction", "history", "cache", "regions", "arena", "red_zone")
COMPILER = os.environ.get("CXX", "g++")
FLAGS = ["-std=c++17", "-O1", "-g1", "-fPIC", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-fvisibility=hidden"]
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def include_flags() -> list[str]:
    return [f"-I{KERNELS / folder}" for folder in ("include", "host/include", "host/runtime")]


def runtime_sources(check: bool = True) -> list[Path]:
    names = RUNTIME + (CHECKER if check else ())
    return [KERNELS / "host/runtime" / f"{name}.cpp" for name in names]


def kernel_sources(op: str) -> list[Path]:
    return sorted((KERNELS / op).glob("op_*/*.cpp"))


def build(output: Path, sources: list[Path], flags: list[str] | None = None, check: bool = True) -> Path:
    """Compile `sources` with the host runtime into the shared library or program `output`.

    Raises RuntimeError with the compiler's text: a suite that does not build must not look like one that passes.
    """
    shared = ["-shared"] if output.suffix == ".so" else []
    command = [
        COMPILER,
        *FLAGS,
        *(["-fno-gnu-unique"] if "g++" in COMPILER else []),
        f"-DDSV4_HOST_CHECK={int(check)}",
        *include_flags(),
        *shared,
        *(flags or []),
        *map(str, runtime_sources(check) + sources),
        "-o",
        str(output),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
    return output
