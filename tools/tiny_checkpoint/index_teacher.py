"""What trains the indexer: its scores are pulled towards the attention that the layer really pays.

The top-k selection passes no gradient, so the indexer's own weights get theirs from
``KL(attention mass over the entries || softmax of the index scores)``, over the entries each query may read.  The
indexer's inputs are detached: the term moves nothing but the indexer.  In the dense stage every visible entry is read,
afterwards only the selected ones.
"""

import contextlib

import torch
from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4Attention, DeepseekV4ForCausalLM

DENSE_TOPK = 1 << 20


class IndexTeacher:
    """Hooks on every C4 layer of a model whose attention function is ``window_attention``."""

    def __init__(self, model: DeepseekV4ForCausalLM):
        self._layers: list[DeepseekV4Attention] = [
            layer.self_attn
            for layer in model.model.layers
            if layer.self_attn.layer_type == "compressed_sparse_attention"
        ]
        self._scores: list[torch.Tensor] = []
        self._handles = []
        for attention in self._layers:
            indexer = attention.compressor.indexer
            self._handles.append(indexer.register_forward_pre_hook(self._detach_inputs))
            self._handles.append(indexer.scorer.register_forward_hook(lambda _, __, out: self._scores.append(out)))

    @staticmethod
    def _detach_inputs(_, args):
        return tuple(a.detach() if isinstance(a, torch.Tensor) else a for a in args)

    def set_topk(self, topk: int) -> None:
        for attention in self._layers:
            attention.compressor.indexer.index_topk = topk

    def observed(self) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Per C4 layer of the forward that just ran, once: scores, attention mass, readable entries; each [B, S, C]."""
        seen = [
            (scores.float(), attention.compressed_mass.float(), attention.compressed_open)
            for attention, scores in zip(self._layers, self._scores, strict=True)
        ]
        self._scores.clear()
        return seen

    def loss(self) -> torch.Tensor:
        """Mean KL over the queries of the forward that just ran; call once per forward."""
        terms = []
        for scores, mass, allowed in self.observed():
            some = allowed.any(-1)
            target = mass[some] / mass[some].sum(-1, keepdim=True).clamp_min(1e-9)
            predicted = scores[some].masked_fill(~allowed[some], -1e9).log_softmax(-1)
            terms.append((target * (target.clamp_min(1e-9).log() - predicted)).sum(-1).mean())
        return torch.stack(terms).mean()

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()


@contextlib.contextmanager
def index_teacher(model: DeepseekV4ForCausalLM):
    """An ``IndexTeacher`` that leaves the model as it was, with its configured top-k."""
    teacher = IndexTeacher(model)
    try:
        yield teacher
    finally:
        teacher.set_topk(model.config.index_topk)
        teacher.remove()
