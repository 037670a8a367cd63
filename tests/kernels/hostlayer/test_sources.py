"""Kernel sources keep to what a device compiler takes: the host compiler would accept far more."""

from __future__ import annotations

import re

import pytest

from hostlayer.build import KERNELS

SOURCES = sorted(path for pattern in ("*.cpp", "*.h") for path in KERNELS.glob(f"*/op_kernel/{pattern}"))
INCLUDES = re.compile(r'#include (<cstdint>|"kernel_operator\.h"|"\w+\.h")$')
FORBIDDEN = {
    "the standard library": r"\bstd::",
    "heap or exceptions": r"\b(new|delete|malloc|free|try|throw|catch)\b",
    "double arithmetic": r"\bdouble\b",
    "output": r"\bf?printf\b",
    "the host build": r"\bDSV4_HOST\w*|\bdsv4::host\b",
    "virtual functions or type information": r"\b(virtual|typeid|dynamic_cast)\b",
    "access to GM without the API": r"\*\s*reinterpret_cast<__gm__",
}
# A definition has a type before its name, a call has not.
FUNCTION = re.compile(
    r"^(?!.*\b(if|for|while|switch|else|return|struct|class|enum|namespace)\b)"
    r"[\w:<>,&*]+\s[\w:<>,&*\s]*\([^;]*\)[^;=]*\{"
)


# Layout headers, which the host side includes too, use a macro that is empty there.
MARKED = re.compile(r"\b(__aicore__|DSV4_AICORE inline)(?!\w)")


def code_of(path) -> list[str]:
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
    return [re.sub(r"//.*", "", line).rstrip() for line in text.splitlines()]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_source_is_plain_device_code(path) -> None:
    lines = code_of(path)
    for number, line in enumerate(lines, 1):
        where = f"{path.name}:{number}: {line.strip()}"
        assert not line.startswith("#include") or INCLUDES.match(line), where
        for what, pattern in FORBIDDEN.items():
            assert not re.search(pattern, line), f"{where} uses {what}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_every_function_is_marked_for_the_core(path) -> None:
    text = "\n".join(code_of(path))
    # Definitions can span lines: join everything between two statement ends.
    for statement in re.split(r"(?<=[;{}])", text):
        flat = " ".join(statement.split())
        flat = re.sub(r"^((public|private|protected):\s*)+", "", flat)
        if FUNCTION.match(flat):
            assert MARKED.search(flat) or flat.startswith("["), flat


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_the_mark_of_layout_headers_is_known_where_they_are_included(path) -> None:
    """DSV4_AICORE is __aicore__ only after kernel_operator.h."""
    lines = path.read_text().splitlines()
    layouts = [number for number, line in enumerate(lines) if re.match(r'#include "\w+_layout\.h"', line)]
    if layouts:
        assert '#include "kernel_operator.h"' in lines[: layouts[0]], f"{path.name} includes its layout first"


def test_an_unmarked_function_is_found() -> None:
    for flat in ("constexpr uint32_t pool_of(uint32_t topk) {", "inline int64_t at(int64_t value) {"):
        assert FUNCTION.match(flat) and not MARKED.search(flat)
        assert MARKED.search(f"DSV4_AICORE inline {flat}") and MARKED.search(f"__aicore__ inline {flat}")


def test_there_are_kernels() -> None:
    assert any(path.name == "kv_relocate.cpp" for path in SOURCES)
