"""What commits leave behind, against the cache that transformers keeps for the same tokens."""

from __future__ import annotations

import numpy as np
import pytest

from dsv4_npu_tree.reference.model import Model
from dsv4_npu_tree.reference.sequence import Sequence
from dsv4_npu_tree.reference.state import LayerState
from dsv4_npu_tree.reference.tree import Tree

from . import shapes
from .rounds import assert_same_state, forked
from .transformers_model import SMALL, Truth, doubled, random_model, tensors

EQUAL = 1e-12


@pytest.fixture(scope="module")
def small():
    single, fields = random_model(seed=8)
    return Model(tensors(single), fields), Truth(doubled(single, fields))


def committed(model: Model, length: int, rng: np.random.Generator) -> tuple[Sequence, list[int]]:
    """A sequence of `length` tokens that came in by random accepted paths only."""
    sequence, tokens = Sequence(model), []
    while sequence.length < length:
        tree = shapes.tree(str(rng.choice(shapes.KINDS)), 8, sequence.length, rng)
        drafted = rng.integers(0, SMALL["vocab_size"], tree.n).tolist()
        path = tree.path(int(rng.choice(tree.leaves())))[: length - sequence.length]
        rows = sequence.verify(tree, drafted)
        sequence.commit(rows[v] for v in path)
        tokens += [drafted[v] for v in path]
    return sequence, tokens


def difference(mine, theirs) -> float:
    mine, theirs = np.array(mine), theirs.squeeze().numpy().reshape(np.shape(mine))
    return float(np.abs(mine - theirs).max(initial=0.0))


def compressor_difference(state: LayerState, rows: dict, cache, name: str, bias: np.ndarray) -> float:
    """Rows of the open block, and for C4 what the closed one before it still owes: its left columns."""
    opened = range(state.length - state.length % state.ratio, state.length)
    half = bias.shape[1]
    scored = np.array([rows[t][half:] - bias[t % state.ratio] for t in opened])  # transformers adds the bias later
    worst = max(
        difference([rows[t][:half] for t in opened], cache.buffer_kv[name]), difference(scored, cache.buffer_gate[name])
    )
    if state.ratio == 4 and state.length >= 4:
        closed, dim = range(opened.start - 4, opened.start), half // 2
        worst = max(
            worst,
            difference([rows[t][:dim] for t in closed], cache.overlap_kv[name]),
            difference([rows[t][half : half + dim] for t in closed], cache.overlap_gate[name]),
        )
    return worst


@pytest.mark.parametrize("length", [3, 9, 130, 259])
def test_committed_state_is_the_cache_of_transformers(small, length):
    model, truth = small
    sequence, tokens = committed(model, length, np.random.default_rng(length))
    layers = truth.cache(tokens).layers
    worst = 0.0
    for state, cache, layer in zip(sequence.layers, layers, model.layers, strict=True):
        kept = sorted(state.kv)
        worst = max(worst, difference([state.kv[p] for p in kept], cache.keys[0, 0, -len(kept) :]))
        if state.ratio:
            bias = layer.weights["compressor.position_bias"]
            worst = max(worst, compressor_difference(state, state.main, cache, "compressor", bias))
            if state.entry:
                worst = max(worst, difference(state.entry, cache.compressed_kv["compressor"]))
        if state.ratio == 4:
            bias = layer.weights["compressor.indexer.position_bias"]
            worst = max(worst, compressor_difference(state, state.index, cache, "indexer", bias))
            if state.index_key:
                worst = max(worst, difference(state.index_key, cache.compressed_kv["indexer"]))
    print(f"\nlength {length}: state differs by {worst:.1e}")
    assert worst < EQUAL


def test_a_chunk_is_serial_decoding_and_verify_commits_nothing(small):
    model, _ = small
    sequence, _ = committed(model, 5, np.random.default_rng(1))
    before, serial = forked(sequence), forked(sequence)
    tokens = np.random.default_rng(2).integers(0, SMALL["vocab_size"], 140).tolist()
    chunk = Tree([None, *range(139)], [True] * 140, 5, 139)
    rows = sequence.verify(chunk, tokens)
    assert_same_state(sequence, before)
    sequence.commit(rows)
    decoded = serial.extend(tokens)
    assert_same_state(sequence, serial)
    assert all(np.array_equal(a.logits, b.logits) for a, b in zip(rows, decoded, strict=True))


def test_a_tree_must_stand_on_what_is_committed(small):
    with pytest.raises(ValueError, match="stands on 4 tokens, 0 are committed"):
        Sequence(small[0]).verify(Tree([None], [True], 4, 1), [0])
