"""The figures that say what the checkpoint is good for, all on held-out text, from the stored weights in fp32."""

from pathlib import Path

import torch
import torch.nn.functional as F
from transformers import AutoTokenizer

from tools.tiny_checkpoint.acceptance import acceptance, greedy
from tools.tiny_checkpoint.bigram import bigram_log_probabilities
from tools.tiny_checkpoint.corpus import corpus, heldout_prompts
from tools.tiny_checkpoint.index_recall import index_recall
from tools.tiny_checkpoint.nextn import nextn_model
from tools.tiny_checkpoint.target import hf_model
from tools.tiny_checkpoint.tokenizer import encode
from tools.tiny_checkpoint.windows import Windows


@torch.no_grad()
def heldout_loss(model, windows: Windows, count: int = 24, length: int = 512) -> tuple[float, float]:
    """-> (mean nats per token, mean probability of the argmax) over evenly spaced windows."""
    losses, tops = [], []
    for ids in windows.spread(count, length).split(4):
        logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
        losses.append(F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).item())
        tops.append(logits.softmax(-1).amax(-1).mean().item())
    return sum(losses) / len(losses), sum(tops) / len(tops)


def largest_preactivation(model, ids: torch.Tensor) -> float:
    """Largest |gate| or |up| of any routed expert, selected or not; SGLang's bf16 experts do not clamp at the limit."""
    largest = 0.0

    def look(experts, args):
        nonlocal largest
        largest = max(largest, torch.einsum("td,eid->tei", args[0], experts.gate_up_proj).abs().max().item())

    handles = [layer.mlp.experts.register_forward_pre_hook(look) for layer in model.model.layers]
    with torch.no_grad():
        model(input_ids=ids, use_cache=False)
    for handle in handles:
        handle.remove()
    return largest


def variety(tokens: torch.Tensor) -> tuple[float, float]:
    """tokens [B, N] -> (distinct tokens / N, distinct 4-grams / their number), means over rows."""
    rows = tokens.tolist()
    single = [len(set(row)) / len(row) for row in rows]
    grams = [[tuple(row[i : i + 4]) for i in range(len(row) - 3)] for row in rows]
    return sum(single) / len(rows), sum(len(set(g)) / len(g) for g in grams) / len(rows)


def greedy_prompts(tokenizer, count: int, length: int, seed: int) -> torch.Tensor:
    """[count, length] int64: held-out prompts cut to one length, each behind a BOS."""
    texts = heldout_prompts(count, seed, chars=8 * length)
    return torch.tensor([tokenizer(text).input_ids[:length] for text in texts])


def figures(path: str | Path, progress=print, prompts: int = 24, length: int = 96, count: int = 64) -> dict:
    """All figures of the checkpoint at ``path``, rounded; prints some greedy continuations."""
    tokenizer = AutoTokenizer.from_pretrained(str(path))
    target = hf_model(path)
    draft = nextn_model(path, target)
    ids = encode(tokenizer.backend_tokenizer, corpus().heldout)
    windows = Windows(ids)
    rows, _ = bigram_log_probabilities(encode(tokenizer.backend_tokenizer, corpus().train), target.config.vocab_size)
    stream = torch.tensor(ids)
    loss, top = heldout_loss(target, windows)
    recall, chance = index_recall(target, windows.spread(4, 768))
    starts = greedy_prompts(tokenizer, prompts, length, seed=1)
    continued = greedy(target, starts, count)
    for row in continued[:12]:
        begin, new = tokenizer.decode(row[1:length]), tokenizer.decode(row[length:])
        progress(f"{begin[-40:]!r} -> {new!r}")
    single, grams = variety(continued[:, length:])
    found = acceptance(draft, target, continued, length)
    result = {
        "heldout_loss": loss,
        "heldout_bigram_loss": -rows[stream[:-1], stream[1:]].mean().item(),
        "mean_top1_probability": top,
        "largest_expert_preactivation": largest_preactivation(target, windows.spread(4, 512)),
        "index_mass_selected": recall,
        "index_mass_random": chance,
        "greedy_distinct_tokens": single,
        "greedy_distinct_4grams": grams,
        "draft_agreement_by_depth": found.agreement,
        "chain_acceptance_by_depth": found.chain,
        "target_argmax_is_draft_rank": found.rank,
        "draft_probability_of_rank": found.probability,
    }
    return {k: [round(x, 3) for x in v] if isinstance(v, list) else round(v, 3) for k, v in result.items()}
