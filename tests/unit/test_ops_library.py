"""The operator namespace: schemas, second imports, and other implementations behind the same schema."""

from __future__ import annotations

import importlib
import sys

import pytest
import torch
from test_tree_build import assert_is, fixture

from dsv4_npu_tree.ops import tree_build as op
from dsv4_npu_tree.ops import tree_verify_greedy as verify_op


def test_schema_and_reimport():
    declared = str(torch.ops.dsv4_tree.tree_build.default._schema)
    assert declared.replace("dsv4_tree::", "") == op.SCHEMA
    declared = str(torch.ops.dsv4_tree.tree_verify_greedy.default._schema)
    assert declared.replace("dsv4_tree::", "") == verify_op.SCHEMA
    for name in [name for name in sys.modules if name.startswith("dsv4_npu_tree.ops")]:
        importlib.reload(sys.modules[name])
    made = fixture([[0, 1, 4]], [100])
    assert_is(made.topology(), made.trees(), 3)
    library = importlib.import_module("dsv4_npu_tree.ops.library")
    with pytest.raises(ValueError, match="already defined"):
        library.define(op.SCHEMA.replace("int topk", "int topK"), op._tree_build)


def test_another_implementation_can_take_over(monkeypatch):
    library = importlib.import_module("dsv4_npu_tree.ops.library")
    made = fixture([[0, 1, 4]], [100])
    expected, calls = made.topology().parent, []

    def spy(*args):
        calls.append(args)
        return op._tree_build(*args)

    library.provide("tree_build", "CPU", spy, name="spy")
    try:
        assert torch.equal(made.topology().parent, expected) and len(calls) == 1
        monkeypatch.setenv(library.SELECTION_VARIABLE, "reference")
        assert torch.equal(made.topology().parent, expected) and len(calls) == 1
        monkeypatch.setenv(library.SELECTION_VARIABLE, "absent")
        with pytest.raises(RuntimeError, match="absent names no implementation"):
            made.topology()
    finally:
        del library._registry().implementations["tree_build", "CPU"]["spy"]


def test_npu_tensors_take_the_same_path():
    """On the key of npu tensors (a card, or the CPU twin of one) the results are those of CPU tensors."""
    if "npu" not in str(torch._C._get_privateuse1_backend_name()) or not getattr(torch, "npu", None):
        pytest.skip("no npu device in this process")
    made = fixture([[0, 2, 4], [1, 4, 5]], [5, 7])
    expected = made.topology()
    outputs = op.tree_build(*(tensor.to("npu") for tensor in made.tensors()), 2, 2, 4, 3)
    assert all(tensor.device.type == "npu" for tensor in outputs)
    assert torch.equal(outputs[4].cpu(), expected.parent) and torch.equal(outputs[7].cpu(), expected.branch_table)
    written = torch.zeros(8, dtype=torch.int32), torch.full((2, 3), -1).int(), torch.zeros(2, dtype=torch.int32)
    written = tuple(tensor.to("npu") for tensor in written)
    same = torch.ones(2, 4, dtype=torch.int64).to("npu")
    verify_op.tree_verify_greedy(*written, same, *outputs[1:4], same)
    assert written[1].cpu().tolist() == [[0, 1, 2], [4, 5, 6]] and written[2].cpu().tolist() == [2, 2]
