"""Under overlap scheduling the host's copy of the lengths can be a round ahead: it sets widths, never positions."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from .checks import check_rows, check_state, serial_states, truths
from .conftest import rig_of
from .draft import DraftBench
from .launch import Shape
from .snapshot import live_state
from .test_bystanders import FORKED
from .test_draft import check_draft


@contextmanager
def host_ahead(rig):
    """Batches of the rig get a host copy of the lengths that is one full round ahead of the device's."""
    made = rig._speculating

    def speculating(sequences):
        batch = made(sequences)
        batch.seq_lens_cpu = batch.seq_lens_cpu + rig.shape.steps + 1
        batch.seq_lens_sum = int(batch.seq_lens_cpu.sum())
        return batch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rig, "_speculating", speculating)
        yield


@pytest.mark.parametrize("prefix", [13, 126])
def test_verify_goes_by_the_lengths_on_the_device(rig, prefix, draw):
    prompt, tokens, path = draw(prefix), draw(rig.shape.n), [0, 2, 5, 7]
    (sequence,), _ = rig.prefill([prompt])
    with host_ahead(rig):
        done = rig.verify([sequence], [FORKED], [tokens])
    what = f"prefix {prefix}, host copy ahead"
    check_rows(done.logits[0], truths(rig, sequence, FORKED, tokens), what)
    rig.commit(done, [path])
    states, _ = serial_states(rig, prompt, [tokens[v] for v in path])
    check_state(live_state(rig, sequence), states[-1], what)
    rig.release(sequence)


def test_draft_goes_by_the_lengths_on_the_device(draw, monkeypatch):
    rig = rig_of(Shape(n=16, steps=5))
    if not hasattr(rig, "draft_bench"):
        rig.draft_bench = DraftBench(rig)
    with host_ahead(rig):
        _, _, sequences = check_draft(rig.draft_bench, [126, 30], draw, 1, monkeypatch)
    assert rig.draft_bench.backend.plan.prefix.tolist() == [126, 30]  # the recorder takes it from the plan
    rig.release(*sequences)
