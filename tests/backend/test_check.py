"""The product's own check: silent on sound rounds, and every planted fault stops the request that it hurts."""

from __future__ import annotations

import re

import pytest

from .conftest import rig_of
from .launch import Shape
from .mutations import MUTATIONS
from .test_rows import TREES
from .trees import Tree, scattered

FORKED = Tree((-1, 0, 0, 1, 2, 2, 4, 5))

# What each fault breaks first, as the check names it. Left out: "table entry -1" (the op refuses it), "beams not
# re-parented" (a draft's history changes acceptance, no verify row).
NOTICED = {
    "sibling visible": "visibility: SWA entry",
    "window by row index": "visibility: tokens seen",
    "own block hidden": "visibility: SWA entry",
    "siblings compressed": "visibility: C4 window",
    "kv to one branch": "visibility: SWA entry",
    "entries to one branch": "visibility: C4 entry",
    "commit from another branch": r"kv: swa\[0\] entry 127 after the commit",
    "commit one row more": r"kv: swa\[0\] entry 129 after the commit",
    "commit looks up late": r"kv: swa\[0\] entry \d+ after the commit",
    "batch kept by reference": r"kv: swa\[0\] entry 126 after the commit",
    "no state commit": r"kv: C4 state\[layer \d\] entry 126 after the commit",
    "tail not duplicated": r"kv: swa\[0\] tail copy",
    "scale not committed": r"kv: c4\[\d\] entry 31 after the commit",
    "scale not duplicated": r"kv: c4\[\d\] tail copy",
    "written before acceptance": r"kv: swa\[0\] entry 126 before acceptance",
}


@pytest.fixture(autouse=True)
def checked(monkeypatch):
    monkeypatch.setenv("DSV4_TREE_CHECK", "1")


def round_of(rig, sequences, trees, tokens, paths, *, disturb=None):
    """One checked round; returns the faults by request and the bonus tokens."""
    done = rig.verify(sequences, trees, tokens)
    if disturb is not None:
        disturb()
    bonus = rig.commit(done, paths)
    return done.output.dsv4_tree_faults, bonus


@pytest.mark.parametrize("prefixes", [(126, 13, 61), (1, 127, 257), (254, 128, 4), (2045, 30, 3)])
def test_sound_rounds_pass(rig, prefixes, draw):
    """Several rounds in a row, every tree shape, paths of every length."""
    sequences, _ = rig.prefill([draw(p) for p in prefixes])
    roots = draw(len(prefixes))
    shapes = [*TREES.values(), *(scattered(8, 3, seed=s) for s in prefixes)]
    for number in range(5):
        trees = [shapes[(number * 3 + b) % len(shapes)] for b in range(len(prefixes))]
        tokens = [[root, *_distinct(draw, 7)] for root in roots]
        paths = [tree.path(tree.live[(number + b) % len(tree.live)]) for b, tree in enumerate(trees)]
        faults, roots = round_of(rig, sequences, trees, tokens, paths)
        assert faults == {}
    rig.release(*sequences)


def _distinct(draw, count: int) -> list[int]:
    """Equal siblings would make the second one a wrong acceptance."""
    while len(set(tokens := draw(count))) < count:
        pass
    return tokens


@pytest.mark.parametrize("name", NOTICED)
def test_faults_are_noticed(rig, name, draw, monkeypatch):
    plant, _, _ = MUTATIONS[name]
    prefix = 254 if name == "scale not duplicated" else 126
    (sequence, other), _ = rig.prefill([draw(prefix), draw(9)])
    row = rig.requests.req_to_token[sequence.row]
    saved: list = []

    def disturb() -> None:
        if name == "commit looks up late":
            saved.append(row.clone())
            row.copy_(rig.requests.req_to_token[other.row])
        if name == "batch kept by reference":
            rig.prefill([draw(40)])

    with monkeypatch.context() as patch:
        plant(patch)
        faults, _ = round_of(rig, [sequence], [FORKED], [_distinct(draw, 8)], [[0, 2, 5]], disturb=disturb)
    if saved:
        row.copy_(saved[0])
    assert list(faults) == [0], faults
    assert sequence.req.rid in faults[0]
    assert re.search(NOTICED[name], faults[0]), faults[0]
    print(f"{name}: {faults[0]}")


