"""The replay of the draft: SGLang's own selection, the slow oracles' trees, and the draft run row by row."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))

from acceptance_bench.attention import use_row_attention  # noqa: E402
from acceptance_bench.drafting import Candidates, candidates, draft_rows, pool_size, roots  # noqa: E402
from acceptance_bench.scoring import as_drafted, logistic  # noqa: E402
from acceptance_bench.selection import accepted, kept, select  # noqa: E402
from acceptance_bench.text import Text, read  # noqa: E402

from dsv4_npu_tree.reference import tree as oracle  # noqa: E402
from tools.tiny_checkpoint.config import config_dict  # noqa: E402
from tools.tiny_checkpoint.nextn import NextN, ancestor_mask, fresh_nextn  # noqa: E402
from tools.tiny_checkpoint.target import fresh_target  # noqa: E402
from tools.tiny_checkpoint.unroll import unroll  # noqa: E402

MICRO = {
    "vocab_size": 64,
    "hidden_size": 32,
    "head_dim": 64,
    "qk_rope_head_dim": 8,
    "q_lora_rank": 16,
    "o_lora_rank": 8,
    "index_head_dim": 16,
    "index_topk": 8,
    "moe_intermediate_size": 16,
}
PROMPT, LENGTH, STEPS, TOPK = 128, 140, 4, 3


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def pair() -> tuple[NextN, NextN, Text]:
    """A draft as it is, the same one for the replay, and texts that it can be right about by chance."""
    target = fresh_target(config_dict(**MICRO), seed=3).eval()
    plain, ours = fresh_nextn(target, seed=4).eval(), use_row_attention(fresh_nextn(target, seed=4).eval())
    ids = torch.randint(3, MICRO["vocab_size"], (2, LENGTH), generator=torch.Generator().manual_seed(0))
    return plain, ours, read(target, ids, PROMPT)


@pytest.fixture(scope="module")
def found(pair) -> Candidates:
    _, draft, text = pair
    return candidates(draft, text, roots(text, STEPS), TOPK, STEPS, as_drafted)


def path_of(found: Candidates, b: int, r: int, candidate: int) -> list[int]:
    path = [candidate]
    while path[0] >= found.topk:
        path.insert(0, int(found.parents[b, r, path[0] // found.topk]))
    return path


def alone(draft: NextN, text: Text, b: int, root: int, rows: list[tuple[int, torch.Tensor]]) -> tuple:
    """Logits and streams of the last of some rows in a line after row root - 1: (token, streams that it reads)."""
    streams, tokens = text.streams[b : b + 1, :root], text.ids[b : b + 1, 1 : root + 1]
    for token, given in rows:
        streams = torch.cat([streams, given[None, None]], dim=1)
        tokens = torch.cat([tokens, torch.tensor([[token]])], dim=1)
    positions = torch.arange(tokens.shape[1])
    mask = ancestor_mask([*range(-1, tokens.shape[1] - 1)], positions, draft.config.sliding_window)
    with torch.no_grad():
        logits, own = draft(streams, tokens, positions[None], mask)
    return logits[0, -1], own[0, -1]


def test_a_row_reads_its_true_ancestors(pair, found):
    """Every candidate's probability is that of running its path alone behind the text, past the edge of the window."""
    plain, _, text = pair
    for b, r in ((0, 0), (1, 5)):
        root = int(found.roots[r])
        for candidate in range(found.token.shape[-1]):
            path = path_of(found, b, r, candidate)
            rows: list[tuple[int, torch.Tensor]] = []
            for node in path[:-1]:
                rows.append((int(found.token[b, r, node]), alone(plain, text, b, root, rows)[1]))
            probability = alone(plain, text, b, root, rows)[0].softmax(-1)[found.token[b, r, candidate]]
            torch.testing.assert_close(probability, found.probability[b, r, candidate], rtol=1e-4, atol=1e-6)


def test_a_stale_row_reads_its_branch(pair):
    """Rows of branch t read what branch t stored; streams and tokens come from the row that they continue."""
    plain, draft, text = pair
    where = roots(text, STEPS)
    stale = candidates(draft, text, where, TOPK, STEPS, as_drafted, stale=True)
    exact = candidates(draft, text, where, TOPK, STEPS, as_drafted)
    first_two = pool_size(TOPK, 2)  # nothing is stored before the second forward
    assert torch.equal(stale.probability[..., :first_two], exact.probability[..., :first_two])
    assert not torch.equal(stale.probability, exact.probability)
    differing = 0
    for b, r in ((0, 0), (0, 3), (1, 5)):
        root, K = int(where[r]), TOPK
        stored: list[list[tuple[int, torch.Tensor]]] = [[] for _ in range(K)]
        _, before = alone(plain, text, b, root, [])
        made = [before] * K
        for step in range(1, STEPS):
            begin = pool_size(K, step)
            chosen = stale.parents[b, r, 1 + (step - 1) * K :][:K].tolist()
            source = [(c - pool_size(K, step - 1)) // K if step > 1 else 0 for c in chosen]
            differing += source != list(range(K)) and step > 1
            given = [made[s] for s in source]
            for t in range(K):
                stored[t] = [*stored[t], (int(stale.token[b, r, chosen[t]]), given[t])]
            results = [alone(plain, text, b, root, stored[t]) for t in range(K)]
            made = [own for _, own in results]
            got = stale.probability[b, r, begin : begin + K * K].view(K, K)
            want = torch.stack([logits.softmax(-1).topk(K).values for logits, _ in results])
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-6)
    assert differing


