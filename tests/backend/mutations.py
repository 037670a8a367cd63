"""Faults of a tree backend, each planted in one function or one field of the plan."""

from __future__ import annotations

import inspect
from dataclasses import replace

import torch

from dsv4_npu_tree.attention import backend as backend_module
from dsv4_npu_tree.attention import plan as plan_module
from dsv4_npu_tree.attention.backend import DeepseekV4AscendTreeBackend
from dsv4_npu_tree.attention.draft_backend import DeepseekV4AscendTreeMultiStepDraftBackend
from dsv4_npu_tree.ops.tree_compress import ABSENT
from dsv4_npu_tree.paging.commit import CommitTarget


def _plan(change):
    """A fault that edits the finished plan."""

    def plant(patch) -> None:
        original = backend_module.plan_verify

        def planned(topology, request, prefix, *args):
            plan = original(topology, request, prefix, *args)
            change(plan, request)
            return plan

        patch.setattr(backend_module, "plan_verify", planned)

    return plant


def _fan_out(plan) -> tuple[torch.Tensor, torch.Tensor]:
    """Node row of every (request, branch, depth), and where that branch is the node's home."""
    shape = plan.topology.branch_table.shape
    row = plan.store_row.view(shape)
    branch = torch.arange(shape[1], device=row.device)[:, None]
    return row, plan.topology.home_branch.reshape(-1)[row] == branch


def sibling_visible(plan, request) -> None:
    """Every branch shows the first branch's node at depth 1."""
    row, _ = _fan_out(plan)
    plan.store_row = torch.cat([row[:, :, :1], row[:, :1, 1:2].expand_as(row[:, :, :1]), row[:, :, 2:]], 2).reshape(-1)


def window_by_row(plan, request) -> None:
    """A row's length is its number in the tree, not its position."""
    row = torch.arange(1, plan.topology.n + 1, device=plan.prefix.device)
    plan.seqused = (plan.prefix[:, None] + row).reshape(-1).to(torch.int32)


def kv_to_home_branch_only(plan, request) -> None:
    row, home = _fan_out(plan)
    plan.store_row, plan.store_slot = row[home], plan.store_slot.view(row.shape)[home]


def entries_to_home_branch_only(plan, request) -> None:
    _, home = _fan_out(plan)
    for ratio, slots in plan.entry_slot.items():
        plan.entry_slot[ratio] = torch.where(home.reshape(-1), slots, 0)


