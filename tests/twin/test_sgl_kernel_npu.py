"""The stand-in package outside of sampling."""

import pytest
import torch
from sgl_kernel_npu.mem_cache.allocator import alloc_extend_kernel

from .exact import npu


def test_absent_functions_import_and_raise_when_called():
    from sgl_kernel_npu.norm.l1_norm import l1_norm
    from sgl_kernel_npu.sample import chain_speculative_sampling_triton

    for missing in (l1_norm, chain_speculative_sampling_triton):
        with pytest.raises(NotImplementedError, match="not modelled"):
            missing(torch.zeros(1))


def test_extend_fills_the_tail_then_fresh_pages():
    page, free = 4, torch.tensor([7, 3, 9])
    prefixes, ends = torch.tensor([2, 4, 0]), torch.tensor([7, 5, 3])
    last = torch.tensor([21, 43, -1])
    out = torch.empty(9, dtype=torch.int64, device="npu")
    alloc_extend_kernel[(3,)](*map(npu, (prefixes, ends, last, free)), out, 4, page, 16)
    # request 0: slots 22, 23 end its page, then page 7; request 1: page 3; request 2: page 9
    assert out.tolist() == [22, 23, 28, 29, 30, 12, 36, 37, 38]


def test_extend_inside_one_page():
    out = torch.empty(2, dtype=torch.int64, device="npu")
    arguments = (torch.tensor([1]), torch.tensor([3]), torch.tensor([8]), torch.tensor([5]))
    alloc_extend_kernel[(1,)](*map(npu, arguments), out, 1, 4, 2)
    assert out.tolist() == [9, 10]
