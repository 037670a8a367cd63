"""The mutants, at least one for every rule of exact tree verification."""

from __future__ import annotations

from .mutant import Mutant

ROWS = "tests/backend/test_rows.py::"
STATE = "tests/backend/test_state.py::"
BYSTANDERS = "tests/backend/test_bystanders.py::"

MUTANTS = (
    # what a row sees
    Mutant(
        "visibility: a row reads its own branch",
        "attention/plan.py",
        "row_branch = home.clamp(min=0)",
        "row_branch = torch.zeros_like(home)",
        ROWS + "test_named_trees_across_a_c128_boundary[comb]",
    ),
    Mutant(
        "window: a row's length follows its depth, not its number",
        "attention/plan.py",
        "seqused = torch.where(live, prefix[:, None] + depth + 1, 1).reshape(-1).to(torch.int32)",
        "seqused = torch.where(live, prefix[:, None] + torch.arange(1, topology.n + 1, device=prefix.device), 1)"
        ".reshape(-1).to(torch.int32)",
        BYSTANDERS + "test_poisoned_arena[60]",
    ),
    Mutant(
        "window: 128 tokens, its own included",
        "attention/rows.py",
        '"ori_win_left": backend._dsv4_sliding_window_size - 1,',
        '"ori_win_left": backend._dsv4_sliding_window_size - 2,',
        ROWS + "test_every_row_is_its_path[143]",
    ),
    Mutant(
        "positions: prefix plus depth",
        "ops/tree_build.py",
        "(seq_lens.long()[:, None] + depth).reshape(-1),",
        "(seq_lens.long()[:, None] + node).reshape(-1),",
        ROWS + "test_every_row_is_its_path[31]",
    ),
    Mutant(
        "own block: the unfinished block is the branch's",
        "paging/branches.py",
        "table = torch.where((ahead < 0)[:, None, :], own[:, None, :], table)",
        "table = torch.where((ahead <= 0)[:, None, :], own[:, None, :], table)",
        ROWS + "test_every_row_is_its_path[17]",
    ),
    Mutant(
        "tail: every row below the prefix is copied",
        "paging/branches.py",
        "rows = (space.entries(prefix) - origin)[:, None] * (used & (prefix > 0)[:, None])",
        "rows = (space.entries(prefix) - origin - 1).clamp(min=0)[:, None] * (used & (prefix > 0)[:, None])",
        BYSTANDERS + "test_poisoned_arena[15]",
    ),
    Mutant(
        "tail: of C128 entries where the tree closes one",
        "attention/plan.py",
        "plan.tails[ratio] = tail_moves(tables, request, prefix, used if ratio == 4 else used & crosses[:, None], "
        "space)",
        "plan.tails[ratio] = tail_moves(tables, request, prefix, used if ratio == 4 else used & ~crosses[:, None], "
        "space)",
        BYSTANDERS + "test_poisoned_arena[254]",
    ),
    Mutant(
        "fan-out: KV of a node goes to every branch that holds it",
        "attention/plan.py",
        "store_slot=branch_slots(arena.swa, request, prefix, branches, depths).reshape(-1),",
        "store_slot=branch_slots(arena.swa, request, prefix, branches, depths)[:, :1].expand(-1, branches, -1)"
        ".reshape(-1),",
        BYSTANDERS + "test_poisoned_arena[60]",
    ),
    Mutant(
        "fan-out: a compressed entry goes to every branch that holds its node",
        "attention/plan.py",
        "plan.entry_slot[ratio] = torch.where(closing, slots, 0).reshape(-1).to(torch.int32)",
        "plan.entry_slot[ratio] = torch.where(closing, slots[:, :1], 0).reshape(-1).to(torch.int32)",
        BYSTANDERS + "test_poisoned_arena[127]",
    ),
    Mutant(
        "other request: a row is one of its own request's",
        "attention/plan.py",
        "node_row = torch.arange(bs, device=prefix.device)[:, None, None] * topology.n + branch_table.clamp(min=0)",
        "node_row = torch.zeros_like(prefix)[:, None, None] * topology.n + branch_table.clamp(min=0)",
        ROWS + "test_batch_of_unequal_prefixes[prefixes0]",
    ),
    Mutant(
        "P is the device's length, not the host's copy",
        "attention/backend.py",
        "prefix = forward_batch.seq_lens.long()",
        "prefix = forward_batch.seq_lens_cpu.to(forward_batch.seq_lens.device)",
        "tests/backend/test_host_lengths.py::test_verify_goes_by_the_lengths_on_the_device[126]",
    ),
    Mutant(
        "P of a draft is the device's length, not the host's copy",
        "attention/draft_backend.py",
        "prefix = forward_batch.seq_lens.long()",
        "prefix = forward_batch.seq_lens_cpu.to(forward_batch.seq_lens.device)",
        "tests/backend/test_host_lengths.py::test_draft_goes_by_the_lengths_on_the_device",
    ),
    # compressed entries
    Mutant(
        "C4 boundary: an entry closes with its last position",
        "state/window.py",
        "closes = ((position + 1) % ring.ratio == 0) & live",
        "closes = (position % ring.ratio == 0) & live",
        ROWS + "test_every_row_is_its_path[13]",
    ),
    Mutant(
        "C128 boundary: the deepest node may close the entry",
        "attention/plan.py",
        'crosses = torch.div(prefix + depths, 128, rounding_mode="floor") > torch.div(prefix, 128, '
        'rounding_mode="floor")',
        'crosses = torch.div(prefix + depths - 1, 128, rounding_mode="floor") > torch.div(prefix, 128, '
        'rounding_mode="floor")',
        BYSTANDERS + "test_poisoned_arena[124]",
    ),
    Mutant(
        "overlap: left half of the block before, right half of the closing one",
        "ops/tree_compress.py",
        "kv = torch.cat([kv[:, :ratio, :dim], kv[:, ratio:, dim:]], 1)",
        "kv = torch.cat([kv[:, :ratio, dim:], kv[:, ratio:, :dim]], 1)",
        ROWS + "test_every_row_is_its_path[13]",
    ),
    Mutant(
        "entry RoPE: the position of the block's first token",
        "state/window.py",
        "first = torch.where(closes, position + 1 - ring.ratio, 0)",
        "first = torch.where(closes, position, 0)",
        ROWS + "test_every_row_is_its_path[13]",
    ),
    Mutant(
        "sibling state: a node pools its path, not the rows before it",
        "state/window.py",
        "node = path.gather(2, (span - prefix[:, None, None]).clamp(0, branch_table.shape[2] - 1))",
        "node = (torch.arange(n, device=prefix.device)[:, None] + span - position[:, :, None]).clamp(min=0)",
        ROWS + "test_named_trees_across_a_c128_boundary[comb]",
    ),
    Mutant(
        "other request: a node pools its own request's rows",
        "state/window.py",
        "scratch = torch.arange(bs, device=prefix.device)[:, None, None] * n + node",
        "scratch = torch.zeros_like(prefix)[:, None, None] * n + node",
        ROWS + "test_batch_of_unequal_prefixes[prefixes0]",
    ),
    Mutant(
        "root: its state row is scratch, not yet in the ring",
        "state/window.py",
        "window = torch.where(span < prefix[:, None, None], ring_rows, -1 - scratch)",
        "window = torch.where(span <= prefix[:, None, None], ring_rows, -1 - scratch)",
        ROWS + "test_every_row_is_its_path[15]",
    ),
    Mutant(
        "absent: positions before the sequence have no weight",
        "state/window.py",
        "window = window.masked_fill(span < 0, ABSENT)",
        "window = window.masked_fill(span < 1 - width, ABSENT)",
        ROWS + "test_every_row_is_its_path[1]",
    ),
    Mutant(
        "ape: that of the token's own place in its block",
        "ops/compress_project.py",
        "rows[:, half:] += ape[positions % ape.shape[0]]",
        "rows[:, half:] += ape[(positions + 1) % ape.shape[0]]",
        ROWS + "test_every_row_is_its_path[13]",
    ),
    # commit
    Mutant(
        "indexer scale: moves with its key",
        "paging/buffers.py",
        "c4 = pool.c4_kv_pool.kv_buffer + indexer.index_k_buffer + indexer.index_scale_buffer",
        "c4 = pool.c4_kv_pool.kv_buffer + indexer.index_k_buffer",
        STATE + "test_every_acceptance_equals_serial_decode[13]",
    ),
    Mutant(
        "commit branch: that of the last accepted node",
        "attention/backend.py",
        "last = index.gather(1, (lens - 1).clamp(min=0)[:, None])[:, 0] - first_node",
        "last = index[:, 0] - first_node",
        STATE + "test_every_acceptance_equals_serial_decode[61]",
    ),
    Mutant(
        "commit order: the deepest token of a ring row stays",
        "state/window.py",
        "later[:, :-size] = live[:, size:] & (ring_rows[:, size:] == ring_rows[:, :-size])",
        "later[:, size:] = live[:, size:] & (ring_rows[:, size:] == ring_rows[:, :-size])",
        STATE + "test_more_accepted_rows_than_the_c4_ring_holds[15]",
    ),
    Mutant(
        "commit page: rows behind the page end go to the next page",
        "paging/commit.py",
        "return CommitTarget(space, first, second, next_page - start)",
        "return CommitTarget(space, first, second, next_page - start + 1)",
        STATE + "test_every_acceptance_equals_serial_decode[126]",
    ),
    Mutant(
        "accept stride: a state row is that of the batch's node, not of the request's",
        "state/window.py",
        "source = accept_index.clamp(min=0).reshape(-1)",
        "source = (accept_index - accept_index[:, :1]).clamp(min=0).reshape(-1)",
        STATE + "test_rounds_in_a_row[prefixes0]",
    ),
    Mutant(
        "accept stride: accept_index starts at b * n",
        "ops/tree_verify_greedy.py",
        "first_row = torch.arange(bs, device=device)[:, None] * n",
        "first_row = torch.arange(bs, device=device)[:, None] * (most + 1)",
        "tests/unit/test_tree_verify.py::test_equals_the_oracle[drafted]",
    ),
    Mutant(
        "accepted tokens: the path's, at the front of the request's block",
        "hooks/speculative/eagle_worker_common.py",
        "return _compact_accept_to_front(predict, accept_index, bs, num_draft_tokens=num_draft_tokens)",
        "return predict",
        "tests/backend/test_accepted.py::test_the_accepted_path_comes_to_the_front",
    ),
    Mutant(
        "accepted rows only: KV",
        "paging/commit.py",
        "count = space.entries(prefix + accept_lens) - start",
        "count = space.entries(prefix + accept_lens + 1) - start",
        BYSTANDERS + "test_only_accepted_rows_change[prefixes0]",
    ),
    Mutant(
        "accepted rows only: state",
        "state/window.py",
        "live = depth < accept_lens[:, None]",
        "live = depth <= accept_lens[:, None]",
        BYSTANDERS + "test_only_accepted_rows_change[prefixes0]",
    ),
    Mutant(
        "C128 clean-up stays off",
        "hooks/mem_cache/deepseek_v4_memory_pool.py",
        '"""There is nothing to clear, and at 128 rows the clean-up would destroy live rows."""',
        "return original(self, *args, **kwargs)",
        STATE + "test_every_acceptance_equals_serial_decode[126]",
    ),
    Mutant(
        "plan: its own copy of the batch",
        "attention/plan.py",
        "request, prefix = request.clone(), prefix.clone()",
        "request, prefix = request, prefix",
        BYSTANDERS + "test_commit_reads_no_table[126]",
    ),
    # beside the round
    Mutant(
        "dummy row: padded requests have arena rows of their own",
        "paging/arena.py",
        "return self.base + (row * self.branches + branch) * self.branch_rows",
        "return self.base + ((row - 1) * self.branches + branch) * self.branch_rows",
        BYSTANDERS + "test_padded_requests_write_nothing",
    ),
    Mutant(
        "prefix hit: the rows before a boundary are kept",
        "state/boundary.py",
        "C4_HISTORY = 4  # tokens of the previous block that the first entry after a boundary pools",
        "C4_HISTORY = 3",
        "tests/backend/test_boundary.py::test_boundary_rows_survive_any_chunking",
    ),
    Mutant(
        "draft ancestors: a beam takes over its parent's rows, all of them",
        "attention/plan.py",
        "rows = torch.where(parent != own, steps, 0) * (self.prefix > 0)[:, None]",
        "rows = torch.where(parent != own, steps - 1, 0) * (self.prefix > 0)[:, None]",
        "tests/backend/test_draft.py::test_draft_rows_attend_to_their_ancestors[prefixes1]",
    ),
)
