"""sglang.srt.model_executor.pool_configurator: the arena's bytes come off the KV budget, and the ring bound goes."""

from __future__ import annotations

import logging

from dsv4_npu_tree.config import tree_config
from dsv4_npu_tree.hooks.registry import Hook
from dsv4_npu_tree.paging.budget import ArenaBudget, ModelRows

logger = logging.getLogger(__name__)


def _calculate_pool_sizes(original, self, available_bytes, page_size):
    from sglang.srt.runtime_context import get_schedule

    requests = self._get_num_req_slots(self._resolve_max_running_requests_per_worker(available_bytes))
    model = ModelRows(tuple(self.stage_compress_ratios), self.attn_head_dim, self.indexer_head_dim)
    budget = ArenaBudget.of(tree_config(), requests, model, get_schedule().c128_page_size)
    reason = budget.refusal(available_bytes, "the KV budget")
    if reason is not None:
        raise RuntimeError(reason)
    logger.info("%s", budget)
    return original(self, available_bytes - budget.bytes, page_size)


def _assert_ring_serves_draft_tokens(original, self, num_draft_tokens):
    """The bound protects a ring that holds speculative rows; this one does not."""


_CLASS = "sglang.srt.model_executor.pool_configurator.DSV4PoolConfigurator."
HOOKS = [
    Hook(_CLASS + "calculate_pool_sizes", ("self", "available_bytes", "page_size"), _calculate_pool_sizes),
    Hook(_CLASS + "_assert_ring_serves_draft_tokens", ("self", "num_draft_tokens"), _assert_ring_serves_draft_tokens),
]
