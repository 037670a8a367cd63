"""sglang.srt.mem_cache.kv_cache_configurator: the pools get their arena here, the draft pool included."""

from __future__ import annotations

from dsv4_npu_tree.config import tree_config
from dsv4_npu_tree.hooks.hardware_backend.npu.dsv4.dsv4_memory_pool import ArenaBuild, growing_pools
from dsv4_npu_tree.hooks.registry import Hook


def _build_dsv4_kv_pool(original, self, **kwargs):
    config, draft = tree_config(), self.is_draft_worker
    requests = kwargs["req_to_token_pool"].req_to_token.shape[0]
    build = ArenaBuild(config, requests, config.topk if draft else config.max_branches)
    with growing_pools(build):
        pool = original(self, **kwargs)
    pool.dsv4_tree_arena = build.arena()
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
