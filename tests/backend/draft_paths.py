"""Draft rows against the NextN layer run on each row's own path: a stock extend of prefix + path in a fresh request."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import torch

from .draft import DraftBench
from .sequence import Sequence, new_request


@dataclass
class Steps:
    """What the draft forwards of one call were given and gave, a tensor per step: token and stream of each row, its
    logits; parents: the row of the step before that each row continues."""

    tokens: list[torch.Tensor] = field(default_factory=list)
    streams: list[torch.Tensor] = field(default_factory=list)
    logits: list[torch.Tensor] = field(default_factory=list)
    parents: list[list[int]] = field(default_factory=list)

    def path(self, step: int, row: int) -> list[int]:
        """Rows of steps 0 .. step on the way to ``row``."""
        rows = [row]
        for parents in reversed(self.parents[:step]):
            rows.append(parents[rows[-1]])
        return rows[::-1]


class PathBench:
    """A draft bench whose prefixes are real: drafted from streams and tokens, not filled with noise."""

    def __init__(self, bench: DraftBench):
        self.bench, self.rig, self.worker = bench, bench.rig, bench.worker

    @torch.no_grad()
    def extend(self, tokens: list[int], streams: torch.Tensor) -> tuple[Sequence, SimpleNamespace, torch.Tensor]:
        """The draft's stock extend: row p reads streams[p] and token p + 1, so tokens has one more entry than streams.

        Returns the sequence, SGLang's draft input and the last row's logits fp32 ``[V]``.
        """
        from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo
        from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

        rig, length = self.rig, len(streams)
        req = new_request(tokens[:length])
        req.prefix_len, req.extend_end = 0, length
        batch = rig._batch([req], SpeculativeAlgorithm.NONE)
        batch.prepare_for_extend()
        if batch.input_ids is None:
            batch.input_ids = batch.prefill_input_ids_cpu.to(rig.device)
        batch.spec_algorithm = rig.runner.spec_algorithm
        batch.sampling_info = SamplingBatchInfo.from_schedule_batch(batch, rig.vocabulary)
        last = torch.tensor(tokens[length:], dtype=torch.int64, device=rig.device)
        with self.watched() as seen:
            draft_input = self.worker._draft_extend_for_prefill(batch, streams.to(rig.device), last)
        sequence = Sequence(list(tokens[:length]), req)
        rig.held.append(sequence)
        return sequence, draft_input, seen.logits[-1][-1]

    def watched(self):
        """Records every forward of the draft runner while active."""
        return _Watch(self.worker.draft_runner)

    @torch.no_grad()
    def draft(self, sequence: Sequence, draft_input, patch) -> Steps:
        """One draft call that goes on from ``draft_input``."""
        from sglang.srt.speculative import eagle_worker_v2

        select, parents, topk = eagle_worker_v2.select_top_k_tokens, [], self.rig.shape.topk

        def selecting(i, *args):
            result = select(i, *args)
            if i:
                # candidate id -> beam: topk ids of the first step, then topk * topk a step (spec_tree.py)
                parents.append(((result[3][2][0] - topk * topk * (i - 1) - topk) // topk).tolist())
            return result

        patch.setattr(eagle_worker_v2, "select_top_k_tokens", selecting)
        batch = self.rig._speculating([sequence])
        batch.spec_info = draft_input
        with self.watched() as steps:
            self.worker.draft(batch)
        steps.parents = parents[: len(steps.tokens) - 1]
        return steps


class _Watch:
    def __init__(self, runner):
        self.runner, self.steps = runner, Steps()

    def __enter__(self) -> Steps:
        forward = self.forward = self.runner.forward

        def watching(forward_batch, *args, **kwargs):
            tokens = forward_batch.input_ids.clone()
            streams = forward_batch.spec_info.hidden_states.clone()
            result = forward(forward_batch, *args, **kwargs)
            self.steps.tokens.append(tokens.cpu())
            self.steps.streams.append(streams.cpu())
            self.steps.logits.append(result.logits_output.next_token_logits.float().cpu())
            return result

        self.runner.forward = watching
        return self.steps

    def __exit__(self, *_) -> None:
        del self.runner.forward  # the class's method again
