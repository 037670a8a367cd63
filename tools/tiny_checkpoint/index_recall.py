"""How much of the attention that a C4 layer would pay to all entries falls on those its indexer selects."""

import torch
from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4ForCausalLM

from tools.tiny_checkpoint.index_teacher import DENSE_TOPK, index_teacher
from tools.tiny_checkpoint.window_attention import NAME as WINDOW_ATTENTION


@torch.no_grad()
def index_recall(model: DeepseekV4ForCausalLM, ids: torch.Tensor) -> tuple[float, float]:
    """ids [B, S] -> (share of the mass on the selected entries, share a random choice of as many would get).

    Averaged over the queries that see more than twice ``index_topk`` entries.
    """
    topk = model.config.index_topk
    plain = model.config._attn_implementation
    model.config._attn_implementation = WINDOW_ATTENTION
    selected, chance = [], []
    try:
        with index_teacher(model) as teacher:
            teacher.set_topk(DENSE_TOPK)
            model(input_ids=ids, use_cache=False)
            for scores, mass, visible in teacher.observed():
                many = visible.sum(-1) > 2 * topk
                mass, count = mass[many], visible[many].sum(-1)
                picks = scores.masked_fill(~visible, float("-inf"))[many].topk(topk, dim=-1).indices
                selected.append(mass.gather(-1, picks).sum(-1) / mass.sum(-1).clamp_min(1e-9))
                chance.append(topk / count.float())
    finally:
        model.config._attn_implementation = plain
    return torch.cat(selected).mean().item(), torch.cat(chance).mean().item()