def table_entry_minus_one(plan, request) -> None:
    plan.swa_table = plan.swa_table.clone()
    plan.swa_table[0, int(plan.prefix[0]) // 16] = -1


def batch_kept_by_reference(plan, request) -> None:
    """The plan keeps the runner's input buffer instead of a copy."""
    plan.request = request


def own_block_hidden(patch) -> None:
    """Rows read the request's own unfinished block instead of the branch."""
    original = plan_module.block_table

    def shared(tables, request, prefix, branch, space, columns, private=None):
        return original(tables, request, prefix, branch, space, columns, torch.zeros_like(prefix, dtype=torch.bool))

    patch.setattr(plan_module, "block_table", shared)


def siblings_compressed(patch) -> None:
    """The compressor pools the rows before a node in row order instead of its path."""
    original = plan_module.path_windows

    def in_row_order(tables, request, prefix, depth, home, branch_table, ring):
        windows = original(tables, request, prefix, depth, home, branch_table, ring)
        bs, n = depth.shape
        width = windows.window.shape[1]
        back = torch.arange(1 - width, 1, device=depth.device)  # 0 is the node itself
        row = (torch.arange(n, device=depth.device)[:, None] + back).clamp(min=0)
        row = (torch.arange(bs, device=depth.device)[:, None, None] * n + row).reshape(bs * n, width)
        of_tree = (windows.window < 0) & (windows.window != ABSENT)
        return replace(windows, window=torch.where(of_tree, -1 - row, windows.window))

    patch.setattr(plan_module, "path_windows", in_row_order)


def commit_from_another_branch(patch) -> None:
    original = CommitTarget.moves

    def moves(self, request, prefix, branch, accept_lens, depths):
        return original(self, request, prefix, (branch + 1) % self.space.branches, accept_lens, depths)

    patch.setattr(CommitTarget, "moves", moves)


def commit_looks_up_late(patch) -> None:
    """The commit reads the tables again instead of what was planned."""
    original = plan_module.commit_target

    def deferred(tables, request, prefix, space):
        class Late(CommitTarget):
            def moves(self, *args):
                return original(tables, request, prefix, space).moves(*args)

        planned = original(tables, request, prefix, space)
        return Late(planned.space, planned.first, planned.second, planned.room)

    patch.setattr(plan_module, "commit_target", deferred)


def commit_one_row_more(patch) -> None:
    original = CommitTarget.moves

    def moves(self, request, prefix, branch, accept_lens, depths):
        return original(self, request, prefix, branch, (accept_lens + 1).clamp(max=depths), depths)

    patch.setattr(CommitTarget, "moves", moves)


def no_state_commit(patch) -> None:
    original = backend_module.state_moves

    def none(*args):
        moves = original(*args)
        return replace(moves, rows=torch.zeros_like(moves.rows))

    patch.setattr(backend_module, "state_moves", none)


def clear_unaccepted_left_on(patch) -> None:
    from sglang.srt.mem_cache.deepseek_v4_memory_pool import DeepSeekV4TokenToKVPool

    hooked = DeepSeekV4TokenToKVPool.clear_unaccepted_c128_draft_states
    stock = inspect.unwrap(hooked)
    assert stock is not hooked
    patch.setattr(DeepSeekV4TokenToKVPool, "clear_unaccepted_c128_draft_states", stock)


def tail_not_duplicated(patch) -> None:
    patch.setattr(DeepseekV4AscendTreeBackend, "duplicate", lambda self, plan: None)


def _without_scales(method: str):
    """``method`` moves everything but the indexer's scales."""

    def plant(patch) -> None:
        original = getattr(DeepseekV4AscendTreeBackend, method)

        def moved(self, *args):
            whole = self.buffers
            self.buffers = replace(whole, c4=[b for b in whole.c4 if b.dtype != torch.float16])
            try:
                return original(self, *args)
            finally:
                self.buffers = whole

        patch.setattr(DeepseekV4AscendTreeBackend, method, moved)

    return plant


def written_before_acceptance(patch) -> None:
    """Node KV goes to the request's own slot as well."""
    original = DeepseekV4AscendTreeBackend.store_cache

    def store_cache(self, *, layer_id, swa_k, forward_batch):
        original(self, layer_id=layer_id, swa_k=swa_k, forward_batch=forward_batch)
        if self.plan is not None:
            own = self.tables.swa(self.plan.request, self.plan.prefix)
            roots = torch.arange(own.shape[0], device=own.device) * self.plan.topology.n
            self.token_to_kv_pool.set_swa_buffer(layer_id=layer_id, loc=own, cache=swa_k[roots])

    patch.setattr(DeepseekV4AscendTreeBackend, "store_cache", store_cache)


def beams_not_reparented(patch) -> None:
    patch.setattr(DeepseekV4AscendTreeMultiStepDraftBackend, "reparent", lambda self, step, parent: None)


# name -> (fault, the check that must notice it, what its message names)
MUTATIONS = {
    "sibling visible": (_plan(sibling_visible), "rows", "row 2 differs"),
    "window by row index": (_plan(window_by_row), "poison", "row 2 differs"),
    "own block hidden": (own_block_hidden, "rows", "row 0 differs"),
    "siblings compressed": (siblings_compressed, "rows", "row 2 differs"),
    "kv to one branch": (_plan(kv_to_home_branch_only), "rows", "row 2 differs"),
    "entries to one branch": (_plan(entries_to_home_branch_only), "rows", "row [57] differs"),
    "commit from another branch": (commit_from_another_branch, "state", r"swa\[0\] at position"),
    "commit one row more": (commit_one_row_more, "bytes", r"commit: swa\[0\] row"),
    "commit looks up late": (commit_looks_up_late, "scramble", r"swa\[0\] at position"),
    "batch kept by reference": (_plan(batch_kept_by_reference), "scramble", r"swa\[0\] at position"),
    "no state commit": (no_state_commit, "state", "state_c4"),
    "clear_unaccepted left on": (clear_unaccepted_left_on, "partial", "state_c128"),
    "tail not duplicated": (tail_not_duplicated, "rows", "row 0 differs"),
    "scale not committed": (_without_scales("commit"), "state", "index_scale"),
    "scale not duplicated": (_without_scales("duplicate"), "selection", "row 0 differs"),
    "written before acceptance": (written_before_acceptance, "bytes", r"plan and forward: swa\[0\] row"),
    "beams not re-parented": (beams_not_reparented, "draft", "another token's KV"),
    "table entry -1": (_plan(table_entry_minus_one), "rows", "ori_block_table.*= -1"),
}
