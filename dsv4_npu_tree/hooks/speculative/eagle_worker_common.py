"""sglang.srt.speculative.eagle_worker_common: draft preparation, verify input, and the commit of the accepted path."""

from __future__ import annotations

import torch

from dsv4_npu_tree.hooks.registry import Hook
from dsv4_npu_tree.hooks.speculative.round import current_round
from dsv4_npu_tree.inspect import check
from dsv4_npu_tree.inspect.collect import Acceptance, Candidates
from dsv4_npu_tree.inspect.dump import TABLE_COLUMNS, Round, dump_directory, try_write_round


def _prepare_for_draft(
    original,
    draft_input,
    req_to_token_pool,
    batch,
    cuda_graph_runner,
    draft_model_runner,
    topk,
    num_steps,
    *,
    target_translator=None,
    num_draft_tokens=None,
):
    """Draft rows live on branches of the draft arena, so no slot of the request is taken."""
    from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardBatch

    if not batch.forward_mode.is_idle():
        # The draft loop slices this per step; the step backends answer with arena slots instead.
        batch.out_cache_loc = torch.zeros(
            len(batch.seq_lens) * topk * num_steps, dtype=torch.int64, device=batch.device
        )
    draft_input.num_tokens_per_req = topk
    draft_input.num_tokens_for_logprob_per_req = topk
    draft_input.positions = batch.seq_lens.repeat_interleave(topk, dim=0)
    forward_batch = ForwardBatch.init_new(
        batch,
        draft_model_runner,
        capture_hidden_mode=CaptureHiddenMode.LAST,
        return_hidden_states_before_norm=False,
        spec_mrope_positions=None,
        kv_loc_plan=None,
        write_cols=None,
    )
    return forward_batch, False, None


def _build_eagle_verify_input(original, batch, *args, **kwargs):
    verify_input = original(batch, *args, **kwargs)
    if not batch.forward_mode.is_idle():
        draft = current_round()
        verify_input.tree_topology, verify_input.tree_scores = draft.topology, draft.scores
        # Upstream's gather op (npu.cache_loc_update) takes at most 16 slots a request; ready slots bypass it.
        columns = torch.arange(verify_input.draft_token_num, device=batch.seq_lens.device)
        table = batch.req_to_token_pool.req_to_token
        slots = table[batch.req_pool_indices.long()[:, None], batch.seq_lens.long()[:, None] + columns]
        verify_input.prepared_out_cache_loc = slots.reshape(-1).long()
        verify_input.tree_check = _begin_check(batch, verify_input, draft)
    return verify_input


def _begin_check(batch, verify_input, draft) -> check.RoundCheck | None:
    tokens = None if draft.token_list is None else torch.cat(draft.token_list, dim=1)
    candidates = Candidates(draft.selected, draft.parents, tokens, verify_input.topk)
    return check.begin(batch, verify_input, candidates, dumped=dump_directory() is not None)


def _commit(batch, verify_input, acceptance: Acceptance, logits_output) -> None:
    """Commit the accepted paths; enqueued before publish and draft extend, on the same stream."""
    plan, inspected, directory = verify_input.tree_plan, verify_input.tree_check, dump_directory()
    lens = acceptance.lens
    if inspected is not None:
        lens = inspected.accepted(plan, acceptance, None if inspected.judged else TABLE_COLUMNS)
    verify_input.tree_backend.commit(plan, acceptance.index, lens)
    check.note(batch, acceptance)
    if inspected is None:
        return
    inspected.committed(plan)
    # read by the hook on the result processor, which stops these requests
    logits_output.dsv4_tree_faults = inspected.messages()
    if directory is not None:
        topology = plan.topology
        try_write_round(directory, Round(inspected.serial, topology.topk, topology.steps, inspected.records))


def _finalize_accept_tree_path(
    original,
    batch,
    accept_index,
    accept_lens,
    predict,
    logits_output,
    bs,
    *,
    token_to_kv_pool_allocator,
    num_draft_tokens,
):
    from sglang.srt.speculative.eagle_worker_common import _compact_accept_to_front

    verify_input = batch.spec_info
    logits = logits_output.next_token_logits if batch.sampling_info.is_all_greedy else None  # penalties are in it
    _commit(batch, verify_input, Acceptance(accept_index, accept_lens, predict, logits), logits_output)
    if logits_output.hidden_states is not None:
        logits_output.hidden_states = _compact_accept_to_front(
            logits_output.hidden_states, accept_index, bs, num_draft_tokens=num_draft_tokens
        )
    return _compact_accept_to_front(predict, accept_index, bs, num_draft_tokens=num_draft_tokens)


_MODULE = "sglang.srt.speculative.eagle_worker_common."
HOOKS = [
    Hook(
        _MODULE + "prepare_for_draft",
        (
            "draft_input",
            "req_to_token_pool",
            "batch",
            "cuda_graph_runner",
            "draft_model_runner",
            "topk",
            "num_steps",
            "target_translator",
            "num_draft_tokens",
        ),
        _prepare_for_draft,
    ),
    Hook(
        _MODULE + "build_eagle_verify_input",
        (
            "batch",
            "draft_input",
            "parent_list",
            "top_scores_index",
            "draft_tokens",
            "draft_probs",
            "target_worker",
            "topk",
            "num_steps",
            "num_draft_tokens",
            "tree_mask_mode",
            "device",
        ),
        _build_eagle_verify_input,
    ),
    Hook(
        _MODULE + "_finalize_accept_tree_path",
        (
            "batch",
            "accept_index",
            "accept_lens",
            "predict",
            "logits_output",
            "bs",
            "token_to_kv_pool_allocator",
            "num_draft_tokens",
        ),
        _finalize_accept_tree_path,
    ),
]
