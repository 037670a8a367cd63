"""How well the draft follows the target on greedy continuations of held-out prompts."""

from dataclasses import dataclass

import torch
from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4ForCausalLM

from tools.tiny_checkpoint.nextn import NextN
from tools.tiny_checkpoint.target import target_streams
from tools.tiny_checkpoint.unroll import unroll


@torch.no_grad()
def greedy(model: DeepseekV4ForCausalLM, prompts: torch.Tensor, count: int) -> torch.Tensor:
    """prompts [B, S] int64, all of one length -> [B, S + count], eos not heeded."""
    return model.generate(
        prompts, attention_mask=torch.ones_like(prompts), do_sample=False, min_new_tokens=count, max_new_tokens=count
    )


@dataclass(frozen=True)
class Acceptance:
    """Shares in 0..1.

    agreement[k]    draft argmax is the target's at depth k + 1, all earlier drafted tokens being right
    chain[k]        a chain is right up to depth k + 1
    rank[r]         the target's argmax is the draft's choice r + 1, at depth 1
    probability[r]  mean draft probability of its choice r + 1, at depth 1
    """

    agreement: list[float]
    chain: list[float]
    rank: list[float]
    probability: list[float]


@torch.no_grad()
def acceptance(
    draft: NextN, target: DeepseekV4ForCausalLM, ids: torch.Tensor, prompt: int, depth: int = 4, ranks: int = 4
) -> Acceptance:
    """Measured on ids [B, S]: greedy continuations that begin at column ``prompt``."""
    logits, streams = target_streams(target, ids)
    drafted = unroll(draft, streams, ids, depth)
    goal = logits[:, 1:].argmax(-1)
    right = drafted.argmax(-1) == goal  # [depth, B, R]
    first, last = prompt - 1, right.shape[-1] - depth  # anchors whose whole chain lies in the continuation
    chains = torch.stack([right[k][:, first + k : last + k] for k in range(depth)])
    top = drafted[0, :, first:].softmax(-1).topk(ranks, dim=-1)
    hits = top.indices == goal[:, first:, None]
    return Acceptance(
        agreement=chains.float().mean((1, 2)).tolist(),
        chain=chains.cumprod(0).float().mean((1, 2)).tolist(),
        rank=hits.float().mean((0, 1)).tolist(),
        probability=top.values.mean((0, 1)).tolist(),
    )
