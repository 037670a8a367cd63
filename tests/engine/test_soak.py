"""A server with little memory under a stream of requests of every kind: no wrong token, no crash, nothing leaked."""

from __future__ import annotations

import json
import time

import pytest
from evidence import Evidence, metric
from soak import Soak
from traffic import Traffic

ROUNDS = 1000


@pytest.fixture(scope="module")
def servers(fleet):
    fleet.warm("small pools", "plain")
    yield fleet["small pools"], fleet["plain"]
    fleet.retire("small pools")


def idle(server) -> None:
    """Wait until the server has nothing left to do, those that hung up included."""
    deadline = time.monotonic() + 120
    while metric(server, "num_running_reqs") + metric(server, "num_queue_reqs") > 0:
        assert time.monotonic() < deadline, "requests are left after every client has gone"
        time.sleep(0.5)


def ledger(log) -> dict:
    """The last count of the pools."""
    line = [line for line in log.read_text(errors="replace").splitlines() if "ledger: " in line][-1]
    return json.loads(line.split("ledger: ", 1)[1])


def check_conserved(count: dict) -> None:
    """Every page and request row is free, once, and nothing refers to a page."""
    for kind in ("full", "swa", "c128", "requests"):
        free, different, every = count[kind]
        assert free == different == every, f"{kind}: {free} free, {different} different ones, of {every}"
    for kind in ("c128 references", "sidecar pages", "swa slots mapped"):
        assert count[kind] == 0, f"{count[kind]} {kind} left"
    assert count["cached tokens"] == [0, 0]
    assert all(rows > 0 for rows in count["overwritten"].values()), "freed pages were not overwritten"


def check(soak: Soak, *, ties: float) -> Evidence:
    """What holds for a run of any length. ties: largest share of answers that may part at a tie."""
    idle(soak.server)
    retracted = metric(soak.server, "num_retracted_requests_total")
    soak.server.flush()
    evidence, count = Evidence.of_log(soak.server.log), ledger(soak.server.log)
    print(*soak.kinds(), sep="\n")
    print(
        f"{len(evidence.rounds)} rounds, {sum(v.meta.get('spec_verify_ct', 0) for v in soak.verdicts)} verified trees, "
        f"at most {max(running for running, _, _ in evidence.rounds)} at once; {retracted:.0f} retractions, "
        f"up to {evidence.swa_evicted} without window rows, "
        f"{sum(v.meta.get('cached_tokens', 0) for v in soak.verdicts)} tokens from the cache"
    )
    print(count)
    check_conserved(count)
    assert not [v.outcome for v in soak.verdicts if v.outcome.startswith("differs")]
    compared = [v for v in soak.verdicts if v.outcome != "not compared"]
    parted = [v for v in compared if v.outcome.startswith("tie")]
    assert len(parted) <= ties * len(compared), [v.outcome for v in parted]
    assert evidence.trouble == []
    assert evidence.retracted == retracted > 0
    assert any(v.meta.get("num_retractions") and v.outcome == "same" for v in soak.verdicts)
    assert any(v.meta.get("cached_tokens") and v.outcome == "same" for v in soak.verdicts)
    assert count["evicted"]["full"] + count["evicted"]["swa"] > 0
    ended = {
        "max_new_tokens": lambda finish: finish.get("type") == "length",
        "a stop string": lambda finish: isinstance(finish.get("matched"), str),
        "a stop token": lambda finish: isinstance(finish.get("matched"), int),
    }
    for what, by in ended.items():
        inside = [v for v in soak.verdicts if v.outcome == "same" and v.cut_short and by(v.finish)]
        assert inside, f"nothing was ended by {what} inside an accepted path"
    assert any(v.finish.get("type") == "abort" for v in soak.verdicts)
    assert any(v.ask.ending == "hang up" for v in soak.verdicts)
    return evidence


def test_short_soak(servers, tally):
    soak, traffic = Soak(*servers, "short"), Traffic(seed=1, bases=1)
    soak.server.flush()
    soak.wave([*traffic.shared(1), *traffic.mixed(24)])
    soak.wave([*traffic.shared(2), *traffic.mixed(12)])
    time.sleep(2)  # nothing to do: the scheduler checks its memory
    soak.wave(traffic.crowd(15))
    soak.tally(tally, "small pools, short soak")
    check(soak, ties=0.05)


@pytest.mark.soak
def test_soak(servers, tally):
    """Until 1000 rounds have run. DSV4_TREE_CHECK=1 in the environment reaches the server."""
    soak, traffic = Soak(*servers, "soak"), Traffic(seed=2)
    soak.server.flush()
    soak.wave(traffic.to_the_limit())
    while len(Evidence.of_log(soak.server.log).rounds) < ROUNDS:
        soak.wave(traffic.mixed(24))
        soak.wave(traffic.crowd(18))
        time.sleep(2)  # nothing to do: the scheduler checks its memory
        soak.wave([*traffic.shared(5), *traffic.long(2), *traffic.mixed(12)])
        soak.wave([*traffic.shared(2), *traffic.mixed(1)])
    soak.wave(traffic.to_the_limit())
    soak.tally(tally, "small pools, soak")
    evidence = check(soak, ties=0.02)
    assert evidence.swa_evicted > 4096
    limits = [v for v in soak.verdicts if v.ask.kind == "context limit"]
    assert all(len(v.ask.ids) + len(v.answer["output_ids"]) == 8190 for v in limits)
