"""The committed tiny checkpoint on its own text: greedy rounds, rows against transformers, text against serial."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dsv4_npu_tree.reference.model import Model
from dsv4_npu_tree.reference.sequence import Sequence
from dsv4_npu_tree.reference.tree import Tree, verify_greedy
from tools.tiny_checkpoint import MODEL_DIR, heldout_prompts, hf_model

from . import shapes
from .figures import Figures
from .rounds import assert_same_state, compare, forked
from .transformers_model import Truth, doubled, tensors

PREFIXES = [124, 253, 380]  # rounds cross 128, 256 and 384; the selection of 32 entries binds from position 131 on
ROUNDS, NODES = 3, 9
DOUBLE, SINGLE, TIE = 1e-10, 1e-4, 1e-5


@pytest.fixture(scope="module")
def text() -> list[int]:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(MODEL_DIR))
    ids = [i for prompt in heldout_prompts(20, seed=2) for i in tokenizer(prompt).input_ids]
    assert len(ids) >= max(PREFIXES)
    return ids[: max(PREFIXES)]


def drafted_tree(right: list[int], prefix: int, vocabulary: int, rng: np.random.Generator) -> tuple[Tree, list[int]]:
    """A tree whose root and one whole path have the `right` tokens."""
    kind = str(rng.choice(["comb", "random", "bushy"]))
    tree = shapes.tree(kind, NODES, prefix, rng)
    tokens = rng.integers(0, vocabulary, tree.n).tolist()
    for node, token in zip(tree.path(int(rng.choice(tree.leaves()))), right, strict=False):
        tokens[node] = token
    return tree, tokens


def test_greedy_rounds(text):
    single = hf_model(MODEL_DIR)
    fields = json.loads((MODEL_DIR / "config.json").read_text())
    model = Model(tensors(single), fields)
    truths = {"fp64": Truth(doubled(single, fields)), "fp32": Truth(single)}
    figures = {name: Figures() for name in truths}
    sequence, history, rng = Sequence(model), [], np.random.default_rng(5)
    for prefix in PREFIXES:
        history += sequence.extend(text[sequence.length : prefix])
        tree, serial = forked(sequence), forked(sequence)
        tokens, rows_so_far = text[:prefix], list(history)
        bonus = int(history[-1].logits.argmax())
        for _ in range(ROUNDS):
            plain = forked(serial)  # greedy decoding without speculation, further than a path goes
            greedy, written = [bonus], []
            while len(greedy) < NODES + 1:
                written += plain.extend(greedy[-1:])
                greedy.append(int(written[-1].logits.argmax()))
            shape, drafted = drafted_tree(greedy, tree.length, fields["vocab_size"], rng)
            rows = tree.verify(shape, drafted)
            path, bonus = verify_greedy(shape, drafted, [int(row.logits.argmax()) for row in rows])
            assert [*(drafted[v] for v in path), bonus] == greedy[: len(path) + 1]
            for name, truth in truths.items():
                compare(rows_so_far, tokens, shape, drafted, rows, truth, figures[name], tie=TIE * (name == "fp32"))
                figures[name].rounds += 1
                figures[name].accepted.add(len(path))
            tree.commit(rows[v] for v in path)
            serial.extend(greedy[: len(path)])
            assert_same_state(tree, serial)
            tokens, rows_so_far = tokens + greedy[: len(path)], rows_so_far + [rows[v] for v in path]
    for name, found in figures.items():
        print(f"\n{name}: {found}")
    assert figures["fp64"].logits < DOUBLE and figures["fp64"].set_aside == 0
    assert figures["fp32"].logits < SINGLE and figures["fp32"].set_aside <= figures["fp32"].rows // 10
    assert max(figures["fp64"].accepted) >= 4 and figures["fp64"].bound > 30 and figures["fp64"].free > 5
