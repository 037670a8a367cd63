"""How the torch library of a card takes over, shown with a stand-in for it on the CPU key.

The library registers the kernels in a namespace of its own, so it does not matter whether it or the ops come first.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hostlayer.build import KERNELS

from dsv4_npu_tree.ops import kernels

ROOT = Path(__file__).resolve().parents[2]
# A process of its own: the first load is what counts. `calls` gets the op of every kernel call.
SCRIPT = """
import os, sys, types
os.environ["DSV4_TREE_OPS"] = "reference"
import torch
from pathlib import Path
from dsv4_npu_tree.ops import kernels
from dsv4_npu_tree.ops.library import _registry, selection

assert all(keys["CPU"] == "reference" for keys in selection().values()), selection()
del os.environ["DSV4_TREE_OPS"]
folder, calls, alive = Path(sys.argv[1]), [], []
(folder / kernels.TORCH_LIBRARY).touch()

def load_library(path):
    assert path == str(folder / kernels.TORCH_LIBRARY)
    library = torch.library.Library(kernels.CARD_NAMESPACE, "DEF")
    alive.append(library)
    for op in kernels.OPS:
        reference = _registry().implementations[op, "CPU"]["reference"]
        library.define(_registry().schemas[op])
        library.impl(op, lambda *a, op=op, reference=reference, **k: (calls.append(op), reference(*a, **k))[1], "CPU")

torch.ops.load_library = load_library
kernels.on_card, kernels.FOLDER, kernels.CARD_KEY = lambda: True, folder, "CPU"
kernels.load()
assert kernels.describe().startswith("kernels: npu") and "torch implementation" not in kernels.describe()

from dsv4_npu_tree.ops.kv_relocate import Moves, kv_relocate
from dsv4_npu_tree.ops.tree_build import tree_build

def run():
    ints = lambda *v: torch.tensor(v, dtype=torch.int64)
    mask = torch.zeros(4, dtype=torch.uint8)
    given = (ints(-1, 0, 1)[None], ints(0, 1, 4)[None], torch.ones(1, 3), ints(100), 2, 2, 4, 3)
    built = tree_build(*given, mask=mask, mask_mode=2)
    assert mask.tolist() == [1, 3, 5, 13], mask
    assert built[4].tolist() == [[-1, 0, 0, 2]], built[4]
    rows = torch.arange(8.0).reshape(8, 1)
    kv_relocate([rows], [rows], [0], [Moves(ints(0), ints(4), ints(2), 2)])
    assert rows.flatten().tolist() == [0, 1, 2, 3, 0, 1, 6, 7]

assert all(selection()[op]["CPU"] == kernels.NAME for op in kernels.OPS), selection()
run()
assert calls == ["tree_build", "kv_relocate"], calls
os.environ["DSV4_TREE_OPS"] = "reference"
assert all(selection()[op]["CPU"] == "reference" for op in kernels.OPS), selection()
run()
assert len(calls) == 2, calls
print("served")
"""


def test_ops_run_on_the_loaded_library(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.stdout.strip() == "served", done.stdout + done.stderr


def test_a_library_without_an_op_is_named() -> None:
    with pytest.raises(RuntimeError, match="no dsv4_tree_absent::tree_build"):
        kernels.take_over("dsv4_tree_absent", "CPU")


@pytest.mark.parametrize("op", kernels.OPS)
def test_binding_declares_the_schema_of_the_op(op: str) -> None:
    source = (KERNELS / f"torch_binding/{op}.cpp").read_text()
    assert "TORCH_LIBRARY_IMPL(dsv4_tree," not in source  # would lose against, or replace, the dispatcher in Python
    assert f'TORCH_LIBRARY_IMPL({kernels.CARD_NAMESPACE}, {kernels.CARD_KEY}, m) {{ m.impl("{op}", &{op}); }}' in source
    block = re.search(
        rf"TORCH_LIBRARY_FRAGMENT\({kernels.CARD_NAMESPACE}, m\) \{{\s*m\.def\((.*?)\);\s*\}}", source, re.S
    )
    declared = "".join(ast.literal_eval(part) for part in re.findall(r'"[^"]*"', block[1]))
    module = ast.parse((ROOT / f"dsv4_npu_tree/ops/{op}.py").read_text())
    wanted = [node.value for node in module.body if isinstance(node, ast.Assign) and node.targets[0].id == "SCHEMA"]
    assert declared == ast.literal_eval(wanted[0])
