"""Cases of kv_relocate: the moves of one round over the layers and buffer kinds of DeepSeek-V4-Flash."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from dsv4_npu_tree.ops.kernels import kv_relocate
from dsv4_npu_tree.ops.kernels.library import KernelLibrary
from dsv4_npu_tree.ops.kv_relocate import Moves
from kernel_bench.measure import Launch

# Buffers of a kind: layers and row bytes. 43 layers, half of them C4 with an indexer, the other half C128.
KINDS = {"swa": (43, 1024), "c4": (21, 1024), "indexer key": (21, 128), "indexer scale": (21, 2), "state": (21, 8192)}
BLOCK, BS, BRANCHES, STEPS = 16, 8, 8, 4


def runs(count: int, rows: int, stride: int, shift: int) -> Moves:
    """`count` runs of `rows` rows, each in a block of its own, moved `shift` rows up."""
    source = torch.arange(count) * stride
    return Moves(source, source + shift, torch.full((count,), rows), rows, runs_per_job=1)


def launch(label: str, parts: list[tuple[str, Moves]]) -> Launch:
    """`parts`: a buffer kind and its moves."""
    buffers: list[torch.Tensor] = []
    move_set: list[int] = []
    rows_moved = runs_moved = payload = 0
    for index, (kind, moves) in enumerate(parts):
        layers, width = KINDS[kind]
        height = int(torch.maximum(moves.src, moves.dst).max()) + moves.max_rows
        buffers += [torch.zeros(height, width, dtype=torch.uint8) for _ in range(layers)]
        move_set += [index] * layers
        rows_moved = int(moves.rows.sum())
        runs_moved += layers * int((moves.rows > 0).sum())
        payload += layers * rows_moved * width
    sets = [moves for _, moves in parts]

    def run(library: KernelLibrary) -> None:
        kv_relocate.launch(
            library,
            buffers,
            buffers,
            move_set,
            [m.src for m in sets],
            [m.dst for m in sets],
            [m.rows for m in sets],
            [m.max_rows for m in sets],
            [m.runs_per_job for m in sets],
        )

    return Launch("kv_relocate", label, run, 2 * payload, "run and buffer", runs_moved)


def reparent() -> Moves:
    """K = 4 beams of each request trade places in one layer: a row of the draft is a source and a destination."""
    first = (torch.arange(BS)[:, None] * 4 + torch.arange(4)) * BLOCK
    parent = torch.tensor([1, 0, 3, 2])
    rows = torch.full((BS * 4,), STEPS)
    return Moves(first[:, parent].reshape(-1), first.reshape(-1), rows, STEPS, runs_per_job=4)


def launches() -> Iterator[Launch]:
    count, far = BS * BRANCHES, BS * BRANCHES * BLOCK
    tail = runs(count, 15, BLOCK, far)
    kinds = ("swa", "c4", "indexer key", "indexer scale")
    yield launch(f"tails of 15 rows, bs={BS}, {BRANCHES} branches", [(kind, tail) for kind in kinds])
    commit = runs(2 * BS, 3, BLOCK, far)
    entries = runs(2 * BS, 1, BLOCK, far)
    state = runs(BS * (STEPS + 1), 1, 1, far)
    parts = [("swa", commit), *((kind, entries) for kind in kinds[1:]), ("state", state)]
    yield launch(f"commit of 3 rows, bs={BS}", parts)
    KINDS["draft"] = (1, 1024)
    yield launch(f"re-parenting, bs={BS}, K=4", [("draft", reparent())])
