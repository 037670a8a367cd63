"""A row's bits do not depend on the other rows of the call: plain torch ops on npu tensors."""

import pytest
import torch
import torch.nn.functional as F

from .exact import assert_rows_stand_alone, npu

ROWS = 37
_DTYPES = [torch.bfloat16, torch.float16, torch.float32]

_OPS = {
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "softmax_fp32": lambda x: F.softmax(x, -1, dtype=torch.float32),
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean(-1),
    "square_mean_rsqrt": lambda x: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6),
    "cumsum": lambda x: x.cumsum(-1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "norm": lambda x: x.norm(dim=-1),
    "var": lambda x: x.var(-1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]),
    "exp": torch.exp,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "gelu": F.gelu,
    "tanh": torch.tanh,
    "softplus": F.softplus,
    "sqrt": lambda x: x.abs().sqrt(),
    "pow": lambda x: x.abs() ** 1.7,
    "reciprocal": lambda x: 1 / (x + 3),
    "scaled_add": lambda x: torch.add(x, x * 0.3, alpha=0.7),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=0.3),
    "in_place": lambda x: x.clone().exp_().sigmoid_(),
}


@pytest.mark.parametrize("dtype", _DTYPES, ids=str)
@pytest.mark.parametrize("name", _OPS)
def test_op(name, dtype):
    assert_rows_stand_alone(_OPS[name], npu(torch.randn(ROWS, 203).to(dtype)))


@pytest.mark.parametrize("dtype", _DTYPES, ids=str)
def test_products(dtype):
    rows = npu(torch.randn(ROWS, 203).to(dtype))
    weight, bias = npu(torch.randn(59, 203).to(dtype)), npu(torch.randn(59).to(dtype))
    assert_rows_stand_alone(lambda x: F.linear(x, weight), rows)
    assert_rows_stand_alone(lambda x: F.linear(x, weight, bias), rows)
    assert_rows_stand_alone(lambda x: x @ weight.T, rows)
    assert_rows_stand_alone(lambda x: torch.einsum("tk,nk->tn", x, weight), rows)
    assert_rows_stand_alone(lambda x: torch.addmm(bias, x, weight.T), rows)
    assert_rows_stand_alone(lambda x: torch.matmul(x.unsqueeze(1), weight.T).squeeze(1), rows)
    grouped = npu(torch.randn(7, 29, 13).to(dtype))
    assert_rows_stand_alone(lambda x: torch.bmm(x.view(-1, 7, 29).transpose(0, 1), grouped).transpose(0, 1), rows)


def test_products_are_rounded_once():
    a, b = torch.randn(9, 300).bfloat16(), torch.randn(300, 11).bfloat16()
    exact = a.double() @ b.double()
    assert torch.equal((npu(a) @ npu(b)).cpu(), exact.bfloat16())
    assert torch.equal((npu(a.float()) @ npu(b.float())).cpu(), exact.float())


def test_result_dtypes_follow_torch():
    half = torch.randn(3, 4).bfloat16()
    for op in (
        lambda x: x.sum(-1, dtype=torch.float32),
        lambda x: F.softmax(x, -1, dtype=torch.float32),
        lambda x: x ** torch.tensor(2.0, device=x.device),
        lambda x: torch.pow(2, x),
        lambda x: torch.addcmul(x.float(), x, x),
        lambda x: x.sum(dtype=torch.float64),
    ):
        assert op(npu(half)).dtype == op(half).dtype


def test_integers_and_doubles_are_left_alone():
    whole = torch.arange(12).view(3, 4)
    assert torch.equal(npu(whole).sum(-1).cpu(), whole.sum(-1))
    wide = torch.randn(3, 4, dtype=torch.float64)
    assert torch.equal(npu(wide).exp().cpu(), wide.exp())
