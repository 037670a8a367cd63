"""Tensor parallelism over the twin's hccl. Ranks add bf16 partial sums, so two ranks are compared with two ranks."""

import pytest
from fleet import greedy
from prompts import prompt

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("length", [5, 129, 300])
def test_two_ranks_give_the_text_without_speculation(fleet, length):
    chosen = prompt(length)
    fleet.warm("two ranks", "two ranks, plain")
    answer = greedy(fleet["two ranks"], chosen)
    assert answer["output_ids"] == greedy(fleet["two ranks, plain"], chosen)["output_ids"]
    assert answer["meta_info"]["spec_accept_length"] > 1
