"""`tools/bench_kernels`: the table, or JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator

from dsv4_npu_tree.ops.kernels.library import KernelLibrary, library_path
from kernel_bench import pooling, rows, trees
from kernel_bench.measure import Figures, Launch, measure

GROUPS: dict[str, Callable[[], Iterator[Launch]]] = {
    "tree": trees.launches,
    "kv_relocate": rows.launches,
    "tree_compress": pooling.launches,
}
COLUMNS: tuple[tuple[str, Callable[[Figures], object]], ...] = (
    ("kernel", lambda f: f.kernel),
    ("case", lambda f: f.case),
    ("cores", lambda f: f.blocks),
    ("in", lambda f: f.dma_in_instructions),
    ("in bytes", lambda f: f.dma_in_bytes),
    ("out", lambda f: f.dma_out_instructions),
    ("out bytes", lambda f: f.dma_out_bytes),
    ("GM r/w", lambda f: f"{f.scalar_gm_reads}/{f.scalar_gm_writes}"),
    ("vector", lambda f: f.vector_instructions),
    ("peak UB", lambda f: f.peak_ub_bytes),
    ("x minimum", lambda f: f"{f.ratio:.3f}"),
    ("UB scalars/node", lambda f: "" if f.scalar_ub_per_node is None else f.scalar_ub_per_node),
    ("DMA per", lambda f: f"{f.dma_per_item} / {f.item}"),
)


def table(figures: list[Figures]) -> str:
    cells = [[name for name, _ in COLUMNS]] + [[str(cell(f)) for _, cell in COLUMNS] for f in figures]
    widths = [max(len(row[i]) for row in cells) for i in range(len(COLUMNS))]
    left = (0, 1, len(COLUMNS) - 1)
    lines = [
        "  ".join(c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))).rstrip()
        for row in cells
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="tools/bench_kernels",
        description="DMA instructions and bytes, scalar and vector work of each kernel, counted by the checking host "
        "build on 48 cores. 'x minimum' is bytes moved over the bytes that must be moved. No clock is read: "
        "time on a card is not part of it.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, one object per case")
    parser.add_argument("--only", choices=GROUPS, help="one group of kernels")
    arguments = parser.parse_args()
    path = library_path("check")
    assert path is not None  # a wanted library that is missing raises
    library = KernelLibrary(path)
    figures = [
        measure(library, launch)
        for name, launches in GROUPS.items()
        if arguments.only in (None, name)
        for launch in launches()
    ]
    print(json.dumps([f.as_dict() for f in figures], indent=1) if arguments.json else table(figures))


if __name__ == "__main__":
    main()
