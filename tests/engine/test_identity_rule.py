"""The rule that excuses a difference: bf16 logits that tie, and nothing else."""

import pytest
import torch
from identity import first_difference, is_tie, logit_step


def logprobs(logits):
    values = torch.tensor(logits).to(torch.bfloat16).float()
    return torch.log_softmax(values, 0).sort(descending=True).values.tolist()


@pytest.mark.parametrize("top, step", [(9.3, 2**-4), (4.7, 2**-5), (2.3, 2**-6), (19.0, 2**-3)])
def test_step_is_the_spacing_of_the_top_logits(top, step):
    torch.manual_seed(0)
    below = (top - torch.rand(7) * top * 0.1).tolist()
    assert logit_step(logprobs([top, *below])[:8]) == step


def test_exact_tie_and_one_step_are_ties():
    others = [8.0625, 8.125, 8.3125, 8.4375, 8.5]
    assert is_tie(logprobs([9.25, 9.25, *others]))
    assert is_tie(logprobs([9.3125, 9.25, *others]))


def test_two_steps_are_a_difference():
    assert not is_tie(logprobs([9.375, 9.25, 8.0625, 8.125, 8.3125, 8.4375]))


def test_too_few_logprobs_are_refused():
    with pytest.raises(ValueError, match="five or more"):
        is_tie([-0.1, -0.2])


@pytest.mark.parametrize(
    "answer, reference, index",
    [([1, 2], [1, 2], None), ([1, 3], [1, 2], 1), ([1], [1, 2], 1), ([], [], None)],
)
def test_first_difference(answer, reference, index):
    assert first_difference(answer, reference) == index
