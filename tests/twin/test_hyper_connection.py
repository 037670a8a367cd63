import torch

from .exact import assert_rows_stand_alone, npu, same

H, D = 4, 24


def _weights():
    rows = (2 + H) * H
    return torch.randn(rows, H * D) * 0.1, torch.randn(3), torch.randn(rows)


def _pre(x, fn, scale, base):
    return torch.ops.custom.npu_hc_pre(
        npu(x), npu(fn), npu(scale), npu(base), hc_mult=H, hc_sinkhorn_iters=20, norm_eps=1e-6, hc_eps=1e-6
    )


def _pre_of_one(x, fn, scale, base):
    """The formula for one token, written out."""
    flat = x.double().flatten()
    mix = fn.double() @ flat / torch.sqrt((flat * flat).mean() + 1e-6)
    scale, base = scale.double(), base.double()
    pre = torch.sigmoid(mix[:H] * scale[0] + base[:H]) + 1e-6
    post = 2 * torch.sigmoid(mix[H : 2 * H] * scale[1] + base[H : 2 * H])
    comb = torch.softmax(mix[2 * H :].view(H, H) * scale[2] + base[2 * H :].view(H, H), 1) + 1e-6
    comb = comb / (comb.sum(0, keepdim=True) + 1e-6)
    for _ in range(19):
        comb = comb / (comb.sum(1, keepdim=True) + 1e-6)
        comb = comb / (comb.sum(0, keepdim=True) + 1e-6)
    y = sum(pre[j] * x.double()[j] for j in range(H))
    return y.float(), post.float(), comb.float()


def test_pre_matches_its_formula():
    x = torch.randn(3, H, D).bfloat16()
    weights = _weights()
    outs = _pre(x, *weights)
    for token in range(3):
        for got, expected in zip(outs, _pre_of_one(x[token], *weights)):
            assert torch.allclose(got[token].cpu(), expected, rtol=1e-6, atol=1e-7)


def test_comb_is_doubly_stochastic():
    comb = _pre(torch.randn(5, H, D).bfloat16(), *_weights())[2].cpu()
    assert torch.allclose(comb.sum(1), torch.ones(5, H), atol=1e-4)
    assert torch.allclose(comb.sum(2), torch.ones(5, H), atol=1e-2)


def test_post_sums_over_the_first_index_of_comb():
    x, residual = torch.randn(2, D).bfloat16(), torch.randn(2, H, D).bfloat16()
    post, comb = torch.rand(2, H), torch.rand(2, H, H)
    expected = torch.empty(2, H, D, dtype=torch.float64)
    for t in range(2):
        for k in range(H):
            mixed = sum(comb[t, j, k].double() * residual[t, j].double() for j in range(H))
            expected[t, k] = post[t, k].double() * x[t].double() + mixed
    out = torch.ops.custom.npu_hc_post(npu(x), npu(residual), npu(post), npu(comb))
    assert same(out, expected.bfloat16())


def test_rows_stand_alone():
    weights = [npu(weight) for weight in _weights()]
    rows = npu(torch.randn(17, H * D).bfloat16())
    for which in range(3):
        assert_rows_stand_alone(lambda x, which=which: _pre(x.view(-1, H, D), *weights)[which], rows)

    def post(x):
        y, spread, comb = _pre(x.view(-1, H, D), *weights)
        return torch.ops.custom.npu_hc_post(y.bfloat16(), x.view(-1, H, D), spread, comb)

    assert_rows_stand_alone(post, rows)
