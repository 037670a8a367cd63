"""sglang.srt.model_executor.pool_configurator: the arena's bytes come off the KV budget, and the ring bound goes."""

from __future__ import annotations

import logging
from functools import lru_cache

from dsv4_npu_tree.attention.probe import ProbeShape, settled_block_rows
from dsv4_npu_tree.config import settle_block_rows, tree_config
from dsv4_npu_tree.hooks.registry import Hook
from dsv4_npu_tree.paging.budget import ArenaBudget, ModelRows

logger = logging.getLogger(__name__)


@lru_cache(maxsize=1)
def _probe(requests: int, head_dim: int, ratios: tuple[int, ...]) -> None:
    from sglang.srt.runtime_context import get_parallel, get_schedule, process_model_config

    config, model = tree_config(), process_model_config()
    shape = ProbeShape(
        heads=model.num_attention_heads // get_parallel().attn_tp_size,
        head_dim=head_dim,
        index_topk=model.hf_config.index_topk,
        rows=requests * config.n,
        ratios=ratios,
    )
    settle_block_rows(settled_block_rows(config, get_schedule().c128_page_size, shape))


def _calculate_pool_sizes(original, self, available_bytes, page_size):
    from sglang.srt.runtime_context import get_schedule, process_model_config

    requests = self._get_num_req_slots(self._resolve_max_running_requests_per_worker(available_bytes))
    _probe(requests, self.attn_head_dim, tuple(sorted(set(self.stage_compress_ratios) - {0})))
    hidden = process_model_config().hidden_size
    model = ModelRows(tuple(self.stage_compress_ratios), self.attn_head_dim, self.indexer_head_dim, hidden)
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
