"""Verify rows against another process that has stock `dsv4` only: no plugin, no tree, each path prefilled alone."""

from __future__ import annotations

import os
import subprocess
import sys

import torch

from .checks import check_rows
from .conftest import rig_of
from .launch import ROOT, Shape
from .trees import scattered

PREFIXES = (3, 15, 30, 126, 128, 254)


def test_rows_equal_a_stock_process(draw, tmp_path):
    rig = rig_of(Shape())
    rounds, prompts = [], []
    for prefix in PREFIXES:
        tree, tokens = scattered(rig.shape.n, rig.shape.steps, seed=prefix), draw(rig.shape.n)
        (sequence,), _ = rig.prefill([draw(prefix)])
        done = rig.verify([sequence], [tree], [tokens])
        rounds.append((prefix, tree, done.logits[0]))
        prompts += [sequence.tokens + [tokens[v] for v in tree.path(node)] for node in tree.live]
        rig.release(sequence)
    asked, answered = tmp_path / "prompts.pt", tmp_path / "logits.pt"
    torch.save(prompts, asked)
    subprocess.run(
        [sys.executable, "-m", "tests.backend.stock", str(asked), str(answered)],
        cwd=ROOT,
        env={**os.environ, "SGLANG_PLUGINS": "__none__", "NPU_TWIN_RELAXED_DIMS": "1"},
        check=True,
        timeout=300,
    )
    rows = iter(torch.load(answered))
    worst = 0.0
    for prefix, tree, logits in rounds:
        truth = {node: next(rows) for node in tree.live}
        worst = max(worst, check_rows(logits, truth, f"prefix {prefix}"))
    print(f"{len(prompts)} rows against a stock process: largest error {worst:.3g}")
    assert next(rows, None) is None
