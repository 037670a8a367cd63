"""Cases of kv_relocate, a numpy oracle, and the call through the C ABI."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
from hostlayer.library import HostLibrary, Outcome


class Buffer(ctypes.Structure):
    """`KvRelocateBuffer`."""

    _fields_ = [("src", ctypes.c_uint64), ("dst", ctypes.c_uint64)] + [
        (name, ctypes.c_int64) for name in ("src_rows", "dst_rows", "row_bytes", "move_set")
    ]


class Set(ctypes.Structure):
    """`KvRelocateSet`."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("src", "dst", "rows")] + [
        (name, ctypes.c_int64) for name in ("runs", "max_rows", "runs_per_job")
    ]


class Arguments(ctypes.Structure):
    """`KvRelocateArgs`."""

    _fields_ = [
        ("buffers", ctypes.POINTER(Buffer)),
        ("buffer_count", ctypes.c_int64),
        ("sets", ctypes.POINTER(Set)),
        ("set_count", ctypes.c_int64),
        ("plan", ctypes.c_void_p),
    ]


@dataclass
class MoveSet:
    """Runs (source row, destination row, rows) that all buffers of the set share."""

    runs: list[tuple[int, int, int]]
    max_rows: int
    runs_per_job: int = 0


@dataclass
class Case:
    """buffers: (source, destination, move set) with uint8 arrays [rows, bytes]; a pair may be one array."""

    buffers: list[tuple[np.ndarray, np.ndarray, int]]
    sets: list[MoveSet]

    @property
    def minimum_bytes(self) -> int:
        """Bytes that must be read, and again written."""
        return sum(d.shape[1] * sum(r for _, _, r in self.sets[s].runs if r > 0) for _, d, s in self.buffers)

    @property
    def moved_runs(self) -> int:
        """Runs with rows, once per buffer."""
        return sum(sum(r > 0 for _, _, r in self.sets[s].runs) for _, _, s in self.buffers)


def oracle(case: Case) -> list[np.ndarray]:
    """Destinations after the moves: everything is read before anything is written."""
    taken = []
    for source, _, move_set in case.buffers:
        taken.append([source[s : s + rows].copy() for s, _, rows in case.sets[move_set].runs])
    results: dict[int, np.ndarray] = {}
    for _, destination, _ in case.buffers:
        results.setdefault(id(destination), destination.copy())
    for (_, destination, move_set), blocks in zip(case.buffers, taken):
        for (_, d, rows), block in zip(case.sets[move_set].runs, blocks):
            if rows:
                results[id(destination)][d : d + rows] = block
    return [results[id(destination)] for _, destination, _ in case.buffers]


def arguments_of(case: Case) -> tuple[Arguments, list]:
    """The call's arguments, and the run columns that they point to: to be kept until the call is done."""
    # Columns of their own memory, as those of the plugin are.
    columns = [[np.array([run[i] for run in m.runs], np.int64) for i in range(3)] for m in case.sets]
    buffers = (Buffer * max(len(case.buffers), 1))(
        *(
            Buffer(s.ctypes.data, d.ctypes.data, s.shape[0], d.shape[0], s.shape[1], move_set)
            for s, d, move_set in case.buffers
        )
    )
    sets = (Set * max(len(case.sets), 1))(
        *(
            Set(*(column.ctypes.data for column in runs), len(m.runs), m.max_rows, m.runs_per_job)
            for runs, m in zip(columns, case.sets)
        )
    )
    return Arguments(buffers, len(case.buffers), sets, len(case.sets), None), columns


def relocate(library: HostLibrary, case: Case, plan: np.ndarray | None = None) -> Outcome:
    """Move in place through `dsv4_kv_relocate`, on request with a plan made beforehand as for a card."""
    arguments, _columns = arguments_of(case)
    if plan is not None:
        arguments.plan = plan.ctypes.data
    return library.call("dsv4_kv_relocate", ctypes.byref(arguments), None)


def make_plan(library: HostLibrary, case: Case) -> np.ndarray:
    """What `dsv4_kv_relocate_plan` writes, after a first call for its size. It is given no run: a plan needs none."""
    size = ctypes.c_int64()
    arguments, _columns = arguments_of(case)
    for move_set in range(len(case.sets)):
        arguments.sets[move_set].src = arguments.sets[move_set].dst = arguments.sets[move_set].rows = None
    pointer, ask = ctypes.byref(arguments), ctypes.byref(size)
    assert library.call("dsv4_kv_relocate_plan", pointer, None, ctypes.c_int64(0), ask).status == 0
    plan = np.zeros(size.value, np.int64)
    address = ctypes.c_void_p(plan.ctypes.data)
    if plan.size:
        short = library.call("dsv4_kv_relocate_plan", pointer, address, ctypes.c_int64(plan.size - 1), ask)
        assert "room for" in short.error and not plan.any()
    assert library.call("dsv4_kv_relocate_plan", pointer, address, ctypes.c_int64(plan.size), ask).status == 0
    return plan


def relocate_on_card(case: Case) -> None:
    """The same moves through the torch op on an Ascend card; results are copied back into the case."""
    import torch

    from dsv4_npu_tree.ops.kv_relocate import Moves, kv_relocate

    tensors = {id(a): torch.from_numpy(a).npu() for s, d, _ in case.buffers for a in (s, d)}
    moves = [
        Moves(*torch.tensor(m.runs, dtype=torch.int64).reshape(-1, 3).T.contiguous().npu(), m.max_rows, m.runs_per_job)
        for m in case.sets
    ]
    sources = [tensors[id(s)] for s, _, _ in case.buffers]
    destinations = [tensors[id(d)] for _, d, _ in case.buffers]
    kv_relocate(sources, destinations, [m for _, _, m in case.buffers], moves)
    for _, destination, _ in case.buffers:
        destination[:] = tensors[id(destination)].cpu().numpy()


def random_rows(rng: np.random.Generator, rows: int, width: int) -> np.ndarray:
    return rng.integers(0, 256, (rows, width), dtype=np.uint8)


def random_runs(rng: np.random.Generator, rows: int, count: int, max_rows: int, low: int = 0) -> list:
    """Up to `count` runs inside rows [low, rows): destinations apart from each other, sources anywhere."""
    runs, at = [], low
    for _ in range(count):
        at += int(rng.integers(0, 3))
        length = int(rng.integers(0, max_rows + 1))
        if at + length > rows:
            break
        source = int(rng.integers(low, rows - length + 1))
        # A masked run's rows are not read, whatever they say.
        runs.append((source, at, length) if length else (-1, 1 << 40, 0))
        at += length
    return runs
