"""`DeepseekV4AscendTreeBackend`: target verify of EAGLE trees, exact along each root-to-node path."""

from __future__ import annotations

import torch
from sglang.srt.hardware_backend.npu.attention.ascend_dsv4_backend import DeepseekV4AscendAttnBackend

from dsv4_npu_tree.attention.plan import VerifyPlan, plan_verify
from dsv4_npu_tree.attention.rows import attend_rows, row_metadata
from dsv4_npu_tree.config import tree_config
from dsv4_npu_tree.ops.kv_relocate import Moves, kv_relocate
from dsv4_npu_tree.paging.buffers import PoolBuffers
from dsv4_npu_tree.paging.tables import PageTables
from dsv4_npu_tree.state.boundary import boundary_rows
from dsv4_npu_tree.state.compressor import pool_entries, project_rows
from dsv4_npu_tree.state.project import Projector
from dsv4_npu_tree.state.window import Ring, state_moves


class DeepseekV4AscendTreeBackend(DeepseekV4AscendAttnBackend):
    """The stock backend in every mode but target verify. In target verify each tree node is a row of its own; its KV
    and compressed entries go to the arena rows of every branch that contains it, and nothing else is written until
    ``commit``."""

    def __init__(self, model_runner, speculative_step_id: int = 0):
        super().__init__(model_runner, speculative_step_id=speculative_step_id)
        pool = self.token_to_kv_pool
        arena = getattr(pool, "dsv4_tree_arena", None)
        if arena is None:
            raise RuntimeError("dsv4_tree: the KV pool has no arena; is the plugin loaded in this process?")
        if self.req_to_token.shape[0] > arena.requests:
            raise RuntimeError(
                f"dsv4_tree: the arena serves {arena.requests} request rows, req_to_token has "
                f"{self.req_to_token.shape[0]}"
            )
        self.arena = arena
        self.buffers = PoolBuffers.of_pool(pool)
        self.rings = {ratio: Ring(ratio, p.ring_size) for ratio, p in self._dsv4_state_pools_by_ratio.items()}
        self.projector = Projector(model_runner.model)
        self._boundary: torch.Tensor | None = None
        self._scratch: dict[tuple[int, bool], torch.Tensor] = {}

    @property
    def tables(self) -> PageTables:
        requests = self.req_to_token_pool
        return PageTables(
            self.req_to_token,
            self.token_to_kv_pool.full_to_swa_index_mapping,
            requests.req_to_c128_sidecar,
            requests.c128_page_size,
        )

    @property
    def plan(self) -> VerifyPlan | None:
        """Plan of the verify in progress. It goes with its metadata, which SGLang drops without asking for new ones
        before the forward of an attention-DP rank that has no token."""
        return getattr(self.forward_metadata, "tree_plan", None)

    def init_forward_metadata(self, forward_batch) -> None:
        self._boundary = None
        if not forward_batch.forward_mode.is_target_verify():
            super().init_forward_metadata(forward_batch)
            return
        topology = getattr(forward_batch.spec_info, "tree_topology", None)
        if topology is None:
            raise RuntimeError("dsv4_tree: verify without a tree; the hook on build_eagle_verify_input is missing")
        prefix = forward_batch.seq_lens.long()
        topology = topology.padded(prefix.shape[0])
        host = forward_batch.seq_lens_cpu
        longest = int((prefix if host is None else host).max())
        plan = plan_verify(
            topology, forward_batch.req_pool_indices.long(), prefix, longest, self.tables, self.arena, self.rings
        )
        metadata = row_metadata(self, plan.seqused, plan.swa_table)
        metadata.c4_page_table, metadata.c128_page_table = plan.c4_table, plan.c128_table
        metadata.tree_plan = forward_batch.spec_info.tree_plan = plan
        self.duplicate(plan)
        forward_batch.spec_info.tree_backend = self
        self.graph_mode = False

    def duplicate(self, plan: VerifyPlan) -> None:
        """Copy the prefix tail into every used branch, all layers and buffer kinds in one call."""
        ratios = list(plan.tails)
        buffers = [(b, ratios.index(r)) for r in ratios for b in self.buffers.rows(r)]
        rows = [b for b, _ in buffers]
        kv_relocate(rows, rows, [i for _, i in buffers], [plan.tails[r] for r in ratios])

    def store_cache(self, *, layer_id: int, swa_k: torch.Tensor, forward_batch) -> None:
        plan = self.plan
        if plan is None:
            super().store_cache(layer_id=layer_id, swa_k=swa_k, forward_batch=forward_batch)
            return
        self.token_to_kv_pool.set_swa_buffer(layer_id=layer_id, loc=plan.store_slot, cache=swa_k[plan.store_row])

    def forward_compress(self, compressor, x: torch.Tensor, forward_batch) -> None:
        plan = self.plan
        if plan is None:
            super().forward_compress(compressor, x, forward_batch)
            if compressor.ratio == 4 and forward_batch.forward_mode.is_extend_without_speculative():
                self._keep_boundary_rows(compressor, x, forward_batch)
            return
        self._ensure_compressor_hadamard(compressor, x.device)
        self._ensure_fused_caches(compressor)
        ratio = compressor.ratio
        key = (compressor.layer_id, compressor.is_in_indexer)
        plan.scratch[key] = scratch = self._scratch_of(key, compressor)
        rows = project_rows(self.projector, compressor, x, plan.topology.positions, scratch[: x.shape[0]])
        state = self.token_to_kv_pool._get_state_pool(compressor.layer_id, compressor.is_in_indexer)
        entries = pool_entries(compressor, rows, state.kv_score_buffer.kv_score, plan.windows[ratio], x.dtype)
        self._compressor_epilog_npu(
            compressor, entries[plan.entry_row[ratio]], forward_batch, override_loc=plan.entry_slot[ratio]
        )

    def _scratch_of(self, key: tuple[int, bool], compressor) -> torch.Tensor:
        """fp32 ``[requests * n, 2*coff*D]`` for the projected rows of the largest round, one buffer per compressor for
        good: its address is part of the commit's relocation plan."""
        if key not in self._scratch:
            weight = self.projector.weight(compressor)
            self._scratch[key] = weight.new_empty(self.arena.requests * tree_config().n, weight.shape[0])
        return self._scratch[key]

    def _keep_boundary_rows(self, compressor, x: torch.Tensor, forward_batch) -> None:
        """After a stock prefill: store the C4 rows that a later radix hit resumes from (state/boundary.py)."""
        if self._boundary is None:  # the same rows for every layer of a forward
            self._boundary = boundary_rows(forward_batch.positions, 128 * self.req_to_token_pool.c128_page_size)
        keep = self._boundary
        if keep.numel() == 0:
            return
        position = forward_batch.positions[keep]
        request = forward_batch.req_pool_indices.repeat_interleave(forward_batch.extend_seq_lens.long())[keep].long()
        rows = project_rows(self.projector, compressor, x[keep], position)
        state = self.token_to_kv_pool._get_state_pool(compressor.layer_id, compressor.is_in_indexer)
        state.kv_score_buffer.kv_score[self.rings[4].rows(self.tables, request, position)] = rows

    def _forward_npu_fused(self, c4_indexer, q, k, k_scale, weights, forward_batch):
        if self.plan is not None:
            k, k_scale = self.arena.c4.view(k), self.arena.c4.view(k_scale)
        return super()._forward_npu_fused(c4_indexer, q, k, k_scale, weights, forward_batch)

    def _forward_swa(self, q, layer, forward_batch, attn_sink):
        if self.plan is None:
            return super()._forward_swa(q, layer, forward_batch, attn_sink)
        return attend_rows(self, self.arena, q, layer, attn_sink, 0)

    def _forward_compressed(self, q, layer, forward_batch, attn_sink, compress_ratio):
        if self.plan is None:
            return super()._forward_compressed(q, layer, forward_batch, attn_sink, compress_ratio)
        return attend_rows(self, self.arena, q, layer, attn_sink, compress_ratio)

    def commit(self, plan: VerifyPlan, accept_index: torch.Tensor, accept_lens: torch.Tensor) -> None:
        """Move the accepted path to the request's own slots: KV of every kind and the compressor state.

        accept_index int ``[bs, S+1]``: global node ids, -1 padded. accept_lens int ``[bs]``: accepted rows, root
        included. Reads no table: every destination was planned before the forward.
        """
        topology = plan.topology
        index, lens = accept_index.long(), accept_lens.long()
        bs, depths = index.shape
        request, prefix = plan.request[:bs], plan.prefix[:bs]
        first_node = torch.arange(bs, device=index.device) * topology.n
        last = index.gather(1, (lens - 1).clamp(min=0)[:, None])[:, 0] - first_node
        branch = topology.home_branch[:bs].long().gather(1, last.clamp(min=0)[:, None])[:, 0].clamp(min=0)
        moves: list[Moves] = []
        sources, targets, move_set = [], [], []
        for ratio, target in plan.targets.items():
            for buffer in self.buffers.rows(ratio):
                sources.append(buffer)
                targets.append(buffer)
                move_set.append(len(moves))
            moves.append(target.moves(request, prefix, branch, lens, depths))
        for ratio, ring_rows in plan.ring_rows.items():
            for layer, is_indexer in plan.scratch:
                state = self.token_to_kv_pool._get_state_pool(layer, is_indexer)
                if state.ratio == ratio:
                    sources.append(plan.scratch[layer, is_indexer])
                    targets.append(state.kv_score_buffer.kv_score)
                    move_set.append(len(moves))
            moves.append(state_moves(ring_rows[:bs], index, lens, self.rings[ratio].size))
        kv_relocate(sources, targets, move_set, moves)
