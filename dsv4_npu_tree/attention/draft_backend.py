"""Multi-step draft: K rows per request and step, each on its own branch of the draft pool."""

from __future__ import annotations

import torch
from sglang.srt.hardware_backend.npu.attention.ascend_dsv4_backend import (
    DeepseekV4AscendAttnBackend,
    DeepseekV4AscendMultiStepDraftBackend,
)

from dsv4_npu_tree.attention.plan import DraftPlan, plan_draft
from dsv4_npu_tree.attention.rows import attend_rows, row_metadata
from dsv4_npu_tree.config import stale_history
from dsv4_npu_tree.ops.kv_relocate import kv_relocate
from dsv4_npu_tree.paging.buffers import PoolBuffers
from dsv4_npu_tree.paging.tables import PageTables


class DraftStepBackend(DeepseekV4AscendAttnBackend):
    """One draft step. The NextN layer is SWA-only: no compressor, no indexer."""

    plan: DraftPlan | None = None

    def begin(self, plan: DraftPlan) -> None:
        self.plan = plan
        row_metadata(self, plan.step_seqused(self.speculative_step_id), plan.table)
        self.graph_mode = False

    def get_swa_out_cache_loc(self, forward_batch) -> torch.Tensor:
        if forward_batch.forward_mode.is_idle():  # an attention-DP rank without requests
            return super().get_swa_out_cache_loc(forward_batch)
        assert self.plan is not None
        return self.plan.step_slots(self.speculative_step_id)

    def store_cache(self, *, layer_id: int, swa_k: torch.Tensor, forward_batch) -> None:
        slots = self.get_swa_out_cache_loc(forward_batch)
        rows = swa_k[: slots.shape[0]]  # attention-DP pads the tokens of a step
        self.token_to_kv_pool.set_swa_buffer(layer_id=layer_id, loc=slots, cache=rows)

    def _forward_swa(self, q, layer, forward_batch, attn_sink):
        return attend_rows(self, self.token_to_kv_pool.dsv4_tree_arena, q, layer, attn_sink, 0)


class DeepseekV4AscendTreeMultiStepDraftBackend(DeepseekV4AscendMultiStepDraftBackend):
    """Draft rows attend to the prefix and their true ancestors: when beams are re-selected, a row takes over the path
    rows of its parent's branch."""

    def __init__(self, model_runner, topk: int, speculative_num_steps: int):
        self.topk = topk
        self.speculative_num_steps = speculative_num_steps
        self.stale = stale_history()
        self.attn_backends = [
            DraftStepBackend(model_runner, speculative_step_id=step) for step in range(speculative_num_steps)
        ]
        first = self.attn_backends[0]
        self.pool = first.token_to_kv_pool
        if getattr(self.pool, "dsv4_tree_arena", None) is None:
            raise RuntimeError("dsv4_tree: the draft KV pool was built without an arena")
        self.rows = PoolBuffers.of_pool(self.pool).swa
        self.tables = PageTables(first.req_to_token, self.pool.full_to_swa_index_mapping, None, 1)
        self.plan: DraftPlan | None = None

    def init_forward_metadata(self, forward_batch) -> None:
        prefix = forward_batch.seq_lens.long()
        host = forward_batch.seq_lens_cpu
        plan = plan_draft(
            forward_batch.req_pool_indices.long(),
            prefix,
            int((prefix if host is None else host).max()),
            self.speculative_num_steps,
            self.topk,
            self.tables,
            self.pool.dsv4_tree_arena.swa,
        )
        kv_relocate(self.rows, self.rows, [0] * len(self.rows), [plan.tail])
        for backend in self.attn_backends[: self.speculative_num_steps - 1]:
            backend.begin(plan)
        self.plan = plan

    def reparent(self, step: int, parent: torch.Tensor) -> None:
        """Beams were re-selected before step ``step`` (>= 1): row t continues beam ``parent[:, t]`` (int64 [bs, K])."""
        assert self.plan is not None
        if self.stale:
            return
        kv_relocate(self.rows, self.rows, [0] * len(self.rows), [self.plan.reparent(parent, step)])
