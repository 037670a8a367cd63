"""sglang.srt.mem_cache.kv_cache_configurator: the pools get their arena here, the draft pool included."""

from __future__ import annotations

import logging

from dsv4_npu_tree.config import tree_config
from dsv4_npu_tree.hooks.hardware_backend.npu.dsv4.dsv4_memory_pool import ArenaBuild, growing_pools
from dsv4_npu_tree.hooks.registry import Hook
from dsv4_npu_tree.paging.arena import RowBytes, describe

logger = logging.getLogger(__name__)


def _build_dsv4_kv_pool(original, self, **kwargs):
    config = tree_config()
    requests = kwargs["req_to_token_pool"].req_to_token.shape[0]
    build = ArenaBuild(config, requests, config.topk if self.is_draft_worker else config.max_branches)
    with growing_pools(build):
        pool = original(self, **kwargs)
    pool.dsv4_tree_arena = arena = build.arena()
    indexer_rows = pool._indexer_pool(4).index_k_buffer[0] if arena.c4 is not None else None
    if arena.c4 is not None:
        c4_rows = pool.c4_kv_pool.kv_buffer[0].shape[:2].numel()
        assert indexer_rows.shape[:2].numel() == c4_rows, "C4 and indexer pools share their slots"
    ratios = [0] * self.layer_info.num_effective_layers if self.is_draft_worker else list(
        self.model_config.compress_ratios
    )[: self.layer_info.num_effective_layers]
    rows = {
        name: buffer[0].shape[:2].numel() - space.base
        for name, space, buffer in (
            ("swa", arena.swa, pool.swa_kv_pool.kv_buffer),
            ("c4", arena.c4, pool.c4_kv_pool.kv_buffer if arena.c4 else None),
            ("c128", arena.c128, pool.c128_kv_pool.kv_buffer if arena.c128 else None),
        )
        if space is not None
    }
    row_bytes = RowBytes.of_layers(
        ratios,
        self.model_config.qk_nope_head_dim + self.model_config.qk_rope_head_dim,
        self.model_config.index_head_dim,
    )
    what = "dsv4_tree draft" if self.is_draft_worker else "dsv4_tree"
    logger.info("%s", describe(rows, row_bytes, requests, build.branches, what))
    return pool


HOOKS = [
    Hook(
        "sglang.srt.mem_cache.kv_cache_configurator.KVCacheConfigurator._build_dsv4_kv_pool",
        (
            "self",
            "max_running_requests",
            "full_max_total_num_tokens",
            "swa_max_total_num_tokens",
            "c4_max_total_num_tokens",
            "c128_max_total_num_tokens",
            "c4_state_pool_size",
            "c128_state_pool_size",
            "c4_state_dtype",
            "c128_state_dtype",
            "req_to_token_pool",
        ),
        _build_dsv4_kv_pool,
    )
]