@pytest.mark.parametrize("score", [as_drafted, logistic([1.3, 0.8], [1.0, -0.5])])
def test_selection_is_that_of_sglang(pair, score):
    """Its select_top_k_tokens and organize_draft_results on the same probabilities choose the same candidates."""
    from sglang.srt.speculative.eagle_utils import organize_draft_results
    from sglang.srt.speculative.spec_utils import _select_top_k_tokens_first, _select_top_k_tokens_later

    later = getattr(_select_top_k_tokens_later, "__wrapped__", _select_top_k_tokens_later)
    _, draft, text = pair
    found = candidates(draft, text, roots(text, STEPS), TOPK, STEPS, score)
    flat = [x.flatten(0, 1) for x in (found.probability, found.token, found.parents)]
    scores, lists = None, []
    for step in range(STEPS):
        begin, end = (0, TOPK) if step == 0 else (pool_size(TOPK, step), pool_size(TOPK, step + 1))
        worth = score(flat[0][:, begin:end].reshape(-1, TOPK), step + 1)
        token = flat[1][:, begin:end].reshape(-1, TOPK)
        if step == 0:
            _, _, scores, info = _select_top_k_tokens_first(worth, token, None, TOPK)
        else:
            _, _, scores, info = later(step, worth, token, None, scores, TOPK)
        lists.append(info)
    for nodes in (5, 8, 16):
        parents, selected, tokens = organize_draft_results(*map(list, zip(*lists)), nodes)
        mine = select(found, nodes).flatten(0, 1)
        assert torch.equal(parents, flat[2])
        assert torch.equal(selected, mine)
        assert torch.equal(tokens, flat[1].gather(1, mine))


def test_accepted_is_the_greedy_walk_of_the_oracle(pair):
    """Texts that go on with a path of the tree, up to a random depth, judged by the reference's tree and walk."""
    _, draft, text = pair
    generator = torch.Generator().manual_seed(1)
    where = roots(text, STEPS)[:1]
    tried = set()
    for nodes in (5, 9, 21):
        for _ in range(12):
            found = candidates(draft, text, where, TOPK, STEPS, as_drafted)
            ids = text.ids.clone()
            for b in range(1 if nodes == 5 else 2):  # the second text goes on as it likes once in a while
                leaf = int(torch.randint(found.token.shape[-1], (), generator=generator))
                for depth, node in enumerate(path_of(found, b, 0, leaf)):
                    ids[b, PROMPT + 1 + depth] = found.token[b, 0, node]
            told = Text(ids, text.streams, PROMPT)
            got = accepted(found, nodes, told)
            selected = select(found, nodes)
            for b in range(len(ids)):
                chosen = selected[b, 0].tolist()
                score = found.score[b, 0, chosen].tolist()
                built = oracle.build(found.parents[b, 0].tolist(), chosen, score, PROMPT, TOPK, STEPS, 16)
                goes_on = ids[b, PROMPT + 1 :].tolist()
                target = [goes_on[depth] for depth in built.depths()]
                tokens = [-1, *found.token[b, 0, chosen].tolist()]
                path, _ = oracle.verify_greedy(built, tokens, target)
                assert int(got[b, 0]) == len(path) - 1
                tried.add(len(path) - 1)
    assert tried >= {0, 1, 2, 3}


def test_branch_limit_is_that_of_the_oracle(pair):
    """33 nodes, more than 16 leaves: the same nodes are dropped."""
    _, draft, text = pair
    found = candidates(draft, text, roots(text, STEPS), 6, STEPS, as_drafted)
    selected = select(found, 33)
    left = kept(found, selected)
    assert not left.all()
    for b, r in ((0, 0), (1, 3)):
        chosen = selected[b, r].tolist()
        score = found.score[b, r, chosen].tolist()
        built = oracle.build(found.parents[b, r].tolist(), chosen, score, 0, 6, STEPS, 16)
        assert left[b, r].tolist() == built.alive[1:]


def test_fewer_steps_are_a_cut(pair, found):
    _, draft, text = pair
    short = candidates(draft, text, found.roots, TOPK, STEPS - 1, as_drafted)
    cut = found.cut(STEPS - 1)
    for name in ("token", "probability", "score", "parents"):
        assert torch.equal(getattr(short, name), getattr(cut, name)), name


def test_told_what_to_draft_it_is_the_unrolled_chain(pair):
    """Given the text's own tokens the rows are those of the training's unroll."""
    plain, draft, text = pair
    with torch.no_grad():
        unrolled = unroll(plain, text.streams, text.ids, STEPS)
        where = roots(text, STEPS)
        conversation = draft_rows(draft, text, where, 1)
        logits, _ = next(conversation)
        for depth in range(1, STEPS + 1):
            torch.testing.assert_close(logits[:, :, 0], unrolled[depth - 1][:, where - 2 + depth], rtol=1e-4, atol=1e-4)
            if depth < STEPS:
                token = text.ids[:, where + depth][..., None]
                logits, _ = conversation.send((torch.zeros_like(token), token))
