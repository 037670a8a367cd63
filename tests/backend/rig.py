"""Drives one real ModelRunner request by request: stock prefill and decode, tree verify, commit.

Everything below the batch objects is SGLang's and the plugin's own code: slots come from SGLang's allocator through its
decode reserve, a verify goes through build_eagle_verify_input, eagle_prepare_for_verify and ModelRunner.forward, a
commit through _finalize_accept_tree_path.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch

from .launch import Shape, launch
from .sequence import Sequence, new_request
from .snapshot import spoil
from .trees import Tree


class _NoPrefixCache(SimpleNamespace):
    """The part of a prefix cache that allocation asks for; it shares nothing and evicts nothing."""

    def supports_swa(self) -> bool:
        return False

    def supports_mamba(self) -> bool:
        return False

    def supports_prefix_sharing(self) -> bool:
        return True

    def evict(self, params) -> None:
        raise AssertionError(f"the rig's pools are too small: eviction of {params} asked for")

    def maybe_hand_to_session(self, req) -> None:
        pass


@dataclass
class Round:
    """A verify whose forward has run. logits: fp32 ``[bs, n, V]``, a row per node."""

    sequences: list[Sequence]
    tokens: list[list[int]]
    batch: Any
    output: Any
    logits: torch.Tensor

    @property
    def plan(self):
        return self.batch.spec_info.tree_plan


class Rig:
    def __init__(self, shape: Shape, model: str):
        self.shape = shape
        self.runner = launch(shape, model)
        self.backend = self.runner.attn_backend
        self.pool = self.runner.token_to_kv_pool
        self.requests = self.runner.req_to_token_pool
        self.allocator = self.runner.token_to_kv_pool_allocator
        self.vocabulary = self.runner.model_config.vocab_size
        self.device = self.runner.device
        self.held: list[Sequence] = []
        self._cache = _NoPrefixCache(page_size=128, device=self.device, token_to_kv_pool_allocator=self.allocator)

    def _batch(self, reqs: list, algorithm):
        from sglang.srt.managers.schedule_batch import ScheduleBatch

        return ScheduleBatch.init_new(
            reqs=reqs,
            req_to_token_pool=self.requests,
            token_to_kv_pool_allocator=self.allocator,
            tree_cache=self._cache,
            model_config=self.runner.model_config,
            enable_overlap=False,
            spec_algorithm=algorithm,
        )

    @torch.no_grad()
    def prefill(self, prompts: list[list[int]], *, chunks: tuple[int, ...] = ()) -> tuple[list[Sequence], torch.Tensor]:
        """Stock extend of whole prompts in one batch. chunks: where a single prompt is cut.

        Returns the sequences and the logits fp32 ``[prompts, V]`` of their last tokens.
        """
        from sglang.srt.model_executor.forward_batch_info import ForwardBatch
        from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

        assert len(prompts) == 1 or not chunks
        reqs = [new_request(prompt) for prompt in prompts]
        for begin, end in zip((0, *chunks), (*chunks, None)):
            for req in reqs:
                req.prefix_len, req.extend_end = begin, end or len(req.origin_input_ids)
            batch = self._batch(reqs, SpeculativeAlgorithm.NONE)
            batch.prepare_for_extend()
            if batch.input_ids is None:
                batch.input_ids = batch.prefill_input_ids_cpu.to(self.device)
            forward_batch = ForwardBatch.init_new(batch, self.runner, return_hidden_states_before_norm=False)
            logits = self.runner.forward(forward_batch).logits_output.next_token_logits
        sequences = [Sequence(list(p), req) for p, req in zip(prompts, reqs)]
        self.held += sequences
        return sequences, logits.float().cpu()

    def _speculating(self, sequences: list[Sequence]):
        """A decode-time batch of these sequences with SGLang's reserve allocated."""
        from sglang.srt.model_executor.forward_batch_info import ForwardMode
        from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo
        from sglang.srt.speculative.eagle_utils import eagle_prepare_for_decode

        batch = self._batch([s.req for s in sequences], self.runner.spec_algorithm)
        batch.forward_mode = ForwardMode.DECODE
        lengths = [s.length for s in sequences]
        batch.req_pool_indices_cpu = torch.tensor([s.row for s in sequences], dtype=torch.int64)
        batch.req_pool_indices = batch.req_pool_indices_cpu.to(self.device)
        batch.seq_lens_cpu = torch.tensor(lengths, dtype=torch.int64)
        batch.seq_lens = batch.seq_lens_cpu.to(self.device)
        batch.orig_seq_lens = batch.seq_lens.to(torch.int32)
        batch.seq_lens_sum = sum(lengths)
        batch.multimodal_inputs = [None] * len(sequences)
        batch.sampling_info = SamplingBatchInfo.from_schedule_batch(batch, self.vocabulary)
        for s in sequences:
            s.req.kv.kv_committed_len = s.length
        eagle_prepare_for_decode(batch)
        return batch

    @torch.no_grad()
    def decode(self, sequence: Sequence, token: int) -> torch.Tensor:
        """Stock decode of one token; returns its logits fp32 ``[V]``."""
        from sglang.srt.model_executor.forward_batch_info import DSV4OutCacheLoc, ForwardBatch
        from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

        batch = self._speculating([sequence])
        batch.spec_algorithm, batch.spec_info = SpeculativeAlgorithm.NONE, None
        position, row = sequence.length, sequence.row
        slot = self.requests.req_to_token[row, position : position + 1].long()
        closes = {ratio: (position + 1) % ratio == 0 for ratio in (4, 128)}
        entry, page = position // 128, self.requests.c128_page_size
        c128 = self.requests.req_to_c128_sidecar[row, entry // page].long() * page + entry % page
        batch.out_cache_loc = slot
        batch.out_cache_loc_dsv4 = DSV4OutCacheLoc(
            out_full_loc=slot,
            out_swa_loc=self.allocator.translate_loc_from_full_to_swa(slot),
            out_c4_loc=slot // 4 if closes[4] else slot[:0],
            out_c128_loc=c128[None] if closes[128] else slot[:0],
        )
        batch.input_ids = torch.tensor([token], dtype=torch.int64, device=self.device)
        batch.seq_lens, batch.seq_lens_cpu = batch.seq_lens + 1, batch.seq_lens_cpu + 1
        batch.orig_seq_lens, batch.seq_lens_sum = batch.orig_seq_lens + 1, None
        forward_batch = ForwardBatch.init_new(batch, self.runner, return_hidden_states_before_norm=False)
        logits = self.runner.forward(forward_batch).logits_output.next_token_logits
        sequence.tokens.append(token)
        return logits[0].float().cpu()

    @torch.no_grad()
    def verify(
        self,
        sequences: list[Sequence],
        trees: list[Tree],
        tokens: list[list[int]],
        *,
        scores: list[list[float]] | None = None,
        padding: int = 0,
    ) -> Round:
        """Target verify of one tree per sequence. tokens: a token per node, the root's (previous bonus) first. scores:
        of nodes 1..n-1. padding: requests that SGLang's attention-DP padding adds."""
        from sglang.srt.speculative import eagle_utils, eagle_worker_common

        from dsv4_npu_tree.hooks.speculative.round import draft_round

        shape, bs = self.shape, len(sequences)
        topk = min(16, shape.n - 1)  # candidate ids only: wide enough for a star
        pools = [tree.candidates(topk, shape.steps) for tree in trees]
        batch = self._speculating(sequences)
        target = SimpleNamespace(model_runner=self.runner)

        def on_device(values, dtype=torch.int64):
            return torch.tensor(values, dtype=dtype, device=self.device)

        with draft_round(None, shape.steps) as draft:
            draft.scores = on_device(scores or [[0.5] * (shape.n - 1)] * bs, torch.float32)
            batch.spec_info = eagle_worker_common.build_eagle_verify_input(
                batch,
                SimpleNamespace(bonus_tokens=on_device([t[0] for t in tokens])),
                on_device([parents for parents, _ in pools]),
                on_device([selected for _, selected in pools]),
                on_device([t[1:] for t in tokens]),
                None,
                target_worker=target,
                topk=topk,
                num_steps=shape.steps,
                num_draft_tokens=shape.n,
                tree_mask_mode=eagle_utils.default_tree_mask_mode(),
                device=self.device,
            )
        return self._forward_verify(batch, sequences, tokens, padding)

    @torch.no_grad()
    def verify_input(self, sequences: list[Sequence], verify_input, tokens: list[list[int]]) -> Round:
        """Target verify of an EagleVerifyInput that a draft call has built."""
        batch = self._speculating(sequences)
        batch.spec_info = verify_input
        return self._forward_verify(batch, sequences, tokens)

    def _forward_verify(self, batch, sequences: list[Sequence], tokens: list[list[int]], padding: int = 0) -> Round:
        from sglang.srt.speculative import eagle_utils

        target = SimpleNamespace(model_runner=self.runner)
        forward_batch, _ = eagle_utils.eagle_prepare_for_verify(batch.spec_info, self.requests, batch, target)
        bs, n = len(sequences), self.shape.n
        if padding:
            forward_batch._pad_inputs_to_size(self.runner, (bs + padding) * n, bs + padding)
            forward_batch._original_batch_size, forward_batch.batch_size = bs, bs + padding
        output = self.runner.forward(forward_batch).logits_output
        if padding:
            forward_batch.post_forward_mlp_sync_batch(output)
        logits = output.next_token_logits[: bs * n].float().cpu().view(bs, n, -1)
        return Round(sequences, tokens, batch, output, logits)

    @torch.no_grad()
    def idle(self) -> None:
        """The forward of an attention-DP rank that has nothing to do while another one prefills."""
        from sglang.srt.model_executor.forward_batch_info import ForwardBatch

        batch = self._batch([], self.runner.spec_algorithm)
        batch.prepare_for_idle()
        self.runner.forward(ForwardBatch.init_new(batch, self.runner, return_hidden_states_before_norm=False))

    @torch.no_grad()
    def commit(self, done: Round, paths: list[list[int]]) -> list[int]:
        """Accept ``paths`` (nodes, root first) as SGLang's run_eagle_verify does after sampling. Returns each request's
        bonus token, one that no node has."""
        from sglang.srt.speculative import eagle_worker_common

        n, width = self.shape.n, self.shape.steps + 1
        batch, bs = done.batch, len(paths)
        index = [[b * n + v for v in path] + [-1] * (width - len(path)) for b, path in enumerate(paths)]
        accept_index = torch.tensor(index, dtype=torch.int32, device=self.device)
        accept_lens = torch.tensor([len(path) for path in paths], dtype=torch.int32, device=self.device)
        predict, bonus = [], []
        for b, (tokens, path) in enumerate(zip(done.tokens, paths)):
            bonus.append(next(token for token in range(3, self.vocabulary) if token not in tokens))
            target = [0] * n
            for node, below in zip(path, [*path[1:], None]):
                target[node] = bonus[-1] if below is None else tokens[below]
                done.output.next_token_logits[b * n + node, target[node]] = 1e4  # done.logits is a copy
            predict += target
        self.pool.clear_unaccepted_c128_draft_states(batch.req_pool_indices, batch.seq_lens, accept_lens, n)
        eagle_worker_common._finalize_accept_tree_path(
            batch,
            accept_index,
            accept_lens,
            torch.tensor(predict, dtype=torch.int32, device=self.device),
            done.output,
            bs,
            token_to_kv_pool_allocator=self.allocator,
            num_draft_tokens=n,
        )
        for sequence, tokens, path in zip(done.sequences, done.tokens, paths):
            sequence.tokens += [tokens[v] for v in path]
        return bonus

    def release(self, *sequences: Sequence) -> None:
        """Give back every slot of these sequences, overwritten."""
        for s in sequences:
            self.held.remove(s)
            spoil(self, s)
            length = s.req.kv.kv_allocated_len
            slots = self.requests.req_to_token[s.row, :length].long()
            self.allocator.free(slots)
            self.requests.free(s.req)

    def release_all(self) -> None:
        """What a failed check has left behind."""
        self.release(*self.held)
