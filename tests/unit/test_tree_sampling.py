"""Tree sampling: the walk against the oracle, the emitted law against the target's, broken links, misuse."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch
from generators import BATCHES, BROKEN_KINDS, VALID_KINDS, Case, case, encode
from probes import NoHostRead

from dsv4_npu_tree.reference import tree as oracle
from dsv4_npu_tree.tree.renorm import top_k_renorm_prob, top_p_renorm_prob
from dsv4_npu_tree.tree.sampling import tree_speculative_sampling_target_only

SAMPLES = 40_000


def distinct_siblings(rng: np.random.Generator, tree: oracle.Tree, vocabulary: int) -> list[int]:
    """Tokens for the nodes such that no two siblings are equal, as a top-k draft gives them."""
    tokens = [int(t) for t in rng.integers(0, vocabulary, tree.n)]
    for below in tree.children:
        for child, token in zip(below, rng.permutation(vocabulary), strict=False):
            tokens[child] = int(token)
    return tokens


def run(made: Case, tokens: torch.Tensor, probs: torch.Tensor, coins: torch.Tensor, final: torch.Tensor, **thresholds):
    """predicts, accept_index, accept_token_num, draft_probs of the sampler; one tree serves any number of requests."""
    topology, bs, n = made.topology(), len(tokens), made.n
    predicts, draft = torch.full((bs * n,), -7, dtype=torch.int32), torch.zeros_like(probs)
    accept_index, count = torch.full((bs, made.steps + 1), -1, dtype=torch.int32), torch.zeros(bs, dtype=torch.int32)
    links = (link.expand(bs, n) for link in (topology.retrieve_next_token, topology.retrieve_next_sibling))
    index = torch.arange(bs * n).view(bs, n)
    tree_speculative_sampling_target_only(
        predicts, accept_index, count, tokens, index, *links, coins, final, probs, draft, **thresholds
    )
    return predicts, accept_index, count, draft


@pytest.mark.parametrize("thresholds", [{}, {"threshold_acc": 0.6}, {"threshold_single": 0.3}])
@pytest.mark.parametrize("kind", VALID_KINDS + BROKEN_KINDS)
def test_walk_equals_the_oracle(kind, thresholds):
    rng = np.random.default_rng(sum(map(ord, kind)))
    accepted = 0
    for bs in BATCHES * 2 + (33, 33):
        made = case(rng, kind, bs)
        trees, vocabulary = made.trees(), 23
        rows = [distinct_siblings(rng, tree, vocabulary) for tree in trees]
        tokens = torch.tensor(rows, dtype=torch.int64).reshape(bs, made.n)
        likely = rng.dirichlet(np.full(vocabulary, 0.3), (bs, made.n))
        for b, tree in enumerate(trees):  # three quarters of the mass on the draft, so that walks get deep
            for node, below in enumerate(tree.children):
                likely[b, node] *= 0.25 if below else 1.0
                for child in below:
                    likely[b, node, rows[b][child]] += 0.75 / len(below)
        probs = torch.from_numpy(likely.astype(np.float32))
        coins, final = (torch.from_numpy(rng.random(s, dtype=np.float32)) for s in ((bs, made.n), (bs,)))
        predicts, accept_index, count, _ = run(made, tokens, probs, coins, final, **thresholds)
        for b, tree in enumerate(trees):
            path, drawn = oracle.sample(
                tree, rows[b], probs[b].numpy(), coins[b].tolist(), float(final[b]), **thresholds
            )
            assert accept_index[b].tolist() == [b * made.n + v for v in path] + [-1] * (made.steps + 1 - len(path))
            assert count[b] == len(path) - 1
            emitted = predicts[b * made.n : (b + 1) * made.n].tolist()
            follows = dict(zip(path, [rows[b][v] for v in path[1:]] + [drawn], strict=True))
            assert emitted == [follows.get(v, -7) for v in range(made.n)]
            accepted += len(path) - 1
    assert accepted > 60


def chi_square(counts: dict[tuple, int], law: dict[tuple, float]) -> float:
    """Standardised chi-square of counts under a law (Wilson-Hilferty): about N(0, 1) if the law is right."""
    total = sum(counts.values())
    assert set(counts) <= {key for key, weight in law.items() if weight > 0}, "an impossible sequence was emitted"
    cells = [(counts.get(key, 0), weight * total) for key, weight in law.items() if weight * total >= 5]
    rest = sum(weight for weight in law.values() if 0 < weight * total < 5) * total
    if rest >= 5:
        cells.append((total - sum(seen for seen, _ in cells), rest))
    statistic, freedom = sum((seen - due) ** 2 / due for seen, due in cells), len(cells) - 1
    assert freedom > 0, "a law with one outcome tests nothing"
    spread = 2 / (9 * freedom)
    return ((statistic / freedom) ** (1 / 3) - (1 - spread)) / spread**0.5


def sampled(made: Case, tokens: list[int], probs: torch.Tensor, seed: int) -> dict[tuple, int]:
    """Counts of emitted sequences of one tree over SAMPLES independent requests."""
    generator = torch.Generator().manual_seed(seed)
    coins, final = torch.rand(SAMPLES, made.n, generator=generator), torch.rand(SAMPLES, generator=generator)
    batch, all_probs = torch.tensor([tokens]).expand(SAMPLES, -1), probs.expand(SAMPLES, -1, -1)
    predicts, accept_index, _, _ = run(made, batch, all_probs, coins, final)
    emitted = torch.where(accept_index >= 0, predicts[accept_index.clamp(min=0).long()], -1)
    rows, seen = emitted.unique(dim=0, return_counts=True)
    return {tuple(t for t in row if t >= 0): k for row, k in zip(rows.tolist(), seen.tolist(), strict=True)}


def small_tree() -> tuple[Case, list[int]]:
    """Root with children 1, 2, 3; 4 and 5 under 1, 6 under 2; a vocabulary of 5."""
    parent_list, selected = encode([[1, 2, 3], [4, 5], [6], [], [], [], []], topk=3, steps=2)
    return Case(3, 2, 7, 6, [parent_list], [selected], [[0.5] * 6], [8]), [4, 2, 0, 3, 1, 2, 2]


def small_probs(seed: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).dirichlet(np.full(5, 0.7), 7).astype(np.float32))


@pytest.mark.parametrize("filters", ["plain", "top_k", "top_p", "top_k_top_p"])
def test_emitted_law_is_the_targets(filters):
    made, tokens = small_tree()
    probs = small_probs(1)
    if "top_k" in filters:
        probs = top_k_renorm_prob(probs, torch.tensor([3, 4, 2, 1, 5, 3, 3]))
    if "top_p" in filters:
        probs = top_p_renorm_prob(probs, 0.9)
    law = oracle.emitted_distribution(made.trees()[0], tokens, probs.numpy())
    # the law itself: the first token is distributed as the target says, and so is the second after an accepted child
    q = probs.double().numpy()
    first = [sum(w for seq, w in law.items() if seq[0] == t) for t in range(5)]
    assert np.allclose(first, q[0], atol=1e-6)
    for child in (1, 2, 3):
        after = [sum(w for seq, w in law.items() if seq[:2] == (tokens[child], t)) for t in range(5)]
        assert np.allclose(after, q[0][tokens[child]] * q[child], atol=1e-6)
    counts = sampled(made, tokens, probs, seed=20)
    assert sum(counts.values()) == SAMPLES
    assert chi_square(counts, law) < 3.5
    marginal = {(t,): sum(k for seq, k in counts.items() if seq[0] == t) for t in range(5) if q[0][t] > 0}
    assert chi_square(marginal, {(t,): float(q[0][t]) for t in range(5)}) < 3.5


def test_the_chi_square_can_fail():
    made, tokens = small_tree()
    counts = sampled(made, tokens, small_probs(1), seed=20)
    shifted = small_probs(1)
    shifted[0] = shifted[0] * 0.97 + 0.03 / 5
    assert chi_square(counts, oracle.emitted_distribution(made.trees()[0], tokens, shifted.numpy())) > 5


def test_equal_siblings_stay_lossless():
    made, _ = small_tree()
    tokens = [4, 2, 2, 3, 1, 1, 2]
    law = oracle.emitted_distribution(made.trees()[0], tokens, small_probs(3).numpy())
    assert chi_square(sampled(made, tokens, small_probs(3), seed=5), law) < 3.5


def one_round(probs: list[float], tokens: list[int], coin: float, final: float, **thresholds):
    """A root with len(tokens) children and one step."""
    parent_list, selected = encode([list(range(1, len(tokens) + 1)), *([] for _ in tokens)], topk=len(tokens), steps=1)
    n = len(tokens) + 1
    made = Case(len(tokens), 1, n, n - 1, [parent_list], [selected], [[0.5] * (n - 1)], [8])
    q = torch.tensor([[probs] * n])
    return run(made, torch.tensor([[0, *tokens]]), q, torch.full((1, n), coin), torch.tensor([final]), **thresholds)


def test_rejected_mass_is_noted_and_not_drawn():
    predicts, accept_index, count, draft = one_round([0.25, 0.25, 0.25, 0.25], [1, 2], coin=0.6, final=0.49)
    assert count.tolist() == [0] and accept_index.tolist() == [[0, -1]]
    assert draft[0, 0].tolist() == [0.0, 0.25, 0.25, 0.0] and draft[0, 1:].sum() == 0
    assert predicts[0] == 0  # residual is tokens 0 and 3
    assert one_round([0.25, 0.25, 0.25, 0.25], [1, 2], coin=0.6, final=0.51)[0][0] == 3


def test_cumulative_mass_and_thresholds_decide():
    quarter = [0.25, 0.25, 0.25, 0.25]
    assert one_round(quarter, [1, 2], coin=0.2, final=0.0)[1].tolist() == [[0, 1]]
    assert one_round(quarter, [1, 2], coin=0.25, final=0.0)[1].tolist() == [[0, 2]]  # coin < mass is strict
    assert one_round(quarter, [1, 2], coin=0.6, final=0.0, threshold_acc=0.5)[1].tolist() == [[0, 2]]
    assert one_round(quarter, [1, 2], coin=0.99, final=0.0, threshold_single=0.25)[1].tolist() == [[0, 1]]
    assert one_round([1.0, 0.0], [1], coin=0.0, final=0.9, threshold_acc=0.0)[1].tolist() == [[0, -1]]  # no mass


def test_corners_never_emit_an_impossible_token():
    # all mass rejected by rounding: the coin is not below the sum of the children
    predicts, accept_index, _, _ = one_round([0.0, 0.5, 0.4999999, 0.0], [1, 2], coin=0.99999994, final=0.7)
    assert accept_index.tolist() == [[0, -1]] and predicts[0] == 2
    # coin * total rounds up to total
    predicts = one_round([0.3, 0.3, 0.4, 0.0], [3], coin=0.5, final=1.0)[0]
    assert predicts[0] == 2
    # a draft token outside the vocabulary has no mass
    predicts, accept_index, _, draft = one_round([0.5, 0.5], [2], coin=0.0, final=0.9)
    assert accept_index.tolist() == [[0, -1]] and predicts[0] == 1 and draft.sum() == 0


def test_a_sibling_of_the_root_is_not_followed():
    written = torch.zeros(3, dtype=torch.int32), torch.full((1, 3), -1).int(), torch.zeros(1, dtype=torch.int32)
    links = torch.arange(3)[None], torch.tensor([[-1, -1, -1]]), torch.tensor([[2, -1, -1]])
    probs = torch.tensor([[[0.0, 1.0]] * 3])
    reals = torch.zeros(1, 3), torch.zeros(1), probs, torch.zeros_like(probs)
    tree_speculative_sampling_target_only(*written, torch.tensor([[1, 1, 1]]), *links, *reals)
    assert written[1].tolist() == [[0, -1, -1]] and written[2].tolist() == [0]


def test_broken_links_end():
    n, bs = 5, 33
    rng = np.random.default_rng(0)
    for _ in range(20):
        links = [torch.from_numpy(rng.integers(-2, n + 2, (bs, n))) for _ in range(2)]
        predicts, count = torch.zeros(bs * n, dtype=torch.int32), torch.zeros(bs, dtype=torch.int32)
        accept_index = torch.full((bs, 4), -1, dtype=torch.int32)
        probs = torch.rand(bs, n, 3).softmax(-1)
        tokens, index = torch.from_numpy(rng.integers(0, 3, (bs, n))), torch.arange(bs * n).view(bs, n)
        reals = torch.rand(bs, n), torch.rand(bs), probs, torch.zeros_like(probs)
        tree_speculative_sampling_target_only(predicts, accept_index, count, tokens, index, *links, *reals)
        assert ((count >= 0) & (count < 4)).all()
        owner = torch.where(accept_index >= 0, accept_index // n, torch.arange(bs)[:, None])
        assert (owner == torch.arange(bs)[:, None]).all()
        assert ((accept_index >= 0).sum(1) == count + 1).all()


def test_signature_is_upstreams_and_misuse_is_named():
    upstream = pytest.importorskip("sglang.kernels.ops.speculative.sampling")
    ours = inspect.signature(tree_speculative_sampling_target_only).parameters
    theirs = inspect.signature(inspect.unwrap(upstream.tree_speculative_sampling_target_only)).parameters
    assert [(p.name, p.default) for p in ours.values()] == [(p.name, p.default) for p in theirs.values()]
    with pytest.raises(ValueError, match="threshold_acc=1.5 is outside 0..1; set --speculative-accept-threshold-acc"):
        one_round([0.5, 0.5], [1], 0.1, 0.1, threshold_acc=1.5)
    made, tokens = small_tree()
    for change, message in (
        ({"probs": small_probs(1)[None].double()}, "target_probs has dtype torch.float64"),
        ({"coins": torch.rand(1, 3)}, "uniform_samples has shape"),
        ({"tokens": torch.zeros(1, 7)}, "candidates has dtype torch.float32"),
    ):
        good = {"tokens": torch.tensor([tokens]), "probs": small_probs(1)[None], "coins": torch.rand(1, 7)}
        with pytest.raises(ValueError, match=message):
            run(made, **(good | change), final=torch.rand(1))


def test_empty_batch_and_no_device_reads():
    made = case(np.random.default_rng(0), "drafted", 0)
    empty = torch.empty(0, made.n)
    run(made, empty.long(), torch.empty(0, made.n, 5), empty, torch.empty(0))
    made, tokens = small_tree()
    topology = made.topology()
    links = (topology.retrieve_index, topology.retrieve_next_token, topology.retrieve_next_sibling)
    written = torch.zeros(7, dtype=torch.int32), torch.full((1, 3), -1).int(), torch.zeros(1, dtype=torch.int32)
    reals = torch.rand(1, 7), torch.rand(1), small_probs(1)[None], torch.zeros(1, 7, 5)
    with NoHostRead():
        tree_speculative_sampling_target_only(*written, torch.tensor([tokens]), *links, *reals)
        top_p_renorm_prob(top_k_renorm_prob(small_probs(1), torch.full((7,), 3)), torch.full((7,), 0.9))
