"""The reference's masks are those of SGLang's builder: FULL_MASK and QLEN_ONLY by its kernel, packed by tree_mask."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from generators import VALID_KINDS, case
from probes import interpreted

from dsv4_npu_tree.reference import masks
from dsv4_npu_tree.tree.build import TreeMaskMode, tree_mask

WRITERS = {TreeMaskMode.FULL_MASK: masks.full, TreeMaskMode.QLEN_ONLY: masks.qlen}


@pytest.mark.parametrize("kind", VALID_KINDS)
@pytest.mark.parametrize("mode", WRITERS)
def test_equals_upstreams_triton_kernel(kind, mode):
    spec_tree = pytest.importorskip("sglang.kernels.ops.speculative.spec_tree")
    kernel = interpreted(spec_tree.sgl_build_tree_kernel_efficient_triton)
    rng = np.random.default_rng(17 + int(mode))
    made = next(made for made in iter(lambda: case(rng, kind, 2), None) if 3 <= made.n <= 12)
    made.seq_lens, made.max_branches = [int(s) for s in rng.integers(1, 9, 2)], made.n - 1
    parent_list, selected, _, seq_lens = made.tensors()
    expected = WRITERS[mode](made.trees())
    links = torch.full((3, 2, made.n), -1)
    written = torch.ones(len(expected), dtype=torch.bool)
    kernel[(2,)](
        parent_list,
        selected,
        seq_lens,
        seq_lens.cumsum(0) - seq_lens,
        written,
        torch.empty(2 * made.n, dtype=torch.int64),
        *links,
        topk=made.topk,
        depth=made.steps,
        draft_token_num=made.n,
        tree_mask_mode=int(mode),
        batch_size=2,
        parent_list_stride=parent_list.stride(0),
        selected_index_stride=selected.stride(0),
    )
    assert 0 < written.sum() < len(written)
    assert written.tolist() == expected.tolist()


@pytest.mark.parametrize("kind", [*VALID_KINDS, "orphaned"])
def test_packed_words_are_the_products(kind):
    """Upstream packs on CUDA only; the product's words are bits of the same rows."""
    rng, sizes = np.random.default_rng(23), set()
    for _ in range(60):
        made = case(rng, kind, 3)
        if made.n <= 32:
            words = tree_mask(made.topology(), TreeMaskMode.QLEN_ONLY_BITPACKING)
            packed = masks.packed(made.trees())
            assert words.to(torch.int64).tolist() == packed.tolist()
            assert words.element_size() == packed.itemsize
            sizes.add(packed.itemsize)
    assert len(sizes) > 1
