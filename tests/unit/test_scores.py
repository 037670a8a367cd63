"""DSV4_TREE_SCORE_EXPONENT: values, edges, what it refuses, and where SGLang's scores take it up."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from sglang.srt.speculative import spec_utils

from dsv4_npu_tree import config
from dsv4_npu_tree.hooks.speculative.round import draft_round
from dsv4_npu_tree.hooks.speculative.spec_utils import _select_top_k_tokens
from dsv4_npu_tree.tree.scores import CEILING, sharpen

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))

from acceptance_bench import scoring  # noqa: E402


def test_values():
    found = sharpen(torch.tensor([[0.4, 0.2, 0.1, 0.1], [0.5, 0.5, 0.0, 0.0]]), 2.0)
    torch.testing.assert_close(found, torch.tensor([[16.0, 4, 1, 1], [11, 11, 0, 0]]) / 22)


def test_equal_to_what_the_bench_measures():
    probability = torch.rand(50, 3, 4).sort(-1, descending=True).values * 0.5
    torch.testing.assert_close(sharpen(probability, 2.2), scoring.sharpened(2.2)(probability, 1))


def test_a_flat_draft_over_a_large_vocabulary_does_not_underflow():
    assert sharpen(torch.full((1, 4), 1 / 129280), 16.0).tolist() == [[0.25] * 4]


def test_a_sure_draft_keeps_its_other_candidates():
    found = sharpen(torch.tensor([[0.999, 1e-5, 1e-9, 0.0]]), 16.0)
    assert (found[0, 1:3] > 5e-7).all() and found[0, 3] == 0 and (found < found[0, 0]).sum() == 3


def test_edges():
    assert sharpen(torch.zeros(2, 4), 2.2).tolist() == [[0.0] * 4] * 2  # a padded row
    assert sharpen(torch.zeros(0, 4), 2.2).shape == (0, 4)  # an idle rank
    assert sharpen(torch.tensor([[1.0, 0.0]]), 2.2)[0, 0] == torch.tensor(CEILING)  # no child equals its parent


def test_the_order_of_siblings_stays():
    probability = torch.rand(200, 8).sort(-1, descending=True).values
    found = sharpen(probability, 3.0)
    assert (found[:, 1:] <= found[:, :-1]).all()


class Beams:
    """Takes note of who goes on with whom."""

    def __init__(self):
        self.parents: list[torch.Tensor] = []

    def reparent(self, step, parent):
        self.parents.append(parent)


@pytest.mark.parametrize(
    ("exponent", "parents", "tokens"),
    [
        (None, [0, 0], [10, 11]),  # 0.6 x (0.5, 0.45) against 0.5 x (0.25, 0.01)
        (3.0, [1, 0], [12, 10]),  # 0.6 x (0.58, 0.42) against 0.5 x (0.9999, 0)
    ],
)
def test_beams_are_chosen_by_sharpened_scores(exponent, parents, tokens):
    beams = Beams()
    with draft_round(beams, 3, exponent=exponent):
        probability, token = torch.tensor([[0.5, 0.45], [0.25, 0.01]]), torch.tensor([[10, 11], [12, 13]])
        hidden, scores = torch.zeros(2, 4), torch.tensor([[0.6, 0.5]])
        result = _select_top_k_tokens(spec_utils.select_top_k_tokens, 1, probability, token, hidden, scores, 2)
    assert beams.parents[0].tolist() == [parents] and result[0].tolist() == tokens


def test_a_chain_stays_one():
    """A chain is the first of two beams: the other one's paths score 0."""
    with draft_round(Beams(), 3, chain=True, exponent=3.0):
        probability, token = torch.tensor([[0.3, 0.25], [0.9, 0.05]]), torch.tensor([[10, 11], [12, 13]])
        scores = torch.tensor([[0.4, 0.0]])
        hidden, upstream = torch.zeros(2, 4), spec_utils.select_top_k_tokens
        result = _select_top_k_tokens(upstream, 1, probability, token, hidden, scores, 2)
    assert result[0][0] == 10 and (result[3][0].flatten() > 0).tolist() == [True, False, False, False]


def test_settings(monkeypatch):
    assert config.score_exponent() is None
    monkeypatch.setenv("DSV4_TREE_SCORE_EXPONENT", "2.2")
    assert config.score_exponent() == 2.2
    for text, reason in (("0", "above 0"), ("-1", "above 0"), ("17", "up to 16"), ("nan", "above 0"), ("x", "not a")):
        monkeypatch.setenv("DSV4_TREE_SCORE_EXPONENT", text)
        with pytest.raises(ValueError, match=f"DSV4_TREE_SCORE_EXPONENT.*{reason}"):
            config.score_exponent()
