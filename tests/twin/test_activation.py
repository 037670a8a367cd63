import torch
import torch_npu

from .exact import assert_rows_stand_alone, npu, same


def test_swiglu_has_no_clamp():
    x = (torch.randn(3, 8) * 20).bfloat16()
    gate, up = x.double()[:, :4], x.double()[:, 4:]
    assert same(torch_npu.npu_swiglu(npu(x)), (gate / (1 + torch.exp(-gate)) * up).bfloat16())


def test_clipped_swiglu_clamps_gate_above_and_up_on_both_sides():
    x = (torch.randn(3, 8) * 20).bfloat16()
    gate, up = x.double()[:, :4].clamp(max=10), x.double()[:, 4:].clamp(-10, 10)
    out = torch.ops.npu.npu_clipped_swiglu(npu(x), alpha=1, limit=10.0, bias=0, interleaved=False)
    assert same(out, (gate / (1 + torch.exp(-gate)) * up).bfloat16())


def test_clipped_swiglu_interleaved():
    x = torch.randn(2, 6).bfloat16()
    gate, up = x.double()[:, ::2].clamp(max=7), x.double()[:, 1::2].clamp(-7, 7)
    out = torch.ops.npu.npu_clipped_swiglu(npu(x))
    assert same(out, (gate / (1 + torch.exp(-1.702 * gate)) * (up + 1)).bfloat16())


def test_rows_stand_alone():
    rows = npu(torch.randn(21, 94).bfloat16())
    assert_rows_stand_alone(torch_npu.npu_swiglu, rows)
    assert_rows_stand_alone(torch.ops.npu.npu_clipped_swiglu, rows)
