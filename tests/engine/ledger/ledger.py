"""An SGLang plugin for a server under test. Found by its entry point where this folder is on the path.

Freed pages are overwritten with NaN the moment they are free, in the pools of target and draft. Before a cache flush
everything cached is evicted and each pool is counted; the result is one line of the log.
"""

from __future__ import annotations

import json
import logging
from typing import Any

import torch
from backend import freelist

MARK = "ledger: "
_PLENTY = 1 << 30
logger = logging.getLogger(__name__)
_pools: list[Any] = []
_kinds: dict[int, str] = {}  # id of an allocator -> kind; known from the first flush on
_evicted = {"full": 0, "swa": 0}  # tokens that made room for others
_overwritten = dict.fromkeys(freelist.KINDS, 0)  # rows of freed pages, over all buffers


def register() -> None:
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register(
        "sglang.srt.mem_cache.kv_cache_configurator.KVCacheConfigurator._build_dsv4_kv_pool",
        lambda pool, *args, **kwargs: _pools.append(pool),
        HookType.AFTER,
    )
    HookRegistry.register(
        "sglang.srt.mem_cache.allocator.paged.PagedTokenToKVPoolAllocator._release_page_ids", _freed, HookType.BEFORE
    )
    HookRegistry.register(
        "sglang.srt.mem_cache.unified_radix_cache.UnifiedRadixCache._evict", _evicting, HookType.AFTER
    )
    HookRegistry.register("sglang.srt.managers.scheduler.Scheduler.flush_cache", _flushed, HookType.AROUND)


def _freed(allocator, *page_ids: torch.Tensor) -> None:
    kind = _kinds.get(id(allocator))
    for pages in page_ids if kind is not None else ():
        for pool in _pools:
            _overwritten[kind] += freelist.fill(pool, kind, pages.long())


def _evicting(result, *args, **kwargs) -> None:
    _evicted["full"] += result.num_tokens_evicted
    _evicted["swa"] += result.swa_num_tokens_evicted


def _flushed(original, scheduler, *args, **kwargs) -> bool:
    from sglang.srt.mem_cache.base_prefix_cache import EvictParams

    allocator = scheduler.token_to_kv_pool_allocator
    if scheduler.is_fully_idle():
        counts: dict[str, Any] = {"evicted": dict(_evicted), "overwritten": dict(_overwritten)}
        scheduler.tree_cache.evict(EvictParams(num_tokens=_PLENTY, swa_num_tokens=_PLENTY))
        counts |= _count(scheduler, allocator)
        logger.info("%s%s", MARK, json.dumps(counts))
    done = original(scheduler, *args, **kwargs)
    if done:
        _kinds.update({id(freelist.part(allocator, kind)): kind for kind in freelist.KINDS})
        for pool in _pools:
            freelist.fill_free(pool, allocator)
    return done


def _count(scheduler, allocator) -> dict[str, Any]:
    """Pages by kind: [free, different free ones, all]; request rows likewise; what still refers to a page."""
    counts: dict[str, Any] = {}
    for kind in freelist.KINDS:
        free = freelist.free_pages(allocator, kind)
        counts[kind] = [len(free), len(free.unique()), freelist.part(allocator, kind).num_pages]
    rows = scheduler.req_to_token_pool
    counts["requests"] = [len(rows.free_slots), len(set(rows.free_slots)), rows.size]
    counts["c128 references"] = int(allocator.c128_page_refcount.sum())
    counts["sidecar pages"] = int((rows.req_to_c128_sidecar > 0).sum())
    counts["swa slots mapped"] = int((allocator.full_to_swa_index_mapping > 0).sum())
    counts["cached tokens"] = scheduler.tree_cache.total_size()
    return counts
