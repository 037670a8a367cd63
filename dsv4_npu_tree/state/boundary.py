"""State rows just before a radix-resumable boundary, which a stock prefill drops.

The fused compressor keeps only the last C4 rows of the chunk it ran on. A radix hit can resume at any multiple of
``128 * c128_page_size`` tokens, also where no chunk ended; its first C4 entry then reads rows that were never stored.
"""

from __future__ import annotations

import torch

C4_HISTORY = 4  # tokens of the previous block that the first entry after a boundary pools


def boundary_rows(positions: torch.Tensor, resume: int) -> torch.Tensor:
    """Indices int64 of the rows of an extend batch that a later prefix hit at a multiple of ``resume`` needs.

    positions: int64 ``[T]``.
    """
    return (positions % resume >= resume - C4_HISTORY).nonzero().flatten()
