import pytest
import torch
import torch_npu

from .exact import assert_rows_stand_alone, npu


def test_scale_is_the_largest_over_127_and_halves_round_to_even():
    x = torch.tensor([[127.0, 0.5, 1.5, 2.5, -0.5, -1.5], [254.0, 1.0, 3.0, 5.0, -1.0, -254.0]]).bfloat16()
    values, scale = torch_npu.npu_dynamic_quant(npu(x))
    assert values.dtype == torch.int8 and scale.dtype == torch.float32
    assert scale.tolist() == [1.0, 2.0]
    assert values.tolist() == [[127, 0, 2, 2, 0, -2], [127, 0, 2, 2, 0, -127]]


def test_a_zero_row_stays_zero():
    values, scale = torch_npu.npu_dynamic_quant(torch.zeros(2, 4, dtype=torch.bfloat16, device="npu"))
    assert scale.tolist() == [0, 0] and not values.any()


def test_higher_dimensions_quantise_per_token():
    x = torch.randn(3, 2, 16).bfloat16()
    values, scale = torch_npu.npu_dynamic_quant(npu(x))
    assert scale.shape == (3, 2)
    assert ((values.cpu() * scale.cpu().unsqueeze(-1)) - x.float()).abs().max() <= scale.max().item() / 2 * 1.001


def test_fp32_is_refused():
    with pytest.raises(RuntimeError, match=r"npu_dynamic_quant: input.dtype = torch.float32"):
        torch_npu.npu_dynamic_quant(torch.zeros(2, 4, device="npu"))


def test_rows_stand_alone():
    rows = npu(torch.randn(23, 130).bfloat16())
    assert_rows_stand_alone(lambda x: torch_npu.npu_dynamic_quant(x)[0], rows)
    assert_rows_stand_alone(lambda x: torch_npu.npu_dynamic_quant(x)[1], rows)
