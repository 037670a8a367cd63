"""Requests that only the end of the context stops: same tokens and the same end as without speculation.

A round that is verified ahead of the last result, and the draft extend behind it, have rows past the last position.
"""

from __future__ import annotations

import pytest
from identity import accept_length, compare
from prompts import prompt
from traffic import CONTEXT

LAST = CONTEXT - 2  # tokens of a request when SGLang ends it
PROMPT = LAST - 40


@pytest.fixture(scope="module")
def expected(fleet):
    fleet.warm("plain", "tree", "deep tree")
    asked = {"sampling_params": {"ignore_eos": True}, "return_logprob": True, "top_logprobs_num": 8}
    return fleet["plain"].generate(list(prompt(PROMPT, 40_000).ids), **asked)


@pytest.mark.parametrize("name", ["tree", "deep tree"])
@pytest.mark.parametrize("ahead", [0, 11, 20])
def test_until_the_context_ends(name, ahead, fleet, expected, tally):
    """ahead: how far into the same text the request starts, so that its last rounds lie differently."""
    given, rest = expected["output_ids"][:ahead], expected["output_ids"][ahead:]
    tops = expected["meta_info"]["output_top_logprobs"][ahead:]
    answer = fleet[name].generate([*prompt(PROMPT, 40_000).ids, *given], sampling_params={"ignore_eos": True})
    outcome = compare(answer, {"output_ids": rest, "meta_info": {"output_top_logprobs": tops}})
    tally.add(f"{name}, to the end of the context", PROMPT + ahead, outcome, accept_length(answer))
    assert not outcome.startswith("differs"), outcome
    assert len(answer["output_ids"]) == len(rest) == LAST - PROMPT - ahead
    assert answer["meta_info"]["finish_reason"] == {"type": "length", "length": len(rest)}
    assert fleet[name].alive()


def test_done_with_the_deep_tree(fleet):
    fleet.retire("deep tree")
