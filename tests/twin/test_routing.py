import math

import pytest
import torch

from .exact import assert_rows_stand_alone, npu, same

E, K, HIDDEN, INNER = 6, 2, 16, 10


def _gate(x, bias=None, factor=1.5):
    return torch.ops.custom.npu_moe_gating_top_k(
        npu(x), K, bias=None if bias is None else npu(bias), routed_scaling_factor=factor, norm_type=2
    )


def test_gating_picks_by_biased_and_weighs_by_plain_score():
    x, bias = torch.randn(4, E), torch.randn(E)
    weights, experts, scores = _gate(x, bias)
    for t in range(4):
        plain = [math.sqrt(math.log1p(math.exp(float(value)))) for value in x[t]]
        ranked = sorted(range(E), key=lambda e: -(plain[e] + float(bias[e])))[:K]
        assert experts[t].tolist() == ranked
        total = sum(plain[e] for e in ranked)
        for place, expert in enumerate(ranked):
            assert weights[t, place].item() == pytest.approx(plain[expert] / total * 1.5, rel=1e-6)
    assert scores.shape == (4, E)


def test_equal_scores_go_to_the_lower_expert():
    assert _gate(torch.zeros(1, E))[1].tolist() == [[0, 1]]


def test_gating_refuses_other_scorings():
    with pytest.raises(RuntimeError, match="norm_type = 1"):
        torch.ops.custom.npu_moe_gating_top_k(torch.zeros(1, E, device="npu"), K, norm_type=1)


def _routed(x, experts, weight1, weight2, scales):
    """The four ops as SGLang chains them."""
    rows, place, counts, _ = torch.ops.npu.npu_moe_init_routing_v2(
        x,
        experts,
        active_num=x.shape[0] * K,
        expert_num=E,
        expert_tokens_num_type=1,
        expert_tokens_num_flag=True,
        active_expert_range=[0, E],
        quant_mode=-1,
    )
    groups = {"split_item": 2, "group_list_type": 1, "group_type": 0, "group_list": counts, "output_dtype": x.dtype}
    inner = torch.ops.npu.npu_grouped_matmul(x=[rows], weight=[weight1], **groups)[0]
    outer = torch.ops.npu.npu_grouped_matmul(x=[torch.ops.npu.npu_swiglu(inner)], weight=[weight2], **groups)[0]
    return torch.ops.npu.npu_moe_finalize_routing(outer, None, None, None, scales, place, experts, drop_pad_mode=2)


def _mixture(tokens):
    x = torch.randn(tokens, HIDDEN).bfloat16()
    experts = torch.stack([torch.randperm(E)[:K] for _ in range(tokens)]).to(torch.int32)
    weights = torch.randn(E, HIDDEN, 2 * INNER).bfloat16(), torch.randn(E, INNER, HIDDEN).bfloat16()
    return x, experts, *weights, torch.rand(tokens, K)


def test_routing_there_and_back_is_the_mixture():
    x, experts, weight1, weight2, scales = _mixture(5)
    out = _routed(*map(npu, (x, experts, weight1, weight2, scales)))
    expected = torch.zeros(5, HIDDEN, dtype=torch.float64)
    for t in range(5):
        for place in range(K):
            e = int(experts[t, place])
            inner = (x[t].double() @ weight1[e].double()).bfloat16().double()
            gate, up = inner[:INNER], inner[INNER:]
            active = (gate / (1 + torch.exp(-gate)) * up).bfloat16().double()
            expected[t] += scales[t, place].double() * (active @ weight2[e].double()).bfloat16().double()
    assert same(out, expected.bfloat16())


def test_rows_stand_alone():
    x, experts, weight1, weight2, scales = map(npu, _mixture(13))
    index = npu(torch.arange(13))
    assert_rows_stand_alone(lambda t: _routed(x[t], experts[t], weight1, weight2, scales[t]), index)
    logits = npu(torch.randn(13, E))
    assert_rows_stand_alone(lambda part: _gate(part)[0], logits)


def test_cumulative_groups():
    x, weight = torch.randn(5, 4).bfloat16(), torch.randn(3, 4, 2).bfloat16()
    ends = npu(torch.tensor([2, 2, 5]))
    out = torch.ops.npu.npu_grouped_matmul([npu(x)], [npu(weight)], group_list=ends, split_item=2, group_type=0)[0]
    assert same(out[:2], (x[:2].double() @ weight[0].double()).bfloat16())
    assert same(out[2:], (x[2:].double() @ weight[2].double()).bfloat16())


def test_bad_groups_and_experts_are_refused():
    x, weight = npu(torch.zeros(5, 4)), npu(torch.zeros(3, 4, 2))
    with pytest.raises(RuntimeError, match="group_list"):
        torch.ops.npu.npu_grouped_matmul(
            [x], [weight], group_list=npu(torch.tensor([2, 2, 6])), split_item=2, group_type=0
        )
    with pytest.raises(RuntimeError, match="expert_idx"):
        _routed(x, npu(torch.full((5, K), E, dtype=torch.int32)), weight, weight, npu(torch.ones(5, K)))


def test_expert_ids_are_recorded_on_request(tmp_path, monkeypatch):
    monkeypatch.setenv("NPU_TWIN_RECORD_EXPERTS", str(tmp_path))
    mixture = _mixture(3)
    _routed(*map(npu, mixture))
    (saved,) = tmp_path.iterdir()
    assert torch.equal(torch.load(saved), mixture[1])
