import pytest
import torch

from .exact import assert_rows_stand_alone, npu, same


def _rotated(x, cos, sin, columns):
    x = npu(x.clone())
    torch.ops.custom.inplace_partial_rotary_mul(
        x, npu(cos), npu(sin), rotary_mode="interleave", partial_slice=list(columns)
    )
    return x


def test_pairs_rotate_in_place_and_the_rest_stays():
    x = torch.randn(3, 1, 2, 10).bfloat16()
    angle = torch.randn(3, 1, 1, 2)
    cos, sin = angle.cos().repeat_interleave(2, -1), angle.sin().repeat_interleave(2, -1)
    expected = x.double()
    for token in range(3):
        for pair in range(2):
            a, b = x.double()[token, 0, :, 6 + 2 * pair], x.double()[token, 0, :, 7 + 2 * pair]
            c, s = cos[token, 0, 0, 2 * pair].double(), sin[token, 0, 0, 2 * pair].double()
            expected[token, 0, :, 6 + 2 * pair] = a * c - b * s
            expected[token, 0, :, 7 + 2 * pair] = b * c + a * s
    assert same(_rotated(x, cos, sin, (6, 10)), expected.bfloat16())


def test_refusals():
    x, angle = torch.zeros(3, 1, 2, 10), torch.zeros(3, 1, 1, 4)
    with pytest.raises(RuntimeError, match="partial_slice"):
        _rotated(x, angle, angle, (8, 12))
    with pytest.raises(RuntimeError, match="r1.shape"):
        _rotated(x, angle[:2], angle[:2], (6, 10))


def test_rows_stand_alone():
    angle = torch.randn(11, 64)
    rows = npu(torch.cat([torch.randn(11, 128), angle], 1))

    def op(part):
        x, table = part[:, :128].bfloat16().view(-1, 1, 1, 128).cpu(), part[:, 128:].view(-1, 1, 1, 64).cpu()
        return _rotated(x, table.cos(), table.sin(), (64, 128))

    assert_rows_stand_alone(op, rows)
