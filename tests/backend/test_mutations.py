"""Each planted fault is noticed by a named check, and the checks pass without it."""

from __future__ import annotations

import pytest

from .checks import Mismatch, check_state, serial_states
from .conftest import rig_of
from .draft import DraftBench
from .launch import Shape
from .mutations import MUTATIONS
from .snapshot import live_state
from .test_bystanders import FORKED, PATHS, check_bytes, check_poisoned, check_scrambled
from .test_draft import check_draft
from .test_rows import check_round

PREFIX = 126  # the tree closes a C4 and a C128 entry at depth 1


def check_acceptance(rig, path: list[int], draw) -> None:
    """One round, ``path`` accepted: the state is that of serial decode."""
    prompt, tokens = draw(PREFIX), draw(rig.shape.n)
    (sequence,), _ = rig.prefill([prompt])
    rig.commit(rig.verify([sequence], [FORKED], [tokens]), [path])
    states, _ = serial_states(rig, prompt, [tokens[v] for v in path])
    check_state(live_state(rig, sequence), states[-1], f"accepted {path}")
    rig.release(sequence)


def _draft(rig, draw, monkeypatch) -> None:
    if not hasattr(rig, "draft_bench"):
        rig.draft_bench = DraftBench(rig)
    for seed in range(3):
        _, _, sequences = check_draft(rig.draft_bench, [PREFIX], draw, seed, monkeypatch)
        rig.release(*sequences)


CHECKS = {
    "rows": lambda rig, draw, _: check_round(rig, [PREFIX], [FORKED], draw),
    "poison": lambda rig, draw, _: check_poisoned(rig, PREFIX, FORKED, [0, 2, 5, 7], draw),
    # 63 entries of which 32 are selected: below that the indexer's scores choose nothing
    "selection": lambda rig, draw, _: check_poisoned(rig, 254, FORKED, [0, 2, 5, 7], draw),
    "state": lambda rig, draw, _: check_acceptance(rig, [0, 2, 5, 7], draw),
    "partial": lambda rig, draw, _: check_acceptance(rig, [0], draw),
    "bytes": lambda rig, draw, _: check_bytes(rig, [PREFIX, 15, 61], list(PATHS), draw),
    "scramble": lambda rig, draw, _: check_scrambled(rig, PREFIX, [0, 2, 5, 7], draw),
    "draft": _draft,
}


def _rig(check: str):
    return rig_of(Shape(n=16, steps=5)) if check == "draft" else rig_of(Shape())


@pytest.mark.parametrize("check", CHECKS)
def test_checks_pass_without_a_fault(check, draw, monkeypatch):
    CHECKS[check](_rig(check), draw, monkeypatch)


@pytest.mark.parametrize("name", MUTATIONS)
def test_fault_is_noticed(name, draw, monkeypatch):
    plant, check, message = MUTATIONS[name]
    rig = _rig(check)
    if check == "draft":
        _draft(rig, draw, monkeypatch)
    expected = RuntimeError if name == "table entry -1" else Mismatch
    with monkeypatch.context() as patch:
        plant(patch)
        with pytest.raises(expected, match=message) as noticed:
            CHECKS[check](rig, draw, monkeypatch)
    print(f"{name}: {noticed.value}")
