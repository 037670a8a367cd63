"""The torch binding against the headers of torch and of an unzipped torch_npu wheel: syntax and types, no linking.

pip download --no-deps torch_npu && unzip torch_npu-*.whl 'torch_npu/include/*'
TORCH_NPU_HEADERS=torch_npu/include python -m pytest tests/kernels/hostlayer/test_torch_binding.py
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import torch

from hostlayer.build import COMPILER, KERNELS

HEADERS = os.environ.get("TORCH_NPU_HEADERS", "")


@pytest.mark.skipif(not HEADERS, reason="TORCH_NPU_HEADERS names no include folder of a torch_npu wheel")
@pytest.mark.parametrize("source", sorted(KERNELS.glob("torch_binding/*.cpp")), ids=lambda path: path.name)
def test_binding_compiles_against_the_headers(source: Path) -> None:
    torch_headers, npu = Path(torch.__file__).parent / "include", Path(HEADERS).resolve()
    assert (npu / "torch_npu").is_dir(), f"{npu} is not the include folder of a torch_npu wheel"
    folders = (torch_headers, torch_headers / "torch/csrc/api/include", npu, npu / "third_party/acl/inc")
    command = [
        COMPILER,
        *("-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"),
        f"-I{KERNELS / 'include'}",
        *(flag for folder in folders for flag in ("-isystem", str(folder))),
        str(source),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
