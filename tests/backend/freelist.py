"""Free pages of SGLang's allocators, and the pool rows behind them."""

from __future__ import annotations

import torch

KINDS = ("full", "swa", "c128")


def part(allocator, kind: str):
    """The allocator of one kind of page: full (C4 rows follow it), swa, c128."""
    return getattr(allocator, f"{kind}_attn_allocator")


def free_pages(allocator, kind: str) -> torch.Tensor:
    """Page ids int64 that nobody holds."""
    return part(allocator, kind).get_all_free_pages().long()


def rows(pool, kind: str) -> list[tuple[torch.Tensor, int]]:
    """(flat row buffer, rows of a page) of all that lies in the pages of one kind; a draft pool has SWA rows only."""

    def flat(buffers) -> list[tuple[torch.Tensor, int]]:
        return [(buffer.view(-1, buffer.shape[-1]), buffer.shape[1]) for buffer in buffers]

    if kind == "swa":
        states = [*(pool.compress_state_pools or []), *(pool.indexer_compress_state_pools or [])]
        of_pages = [state for state in states if state is not None and state.ratio == 4]
        return flat(pool.swa_kv_pool.kv_buffer) + [(s.kv_score_buffer.kv_score, s.ring_size) for s in of_pages]
    if pool.c4_kv_pool is None:
        return []
    if kind == "c128":
        return flat(pool.c128_kv_pool.kv_buffer)
    indexer = pool._indexer_pool(4)
    return flat([*pool.c4_kv_pool.kv_buffer, *indexer.index_k_buffer, *indexer.index_scale_buffer])


@torch.no_grad()
def fill(pool, kind: str, pages: torch.Tensor, value: float = float("nan")) -> int:
    """Overwrite every row of these pages: ``value`` in floating-point rows, 127 in integer ones. Returns rows times
    buffers."""
    written = 0
    for buffer, of_page in rows(pool, kind):
        index = (pages[:, None] * of_page + torch.arange(of_page, device=pages.device)).reshape(-1)
        buffer[index] = value if buffer.is_floating_point() else 127
        written += index.numel()
    return written


def fill_free(pool, allocator, value: float = float("nan")) -> int:
    """Overwrite every free page of a pool."""
    return sum(fill(pool, kind, free_pages(allocator, kind), value) for kind in KINDS)
