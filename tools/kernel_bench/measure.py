"""One launch of a kernel on the checking host library, and the figures that it leaves."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from dsv4_npu_tree.ops.kernels.library import KernelLibrary

REPOSITORY = Path(__file__).resolve().parents[2]
CORES = 48  # vector cores of a 910B


@dataclass(frozen=True)
class Launch:
    """A case to measure. `items` is what its DMA is counted per, named by `item`; minima are bytes."""

    kernel: str
    case: str
    run: Callable[[KernelLibrary], object]
    minimum_bytes: int
    item: str
    items: int
    nodes: int = 0


@dataclass(frozen=True)
class Figures:
    kernel: str
    case: str
    blocks: int
    dma_in_instructions: int
    dma_in_bytes: int
    dma_out_instructions: int
    dma_out_bytes: int
    scalar_gm_reads: int
    scalar_gm_writes: int
    scalar_ub_accesses: int
    vector_instructions: int
    peak_ub_bytes: int
    minimum_bytes: int
    ratio: float
    item: str
    dma_per_item: float
    scalar_ub_per_node: float | None

    as_dict = asdict


def measure(library: KernelLibrary, launch: Launch) -> Figures:
    library.configure("strict", CORES)
    launch.run(library)
    c = library.counters().as_dict()
    moved = c["dma_in_bytes"] + c["dma_out_bytes"]
    scalar = c["scalar_ub_reads"] + c["scalar_ub_writes"]
    same = {name: c[name] for name in Figures.__dataclass_fields__ if name in c}
    return Figures(
        kernel=launch.kernel,
        case=launch.case,
        scalar_ub_accesses=scalar,
        minimum_bytes=launch.minimum_bytes,
        ratio=round(moved / launch.minimum_bytes, 4),
        item=launch.item,
        dma_per_item=round((c["dma_in_instructions"] + c["dma_out_instructions"]) / launch.items, 3),
        scalar_ub_per_node=round(scalar / launch.nodes, 1) if launch.nodes else None,
        **same,
    )


def sizes(tensors: Iterable) -> int:
    """Bytes of tensors."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def use_test_cases() -> None:
    """Makes the generators of tests/ importable: benchmarks measure the cases that the tests prove."""
    for folder in ("unit", "kernels"):
        path = str(REPOSITORY / "tests" / folder)
        if path not in sys.path:
            sys.path.insert(0, path)
