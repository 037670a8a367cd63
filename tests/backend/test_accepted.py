"""What a commit hands back: tokens and hidden states of the accepted path, at the front of each request's block."""

from __future__ import annotations

import torch

from .test_bystanders import FORKED, PATHS


def test_the_accepted_path_comes_to_the_front(rig, draw, monkeypatch):
    from sglang.srt.speculative import eagle_worker_common

    finalize, seen = eagle_worker_common._finalize_accept_tree_path, {}

    def recorded(batch, accept_index, accept_lens, predict, logits_output, bs, **kwargs):
        numbered = torch.arange(100, 100 + predict.numel(), dtype=predict.dtype, device=predict.device)
        seen["hidden"] = logits_output.hidden_states.clone()
        seen["tokens"] = finalize(batch, accept_index, accept_lens, numbered, logits_output, bs, **kwargs)
        return seen["tokens"]

    monkeypatch.setattr(eagle_worker_common, "_finalize_accept_tree_path", recorded)
    sequences, _ = rig.prefill([draw(p) for p in (13, 126, 61)])
    done = rig.verify(sequences, [FORKED] * 3, [draw(rig.shape.n) for _ in PATHS])
    rig.commit(done, list(PATHS))
    tokens = seen["tokens"].view(3, rig.shape.n).cpu()
    before, after = (h.view(3, rig.shape.n, -1).cpu() for h in (seen["hidden"], done.output.hidden_states))
    for b, path in enumerate(PATHS):
        assert tokens[b, : len(path)].tolist() == [100 + b * rig.shape.n + node for node in path]
        assert torch.equal(after[b, : len(path)], before[b, path])
    rig.release(*sequences)
