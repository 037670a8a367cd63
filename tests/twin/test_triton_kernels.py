"""Torch code that stands in for Triton kernels."""

import torch
from torch_npu import triton_kernels

from .exact import assert_rows_stand_alone, npu, same

H, D = 4, 24


def _head(x, fn, scale, base):
    x = x.view(-1, H, D)
    y = torch.empty(x.shape[0], D, dtype=x.dtype, device="npu")
    triton_kernels.hc_head(
        x, fn, scale, base, y, hidden_size=D, HC_MULT=H, K_TOTAL=H * D, BLOCK_K=64, norm_eps=1e-6, hc_eps=1e-6
    )
    return y


def test_hc_head_matches_its_formula_and_rows_stand_alone():
    fn, scale, base = torch.randn(H, H * D), torch.randn(1), torch.randn(H)
    rows = torch.randn(9, H * D).bfloat16()
    call = [npu(value) for value in (fn, scale, base)]
    out = _head(npu(rows), *call)
    for t in range(9):
        flat = rows[t].double()
        mix = fn.double() @ flat / torch.sqrt(flat.square().mean() + 1e-6)
        weights = torch.sigmoid(mix * scale.double() + base.double()) + 1e-6
        expected = sum(weights[m] * flat[m * D : (m + 1) * D] for m in range(H))
        assert same(out[t], expected.bfloat16())
    assert_rows_stand_alone(lambda x: _head(x, *call), npu(rows))


def test_hc_broadcast_repeats_each_row():
    x = torch.randn(3, 5)
    y = torch.empty(3, 2, 5, device="npu")
    triton_kernels.hc_broadcast(npu(x), y, 5, 5, HC=2, BLOCK_H=8)
    assert same(y, x.unsqueeze(1).repeat(1, 2, 1))


def test_an_interpreted_kernel_still_runs():
    import triton
    import triton.language as tl

    triton_kernels.install()

    @triton.jit
    def double(source, target, count, BLOCK: tl.constexpr):  # noqa: N803
        place = tl.arange(0, BLOCK)
        tl.store(target + place, tl.load(source + place, mask=place < count) * 2, mask=place < count)

    source, target = npu(torch.arange(5.0)), torch.zeros(5, device="npu")
    double[(1,)](source, target, 5, BLOCK=8)
    assert target.tolist() == [0, 2, 4, 6, 8]
