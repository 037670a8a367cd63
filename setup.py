"""Builds the kernel library with the package; everything else is in pyproject.toml.

Without CANN: the two host libraries, with g++ or clang only. With CANN (ASCEND_HOME_PATH or ASCEND_CANN_PACKAGE_PATH is
set): the npu library and its torch ops, for SOC_VERSION; that needs torch and torch_npu, so use --no-build-isolation.
DSV4_FORCE_HOST=1 builds the host libraries although CANN is there. MAX_JOBS limits the compile jobs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError

ROOT = Path(__file__).resolve().parent
FOLDER = Path("dsv4_npu_tree", "lib")


class BuildError(BaseError):
    """The kernels cannot be built here; the message says what to do."""


def with_cann() -> bool:
    found = os.environ.get("ASCEND_CANN_PACKAGE_PATH") or os.environ.get("ASCEND_HOME_PATH")
    return bool(found) and os.environ.get("DSV4_FORCE_HOST", "0") in ("", "0")


def require(tool: str, names: tuple[str, ...]) -> None:
    if not any(shutil.which(name) for name in names):
        raise BuildError(
            f"building the kernels needs {tool}, and there is no {' or '.join(names)} on PATH "
            f"(Debian: apt install {names[0]}; conda: conda install {tool})"
        )


class BuildKernels(build_ext):
    """Runs cmake; the libraries go into the wheel, or into the source tree for an editable install."""

    def run(self) -> None:
        require("cmake", ("cmake",))
        if "CXX" not in os.environ:
            require("a C++17 compiler", ("g++", "clang++"))
        build = Path(self.build_temp).resolve() / "kernels"
        options = [f"-DPython3_EXECUTABLE={sys.executable}"]
        if with_cann():
            options += [f"-DSOC_VERSION={os.environ['SOC_VERSION']}"] if os.environ.get("SOC_VERSION") else []
        else:
            options += ["-DDSV4_FORCE_HOST=ON"]
        jobs = os.environ.get("MAX_JOBS") or str(os.cpu_count() or 1)
        self._cmake("-S", str(ROOT / "ascendc_kernels"), "-B", str(build), *options)
        self._cmake("--build", str(build), f"-j{jobs}")
        target = self._target()
        target.mkdir(parents=True, exist_ok=True)
        built = sorted(build.rglob("libdsv4_kernels_*.so"))
        for stale in target.glob("libdsv4_kernels_*.so"):
            stale.unlink()  # never overwritten in place: a running process may have it mapped
        for library in built:
            shutil.copy2(library, target / library.name)
        if not built:
            raise BuildError(f"the build in {build} made no libdsv4_kernels_*.so")

    def _target(self) -> Path:
        in_tree = self.inplace or getattr(self, "editable_mode", False)
        return (ROOT if in_tree else Path(self.build_lib)) / FOLDER

    def _cmake(self, *arguments: str) -> None:
        command = ["cmake", *arguments]
        try:
            subprocess.run(command, check=True)
        except subprocess.CalledProcessError as error:
            raise BuildError(
                f"`{' '.join(command)}` failed with code {error.returncode}; the compiler's message is above"
            ) from None

    def get_outputs(self) -> list[str]:
        return [str(path) for path in sorted(self._target().glob("libdsv4_kernels_*.so"))]

    def get_output_mapping(self) -> dict[str, str]:
        return {}


# The extension carries no sources: it makes the wheel a platform wheel and build_ext run.
setup(ext_modules=[Extension("dsv4_npu_tree.lib.kernels", [])], cmdclass={"build_ext": BuildKernels})