@pytest.mark.parametrize("node", [0, 2, 5])
def test_tokens_that_are_not_the_targets_own(rig, node, draw, monkeypatch):
    """A verify op that walks the tree rightly and writes another token than the target's: emitted, the next root."""
    from sglang.srt.speculative import eagle_worker_common

    finalize = eagle_worker_common._finalize_accept_tree_path

    def wrong(batch, accept_index, accept_lens, predict, *args, **kwargs):
        predict[rig.shape.n + node] += 1
        return finalize(batch, accept_index, accept_lens, predict, *args, **kwargs)

    sequences, _ = rig.prefill([draw(126), draw(9)])
    tokens = [_distinct(draw, rig.shape.n) for _ in sequences]
    with monkeypatch.context() as patch:
        patch.setattr(eagle_worker_common, "_finalize_accept_tree_path", wrong)
        faults, _ = round_of(rig, sequences, [FORKED] * 2, tokens, [[0, 1], [0, 2, 5]])
    assert list(faults) == [1] and re.search(rf"row {node}, traversal: emitted token", faults[1]), faults
    rig.release(*sequences)


def test_a_layer_that_projected_nothing(rig, draw):
    """Its state rows would stay as they were, which is not what a commit leaves."""
    sequences, _ = rig.prefill([draw(126)])
    done = rig.verify(sequences, [FORKED], [_distinct(draw, rig.shape.n)])
    done.batch.spec_info.tree_plan.scratch.popitem()
    rig.commit(done, [[0, 1]])
    assert "projection of layers" in done.output.dsv4_tree_faults[0]
    rig.release(*sequences)


def test_only_the_hurt_request_stops(rig, draw, monkeypatch):
    """A fault in one request of a batch names that request; the other one commits."""
    from dsv4_npu_tree.attention import backend as backend_module

    original = backend_module.plan_verify

    def planned(topology, request, prefix, *args):
        plan = original(topology, request, prefix, *args)
        plan.seqused = plan.seqused.clone()
        plan.seqused[8 + 5] -= 1
        return plan

    sequences, _ = rig.prefill([draw(30), draw(126)])
    with monkeypatch.context() as patch:
        patch.setattr(backend_module, "plan_verify", planned)
        faults, _ = round_of(
            rig, sequences, [FORKED] * 2, [_distinct(draw, 8), _distinct(draw, 8)], [[0, 2, 5], [0, 2, 5]]
        )
    assert list(faults) == [1]
    assert "row 5, visibility: tokens seen: expected 129, found 128" in faults[1]


def test_the_prefix_must_follow_from_the_last_round(rig, draw):
    """The host forgets an accepted token: the next round's prefix is one short."""
    (sequence,), _ = rig.prefill([draw(20)])
    _, (root,) = round_of(rig, [sequence], [FORKED], [_distinct(draw, 8)], [[0, 2, 5]])
    sequence.tokens.pop()
    faults, _ = round_of(rig, [sequence], [FORKED], [[root, *_distinct(draw, 7)]], [[0]])
    assert "row 0, position: prefix length: expected 23, found 22" in faults[0]


def test_the_root_must_be_the_last_bonus(rig, draw):
    (sequence,), _ = rig.prefill([draw(20)])
    _, (root,) = round_of(rig, [sequence], [FORKED], [_distinct(draw, 8)], [[0, 2, 5]])
    faults, _ = round_of(rig, [sequence], [FORKED], [[root + 1, *_distinct(draw, 7)]], [[0]])
    assert f"row 0, candidate: root token: expected {root}, found {root + 1}" in faults[0]


def test_a_name_used_again_is_another_request(rig, draw):
    """A finished request's name and row go to the next one: nothing is expected of its first round."""
    rows = []
    for _ in range(2):
        (sequence,), _ = rig.prefill([draw(20)])
        sequence.req.rid = "again"
        rows.append(sequence.row)
        faults, _ = round_of(rig, [sequence], [FORKED], [_distinct(draw, 8)], [[0, 2]])
        assert faults == {}
        rig.release(sequence)
    assert rows[0] == rows[1]


def test_one_round_in_n(draw, monkeypatch):
    """A sampled check sees every third round and says nothing in between."""
    monkeypatch.setenv("DSV4_TREE_CHECK", "3")
    rig = rig_of(Shape())
    (sequence,), _ = rig.prefill([draw(20)])
    root, seen = 5, 0
    for _ in range(6):
        done = rig.verify([sequence], [FORKED], [[root, *_distinct(draw, 7)]])
        (root,) = rig.commit(done, [[0, 1, 3]])
        seen += hasattr(done.output, "dsv4_tree_faults")
        assert getattr(done.output, "dsv4_tree_faults", {}) == {}
    assert seen == 2
