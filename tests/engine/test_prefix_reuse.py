"""Prompts longer than 2048 tokens: in chunks, and again with the radix cache (it keeps multiples of 2048 tokens)."""

from __future__ import annotations

import pytest
from fleet import greedy
from identity import accept_length, compare
from prompts import Prompt, prompt

HIT = 2048
NEW = 64


def variants() -> list[Prompt]:
    """Two prompts that part shortly after 2048 tokens (EAGLE's radix keys are pairs of tokens: 2049 must agree)."""
    base = prompt(2130, 12_000)
    return [base, Prompt("2053+77", base.ids[:2053] + prompt(77, 20_000).ids)]


@pytest.fixture(scope="module", autouse=True)
def _started(fleet):
    fleet.warm("plain", "tree", "small chunks")


@pytest.mark.parametrize("name", ["tree", "small chunks"])
def test_radix_hit(name, fleet, reference, tally):
    """``small chunks`` prefills 384 tokens at a time: 2048 is no multiple, so no chunk ends where the hit does."""
    server = fleet[name]
    server.flush()
    first, second = variants()
    asked = [(first, 0), (first, HIT), (second, HIT)]
    for p, cached in asked:
        answer = greedy(server, p, NEW)
        outcome = compare(answer, reference(p))
        tally.add(f"{name}, {'radix hit' if cached else 'no hit'}", len(p), outcome, accept_length(answer))
        assert answer["meta_info"]["cached_tokens"] == cached
        assert not outcome.startswith("differs"), f"{p.name}, {cached} cached: {outcome}"


@pytest.mark.parametrize("length", [383, 384, 385, 650, 900])
def test_chunked_prefill(length, fleet, reference, tally):
    p = prompt(length, 25_000)
    answer = greedy(fleet["small chunks"], p, NEW)
    outcome = compare(answer, reference(p))
    tally.add("small chunks, chunked prefill", length, outcome, accept_length(answer))
    assert not outcome.startswith("differs"), outcome


def test_done_with_small_chunks(fleet):
    assert fleet["small chunks"].alive()
    fleet.retire("small chunks")
