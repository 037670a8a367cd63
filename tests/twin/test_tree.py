"""Tree build and the verification kernels."""

import pytest
import torch
from sgl_kernel_npu.sample import tree_speculative_sampling_target_only
from sgl_kernel_npu.sample.verify_tree_greedy import verify_tree_greedy

from .exact import npu

# Two levels under the root, topk 2. Level 1: candidates 0, 1. Level 2: children of 0 are 2, 3; of 1 are 4, 5.
# parent_list: column 0 is the root (-1), column c // 2 the parent candidate of c.
PARENTS = [-1, 0, 1]


def _build(selected, lengths, topk=2, depth=2, mode=0, parents=PARENTS):
    requests, nodes = len(selected), len(selected[0]) + 1
    size = sum(lengths) * nodes + requests * nodes * nodes if mode == 0 else requests * nodes * nodes
    out = {
        "tree_mask": torch.ones(size, dtype=torch.bool, device="npu"),
        "positions": torch.zeros(requests * nodes, dtype=torch.int64, device="npu"),
    }
    for name in ("retrive_index", "retrive_next_token", "retrive_next_sibling"):
        out[name] = torch.full((requests, nodes), -1, dtype=torch.int64, device="npu")
    torch.ops.npu.build_tree_kernel_efficient(
        npu(torch.tensor([parents] * requests)),
        npu(torch.tensor(selected)),
        npu(torch.tensor(lengths)),
        *out.values(),
        topk,
        depth,
        nodes,
        mode,
    )
    return {name: value.cpu() for name, value in out.items()}


def test_a_tree_by_hand():
    out = _build([[0, 1, 2, 5]], [7])
    # nodes: 0 root, 1 and 2 its children, 3 under 1, 4 under 2
    assert out["positions"].tolist() == [7, 8, 8, 9, 9]
    assert out["retrive_index"].tolist() == [[0, 1, 2, 3, 4]]
    assert out["retrive_next_token"].tolist() == [[1, 3, 4, -1, -1]]
    assert out["retrive_next_sibling"].tolist() == [[-1, 2, -1, -1, -1]]
    mask = out["tree_mask"].view(5, 12)
    assert mask[:, :7].all()
    assert mask[:, 7:].int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 0, 1, 0, 0],
        [1, 1, 0, 1, 0],
        [1, 0, 1, 0, 1],
    ]


def test_requests_of_different_lengths():
    out = _build([[0, 1, 2], [0, 2, 3]], [3, 5])
    assert out["positions"].tolist() == [3, 4, 4, 5, 5, 6, 7, 7]
    assert out["retrive_index"].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert out["retrive_next_token"].tolist() == [[1, 3, -1, -1], [1, 2, -1, -1]]
    assert out["retrive_next_sibling"].tolist() == [[-1, 2, -1, -1], [-1, -1, 3, -1]]
    second = out["tree_mask"][4 * (3 + 4) :].view(4, 9)
    assert second[3].int().tolist() == [1] * 5 + [1, 1, 0, 1]


def test_a_chain():
    out = _build([[0, 1, 2]], [4], topk=1, depth=3, parents=[-1, 0, 1])
    assert out["positions"].tolist() == [4, 5, 6, 7]
    assert out["retrive_next_token"].tolist() == [[1, 2, 3, -1]]
    assert (out["retrive_next_sibling"] == -1).all()


def test_qlen_only_masks_overwrite_each_other():
    out = _build([[0, 1, 2], [0, 1, 5]], [3, 5], mode=1)
    assert out["tree_mask"][:4].int().tolist() == [1, 1, 0, 1]
    assert out["tree_mask"][4:20].all()
    assert out["tree_mask"][20:24].int().tolist() == [1, 0, 1, 1]
    assert out["positions"].tolist() == [3, 4, 4, 5, 5, 6, 6, 7]


class TestBuildRefusals:
    def test_no_requests(self):
        empty = torch.zeros(0, 2, dtype=torch.int64, device="npu")
        with pytest.raises(RuntimeError, match="bs 0"):
            torch.ops.npu.build_tree_kernel_efficient(
                empty, empty, empty[:, 0], empty.bool(), empty[:, 0], empty, empty, empty, 2, 2, 3, 0
            )

    def test_a_qlen_only_batch_that_overruns(self):
        with pytest.raises(RuntimeError, match="tree_mask.shape"):
            _build([[0, 1]] * 4, [3] * 4, mode=1)

    def test_bit_packing(self):
        with pytest.raises(RuntimeError, match="tree_mask_mode = 2"):
            _build([[0, 1]], [3], mode=2)

    def test_an_orphan(self):
        with pytest.raises(RuntimeError, match=r"selected_index\[0, 1\] = 5"):
            _build([[0, 5]], [3])


def _greedy(candidates, target, next_token=None, sibling=None, width=None):
    requests, nodes = len(candidates), len(candidates[0])
    chain = [[*range(1, nodes), -1]] * requests
    out = (
        torch.full((requests * nodes,), -7, dtype=torch.int32, device="npu"),
        torch.full((requests, width or nodes), -1, dtype=torch.int32, device="npu"),
        torch.zeros(requests, dtype=torch.int32, device="npu"),
    )
    verify_tree_greedy(
        *out,
        npu(torch.tensor(candidates)),
        torch.arange(requests * nodes, device="npu").view(requests, nodes),
        npu(torch.tensor(next_token or chain)),
        npu(torch.tensor(sibling or [[-1] * nodes] * requests)),
        npu(torch.tensor(target)),
    )
    return [value.tolist() for value in out]


