"""Cases of tree_compress: the trees that its tests prove, at the widths of DeepSeek-V4."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kernel_bench.measure import Launch, use_test_cases


def launches() -> Iterator[Launch]:
    use_test_cases()
    import cases_tree_compress as cases

    from dsv4_npu_tree.ops.kernels import tree_compress

    for kind in cases.KINDS:
        made = cases.tree_case(1, 8, 8, kind)
        for mode, name in ((tree_compress.FP32, "fp32"), (tree_compress.PAIRS, "pairs")):
            run = partial(
                lambda arguments, mode, library: tree_compress.launch(library, *arguments, mode=mode),
                made.arguments(),
                mode,
            )
            closing = int(made.closes.sum())
            label = f"{kind}, bs=8, n=8, {closing} close, {name}"
            yield Launch("tree_compress", label, run, sum(made.minimum_bytes), "closing node", max(closing, 1))
