"""After a commit a request owns exactly what serial decode of the accepted tokens leaves, and goes on alike."""

from __future__ import annotations

import pytest

from .checks import check_decodes, check_rows, check_state, serial_states
from .conftest import rig_of
from .launch import Shape
from .snapshot import live_state
from .trees import Tree, chain, comb, scattered

FORKED = Tree((-1, 0, 0, 1, 2, 2, 4, 5))  # accepted paths are not prefixes of the row order: 0-2-5-7


def check_every_acceptance(rig, prefix: int, tree: Tree, draw, go_on: int = 3) -> int:
    """Commit path(root -> v) for every live node v, each from a fresh prefill; returns the number of commits."""
    prompt, tokens, later = draw(prefix), draw(rig.shape.n), draw(go_on)
    for leaf in tree.leaves:
        path = tree.path(leaf)
        states, logits = serial_states(rig, prompt, [tokens[v] for v in path] + later)
        for depth, node in enumerate(path):
            if node != leaf and leaf != min(other for other in tree.leaves if node in tree.path(other)):
                continue  # checked with another leaf
            (sequence,), _ = rig.prefill([prompt])
            done = rig.verify([sequence], [tree], [tokens])
            rig.commit(done, [tree.path(node)])
            what = f"prefix {prefix}, accepted {tree.path(node)} of {tree.parents}"
            check_state(live_state(rig, sequence), states[depth], what)
            if node == leaf:
                check_decodes(rig, sequence, later, logits[depth + 1 :], what)
                check_state(live_state(rig, sequence), states[-1], what + ", decoded on")
            rig.release(sequence)
    return len(tree.live)


@pytest.mark.parametrize("prefix", [1, 3, 13, 14, 15, 16, 61, 124, 125, 126, 127, 128, 253, 255, 256])
def test_every_acceptance_equals_serial_decode(rig, prefix, draw):
    assert check_every_acceptance(rig, prefix, FORKED, draw) == 8


@pytest.mark.parametrize("prefix", [126, 14])
def test_every_acceptance_of_other_shapes(rig, prefix, draw):
    for tree in (chain(8, 3), comb(8, 3), scattered(8, 3, seed=prefix, inert=1)):
        check_every_acceptance(rig, prefix, tree, draw)


@pytest.mark.parametrize("prefix", [12, 123])
def test_every_acceptance_of_deeper_trees(prefix, draw):
    rig = rig_of(Shape(n=16, steps=5))
    check_every_acceptance(rig, prefix, scattered(16, 5, seed=prefix), draw)


@pytest.mark.parametrize("prefix", [15, 111, 127])
def test_more_accepted_rows_than_the_c4_ring_holds(prefix, draw):
    """17 rows fill the 8-row ring twice: only the deepest token of a ring row may be written."""
    rig = rig_of(Shape(n=20, steps=16, topk=2))
    prompt, tokens, later = draw(prefix), draw(20), draw(2)
    tree = chain(20, 16)
    states, logits = serial_states(rig, prompt, tokens[:17] + later)
    for length in (8, 9, 12, 13, 17):
        (sequence,), _ = rig.prefill([prompt])
        rig.commit(rig.verify([sequence], [tree], [tokens]), [list(range(length))])
        check_state(live_state(rig, sequence), states[length - 1], f"prefix {prefix}, {length} accepted")
        if length == 17:
            check_decodes(rig, sequence, later, logits[17:], f"prefix {prefix}, all accepted")
        rig.release(sequence)


@pytest.mark.parametrize("prefix", [2046, 2174])
def test_across_a_c128_page(rig, prefix, draw):
    """The last entry of a C128 page closes, or the first of the next one; rows and state equal serial decode."""
    prompt, tokens, later = draw(prefix), draw(8), draw(2)
    path = [0, 2, 5, 7]
    states, logits = serial_states(rig, prompt, [tokens[v] for v in path] + later)
    (sequence,), _ = rig.prefill([prompt])
    done = rig.verify([sequence], [FORKED], [tokens])
    check_rows(done.logits[0], {v: logits[d] for d, v in enumerate(path)}, f"prefix {prefix}, against serial decode")
    rig.commit(done, [path])
    check_state(live_state(rig, sequence), states[3], f"prefix {prefix}")
    check_decodes(rig, sequence, later, logits[4:], f"prefix {prefix}")
    rig.release(sequence)


def check_rounds(rig, prefixes: list[int], rounds: int, draw, seed: int) -> None:
    """Several rounds in a row on a batch; after each, every request is compared with a shadow that decodes serially."""
    prompts = [draw(p) for p in prefixes]
    sequences, _ = rig.prefill(prompts)
    shadows = [rig.prefill([prompt])[0][0] for prompt in prompts]
    for number in range(rounds):
        trees = [scattered(rig.shape.n, rig.shape.steps, seed=seed + 10 * number + b) for b in range(len(prompts))]
        tokens = [draw(rig.shape.n) for _ in trees]
        done = rig.verify(sequences, trees, tokens)
        paths = [tree.path(tree.live[(seed + 3 * number + 5 * b) % len(tree.live)]) for b, tree in enumerate(trees)]
        rig.commit(done, paths)
        for b, (sequence, shadow) in enumerate(zip(sequences, shadows)):
            for v in paths[b]:
                rig.decode(shadow, tokens[b][v])
            what = f"round {number}, request {b}, accepted {paths[b]}"
            check_state(live_state(rig, sequence), live_state(rig, shadow), what)
    rig.release(*sequences, *shadows)


@pytest.mark.parametrize("prefixes", [(120, 7, 250), (1, 126, 62)])
def test_rounds_in_a_row(rig, prefixes, draw):
    check_rounds(rig, list(prefixes), 5, draw, seed=sum(prefixes))


def test_rounds_with_wider_trees(draw):
    check_rounds(rig_of(Shape(n=16, steps=5)), [118, 9], 5, draw, seed=1)
