"""What the CPU twin cannot show: the installed ops at the shapes of DeepSeek-V4, and our ops on the device."""

import pytest
import torch

pytestmark = pytest.mark.npu


@pytest.mark.parametrize("block", [16, 32, 64, 128])
def test_attention_templates_answer_rightly(block):
    """V4-Flash shapes, 256 rows: window, C4 with 512 selected entries, C128; see attention/probe.py."""
    from dsv4_npu_tree.attention.probe import ProbeShape, probe_block

    shape = ProbeShape(heads=64, head_dim=512, index_topk=512, rows=256, ratios=(4, 128))
    assert probe_block(block, {4: 32 if block == 128 else 16, 128: 16}, shape) is None


def test_tree_build_on_the_device_equals_the_host():
    from dsv4_npu_tree.ops.tree_build import tree_build

    parent_list = torch.tensor([[-1, 0, 1]])
    selected, scores = torch.tensor([[0, 1, 4]]), torch.tensor([[0.6, 0.4, 0.2]])
    host = tree_build(parent_list, selected, scores, torch.tensor([100]), 2, 2, 4, 3)
    device = tree_build(parent_list.npu(), selected.npu(), scores.npu(), torch.tensor([100]).npu(), 2, 2, 4, 3)
    for there, here in zip(device, host):
        assert torch.equal(there.cpu(), here)


def test_projection_keeps_fp32():
    """The product of compress_project must not be rounded to bf16 on the way (design: errors of 2**-9)."""
    from dsv4_npu_tree.ops.compress_project import compress_project

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 4096, generator=generator).to(torch.bfloat16)
    weight = torch.randn(256, 4096, generator=generator).to(torch.bfloat16).float() / 64
    ape = torch.zeros(4, 128)
    positions = torch.arange(64)
    exact = x.double() @ weight.double().T
    rows = compress_project(x.npu(), weight.npu(), ape.npu(), positions.npu()).cpu().double()
    assert (rows - exact).abs().max() < 1e-3 * exact.abs().max()
    rounded = exact.to(torch.bfloat16).double()
    assert (rows - exact).abs().max() < 0.1 * (rounded - exact).abs().max()
