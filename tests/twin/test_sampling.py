import pytest
import torch
import torch_npu
from sgl_kernel_npu.sample import top_k_renorm_prob, top_p_renorm_prob

from .exact import assert_rows_stand_alone, npu


def _nucleus(probs: list[float], mass: float) -> set[int]:
    """Best first, until the mass before a token exceeds ``mass``."""
    kept, before = set(), 0.0
    for token in sorted(range(len(probs)), key=lambda i: (-probs[i], i)):
        if before > mass:
            break
        kept.add(token)
        before += probs[token]
    return kept


def test_top_k_top_p_filters_logits():
    logits = torch.log(torch.tensor([[0.1, 0.4, 0.2, 0.3], [0.7, 0.1, 0.1, 0.1]]))
    top_k = torch.tensor([3, 4], dtype=torch.int32)
    out = torch_npu.npu_top_k_top_p(npu(logits), npu(torch.tensor([0.6, 1.0])), npu(top_k)).cpu()
    assert (out[0] > float("-inf")).tolist() == [False, True, False, True]
    assert (out[1] > float("-inf")).all()
    assert torch.equal(out[0, [1, 3]], logits[0, [1, 3]])


def test_top_k_range():
    with pytest.raises(RuntimeError, match=r"k = \(0, 0\)"):
        torch_npu.npu_top_k_top_p(
            torch.zeros(1, 4, device="npu"), None, torch.zeros(1, dtype=torch.int32, device="npu")
        )


def test_renormalised_probabilities():
    probs = torch.rand(6, 11).softmax(-1)
    top_k = torch.tensor([1, 2, 3, 5, 11, 400])
    kept = top_k_renorm_prob(npu(probs), npu(top_k)).cpu()
    for row, count in enumerate(top_k.tolist()):
        assert (kept[row] > 0).sum() == min(count, 11)
        assert kept[row].sum().item() == pytest.approx(1)
    masses = torch.tensor([0.0, 0.1, 0.3, 0.5, 0.9, 1.0])
    kept = top_p_renorm_prob(npu(probs), npu(masses)).cpu()
    for row, mass in enumerate(masses.tolist()):
        assert set((kept[row] > 0).nonzero()[:, 0].tolist()) == _nucleus(probs[row].tolist(), mass)
        assert kept[row].sum().item() == pytest.approx(1)


def test_rows_stand_alone():
    rows = npu(torch.randn(9, 77))
    assert_rows_stand_alone(lambda x: top_k_renorm_prob(x.softmax(-1), 5), rows)
    assert_rows_stand_alone(lambda x: torch_npu.npu_top_k_top_p(x, npu(torch.full((x.shape[0],), 0.8)), None), rows)
