"""What lies in a free page reaches no output: requests that join, run and end beside NaN give the bits they give beside
zeros."""

from __future__ import annotations

import pytest
import torch

from . import freelist
from .checks import check_state
from .conftest import rig_of
from .draft import DraftBench
from .launch import Shape
from .snapshot import State, live_state
from .trees import Tree, scattered

FORKED = Tree((-1, 0, 0, 1, 2, 2, 4, 5))
# Prefix lengths of requests that join before each round: short, at page and block edges, longer than the window, over
# a C128 page.
JOINS = ((126, 1), (255,), (2047, 15), (), (384,))


def poison(rig, value: float) -> None:
    assert freelist.fill_free(rig.pool, rig.allocator, value) > 0


def run(rig, tokens: list, value: float) -> tuple[list[torch.Tensor], list[State]]:
    """Requests join, are verified, committed and decoded, and end, with ``value`` in every free page before each step.
    Returns all logits and the state of each request at its end."""
    given = iter(tokens)
    logits: list[torch.Tensor] = []
    states: list[State] = []
    running: list = []
    for number, joining in enumerate(JOINS):
        if joining:
            poison(rig, value)
            fresh, first = rig.prefill([next(given)[:length] for length in joining])
            running += fresh
            logits.append(first)
        trees = [scattered(8, 3, seed=10 * number + place) for place in range(len(running))]
        rig._speculating(running)  # reserves the pages of the round
        poison(rig, value)
        done = rig.verify(running, trees, [next(given)[:8] for _ in running])
        poison(rig, value)
        rig.commit(done, [tree.path(tree.live[(number + place) % len(tree.live)]) for place, tree in enumerate(trees)])
        logits.append(done.logits)
        poison(rig, value)
        logits.append(rig.decode(running[-1], next(given)[0]))
        if number >= 1:
            ended = running.pop(0)
            states.append(live_state(rig, ended))
            rig.release(ended)
    states += [live_state(rig, sequence) for sequence in running]
    rig.release(*running)
    return logits, states


def compare(rig, draw) -> None:
    tokens = [draw(2047) for _ in range(60)]
    clean, states = run(rig, tokens, 0.0)
    poisoned, same = run(rig, tokens, float("nan"))
    for number, (found, expected) in enumerate(zip(poisoned, clean, strict=True)):
        assert bool(found.isfinite().all()), f"step {number}: logits are not finite"
        assert torch.equal(found, expected), f"step {number}: largest difference {(found - expected).abs().max():.3g}"
    for number, (found, expected) in enumerate(zip(same, states, strict=True)):
        assert all(bool(rows.isfinite().all()) for _, rows in found.content.values()), number
        check_state(found, expected, f"request {number} at its end")


def test_poisoned_free_pages(rig, draw):
    compare(rig, draw)


def test_poisoned_free_pages_with_pages_of_the_pool_as_blocks(draw):
    compare(rig_of(Shape(block_rows=128)), draw)


def test_draft_beside_poisoned_pages(draw):
    """The candidates of a draft call, its probabilities included."""
    rig = rig_of(Shape(n=16, steps=5))
    if not hasattr(rig, "draft_bench"):
        rig.draft_bench = DraftBench(rig)
    bench = rig.draft_bench
    sequences, _ = rig.prefill([draw(length) for length in (127, 14, 250)])
    rig._speculating(sequences)
    drafted = []
    for value in (0.0, float("nan")):
        bench.fill_prefix(3)
        assert freelist.fill_free(bench.backend.pool, rig.allocator, value) > 0
        drafted.append(bench.draft(sequences, 3))
    clean, poisoned = drafted
    assert torch.equal(clean.draft_token, poisoned.draft_token)
    assert bool(poisoned.tree_scores.isfinite().all())
    assert torch.equal(clean.tree_scores, poisoned.tree_scores)
    assert torch.equal(clean.tree_topology.parent, poisoned.tree_topology.parent)
    rig.release(*sequences)


@pytest.mark.parametrize("kind, prefix", [("full", 200), ("swa", 200), ("c128", 300)])
def test_a_page_freed_too_early_is_noticed(rig, kind, prefix, draw):
    """The control: NaN in a page that the request still reads does reach its logits."""
    (sequence,), _ = rig.prefill([draw(prefix)])
    tokens = [draw(8)]
    sound = rig.verify([sequence], [FORKED], tokens).logits
    assert bool(sound.isfinite().all())
    slots = rig.requests.req_to_token[sequence.row, :prefix].long()
    pages = {
        "full": slots[:1] // 128,
        "swa": rig.allocator.translate_loc_from_full_to_swa(slots)[-1:] // 128,
        "c128": rig.requests.req_to_c128_sidecar[sequence.row, :1].long(),
    }
    freelist.fill(rig.pool, kind, pages[kind])
    broken = rig.verify([sequence], [FORKED], tokens).logits
    assert not bool(broken.isfinite().all())
    rig.release(sequence)
