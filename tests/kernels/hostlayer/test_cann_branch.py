"""The CMake branch for cards, run against a stand-in for the CANN toolkit.

It shows that the branch finds ascendc.cmake, passes every kernel, and that the host side compiles and links as it
would there. It says nothing about what CANN's compiler makes of the kernels.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from hostlayer.build import COMPILER, KERNELS

LIBRARIES = ("ascendcl", "tiling_api", "register", "platform", "ascendalog")
# Makes aclrtlaunch_<kernel>.h as the toolkit does: scalars keep their type, GM addresses become void*.
ASCENDC_CMAKE = r"""
function(ascendc_library name type)
    set(folder ${CMAKE_BINARY_DIR}/generated)
    foreach(source ${ARGN})
        get_filename_component(kernel ${source} NAME_WE)
        file(READ ${source} text)
        string(REGEX MATCH "void ${kernel}\\(([^)]*)\\)" _ "${text}")
        string(REPLACE "GM_ADDR" "void*" parameters "${CMAKE_MATCH_1}")
        file(WRITE ${folder}/aclrtlaunch_${kernel}.h "#pragma once\n#include <cstdint>\n"
            "#define ACLRT_LAUNCH_KERNEL(kernel) aclrtlaunch_##kernel\n"
            "extern \"C\" uint32_t aclrtlaunch_${kernel}(uint32_t blocks, void* stream, ${parameters});\n")
        message(STATUS "kernel ${kernel} ${type}")
    endforeach()
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE ${folder})
endfunction()
function(ascendc_include_directories name)
    message(STATUS "kernel includes ${ARGN}")
endfunction()
"""
PLATFORM = """#pragma once
#include <cstdint>
namespace platform_ascendc {
struct PlatformAscendCManager {
    static PlatformAscendCManager* GetInstance();
    uint32_t GetCoreNumAiv() const;
};
}  // namespace platform_ascendc
"""


@pytest.fixture(scope="module")
def toolkit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cann")
    cmake = folder / "tools/tikcpp/ascendc_kernel_cmake"
    platform = folder / "include/tiling/platform"
    for directory in (cmake, platform, folder / "lib64"):
        directory.mkdir(parents=True)
    (cmake / "ascendc.cmake").write_text(ASCENDC_CMAKE)
    (platform / "platform_ascendc.h").write_text(PLATFORM)
    for library in LIBRARIES:
        command = [COMPILER, "-shared", "-x", "c++", "/dev/null", "-o", str(folder / f"lib64/lib{library}.so")]
        subprocess.run(command, check=True)
    return folder


def sources(folder: Path) -> Path:
    """A copy of the build files and of kv_relocate only: this test is about the branch, not about every kernel."""
    for name in ("CMakeLists.txt", "cmake", "cann", "include", "kv_relocate"):
        copy = shutil.copytree if (KERNELS / name).is_dir() else shutil.copy
        copy(KERNELS / name, folder / name)
    return folder


def cmake(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["cmake", *arguments], capture_output=True, text=True, check=False)


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")
@pytest.mark.parametrize("soc", ["Ascend910B4", "Ascend910_9382"])
def test_branch_builds_with_a_toolkit(toolkit: Path, tmp_path: Path, soc: str) -> None:
    source, build = sources(tmp_path), tmp_path / "build"
    done = cmake("-S", str(source), "-B", str(build), f"-DASCEND_HOME_PATH={toolkit}", f"-DSOC_VERSION={soc}")
    assert done.returncode == 0, done.stderr
    assert "kernel kv_relocate STATIC" in done.stdout
    assert f"{source}/kv_relocate/op_kernel" in done.stdout
    done = cmake("--build", str(build))
    assert done.returncode == 0, done.stdout + done.stderr
    library = build / "libdsv4_kernels_npu.so"
    symbols = subprocess.run(["nm", "-D", str(library)], capture_output=True, text=True, check=True).stdout
    for symbol in ("T dsv4_kv_relocate", "T dsv4_kv_relocate_plan", "T dsv4_build", "U aclrtlaunch_kv_relocate"):
        assert symbol in symbols


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-DSOC_VERSION=Ascend310P3",), "Ascend910B"),
        (("-DRUN_MODE=sim",), "npu or cpu"),
    ],
)
def test_branch_refuses(toolkit: Path, tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    build = tmp_path / "build"
    done = cmake("-S", str(KERNELS), "-B", str(build), f"-DASCEND_CANN_PACKAGE_PATH={toolkit}", *options)
    assert done.returncode != 0 and message in done.stderr


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")
def test_a_toolkit_without_the_kernel_builder_is_named(tmp_path: Path) -> None:
    done = cmake("-S", str(KERNELS), "-B", str(tmp_path / "build"), f"-DASCEND_CANN_PACKAGE_PATH={tmp_path}")
    assert done.returncode != 0 and "DSV4_FORCE_HOST" in done.stderr
