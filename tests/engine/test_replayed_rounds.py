"""The replay that `tools/bench_acceptance` measures with against rounds of a server: same trees, same accepted lengths.

The server runs in bfloat16 and the replay in fp32, so a candidate that is nearly level with another may change places.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from acceptance_bench.attention import use_row_attention
from acceptance_bench.drafting import candidates, roots
from acceptance_bench.scoring import as_drafted, sharpened
from acceptance_bench.selection import accepted, select
from acceptance_bench.text import Text, prompts, read
from acceptance_bench.walk import walk
from demonstration.server import SHARING, TREE, Server
from fleet import DEEP

from dsv4_npu_tree.inspect.dump import load_round
from dsv4_npu_tree.inspect.record import RequestRound
from tools.tiny_checkpoint import MODEL_DIR, hf_model, nextn_model

pytestmark = pytest.mark.engine

LENGTHS, NEW_TOKENS = (20, 63, 96, 126, 140, 250), 64


def serve(folder: Path, flags: tuple[str, ...], **settings: str) -> list[tuple[list[int], int, list[RequestRound]]]:
    """Prompt and answer of a few requests, the prompt's length, the rounds; alone in the server one after the other."""
    answers = []
    env = {"DSV4_TREE_DUMP": str(folder), **settings}
    with Server((*flags, *SHARING), folder / "server.log", model=str(MODEL_DIR), env=env) as server:
        server.wait()
        for number, length in enumerate(LENGTHS):
            ids = prompts("measure", len(LENGTHS), length)[number].tolist()
            sampling = {"temperature": 0, "max_new_tokens": NEW_TOKENS, "ignore_eos": True}
            known = set(folder.glob("round-*.json"))
            answer = server.generate(ids, sampling_params=sampling)
            files = sorted(set(folder.glob("round-*.json")) - known)
            answers.append((ids + answer["output_ids"], length, [load_round(f).requests[0] for f in files]))
    return answers


def paths(r: RequestRound) -> set[tuple[int, ...]]:
    """The tree as the tokens from each node up to the root's child: no matter in which order the nodes came."""
    path: list[tuple[int, ...]] = [()]
    for node in range(1, r.n):
        path.append((*path[r.parent[node]], r.token[node]))
    return set(path[1:])


@pytest.mark.parametrize(
    ("flags", "exponent"),
    [pytest.param(TREE, None, marks=pytest.mark.soak, id="as drafted"), pytest.param(DEEP, 2.2, id="sharpened")],
)
@torch.no_grad()
def test_rounds_of_a_server(flags, exponent, tmp_path, record_property):
    served = serve(tmp_path, flags, **({} if exponent is None else {"DSV4_TREE_SCORE_EXPONENT": str(exponent)}))
    score = as_drafted if exponent is None else sharpened(exponent)
    steps, topk, nodes = (
        int(flags[flags.index(f"--speculative-{name}") + 1]) for name in ("num-steps", "eagle-topk", "num-draft-tokens")
    )
    target = hf_model(MODEL_DIR)
    draft = use_row_attention(nextn_model(MODEL_DIR, target))
    compared = same_length = same_tree = same_nodes = control_nodes = 0
    tokens: list[int] = []  # of the server's rounds
    replayed: list[int] = []  # of the replay at the same roots: after another length rounds lie elsewhere
    forwards, given = 0, 0  # of the replay's own walk
    for ids, length, rounds in served:
        text: Text = read(target, torch.tensor([ids]), length)
        where = roots(text, steps)
        found = candidates(draft, text, where, topk, steps, score)
        lengths, selected = accepted(found, nodes, text)[0], select(found, nodes)[0]
        mine = walk(lengths[None])
        forwards, given = forwards + int(mine.forwards), given + int(mine.tokens)
        control = candidates(draft, text, where, topk, steps, sharpened(2.2) if exponent is None else as_drafted)
        control_selected = select(control, nodes)[0]
        assert rounds[0].prefix == length
        judged = [r for r in rounds if r.prefix - length < len(where)]
        assert len(judged) >= NEW_TOKENS // (steps + 1) - 1
        for r in judged:
            at = r.prefix - length
            assert r.token[0] == ids[r.prefix]
            compared += 1
            tokens.append(len(r.accepted))
            replayed.append(int(lengths[at]) + 1)
            same_length += len(r.accepted) - 1 == int(lengths[at])
            theirs = paths(r)
            ours = {found.path(0, at, c) for c in selected[at].tolist()}
            same_tree += theirs == ours
            same_nodes += len(theirs & ours)
            control_nodes += len(theirs & {control.path(0, at, c) for c in control_selected[at].tolist()})
    of, measured, expected = compared * (nodes - 1), sum(tokens) / compared, sum(replayed) / compared
    walked = given / forwards
    line = (
        f"{compared} rounds, {same_length} of equal length, {same_tree} equal trees, {same_nodes} of {of} nodes "
        f"(other scores: {control_nodes}); {measured:.3f} and {expected:.3f} tokens per forward, "
        f"{walked:.3f} on the replay's own walk"
    )
    print(line)
    record_property("agreement", line)
    assert compared >= 100
    assert same_length >= 0.95 * compared, line
    assert same_nodes >= 0.95 * of > 0.9 * of >= control_nodes, line
    assert abs(expected - measured) <= 0.02 * measured, line
    if exponent is None:  # with 15 nodes a near tie makes another tree, and another length moves the rounds behind it
        assert same_tree >= 0.7 * compared, line
        assert abs(walked - measured) <= 0.02 * measured, line
