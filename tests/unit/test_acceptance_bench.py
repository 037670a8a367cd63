"""What `tools/bench_acceptance` makes of replayed rounds: walks, intervals, fits, the profile, rows and plot."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import torch

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))

from acceptance_bench import scoring  # noqa: E402
from acceptance_bench.attention import use_row_attention  # noqa: E402
from acceptance_bench.drafting import candidates, roots  # noqa: E402
from acceptance_bench.fitting import SCORINGS, fit  # noqa: E402
from acceptance_bench.intervals import Bootstrap  # noqa: E402
from acceptance_bench.plot import svg  # noqa: E402
from acceptance_bench.policies import Policy, Shape, run  # noqa: E402
from acceptance_bench.profile import Observations, observe, profile  # noqa: E402
from acceptance_bench.reliability import reliability  # noqa: E402
from acceptance_bench.results import best, rows  # noqa: E402
from acceptance_bench.table import table  # noqa: E402
from acceptance_bench.text import Text, continued, prompts, read  # noqa: E402
from acceptance_bench.walk import walk  # noqa: E402

from tools.tiny_checkpoint import MODEL_DIR, hf_model, nextn_model  # noqa: E402
from tools.tiny_checkpoint.acceptance import acceptance  # noqa: E402
from tools.tiny_checkpoint.nextn import NextN  # noqa: E402

PROMPT, TOKENS, STEPS = 48, 10, 4


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def tiny() -> tuple[NextN, Text]:
    """The committed pair on greedy text."""
    target = hf_model(MODEL_DIR)
    ids = continued(target, prompts("measure", 6, PROMPT), TOKENS + STEPS + 1)
    return use_row_attention(nextn_model(MODEL_DIR, target)), read(target, ids, PROMPT)


def observations(generator: torch.Generator, count: int = 4000, ranks: int = 4) -> Observations:
    """Candidates that are right as often as a sharper softmax (exponent 2) says."""
    probability = torch.distributions.Dirichlet(torch.full((ranks,), 0.7)).sample((2, count))
    probability = probability.sort(-1, descending=True).values
    sharp = probability.double().pow(2)
    pick = torch.multinomial(sharp.flatten(0, 1), 1, generator=generator).view(2, count, 1)
    return Observations(probability, torch.arange(ranks) == pick)


def test_prompts_of_the_halves_are_different_text():
    taken = [prompts(half, 100, 64) for half in ("fit", "measure")]
    assert len({tuple(row[1:].tolist()) for part in taken for row in part}) == 200
    assert all((part[:, 0] == 0).all() for part in taken)
    with pytest.raises(ValueError, match="has only"):
        prompts("fit", 10_000, 64)


def test_walk_takes_what_each_round_accepts():
    found = walk(torch.tensor([[2, 9, 9, 0, 1, 9], [0, 0, 0, 0, 0, 5]]))
    assert found.visited.tolist() == [[True, False, False, True, True, False], [True] * 6]
    assert found.forwards.tolist() == [3, 6]
    assert found.tokens.tolist() == [6, 11]
    assert found.lengths.tolist() == [2, 0, 1, 0, 0, 0, 0, 0, 5]
    assert found.per_forward() == pytest.approx(17 / 9)


def test_paired_interval_is_narrower_than_the_two_it_compares():
    generator = torch.Generator().manual_seed(0)
    ease = torch.rand(80, 1, generator=generator) * 4
    accepted = (ease + torch.rand(80, 40, generator=generator)).long()
    more = accepted + (torch.rand(80, 40, generator=generator) < 0.1)
    low, high = walk(accepted), walk(more)
    bootstrap = Bootstrap(80)
    wide, narrow = bootstrap.interval(low), bootstrap.difference(high, low)
    assert wide[0] < low.per_forward() < wide[1]
    assert 0 < narrow[0] < high.per_forward() - low.per_forward() < narrow[1]
    assert narrow[1] - narrow[0] < 0.5 * (wide[1] - wide[0])


def test_fit_recovers_the_exponent():
    seen = observations(torch.Generator().manual_seed(0))
    found = fit("sharpened", seen, 4)
    assert found.constants["exponent"] == pytest.approx(2.0, abs=0.15)
    losses = {name: fit(name, seen, 4).loss(seen) for name in SCORINGS}
    assert losses["sharpened"] < losses["logistic by rank"] < losses["logistic"] < losses["as drafted"]


@pytest.mark.parametrize("name", SCORINGS)
def test_a_score_keeps_children_below_their_parent(name):
    seen = observations(torch.Generator().manual_seed(1), count=500)
    found = fit(name, seen, 3)
    extreme = torch.tensor([[1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3], [1.0, 1e-30, 0.0]]).expand(2, 3, 3)
    for probability in (seen.probability[..., :3], extreme):
        for depth in (1, 2, 9):
            value = found.score(probability, depth)
            assert value.shape == probability.shape
            assert value.isfinite().all() and (value >= 0).all()
            assert name == "as drafted" or (value < 1).all()
            if name not in ("logistic by rank",):  # its ranks are fitted one by one
                assert (value.diff(dim=-1) <= 1e-6).all()


def test_a_power_chooses_the_same_paths(tiny):
    """A product of powers is the power of the product: it cannot change an order."""
    draft, text = tiny
    where = roots(text, STEPS)
    found = [candidates(draft, text, where, 3, STEPS, score) for score in (scoring.as_drafted, scoring.power(0.6))]
    assert torch.equal(found[0].token, found[1].token)
    assert torch.equal(found[0].score.topk(7).indices, found[1].score.topk(7).indices)


def test_chain_is_that_of_the_checkpoint_figures(tiny):
    draft, text = tiny
    shape = Shape(1, STEPS, STEPS + 1)
    found = candidates(draft, text, roots(text, STEPS), 1, STEPS, scoring.as_drafted)
    right = found.right(text).long().cumprod(-1).bool()
    draft.config._attn_implementation = "eager"
    try:
        stated = acceptance(draft, draft.target, text.ids, PROMPT, depth=STEPS)
    finally:
        use_row_attention(draft)
    assert right.double().mean((0, 1)).tolist() == pytest.approx(stated.chain)
    walked = run(draft, [text], Policy(1, STEPS), [shape], TOKENS)[shape]
    assert torch.equal(walked.accepted, right[:, :TOKENS].sum(-1))


def test_profile_counts_every_candidate(tiny):
    draft, text = tiny
    seen = observe(draft, text, depths=3, ranks=4)
    found = profile(seen)
    count, right = torch.tensor(found["count"]), torch.tensor(found["right"])
    assert count.shape == (3, 4, len(found["probability_edges"]) - 1)
    assert (count.sum(-1) == found["positions"]).all()
    assert torch.equal(right.sum(-1), seen.right.sum(1))
    assert 0.5 < found["by_rank"][0] < 0.9 and found["by_rank"][1] < 0.3
    some = count[0, 0].argmax()
    low, high = found["probability_edges"][some], found["probability_edges"][some + 1]
    assert low <= found["mean"][0][0][some] <= high
    empty = (count == 0).nonzero()[0].tolist()
    assert found["mean"][empty[0]][empty[1]][empty[2]] is None


def test_reliability_counts_every_candidate(tiny):
    draft, text = tiny
    bins = reliability(draft, [text], Policy(3, 2), TOKENS)
    assert sum(b.count for b in bins if b.depth == 1) == len(text) * TOKENS * 3
    assert sum(b.count for b in bins if b.depth == 2) == len(text) * TOKENS * 9
    assert all(0 <= b.right <= 1 and 0 <= b.score <= 1 for b in bins)


def test_rows_compare_with_chains_of_equal_rows_and_of_equal_steps(tiny):
    draft, text = tiny
    nodes, tree = (4, 6), fit("sharpened", observations(torch.Generator().manual_seed(0)), 2)
    chains = [Shape(1, n - 1, n) for n in range(2, 7)]
    wide = Policy(2, 3, "sharpened", tree.score)
    measured = {(Policy(1, 5), s): w for s, w in run(draft, [text] * 2, Policy(1, 5), chains, TOKENS).items()}
    shapes = [Shape(2, 3, 4), Shape(2, 3, 6), Shape(2, 3, 12), Shape(2, 3, 3)]
    measured |= {(wide, s): w for s, w in run(draft, [text] * 2, wide, shapes, TOKENS).items()}
    assert {s for p, s in measured if p is wide} == {Shape(2, 3, 4), Shape(2, 3, 6)}  # the others do not fit
    found = rows(measured, nodes, prompts=12)
    assert found[0].per_forward == 1.0
    lengths = {r.steps: r.per_forward for r in found if r.kind == "chain"}
    assert {r.kind for r in found} == {"none", "chain", "tree"}
    for row in found:
        assert row.interval[0] <= row.per_forward <= row.interval[1]
        assert row.per_forward == pytest.approx(1 + sum(row.by_depth))
        if row.kind == "tree":
            assert row.same_steps.steps == 3
            assert row.best_chain.steps < row.nodes
            assert row.same_steps.mean == pytest.approx(row.per_forward - lengths[3])
    assert best(found, 6).nodes == 6
    text_table = table(found)
    assert "K=2 S=3" in text_table and "no speculation" in text_table
    image = ET.fromstring(svg(found))
    assert len(image.findall("{*}polyline")) == 2
