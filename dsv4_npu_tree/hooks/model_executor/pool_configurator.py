"""sglang.srt.model_executor.pool_configurator: the arena's bytes come off the KV budget, and the ring bound goes."""

from __future__ import annotations

from dsv4_npu_tree.config import tree_config
from dsv4_npu_tree.hooks.hardware_backend.npu.dsv4.dsv4_memory_pool import space_of
from dsv4_npu_tree.hooks.registry import Hook
from dsv4_npu_tree.paging.arena import RowBytes, arena_bytes, arena_pages, describe


def _calculate_pool_sizes(original, self, available_bytes, page_size):
    from sglang.srt.runtime_context import get_schedule

    config = tree_config()
    requests = self._get_num_req_slots(self._resolve_max_running_requests_per_worker(available_bytes))

    def rows(ratio: int, page: int, branches: int) -> int:
        return arena_pages(space_of(ratio, page, config, branches), requests, page) * page

    target_rows = {
        "swa": rows(1, page_size, config.max_branches),
        "c4": rows(4, page_size // 4, config.max_branches),
        "c128": rows(128, get_schedule().c128_page_size, config.max_branches),
    }
    target_bytes = RowBytes.of_layers(list(self.stage_compress_ratios), self.attn_head_dim, self.indexer_head_dim)
    draft_rows = {"swa": rows(1, page_size, config.topk)}
    draft_bytes = RowBytes.of_layers([0], self.attn_head_dim, self.indexer_head_dim)
    needed = arena_bytes(target_rows, target_bytes) + arena_bytes(draft_rows, draft_bytes)
    if needed >= available_bytes:
        raise RuntimeError(
            f"{describe(target_rows, target_bytes, requests, config.max_branches, 'dsv4_tree')} (draft "
            f"{arena_bytes(draft_rows, draft_bytes) / 2**20:.1f} MiB) does not fit the KV budget of "
            f"{available_bytes / 2**20:.1f} MiB: lower --max-running-requests or --speculative-num-draft-tokens, "
            "or raise --mem-fraction-static"
        )
    return original(self, available_bytes - needed, page_size)


def _assert_ring_serves_draft_tokens(original, self, num_draft_tokens):
    """The bound protects a ring that holds speculative rows; this one does not."""


_CLASS = "sglang.srt.model_executor.pool_configurator.DSV4PoolConfigurator."
HOOKS = [
    Hook(_CLASS + "calculate_pool_sizes", ("self", "available_bytes", "page_size"), _calculate_pool_sizes),
    Hook(_CLASS + "_assert_ring_serves_draft_tokens", ("self", "num_draft_tokens"), _assert_ring_serves_draft_tokens),
]
