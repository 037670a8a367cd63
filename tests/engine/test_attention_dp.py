"""Attention data parallelism over the twin's hccl: two ranks with unequal batches, one of them idle at times.

SGLang pads the shorter batch of a forward with requests of length 0, and runs idle forwards on a rank without requests.
Every answer is compared with that of the same ranks without speculation.
"""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from demonstration.server import Server
from fleet import Fleet, greedy
from identity import accept_length, compare
from prompts import Prompt, prompt

RANKS, PLAIN_RANKS = "attention ranks", "attention ranks, plain"
VARIANTS = (RANKS, *(f"{RANKS}, {how}" for how in ("own vocabulary", "prefill beside verify", "checked")))
_TROUBLE = re.compile(r"leak|Traceback|Scheduler hit an exception|watchdog", re.IGNORECASE)


@dataclass(frozen=True)
class Ask:
    """A request of ``length`` prompt tokens, sent ``delay`` seconds after the first. rank None: SGLang chooses."""

    length: int
    rank: int | None
    new_tokens: int
    delay: float = 0


CASES = {
    # The other rank is idle all the time.
    "one alone": [Ask(30, 0, 24)],
    "one alone on the other rank": [Ask(31, 1, 12)],
    # Padded verifies, drafts and draft extends on rank 1; requests end one by one, and rank 0 is idle at last.
    "three and one": [Ask(129, 0, 20), Ask(60, 0, 32), Ask(7, 0, 10), Ask(127, 1, 44)],
    # Rank 0 is idle while rank 1 prefills, between two of its verifies, and the other way round.
    "joining": [Ask(126, 0, 40), Ask(140, 1, 12, 0.8), Ask(5, 0, 16, 1.6)],
    "wherever": [Ask(20 + number, None, 10) for number in range(4)],
}
BESIDE_SAMPLED = [Ask(33, 0, 24)]
# Two chunks on one rank beside a decode on the other.
LONG = [Ask(100, 0, 48), Ask(2200, 1, 24, 0.5), Ask(6, 0, 24, 1.0)]


def answers(server: Server, case: list[Ask], **fields: Any) -> list[dict[str, Any]]:
    def ask(wanted: Ask, chosen: Prompt) -> dict[str, Any]:
        time.sleep(wanted.delay)
        rank = {} if wanted.rank is None else {"data_parallel_rank": wanted.rank}
        return greedy(server, chosen, wanted.new_tokens, **rank, **fields)

    # The tokenizer loads with the first prompt, which must not happen in two threads at once.
    prompts = [prompt(wanted.length, 40_000 + 300 * number) for number, wanted in enumerate(case)]
    with ThreadPoolExecutor(len(case)) as pool:
        return list(pool.map(ask, case, prompts))


class Expected:
    """Answers of the ranks without speculation. They are all asked for at once, so that their server can go before the
    next one starts: SGLang's data-parallel controller polls without pause, which takes a core."""

    def __init__(self, fleet: Fleet, cases: list[list[Ask]]):
        logprobs = {"return_logprob": True, "top_logprobs_num": 8}
        self._answers = {id(case): answers(fleet[PLAIN_RANKS], case, **logprobs) for case in cases}
        fleet.retire(PLAIN_RANKS)

    def __call__(self, case: list[Ask]) -> list[dict[str, Any]]:
        return self._answers[id(case)]


@pytest.fixture(scope="module")
def expected(fleet, request):
    mine = [item for item in request.session.items if item.module is request.module]
    long = any(item.get_closest_marker("soak") for item in mine)
    return Expected(fleet, [*CASES.values(), BESIDE_SAMPLED, *([LONG] if long else [])])


def check(server: Server, case: list[Ask], expected: Expected, run: str, tally) -> list[dict[str, Any]]:
    """The answers of ``server``, none with a wrong token, each from the rank that was asked."""
    found = answers(server, case)
    outcomes = [compare(answer, reference) for answer, reference in zip(found, expected(case))]
    for wanted, answer, outcome in zip(case, found, outcomes):
        tally.add(run, wanted.length, outcome, accept_length(answer))
        assert wanted.rank in (None, answer["meta_info"]["dp_rank"])
        assert accept_length(answer) > 1
    assert not [outcome for outcome in outcomes if outcome.startswith("differs")]
    return found


def check_health(server: Server) -> None:
    """Both ranks still answer, all of their slots are accounted for, and nothing went wrong meanwhile."""
    server.flush()  # succeeds on an idle server only; an idle rank counts its slots
    for rank in (0, 1):
        assert greedy(server, prompt(12), 4, data_parallel_rank=rank)["meta_info"]["dp_rank"] == rank
    lines = [line for line in server.log.read_text(errors="replace").splitlines() if "server_args=" not in line]
    assert not [line for line in lines if _TROUBLE.search(line)]


@pytest.mark.parametrize("name", CASES)
def test_text_is_the_text_without_speculation(name, fleet, expected, tally):
    found = check(fleet[RANKS], CASES[name], expected, "two attention ranks", tally)
    if name == "wherever":
        assert {answer["meta_info"]["dp_rank"] for answer in found} == {0, 1}


def test_sampled_on_one_rank_greedy_on_the_other(fleet, expected, tally):
    server, sampling = fleet[RANKS], {"temperature": 0.8, "max_new_tokens": 40, "ignore_eos": True}
    ids = list(prompt(25, 50_000).ids)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(server.generate, ids, sampling_params=sampling, data_parallel_rank=1)
        check(server, BESIDE_SAMPLED, expected, "two attention ranks, beside sampling", tally)
    assert len(other.result()["output_ids"]) == 40


def test_nothing_leaked(fleet):
    check_health(fleet[RANKS])
    fleet.retire(RANKS)


@pytest.mark.soak
@pytest.mark.parametrize("name", VARIANTS)
def test_a_long_prompt_beside_a_decode(name, fleet, expected, tally):
    """Prefill in chunks on one rank; also with a vocabulary that each rank has whole, with forwards in which one rank
    prefills and the other verifies, and with every round checked."""
    for case in (LONG, CASES["three and one"]):
        check(fleet[name], case, expected, name, tally)
    check_health(fleet[name])
    fleet.retire(name)
