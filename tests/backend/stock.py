"""A process of its own that runs stock `dsv4` without any plugin: `python -m tests.backend.stock PROMPTS LOGITS`.

PROMPTS: a torch file with a list of token lists. LOGITS: where fp32 ``[prompts, V]`` of their last tokens go.
"""

from __future__ import annotations

import sys

import torch

from .launch import Shape, checkpoint
from .rig import Rig

STOCK = Shape(n=4, steps=3, topk=1, backend="dsv4")


def main(prompts: str, logits: str) -> None:
    model = checkpoint()
    assert model is not None
    rig = Rig(STOCK, model)
    rows = []
    for prompt in torch.load(prompts):
        held, answer = rig.prefill([prompt])
        rig.release(*held)
        rows.append(answer[0])
    torch.save(torch.stack(rows), logits)


if __name__ == "__main__":
    main(*sys.argv[1:])
