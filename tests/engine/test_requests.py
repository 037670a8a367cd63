"""Requests that are not greedy: served alone and beside greedy ones, or refused with a reason."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from demonstration.server import Refusal
from fleet import greedy
from identity import compare
from prompts import prompt

SAMPLED = [
    {"temperature": 0.8},
    {"temperature": 0.8, "top_p": 0.9},
    {"temperature": 1.2, "top_k": 20},
    {"temperature": 0.7, "top_p": 0.8, "top_k": 50},
]
PENALISED = [{"frequency_penalty": 0.5}, {"presence_penalty": 0.5}, {"repetition_penalty": 1.1}, {"min_new_tokens": 4}]
# sampling parameters, fields of the request, word of the reason
REFUSED = [
    ({"min_p": 0.1}, {}, "min_p"),
    ({"temperature": 0.9, "min_p": 0.5}, {}, "min_p"),
    ({}, {"return_routed_experts": True}, "return_routed_experts"),
    ({"json_schema": '{"type": "object"}'}, {}, "json_schema"),
    ({"regex": "[a-z]+"}, {}, "regex"),
    ({}, {"input_ids": [5, 99999999]}, "99999999"),
]


@pytest.fixture(scope="module", autouse=True)
def _started(fleet):
    fleet.warm("plain", "tree")


def sampled(server, sampling, new_tokens=32, **fields):
    parameters = {"max_new_tokens": new_tokens, "ignore_eos": True, **sampling}
    ids = fields.pop("input_ids", None) or list(prompt(40, 30_000).ids)
    return server.generate(ids, sampling_params=parameters, **fields)


@pytest.mark.parametrize("sampling", [*SAMPLED, *PENALISED], ids=str)
def test_sampled_alone(sampling, fleet):
    answer = sampled(fleet["tree"], sampling)
    assert len(answer["output_ids"]) == 32
    assert answer["meta_info"]["spec_verify_ct"] <= 31


def test_sampled_and_greedy_in_one_batch(fleet, reference, tally):
    prompts = [prompt(length, 31_000 + 100 * length) for length in (5, 31, 64)]
    with ThreadPoolExecutor(6) as pool:
        others = [pool.submit(sampled, fleet["tree"], sampling, 48) for sampling in SAMPLED[:3]]
        answers = list(pool.map(lambda p: greedy(fleet["tree"], p, 48), prompts))
    assert all(len(other.result()["output_ids"]) == 48 for other in others)
    outcomes = [compare(answer, reference(p)) for answer, p in zip(answers, prompts)]
    for p, answer, outcome in zip(prompts, answers, outcomes):
        tally.add("tree, beside sampled ones", len(p), outcome, answer["meta_info"]["spec_accept_length"])
    assert not [outcome for outcome in outcomes if outcome.startswith("differs")]


@pytest.mark.parametrize("sampling, fields, reason", REFUSED)
def test_refused_with_its_reason(sampling, fields, reason, fleet):
    with pytest.raises(Refusal) as refusal:
        sampled(fleet["tree"], sampling, **fields)
    assert refusal.value.status == 400
    assert reason in refusal.value.reason


def test_server_answers_after_refusals(fleet, reference):
    """A refused request beside one in flight leaves it, and the server, alone."""
    p = prompt(20, 32_000)
    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(greedy, fleet["tree"], p, 48)
        with pytest.raises(Refusal):
            sampled(fleet["tree"], {"min_p": 0.2})
        answer = running.result()
    assert not compare(answer, reference(p)).startswith("differs")
    assert fleet["tree"].alive()
