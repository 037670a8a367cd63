"""Muon for the weight matrices, Adam for the rest (slower for embedding and head), one schedule for both."""

import torch
from torch import nn

_TABLES = ("embed_tokens", "lm_head")
_NOT_MUON = (*_TABLES, "_hc.", "hc_head.", ".gate.", ".indexer.", "position_bias")
_WARMUP = 20


class Optimiser:
    """Linear warm-up, then linear decay to a twentieth, over a known number of steps."""

    def __init__(self, module: nn.Module, steps: int, muon_lr: float, adam_lr: float, table_lr: float = 1e-3):
        muon, tables, adam = [], [], []
        for name, parameter in module.named_parameters():
            matrix = parameter.dim() == 2 and not any(part in name for part in _NOT_MUON)
            table = any(part in name for part in _TABLES)
            (muon if matrix else tables if table else adam).append(parameter)
        self._parameters = muon + tables + adam
        groups = [{"params": adam}] + ([{"params": tables, "lr": table_lr}] if tables else [])
        self._parts = [
            torch.optim.Muon(muon, lr=muon_lr, weight_decay=0.02, momentum=0.95, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(groups, lr=adam_lr, betas=(0.9, 0.97), weight_decay=0.0),
        ]
        self._schedules = [
            torch.optim.lr_scheduler.LambdaLR(
                part, lambda step: min((step + 1) / _WARMUP, 1.0) * (1.0 - 0.95 * min(step / steps, 1.0))
            )
            for part in self._parts
        ]

    def step(self, loss: torch.Tensor) -> None:
        """Backward, clip, update, clear."""
        loss.backward()
        nn.utils.clip_grad_norm_(self._parameters, 1.0)
        for part, schedule in zip(self._parts, self._schedules, strict=True):
            part.step()
            schedule.step()
            part.zero_grad(set_to_none=True)
