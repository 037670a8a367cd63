"""Whole rounds on generated scenarios: rows, committed states and every other byte, against prefill and serial decode.

Requests join with prompts around every block boundary, verify random trees, accept a path of any length, sit rounds
out, and leave. A failure is shrunk; it prints the scenario, and names request, round, row, buffer and coordinate.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from .checks import Mismatch
from .conftest import rig_of
from .launch import Shape
from .mutations import MUTATIONS
from .playback import Figures, Playback
from .scenario import Scenario
from .strategies import scenarios

SMALL_BLOCKS, WHOLE_PAGES, WIDE = Shape(), Shape(block_rows=128), Shape(n=16, steps=5)


def generate(shape: Shape, examples: int, start: int, **limits) -> Figures:
    """Play ``examples`` scenarios, the same ones for the same ``start``. A Mismatch has the smallest scenario that
    fails as its ``scenario``."""
    rig, figures, played = rig_of(shape), Figures(), []

    @seed(start)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(scenarios(shape.n, shape.steps, **limits))
    def play(scenario: Scenario) -> None:
        played.append(scenario)
        Playback(rig, figures).play(scenario)

    try:
        play()
    except Mismatch as failed:
        failed.scenario = played[-1]  # hypothesis ends with the smallest one
        raise
    return figures


def check_generated(shape: Shape, examples: int, start: int, **limits) -> None:
    figures = generate(shape, examples, start, **limits)
    print(f"{shape.block_rows} rows a block, {shape.n} nodes: {figures}")
    assert figures.scenarios == examples
    assert figures.worst == 0.0


def test_small_blocks():
    check_generated(SMALL_BLOCKS, 12, start=1)


# fault -> what its message must name; the smallest scenario for it is one request in one round
PLANTED = {
    "siblings compressed": r"request 0, round 0, row \d \(path \[0, .*\]\) sees layer 1, "
    r"c4\[0\] at position or entry 0, column 0: ",
    "no state commit": r"request 0, round 0, accepted \[0\], length 2: state_c4\[layer 1\] at position or entry 1, "
    r"column 0: ",
    "commit one row more": r"round 0, commit: swa\[0\] row \d+ \(of request 0\), column 0 changed from ",
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_shrunk_and_named(fault, monkeypatch):
    plant, _, _ = MUTATIONS[fault]
    rig_of(SMALL_BLOCKS)
    with monkeypatch.context() as patch:
        plant(patch)
        with pytest.raises(Mismatch, match=PLANTED[fault]) as noticed:
            generate(SMALL_BLOCKS, 12, start=1, requests=3, rounds=2, longest=140)
    smallest = noticed.value.scenario
    printed = "\n".join(noticed.value.__notes__)
    print(f"{fault}: {noticed.value}\n{printed}")
    assert len(smallest.requests) == 1 and smallest.rounds == 1 and smallest.requests[0].prefix <= 3
    assert "parents=(-1, 0, 0" in printed and "accepted=0" in printed


def test_whole_pages():
    check_generated(WHOLE_PAGES, 12, start=2)


@pytest.mark.soak
@pytest.mark.parametrize("shape, examples", [(SMALL_BLOCKS, 120), (WHOLE_PAGES, 60), (WIDE, 15)])
def test_soak(shape, examples):
    check_generated(shape, examples, start=3)


@pytest.mark.soak
def test_soak_across_a_c128_page():
    check_generated(SMALL_BLOCKS, 6, start=4, across=True)
