"""Tensor parallelism over the twin's hccl: two ranks give the text of one."""

import pytest
from fleet import greedy
from prompts import prompt

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("length", [5, 129, 300])
def test_two_ranks_give_the_text_without_speculation(fleet, reference, length):
    chosen = prompt(length)
    answer = greedy(fleet["two ranks"], chosen)
    assert answer["output_ids"] == reference(chosen)["output_ids"]
    assert answer["meta_info"]["spec_accept_length"] > 1
