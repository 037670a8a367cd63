"""The suite under the address and undefined-behaviour sanitizers: controls and faults, both modes."""

from __future__ import annotations

import subprocess

import pytest

from hostlayer.build import CASES, SANITIZE, build

PROGRAM = """
#include <cstdio>
#include <sstream>
#include "abi.h"
extern "C" int hostlayer_names(char*, size_t);
extern "C" int hostlayer_case(const char*, int, char*, size_t);
int main() {
    char names[8192], error[1024];
    hostlayer_names(names, sizeof(names));
    for (const char* mode : {"strict", "autosync"}) {
        dsv4_host_configure(mode, 0, 1);
        std::istringstream list(names);
        for (std::string name; list >> name;) {
            hostlayer_case(name.c_str(), 1, error, sizeof(error));
            if (hostlayer_case(name.c_str(), 0, error, sizeof(error)) != DSV4_OK) return std::puts(error), 1;
        }
    }
    return std::puts("clean"), 0;
}
"""


def test_suite_is_sanitizer_clean(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("sanitized")
    main = folder / "main.cpp"
    main.write_text(PROGRAM)
    program = build(folder / "suite", [*sorted(CASES.glob("*.cpp")), main], flags=SANITIZE)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.strip().endswith("clean"), done.stdout + done.stderr
