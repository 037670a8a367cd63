"""Tree shapes by batch size in a server: the batch grows from 1 to 16 and shrinks again, the shape follows, the text
does not change."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from fleet import SERVERS, greedy
from identity import compare
from prompts import prompt

from dsv4_npu_tree.inspect.dump import load_round
from dsv4_npu_tree.tree.shapes import Shape, ShapeTable

LENGTHS = (9, 30, 61, 126, 3, 17, 40, 100, 5, 64, 129, 15, 255, 22, 33, 47)


@pytest.fixture(scope="module", autouse=True)
def _started(fleet):
    fleet.warm("plain", "shapes")


def test_the_shape_follows_the_batch(fleet, reference, tally):
    server = fleet["shapes"]
    table = ShapeTable.parse(SERVERS["shapes"]["env"]["DSV4_TREE_SHAPES"], Shape(8, 3, 4))
    folder = fleet.logs / "rounds"
    known = set(folder.glob("round-*.json"))
    prompts = [prompt(length, 60_000 + 300 * i) for i, length in enumerate(LENGTHS)]
    answers = [greedy(server, prompts[0])]
    # answers of different lengths: the batch shrinks a request at a time
    with ThreadPoolExecutor(16) as pool:
        answers += pool.map(lambda item: greedy(server, item[1], 64 - 3 * item[0]), list(enumerate(prompts)))
    answers.append(greedy(server, prompts[1]))
    seen: dict[int, set[tuple[int, int, bool]]] = {}
    for path in set(folder.glob("round-*.json")) - known:
        entry = load_round(path)
        batch, shape = len(entry.requests), table.at(len(entry.requests))
        chain = all(r.parent == list(range(-1, r.n - 1)) for r in entry.requests)
        seen.setdefault(batch, set()).add((entry.requests[0].n, entry.steps, chain))
        assert {(r.n, entry.steps) for r in entry.requests} == {(shape.n, shape.steps)}, (batch, path)
        assert shape.topk != 1 or chain
    assert {table.at(batch) for batch in seen} == {shape for _, shape in table.entries}
    assert max(seen) >= 12 and 1 in seen
    assert any((8, 3, False) in shapes for shapes in seen.values())
    outcomes = [compare(answer, reference(p)) for answer, p in zip(answers, [prompts[0], *prompts, prompts[1]])]
    for p, answer, outcome in zip([prompts[0], *prompts, prompts[1]], answers, outcomes):
        tally.add("tree, shape by batch size", len(p), outcome, answer["meta_info"]["spec_accept_length"])
    assert not [outcome for outcome in outcomes if outcome.startswith("differs")]
    log = server.log.read_text(errors="replace")
    assert "dsv4_tree: batch of 1, tree shape n/steps/topk 8/3/4" in log or "tree shape n/steps/topk 5/3/2" in log
    assert "tree shape n/steps/topk 4/3/1" in log
    assert "dsv4_tree check:" not in log
