"""Greedy text with trees is the text without speculation, token by token."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from fleet import NEW_TOKENS, greedy
from identity import accept_length, compare
from prompts import prompt, standard_prompts


@pytest.fixture(scope="module", autouse=True)
def _started(fleet):
    fleet.warm("plain", "tree", "chain")


@pytest.mark.parametrize("prompt", standard_prompts(), ids=lambda p: f"{len(p)} tokens")
def test_alone(prompt, fleet, reference, tally):
    answer = greedy(fleet["tree"], prompt)
    outcome = compare(answer, reference(prompt))
    tally.add("tree, alone", len(prompt), outcome, accept_length(answer))
    assert not outcome.startswith("differs"), outcome


def test_four_in_flight(fleet, reference, tally):
    """Requests of different lengths join and leave a batch of four at different times."""
    prompts = [p for pair in zip(standard_prompts(), reversed(standard_prompts())) for p in pair][:15]
    new_tokens = [NEW_TOKENS - 9 * (number % 3) for number in range(len(prompts))]

    def ask(number):
        if number < 4:
            time.sleep(0.7 * number)
        return greedy(fleet["tree"], prompts[number], new_tokens[number])

    fleet["tree"].flush()
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(ask, range(len(prompts))))
    outcomes = [compare(answer, reference(p)) for answer, p in zip(answers, prompts)]
    for p, answer, outcome in zip(prompts, answers, outcomes):
        tally.add("tree, four in flight", len(p), outcome, accept_length(answer))
    assert not [outcome for outcome in outcomes if outcome.startswith("differs")]


def test_chain_beside_it(fleet, reference, tally):
    """Stock chain speculation, for the table only: its state after a partial acceptance is not always exact."""
    for p in standard_prompts()[::4]:
        answer = greedy(fleet["chain"], p)
        tally.add("chain (stock dsv4), alone", len(p), compare(answer, reference(p)), accept_length(answer))
    fleet.retire("chain")


def test_same_prompt_twice_in_one_batch(fleet, reference, tally):
    p = prompt(130, 9_000)
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda _: greedy(fleet["tree"], p), range(2)))
    outcomes = [compare(answer, reference(p)) for answer in answers]
    for answer, outcome in zip(answers, outcomes):
        tally.add("tree, twins in one batch", len(p), outcome, accept_length(answer))
    assert not [outcome for outcome in outcomes if outcome.startswith("differs")]
