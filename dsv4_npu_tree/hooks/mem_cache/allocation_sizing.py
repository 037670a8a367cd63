"""sglang.srt.mem_cache.allocation_sizing: upstream reserves two pages per branch and running request; branches live in
the arena, so a decode step needs the verify and draft-extend slots only."""

from __future__ import annotations

from dsv4_npu_tree.config import tree_config
from dsv4_npu_tree.hooks.registry import Hook


def decode_slots() -> int:
    """Slots of a request that one round writes: n by draft extend, S+1 by the commit."""
    config = tree_config()
    return max(config.n, config.steps + 1)


def _get_alloc_len_per_decode(original):
    return decode_slots()


HOOKS = [Hook("sglang.srt.mem_cache.allocation_sizing.get_alloc_len_per_decode", (), _get_alloc_len_per_decode)]
