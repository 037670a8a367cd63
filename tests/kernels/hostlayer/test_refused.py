"""What must not compile: types that the vector unit lacks, and API outside the subset."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hostlayer.build import COMPILER, include_flags

CONTROL = "LocalTensor<int32_t> a; Adds(a, a, 1, 8); Duplicate(a, 1, 8); PipeBarrier<PIPE_V>();"
# statement: what the compiler must say
REFUSED = {
    "LocalTensor<int64_t> a; Add(a, a, a, 8);": "not supported on 2201",
    "LocalTensor<half> a; Adds(a, a, half{}, 8);": "not supported on 2201",
    "LocalTensor<int32_t> a; Div(a, a, a, 8);": "not supported on 2201",
    "LocalTensor<int8_t> a; Duplicate(a, int8_t{1}, 8);": "16 and 32-bit types only",
    "LocalTensor<int32_t> a; LocalTensor<uint8_t> m; Select(a, m, a, a, SELMODE::VSEL_TENSOR_TENSOR_MODE, 8);": (
        "ReinterpretCast int32 to float"
    ),
    "LocalTensor<int64_t> a; LocalTensor<float> b; Cast(b, a, RoundMode::CAST_RINT, 8);": "not in the subset",
    "LocalTensor<int64_t> a; LocalTensor<uint32_t> o; Gather(a, a, o, 0, 8);": "16 and 32-bit types only",
    "LocalTensor<int32_t> a; ReduceSum(a, a, a, 8);": "float only",
    "GlobalTensor<int32_t> g; LocalTensor<int32_t> a; DataCopyPad(g, a, {1, 4, 0, 0});": "ambiguous",
    "GlobalTensor<int32_t> g; LocalTensor<int32_t> a; DataCopyPad(g, a, DataCopyParams{1, 4, 0, 0});": "deleted",
    "PipeBarrier<PIPE_S>();": "hardware error",
    "TQue<TPosition::VECCALC, 1> q;": "VECIN or VECOUT",
    "LocalTensor<float> a; Rsqrt(a, a, 8);": "Rsqrt",
    "LocalTensor<float> a; DataCopy(a, a, 8);": "DataCopy",
}


def compile_statement(folder: Path, statement: str) -> subprocess.CompletedProcess[str]:
    source = folder / "statement.cpp"
    source.write_text(f'#include "kernel_operator.h"\nusing namespace AscendC;\nvoid kernel() {{ {statement} }}\n')
    command = [COMPILER, "-std=c++17", "-fsyntax-only", "-DDSV4_HOST_CHECK=1", *include_flags(), str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_control_compiles(tmp_path: Path) -> None:
    done = compile_statement(tmp_path, CONTROL)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("statement", REFUSED)
def test_does_not_compile(tmp_path: Path, statement: str) -> None:
    done = compile_statement(tmp_path, statement)
    assert done.returncode != 0
    assert REFUSED[statement] in done.stderr
