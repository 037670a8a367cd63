import pytest
import torch
import torch_npu

from .exact import assert_rows_stand_alone, npu, same


def _rms(x: torch.Tensor, gamma: torch.Tensor, eps: float) -> torch.Tensor:
    rows = []
    for row in x.double():
        inverse = 1 / torch.sqrt(sum(value * value for value in row) / len(row) + eps)
        rows.append(row * inverse * gamma.double())
    return torch.stack(rows).to(x.dtype)


def test_rms_norm_matches_its_formula():
    x, gamma = torch.randn(5, 33).bfloat16(), torch.randn(33).bfloat16()
    out, inverse = torch_npu.npu_rms_norm(npu(x), npu(gamma), 1e-5)
    assert same(out, _rms(x, gamma, 1e-5))
    assert inverse.shape == (5, 1) and inverse.dtype == torch.float32


def test_add_rms_norm_rounds_the_sum_first():
    x1, x2, gamma = torch.randn(4, 16).bfloat16(), torch.randn(4, 16).bfloat16(), torch.ones(16).bfloat16()
    out, _, total = torch_npu.npu_add_rms_norm(npu(x1), npu(x2), npu(gamma), 1e-6)
    assert same(total, x1 + x2)
    assert same(out, _rms(x1 + x2, gamma, 1e-6))


def test_wrong_gamma_is_refused():
    with pytest.raises(RuntimeError, match=r"npu_rms_norm: gamma.shape"):
        torch_npu.npu_rms_norm(torch.ones(2, 4, device="npu"), torch.ones(3, device="npu"))


def test_rows_stand_alone():
    gamma = npu(torch.randn(257).bfloat16())
    assert_rows_stand_alone(lambda x: torch_npu.npu_rms_norm(x, gamma)[0], npu(torch.randn(19, 257).bfloat16()))
