"""Training of the NextN draft: distillation of the target's distributions along short chains."""

import time

import torch
from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4ForCausalLM

from tools.tiny_checkpoint.nextn import NextN
from tools.tiny_checkpoint.optimiser import Optimiser
from tools.tiny_checkpoint.router_balance import RouterBalance
from tools.tiny_checkpoint.target import target_streams
from tools.tiny_checkpoint.unroll import unroll
from tools.tiny_checkpoint.windows import Windows

STEPS = 400
SHAPE = (4, 160)
DEPTH_WEIGHTS = (1.0, 0.6, 0.4)
STOP_AT = 0.74  # first-depth agreement: a draft that is always right would leave siblings nothing to do


def train_draft(
    draft: NextN,
    target: DeepseekV4ForCausalLM,
    windows: Windows,
    seed: int,
    steps: int = STEPS,
    stop_at: float = STOP_AT,
    progress=print,
) -> None:
    """KL(target || draft) at every position and depth; the target is not touched."""
    generator = torch.Generator().manual_seed(seed)
    target.requires_grad_(False)
    optimiser = Optimiser(draft, steps, muon_lr=0.02, adam_lr=3e-3)
    balance = RouterBalance(draft)
    weights = torch.tensor(DEPTH_WEIGHTS)
    agreement = None
    begin = time.perf_counter()
    for step in range(steps):
        ids = windows.sample(*SHAPE, generator)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            logits, streams = target_streams(target, ids)
        goal = logits[:, 1:].float()
        with torch.autocast("cpu", torch.bfloat16):
            drafted = unroll(draft, streams, ids, len(weights)).float()
        gap = (goal.softmax(-1) * (goal.log_softmax(-1) - drafted.log_softmax(-1))).sum(-1)
        by_depth = gap[:, :, len(weights) - 1 :].mean((1, 2))
        optimiser.step((by_depth * weights).sum() / weights.sum())
        balance.step()
        agree = (drafted[0].argmax(-1) == goal.argmax(-1)).float().mean().item()
        agreement = agree if agreement is None else 0.9 * agreement + 0.1 * agree
        done = agreement >= stop_at or step == steps - 1
        if step % 25 == 24 or done:
            kl = " ".join(f"{v:.3f}" for v in by_depth.tolist())
            seconds = time.perf_counter() - begin
            progress(f"draft step {step + 1}/{steps} kl by depth {kl} agreement {agreement:.3f} {seconds:.0f} s")
        if done:
            break
    balance.remove()
    target.requires_grad_(True)
    draft.eval()
