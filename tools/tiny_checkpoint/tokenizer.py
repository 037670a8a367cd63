"""A byte-level BPE tokenizer trained on the same text as the model."""

import json
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

# DeepSeek-V4's own names: SGLang's chat adapter for this architecture looks them up when a server starts.
BOS, EOS, PAD = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>"
BOS_ID, EOS_ID, PAD_ID = 0, 1, 2
CHAT = ("<｜User｜>", "<｜Assistant｜>", "<think>", "</think>")  # the last ids; never seen in training


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Byte-level BPE with ``vocab_size`` entries, ``CHAT`` included; ``encode`` puts BOS in front, nothing behind."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A $B", special_tokens=[(BOS, BOS_ID)]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(CHAT),
        special_tokens=[BOS, EOS, PAD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens(list(CHAT))
    if tokenizer.get_vocab_size() != vocab_size:
        raise ValueError(f"the text yields {tokenizer.get_vocab_size()} tokens, not {vocab_size}")
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, out: Path, max_length: int) -> None:
    """Write what ``AutoTokenizer.from_pretrained(out)`` needs, with no chat template."""
    tokenizer.save(str(out / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS,
        "eos_token": EOS,
        "pad_token": PAD,
        "clean_up_tokenization_spaces": False,
        "model_max_length": max_length,
    }
    (out / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")


def encode(tokenizer: Tokenizer, texts: Iterable[str]) -> list[int]:
    """One id stream: every document followed by EOS, no BOS."""
    ids: list[int] = []
    for encoding in tokenizer.encode_batch(list(texts), add_special_tokens=False):
        ids.extend(encoding.ids)
        ids.append(EOS_ID)
    return ids
