"""State rows just before a radix-resumable boundary survive the prefill, wherever its chunks end."""

from __future__ import annotations

import pytest
import torch

from .checks import Mismatch
from .snapshot import buffers, owned_rows

RESUME = 2048  # 128 tokens an entry, 16 entries a C128 page
KEPT = ("state_c4[layer 1]", "state_indexer[layer 1]")


def history_rows(rig, sequence) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """C4 state rows that a request which resumes at the boundary pools: position and content."""
    owned = owned_rows(rig, sequence, RESUME)
    return {n: (owned[n].index, buffers(rig.pool)[n].cpu()[owned[n].rows].clone()) for n in KEPT}


def check_history(found, expected, what: str) -> None:
    for name, (index, rows) in expected.items():
        assert index.tolist() == [2044, 2045, 2046, 2047]
        differs = found[name][1] != rows
        if bool(differs.any()):
            row, column = differs.nonzero()[0].tolist()
            raise Mismatch(
                f"{what}: {name} at position {int(index[row])}, column {column}: "
                f"{found[name][1][row, column].item()} instead of {rows[row, column].item()}"
            )


@pytest.fixture
def long_prompt(draw):
    return draw(2100)


@pytest.fixture
def ended_there(rig, long_prompt):
    """The truth: a prefill that ended at the boundary."""
    (sequence,), _ = rig.prefill([long_prompt[:RESUME]])
    rows = history_rows(rig, sequence)
    rig.release(sequence)
    return rows


CHUNKS = [(), (1500,), (2047,), (2046, 2050)]


def forget_states(rig) -> None:
    """Overwrite every C4 state row but the dummy: a reused page must not remember the last test."""
    for name in KEPT:
        buffers(rig.pool)[name][:-1] = 777.0


def after_prefill(rig, prompt: list[int], chunks: tuple[int, ...]):
    forget_states(rig)
    (sequence,), _ = rig.prefill([prompt], chunks=chunks)
    rows = history_rows(rig, sequence)
    rig.release(sequence)
    return rows


def test_boundary_rows_survive_any_chunking(rig, long_prompt, ended_there):
    for chunks in CHUNKS:
        check_history(after_prefill(rig, long_prompt, chunks), ended_there, f"chunks cut at {chunks}")


def test_the_stock_prefill_loses_them(rig, long_prompt, ended_there, monkeypatch):
    """Control: without the step after the stock prefill the rows are gone unless a chunk ended there."""
    monkeypatch.setattr(type(rig.backend), "_keep_boundary_rows", lambda *_: None)
    for chunks in ((), (1500,)):
        with pytest.raises(Mismatch, match=r"state_c4\[layer 1\]"):
            check_history(after_prefill(rig, long_prompt, chunks), ended_there, f"stock, chunks cut at {chunks}")
    check_history(after_prefill(rig, long_prompt, (2048,)), ended_there, "stock, chunk ended at the boundary")
