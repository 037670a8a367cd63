"""DSV4_TREE_CHECK in a server: silent on sound rounds; a planted fault ends its request with an error, no other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from demonstration.server import ServerError
from fleet import greedy
from identity import compare
from prompts import prompt

PLANT_AT = 150  # tokens, see fleet.SERVERS["planted fault"]


@pytest.fixture(scope="module", autouse=True)
def _started(fleet):
    fleet.warm("plain", "checked", "planted fault")


def test_checked_text_is_the_same(fleet, reference, tally):
    """Four in flight, every round checked."""
    prompts = [prompt(length, 50_000 + 100 * length) for length in (3, 31, 126, 255)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda p: greedy(fleet["checked"], p), prompts))
    outcomes = [compare(answer, reference(p)) for answer, p in zip(answers, prompts)]
    for p, answer, outcome in zip(prompts, answers, outcomes):
        tally.add("tree, every round checked", len(p), outcome, answer["meta_info"]["spec_accept_length"])
    assert not [outcome for outcome in outcomes if outcome.startswith("differs")]
    assert "dsv4_tree check:" not in fleet["checked"].log.read_text(errors="replace")


def test_a_fault_ends_its_request_only(fleet, reference):
    """The long request goes wrong beside a short one: the long one is answered with the violation, the short one with
    its text, and the server goes on."""
    server = fleet["planted fault"]
    long, short = prompt(PLANT_AT + 20, 52_000), prompt(20, 53_000)
    with ThreadPoolExecutor(2) as pool:
        failed = pool.submit(greedy, server, long)
        answer = greedy(server, short)
        with pytest.raises(ServerError, match="dsv4_tree check") as error:
            failed.result()
    for part in ("HTTP 500", "row ", "visibility", "expected node", "found node"):
        assert part in str(error.value), error.value
    assert not compare(answer, reference(short)).startswith("differs")
    assert not compare(greedy(server, short), reference(short)).startswith("differs")


def test_nothing_wrong_is_streamed(fleet, reference):
    """A request that grows into the fault: the tokens before it are those of no speculation, the stream ends with the
    error, and not one token of the faulty round comes."""
    server, short = fleet["planted fault"], prompt(PLANT_AT - 20, 54_000)
    parts = list(server.stream(list(short.ids), sampling_params={"max_new_tokens": 64, "ignore_eos": True}))
    ids, finish = parts[-1]["output_ids"], parts[-1]["meta_info"]["finish_reason"]
    assert finish["type"] == "abort" and "visibility" in finish["message"] and finish["status_code"] == 500
    assert 15 <= len(ids) <= 25
    assert ids == reference(short)["output_ids"][: len(ids)]


def test_what_a_fault_leaves_is_not_cached(fleet):
    """The same prompt again meets the fault again instead of a prefix hit on rows of a faulty round."""
    server = fleet["planted fault"]
    for _ in range(2):
        with pytest.raises(ServerError, match="dsv4_tree check"):
            greedy(server, prompt(PLANT_AT + 30, 55_000))
