"""Logits of every draft row are those of NextN run on the row's own path; with stale histories they are not."""

from __future__ import annotations

import pytest
import torch

from .conftest import rig_of
from .draft import DraftBench
from .draft_paths import PathBench
from .launch import Shape

PREFIXES = (7, 125, 126, 200)


@pytest.fixture
def bench() -> PathBench:
    rig = rig_of(Shape(n=16, steps=5))
    if not hasattr(rig, "draft_bench"):
        rig.draft_bench = DraftBench(rig)
    return PathBench(rig.draft_bench)


def errors_of(bench: PathBench, prefix: int, draw, patch) -> list[tuple[int, float, bool]]:
    """(step, largest logit error, was its beam ever re-selected) of every row of one draft call."""
    rig, model = bench.rig, bench.worker.draft_runner.model_config
    generator = torch.Generator().manual_seed(prefix)
    streams = torch.randn(prefix, model.spec_hidden_size, generator=generator).to(model.dtype)
    tokens = draw(prefix + 1)
    sequence, draft_input, _ = bench.extend(tokens, streams)
    with patch.context() as patches:
        steps = bench.draft(sequence, draft_input, patches)
    assert len(steps.tokens) == rig.shape.steps - 1 and len(steps.tokens[0]) == rig.shape.topk
    found = []
    for step in range(len(steps.tokens)):
        for row in range(rig.shape.topk):
            path = steps.path(step, row)
            read = [int(steps.tokens[i][r]) for i, r in enumerate(path)]
            given = torch.stack([steps.streams[i][r] for i, r in enumerate(path)])
            own, _, logits = bench.extend(tokens + read, torch.cat([streams, given]))
            error = float((logits - steps.logits[step][row]).abs().max())
            found.append((step, error, any(r != row for r in path)))
            rig.release(own)
    rig.release(sequence)
    return found


@pytest.mark.parametrize("prefix", PREFIXES)
def test_draft_rows_are_their_paths(bench, prefix, draw, monkeypatch):
    found = errors_of(bench, prefix, draw, monkeypatch)
    assert max(error for _, error, _ in found) == 0.0, found
    assert any(moved for _, _, moved in found), "no beam was re-selected: the test saw no re-parenting"


def test_stale_histories_are_wrong(bench, draw, monkeypatch):
    """What SGLang's own layout would attend to: rows whose beam moved are wrong, the others right."""
    monkeypatch.setattr(bench.bench.backend, "stale", True)
    found = [row for prefix in PREFIXES for row in errors_of(bench, prefix, draw, monkeypatch)]
    wrong = [error for _, error, _ in found if error > 0]
    print(f"stale histories: {len(wrong)} of {len(found)} rows wrong, largest logit error {max(wrong):.3f}")
    assert all(error == 0.0 for step, error, moved in found if step == 0 or not moved)
    assert len(wrong) > len(found) // 5 and max(wrong) > 0.1
