"""The reference stands on numpy alone: what it judges must not be part of it."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import dsv4_npu_tree.reference

FOLDER = Path(dsv4_npu_tree.reference.__file__).parent


def imported(file: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names.add(node.module)
    return names


def test_imports_numpy_the_standard_library_and_itself():
    names = set().union(*(imported(file) for file in FOLDER.glob("*.py")))
    outside = {name for name in names if not name.startswith("dsv4_npu_tree.reference")}
    assert "numpy" in names
    assert {name.split(".")[0] for name in outside} - sys.stdlib_module_names == {"numpy"}
