"""Keeps the experts in use: after every step the router bias moves towards an even load, outside the gradient."""

import torch
from torch import nn
from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4TopKRouter


class RouterBalance:
    """Counts what each top-k router of a module selects and nudges ``e_score_correction_bias``."""

    def __init__(self, module: nn.Module, rate: float = 2e-3):
        self._rate = rate
        self._counts: dict[DeepseekV4TopKRouter, torch.Tensor] = {}
        self._handles = [
            router.register_forward_hook(self._count)
            for router in module.modules()
            if isinstance(router, DeepseekV4TopKRouter)
        ]

    def _count(self, router, _, output) -> None:
        counts = torch.bincount(output[2].flatten(), minlength=router.num_experts)
        self._counts[router] = self._counts.get(router, 0) + counts

    def step(self) -> None:
        for router, counts in self._counts.items():
            load = counts.float()
            router.e_score_correction_bias += self._rate * (load.mean() - load).sign()
        self._counts.clear()

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