def test_greedy_chains():
    predicts, accepted, counts = _greedy(
        [[5, 1, 2, 3], [5, 1, 2, 3], [5, 9, 2, 3]], [[1, 2, 3, 4], [1, 8, 3, 4], [1, 2, 3, 4]]
    )
    assert counts == [3, 1, 0]
    assert accepted == [[0, 1, 2, 3], [4, 5, -1, -1], [8, -1, -1, -1]]
    assert predicts == [1, 2, 3, 4, 1, 8, -7, -7, 1, -7, -7, -7]


def test_greedy_trees_are_refused():
    with pytest.raises(RuntimeError, match="chain-only"):
        _greedy([[5, 1, 2]], [[1, 2, 3]], next_token=[[1, -1, -1]], sibling=[[-1, 2, -1]])
    with pytest.raises(RuntimeError, match="row stride is 4"):
        _greedy([[5, 1, 2, 3]], [[1, 2, 3, 4]], width=3)


class SamplingCase:
    """Root with children 1, 2; node 1 has child 3. Vocabulary of 4."""

    NEXT, SIBLING = [[1, 3, -1, -1]], [[-1, 2, -1, -1]]
    CANDIDATES = [[0, 1, 2, 3]]

    def run(self, probs, coins, final, **thresholds):
        out = {
            "predicts": torch.full((4,), -7, dtype=torch.int32, device="npu"),
            "accept_index": torch.full((1, 3), -1, dtype=torch.int32, device="npu"),
            "accept_token_num": torch.zeros(1, dtype=torch.int32, device="npu"),
        }
        scratch = torch.full((1, 4, 4), 9.0, device="npu")
        tree_speculative_sampling_target_only(
            **out,
            candidates=npu(torch.tensor(self.CANDIDATES)),
            retrive_index=torch.arange(4, device="npu").view(1, 4),
            retrive_next_token=npu(torch.tensor(self.NEXT)),
            retrive_next_sibling=npu(torch.tensor(self.SIBLING)),
            uniform_samples=npu(torch.tensor([coins])),
            uniform_samples_for_final_sampling=npu(torch.tensor([final])),
            target_probs=npu(torch.tensor([probs])),
            draft_probs=scratch,
            **thresholds,
        )
        return *(value.tolist() for value in out.values()), scratch.cpu()[0]


PROBS = [[0.1, 0.3, 0.4, 0.2], [0.25, 0.25, 0.1, 0.4], [0.7, 0.1, 0.1, 0.1], [0.0, 0.0, 0.0, 1.0]]


def test_sampling_accepts_down_a_path():
    predicts, accepted, counts, _ = SamplingCase().run(PROBS, [0.3, 0.39, 0.5, 0.5], 0.5)
    assert (counts, accepted) == ([2], [[0, 1, 3]])
    assert predicts == [1, 3, -7, 3]


def test_sampling_tries_siblings_with_the_mass_so_far():
    predicts, accepted, counts, scratch = SamplingCase().run(PROBS, [0.65, 0.5, 0.5, 0.5], 0.05)
    assert (counts, accepted) == ([1], [[0, 2, -1]])
    assert predicts == [2, -7, 0, -7]
    assert scratch[0].tolist() == pytest.approx([0, 0.3, 0, 0])


def test_sampling_draws_from_what_was_not_rejected():
    drawn = []
    for step in range(100):
        predicts, _, counts, _ = SamplingCase().run(PROBS, [0.95, 0.5, 0.5, 0.5], (step + 0.5) / 100)
        assert counts == [0]
        drawn.append(predicts[0])
    assert set(drawn) == {0, 3}
    assert abs(drawn.count(0) - 100 / 3) <= 1


def test_sampling_threshold_single_accepts_at_once():
    _, accepted, _, _ = SamplingCase().run(PROBS, [0.99, 0.99, 0.5, 0.5], 0.5, threshold_single=0.25)
    assert accepted == [[0, 1, 3]]


def test_sampling_checks_its_inputs():
    case = SamplingCase()
    case.NEXT = [[1, 3, -1]]
    with pytest.raises(ValueError, match="retrive_next_token"):
        case.run(PROBS, [0.5] * 4, 0.5)
    with pytest.raises(ValueError, match="threshold"):
        SamplingCase().run(PROBS, [0.5] * 4, 0.5, threshold_acc=2.0)


def test_sampling_follows_the_target_distribution():
    """Marginal of the first token over many coins is the target's row."""
    torch.manual_seed(3)
    tokens = torch.zeros(4)
    for _ in range(800):
        predicts, *_ = SamplingCase().run(PROBS, torch.rand(4).tolist(), torch.rand(()).item())
        tokens[predicts[0]] += 1
    assert torch.allclose(tokens / 800, torch.tensor(PROBS[0]), atol=0.06)
