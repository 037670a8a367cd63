"""SGLang's EagleDraftWorker on the rig's target, and a recorder of what each draft row attends to."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch

from .checks import Mismatch


class DraftBench:
    """The draft worker of a rig: it shares the target's request rows and slots, its KV pool is its own."""

    def __init__(self, rig):
        from sglang.srt.speculative.eagle_worker_v2 import EagleDraftWorker

        self.rig = rig
        runner = rig.runner
        target = SimpleNamespace(model_runner=runner, model_config=runner.model_config, random_seed=1)
        self.worker = EagleDraftWorker(runner.server_args, 0, 0, target)
        with torch.no_grad():
            self.worker.alloc_memory_pool(runner.memory_pool_config, rig.requests, rig.allocator)
            self.worker.init_attention_backends()
            self.worker.init_cuda_graphs()
        self.backend = self.worker.draft_attn_backend
        self.rows = self.backend.rows[0]

    @torch.no_grad()
    def fill_prefix(self, seed: int) -> None:
        """Random rows for everything committed, NaN in the arena: what is attended can be told apart."""
        base = self.backend.pool.dsv4_tree_arena.swa.base
        noise = torch.randn(base, self.rows.shape[1], generator=torch.Generator().manual_seed(seed))
        self.rows[:base] = noise.to(self.rows.dtype).to(self.rows.device)
        self.rows[base:] = float("nan")

    @torch.no_grad()
    def draft(self, sequences, seed: int):
        """One draft call on random hidden states and first candidates; returns the EagleVerifyInput."""
        from sglang.srt.speculative.eagle_info import EagleDraftInput

        rig, bs, topk = self.rig, len(sequences), self.rig.shape.topk
        generator = torch.Generator().manual_seed(seed)
        model = self.worker.draft_runner.model_config
        tokens = torch.stack([torch.randperm(900, generator=generator)[:topk] + 3 for _ in range(bs)])
        first = torch.rand(bs, topk, generator=generator).sort(-1, descending=True).values
        batch = rig._speculating(sequences)
        batch.spec_info = EagleDraftInput(
            topk_p=(first / first.sum(-1, keepdim=True)).to(rig.device),
            topk_index=tokens.to(rig.device),
            hidden_states=torch.randn(bs, model.spec_hidden_size, generator=generator).to(model.dtype).to(rig.device),
            bonus_tokens=torch.randint(3, 900, (bs,), generator=generator).to(rig.device),
        )
        return self.worker.draft(batch)


@dataclass
class Recorder:
    """What each step's rows stored, which row of the step before each continues, and what each attends to.

    The parent is told by the hidden state that the row is given: it is the parent's output, whatever the plugin thinks.
    """

    bench: DraftBench
    before_draft: torch.Tensor
    stored: list[torch.Tensor] = field(default_factory=list)
    parents: list[list[int]] = field(default_factory=list)
    checked: int = 0
    reselected: int = 0

    def selected(self, step: int, outputs: torch.Tensor, given: torch.Tensor) -> None:
        if step == 0:
            return
        same = (given[:, None] == outputs[None]).all(-1)
        assert bool((same.sum(1) == 1).all()), "hidden states of draft rows must differ to tell parents apart"
        self.parents.append(same.long().argmax(1).tolist())

    def attended(self, backend: Any) -> None:
        """Check the rows of a step right before its attention."""
        step, plan, rows = backend.speculative_step_id, backend.plan, self.bench.rows.cpu()
        table = backend.forward_metadata.swa_page_table.cpu().long()
        block = self.bench.backend.pool.dsv4_tree_arena.swa.block
        used = backend.forward_metadata.actual_seq_lengths_kv.cpu()
        self.stored.append(rows[plan.step_slots(step).cpu()].clone())
        topk = plan.first_slot.shape[1]
        for line in range(table.shape[0]):
            prefix, request = int(plan.prefix[line // topk]), int(plan.request[line // topk])
            if int(used[line]) != prefix + step + 1:
                raise Mismatch(f"draft step {step}, row {line}: sees {int(used[line])} tokens, not {prefix + step + 1}")
            node, expected = line, {}
            for depth in range(step, -1, -1):
                expected[prefix + depth] = self.stored[depth][node]
                if depth:
                    parent = self.parents[depth - 1][node]
                    self.reselected += parent != node
                    node = parent
            position = torch.arange(max(0, prefix + step - 127), prefix)
            own = self.bench.backend.tables.swa(torch.tensor([request]), position[None])[0].cpu()
            expected.update(zip(position.tolist(), self.before_draft[own]))
            for place, row in expected.items():
                slot = int(table[line, place // block]) * block + place % block
                self.checked += 1
                if not torch.equal(rows[slot], row):
                    column = int((rows[slot] != row).nonzero()[0])
                    raise Mismatch(
                        f"draft step {step}, row {line}: position {place} (prefix {prefix}) holds another token's KV: "
                        f"row {slot}, column {column}: {rows[slot, column].item()} instead of {row[column].item()}"
                    )


def record(bench: DraftBench, monkeypatch) -> Recorder:
    """Watch the next draft call of ``bench``."""
    from sglang.srt.speculative import eagle_worker_v2

    from dsv4_npu_tree.attention.draft_backend import DraftStepBackend

    recorder = Recorder(bench, bench.rows.cpu().clone())
    select, attend = eagle_worker_v2.select_top_k_tokens, DraftStepBackend._forward_swa

    def selecting(i, topk_p, topk_index, hidden_states, scores, topk):
        result = select(i, topk_p, topk_index, hidden_states, scores, topk)
        if i < bench.rig.shape.steps - 1:
            recorder.selected(i, hidden_states, result[1])
        return result

    def attending(self, *args):
        recorder.attended(self)
        return attend(self, *args)

    monkeypatch.setattr(eagle_worker_v2, "select_top_k_tokens", selecting)
    monkeypatch.setattr(DraftStepBackend, "_forward_swa", attending)
    return recorder
