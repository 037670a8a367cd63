"""Training of the target on the text."""

import time

import torch
import torch.nn.functional as F
from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4ForCausalLM

from tools.tiny_checkpoint.index_teacher import DENSE_TOPK, index_teacher
from tools.tiny_checkpoint.optimiser import Optimiser
from tools.tiny_checkpoint.router_balance import RouterBalance
from tools.tiny_checkpoint.window_attention import NAME as WINDOW_ATTENTION
from tools.tiny_checkpoint.windows import Windows

STEPS = 900
SHAPES = ((4, 256), (4, 256), (2, 512), (4, 256), (4, 256), (1, 1024))  # (sequences, tokens), in turn
DENSE_SHARE = 0.5  # of the steps, before the indexer's selection is switched on


def train_target(
    model: DeepseekV4ForCausalLM,
    windows: Windows,
    seed: int,
    steps: int = STEPS,
    shapes=SHAPES,
    muon_lr: float = 0.005,
    adam_lr: float = 3e-3,
    progress=print,
) -> None:
    """Next-token cross-entropy plus the indexer's KL, in bfloat16 autocast; the model stays fp32, in eval mode."""
    generator = torch.Generator().manual_seed(seed)
    optimiser = Optimiser(model, steps, muon_lr, adam_lr)
    balance = RouterBalance(model)
    plain = model.config._attn_implementation
    model.config._attn_implementation = WINDOW_ATTENTION
    begin = time.perf_counter()
    mean = None
    with index_teacher(model) as teacher:
        for step in range(steps):
            teacher.set_topk(DENSE_TOPK if step < DENSE_SHARE * steps else model.config.index_topk)
            ids = windows.sample(*shapes[step % len(shapes)], generator)
            with torch.autocast("cpu", torch.bfloat16):
                logits = model(input_ids=ids, use_cache=False).logits
            text = F.cross_entropy(logits[:, :-1].float().flatten(0, 1), ids[:, 1:].flatten())
            index = teacher.loss()
            optimiser.step(text + index)
            balance.step()
            mean = text.item() if mean is None else 0.95 * mean + 0.05 * text.item()
            if step % 25 == 24 or step == steps - 1:
                seconds = time.perf_counter() - begin
                progress(f"target step {step + 1}/{steps} loss {mean:.3f} index kl {index.item():.3f} {seconds:.0f} s")
    balance.remove()
    model.config._attn_implementation = plain
    model.eval()
