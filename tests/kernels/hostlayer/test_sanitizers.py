"""The suite under the address and undefined-behaviour sanitizers: controls and faults, both modes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hostlayer.build import CASES, SANITIZE, build

# Without arguments: all cases, but not the faults that the sanitizer itself ends. Else one access next to a tensor.
PROGRAM = """
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include "abi.h"
struct Declared {
    void* data;
    uint64_t bytes;
    int32_t writable;
    const char* name;
};
extern "C" int hostlayer_names(char*, size_t);
extern "C" int hostlayer_case(const char*, int, char*, size_t);
extern "C" int hostlayer_tensors(const char*, const Declared*, uint32_t, int64_t, char*, size_t);
int main(int count, char** words) {
    char names[8192], error[1024];
    if (count > 1) {
        uint64_t memory[8] = {};
        const Declared out = {memory, 61, 1, "out"};
        return hostlayer_tensors(words[1], &out, 1, std::atoi(words[2]), error, sizeof(error));
    }
    hostlayer_names(names, sizeof(names));
    for (const char* mode : {"strict", "autosync"}) {
        dsv4_host_configure(mode, 0, 1);
        std::istringstream list(names);
        for (std::string name; list >> name;) {
            if (name.rfind("raw_write_", 0) != 0) hostlayer_case(name.c_str(), 1, error, sizeof(error));
            if (hostlayer_case(name.c_str(), 0, error, sizeof(error)) != DSV4_OK) return std::puts(error), 1;
        }
    }
    return std::puts("clean"), 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sanitized")
    main = folder / "main.cpp"
    main.write_text(PROGRAM)
    return build(folder / "suite", [*sorted(CASES.glob("*.cpp")), main], flags=SANITIZE)


def run(program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(program), *words], capture_output=True, text=True, check=False)


def test_suite_is_sanitizer_clean(program: Path) -> None:
    done = run(program)
    assert done.returncode == 0 and done.stdout.strip().endswith("clean"), done.stdout + done.stderr


@pytest.mark.parametrize("kernel", ["poke", "peek"])
def test_red_zones_are_poisoned(program: Path, kernel: str) -> None:
    """Reads too, and with the line that does it."""
    for inside in ("0", "60"):
        assert run(program, kernel, inside).returncode == 0
    for outside in ("-1", "-500", "61", "600"):
        done = run(program, kernel, outside)
        assert "use-after-poison" in done.stderr and "tensors.cpp" in done.stderr, done.stderr
