"""The whole build: tokenizer, head start, target, draft, files, figures."""

import json
import platform
from pathlib import Path

import torch

from tools.tiny_checkpoint.bigram import fit_bigram
from tools.tiny_checkpoint.config import MAX_POSITIONS, config_dict, save_config
from tools.tiny_checkpoint.corpus import corpus, corpus_hash
from tools.tiny_checkpoint.draft_training import train_draft
from tools.tiny_checkpoint.figures import figures
from tools.tiny_checkpoint.layout import draft_to_upstream, save_weights, target_to_upstream
from tools.tiny_checkpoint.nextn import NextN, fresh_nextn
from tools.tiny_checkpoint.target import fresh_target, hf_model
from tools.tiny_checkpoint.target_training import train_target
from tools.tiny_checkpoint.tokenizer import encode, save_tokenizer, train_tokenizer
from tools.tiny_checkpoint.windows import Windows

BUILD_FILE = "build.json"


def save_checkpoint(target, draft: NextN, fields: dict, out: Path) -> None:
    """Config and weights of a target and its draft."""
    save_config(fields, out)
    save_weights(target_to_upstream(target.state_dict()) | draft_to_upstream(draft.state_dict()), out)


def build(out: Path, seed: int = 0, progress=print) -> dict:
    """Train and write the checkpoint to ``out``; -> what ``build.json`` records, figures included.

    The draft is trained on the target as stored, after its rounding to bfloat16.
    """
    out.mkdir(parents=True, exist_ok=True)
    fields = config_dict()
    tokenizer = train_tokenizer(corpus().train, fields["vocab_size"])
    save_tokenizer(tokenizer, out, MAX_POSITIONS)
    ids = encode(tokenizer, corpus().train)
    windows = Windows(ids)
    progress(f"{len(ids)} training tokens, corpus {corpus_hash()[:16]}, Python {platform.python_version()}")

    target = fresh_target(fields, seed)
    embed, head = fit_bigram(
        ids, fields["vocab_size"], fields["hidden_size"], torch.Generator().manual_seed(seed), progress=progress
    )
    with torch.no_grad():
        target.model.embed_tokens.weight.copy_(embed)
        target.lm_head.weight.copy_(head)
    train_target(target, windows, seed, progress=progress)
    save_checkpoint(target, fresh_nextn(target, seed + 1), fields, out)

    target = hf_model(out)
    draft = fresh_nextn(target, seed + 1)
    train_draft(draft, target, windows, seed + 1, progress=progress)
    save_checkpoint(target, draft, fields, out)

    record = {
        "seed": seed,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "corpus_sha256": corpus_hash(),
        "training_tokens": len(ids),
        "figures": figures(out, progress=progress),
    }
    (out / BUILD_FILE).write_text(json.dumps(record, indent=2) + "\n")
    return record
