"""sglang.srt.speculative.eagle_worker_v2: brackets one draft call, and gives each round the shape of its batch size."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from dsv4_npu_tree.config import score_exponent, shape_table, tree_config
from dsv4_npu_tree.hooks.registry import Hook
from dsv4_npu_tree.hooks.speculative.round import draft_round
from dsv4_npu_tree.tree.shapes import ShapeTable

logger = logging.getLogger(__name__)


@lru_cache(maxsize=1)
def _table() -> ShapeTable | None:
    config = tree_config()
    return shape_table(config.n, config.steps, config.topk)


@lru_cache(maxsize=1)
def _exponent() -> float | None:
    return score_exponent()


def _activate_step_by_batch(original, self, batch_size):
    """Called at the start of every decode round. Rows and steps are attributes of the workers and of the draft-extend
    backend; memory is sized for the launch flags, which are the largest shape."""
    original(self, batch_size)
    table = _table()
    if table is None:
        return
    shape, draft = table.at(batch_size), self._draft_worker
    before = (self.speculative_num_draft_tokens, self.speculative_num_steps, getattr(draft, "tree_topk", None))
    if before == (shape.n, shape.steps, shape.topk):
        return
    draft.tree_topk = shape.topk
    for worker in (self, draft):
        worker.speculative_num_draft_tokens, worker.speculative_num_steps = shape.n, shape.steps
    if draft.draft_attn_backend is not None:
        draft.draft_attn_backend.speculative_num_steps = shape.steps
    for backend in (draft.draft_runner.attn_backend, draft.draft_extend_attn_backend):
        if backend is not None:
            backend.speculative_num_draft_tokens = shape.n
    logger.info("dsv4_tree: batch of %d, tree shape n/steps/topk %s", batch_size, shape)


@contextmanager
def _narrowed(worker, batch) -> Iterator[bool]:
    """Draft with the round's own topk; yields whether it is a chain. The draft extend after it keeps the launch topk,
    since a later round may need that many first candidates."""
    topk = getattr(worker, "tree_topk", worker.topk)
    beams, launched = max(topk, 2), worker.topk  # upstream's topk 1 is another code path: a chain is one of two beams
    if beams == launched or batch.forward_mode.is_idle():
        yield topk == 1
        return
    spec = batch.spec_info
    spec.topk_p, spec.topk_index = spec.topk_p[:, :beams], spec.topk_index[:, :beams]
    backend = worker.draft_attn_backend
    try:
        worker.topk = beams
        if backend is not None:
            backend.topk = beams
        yield topk == 1
    finally:
        worker.topk = launched
        if backend is not None:
            backend.topk = launched


def _draft(original, self, batch, **kwargs):
    with (
        _narrowed(self, batch) as chain,
        draft_round(self.draft_attn_backend, self.speculative_num_steps, chain, _exponent()),
    ):
        return original(self, batch, **kwargs)


_MODULE = "sglang.srt.speculative.eagle_worker_v2."
HOOKS = [
    Hook(_MODULE + "EagleDraftWorker.draft", ("self", "batch", "with_topology"), _draft),
    Hook(_MODULE + "EAGLEWorkerV2.activate_step_by_batch", ("self", "batch_size"), _activate_step_by_batch),
]
