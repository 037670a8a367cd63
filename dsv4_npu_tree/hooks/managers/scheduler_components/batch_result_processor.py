"""sglang.srt.managers.scheduler_components.batch_result_processor: a round that failed its check emits nothing."""

from __future__ import annotations

from http import HTTPStatus

from dsv4_npu_tree.hooks.registry import Hook


def _resolve_spec_v2_tokens(original, self, result, batch):
    """Drop the tokens of requests whose round violated an identity, and end them with the violation as the error."""
    from sglang.srt.managers.schedule_batch import FINISH_ABORT

    tokens = original(self, result, batch)
    for i, message in getattr(result.logits_output, "dsv4_tree_faults", {}).items():
        request = batch.reqs[i]
        if request.finished() or request.is_retracted:
            continue
        request.kv.kv_committed_len -= len(tokens[i])
        tokens[i] = []
        request.skip_radix_cache_insert = True  # nobody else may read what this round left behind
        request.to_finish = FINISH_ABORT(message, HTTPStatus.INTERNAL_SERVER_ERROR, "InternalServerError")
    return tokens


HOOKS = [
    Hook(
        "sglang.srt.managers.scheduler_components.batch_result_processor.SchedulerBatchResultProcessor"
        "._resolve_spec_v2_tokens",
        ("self", "result", "batch"),
        _resolve_spec_v2_tokens,
    )
]
