"""Slot allocation of an extend batch."""

import torch
from torch_npu import cpu_view


class _Launcher:
    """Called as ``kernel[grid](...)``, like a Triton kernel."""

    def __init__(self, function):
        self._function = function

    def __getitem__(self, grid):
        return self._function


def _alloc_extend(prefix_lens, seq_lens, last_loc, free_pages, out_indices, bs_upper, page_size, max_tokens) -> None:
    """Slots of positions ``[prefix, seq)`` of each request: the rest of its last page, then free pages in order.

    prefix_lens, seq_lens, last_loc (slot of the last stored token): int ``[B]``. free_pages: int ``[pages]``.
    out_indices: int64 ``[sum(seq - prefix)]``, written in place.
    """
    prefixes, ends, lasts = cpu_view(prefix_lens).tolist(), cpu_view(seq_lens).tolist(), cpu_view(last_loc).tolist()
    pages, out = cpu_view(free_pages), cpu_view(out_indices)
    written, taken = 0, 0
    for prefix, end, last in zip(prefixes, ends, lasts, strict=True):
        tail = min(end, -(-prefix // page_size) * page_size) - prefix
        out[written : written + tail] = torch.arange(last + 1, last + 1 + tail)
        written += tail
        left = end - prefix - tail
        count = -(-left // page_size)
        fresh = pages[taken : taken + count, None] * page_size + torch.arange(page_size)
        out[written : written + left] = fresh.reshape(-1)[:left]
        written += left
        taken += count


alloc_extend_kernel = _Launcher(_alloc_extend)
