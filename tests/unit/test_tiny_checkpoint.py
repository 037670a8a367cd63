"""The committed tiny checkpoint: loadable, faithful to its stated figures, rebuilt from deterministic text."""

import json
import platform

import pytest
import torch

from tools.tiny_checkpoint import MODEL_DIR, heldout_prompts, hf_model, nextn_model, target_streams
from tools.tiny_checkpoint.acceptance import acceptance, greedy
from tools.tiny_checkpoint.build import BUILD_FILE, save_checkpoint
from tools.tiny_checkpoint.config import config_dict
from tools.tiny_checkpoint.corpus import corpus, corpus_hash
from tools.tiny_checkpoint.figures import greedy_prompts, heldout_loss
from tools.tiny_checkpoint.nextn import ancestor_mask, fresh_nextn, window_mask
from tools.tiny_checkpoint.target import fresh_target, hf_config
from tools.tiny_checkpoint.tokenizer import CHAT, encode
from tools.tiny_checkpoint.unroll import unroll
from tools.tiny_checkpoint.window_attention import NAME as WINDOW_ATTENTION
from tools.tiny_checkpoint.windows import Windows

MICRO = {
    "vocab_size": 64,
    "hidden_size": 32,
    "head_dim": 64,
    "qk_rope_head_dim": 8,
    "q_lora_rank": 16,
    "o_lora_rank": 8,
    "index_head_dim": 16,
    "index_topk": 8,
    "moe_intermediate_size": 16,
}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def record():
    return json.loads((MODEL_DIR / BUILD_FILE).read_text())


@pytest.fixture(scope="module")
def tokenizer():
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(MODEL_DIR))


@pytest.fixture(scope="module")
def target():
    return hf_model(MODEL_DIR)  # raises on a missing or unexpected tensor


@pytest.fixture(scope="module")
def draft(target):
    return nextn_model(MODEL_DIR, target)  # strict


@pytest.fixture(scope="module")
def micro():
    target = fresh_target(config_dict(**MICRO), seed=3).eval()
    return target, fresh_nextn(target, seed=4).eval()


def micro_ids(count: int, length: int) -> torch.Tensor:
    return torch.randint(3, MICRO["vocab_size"], (count, length), generator=torch.Generator().manual_seed(0))


def test_config_has_every_layer_kind():
    config = json.loads((MODEL_DIR / "config.json").read_text())
    assert set(config["compress_ratios"]) == {0, 4, 128}
    assert len(config["compress_ratios"]) == config["num_hidden_layers"]
    assert config["index_n_heads"] >= 16
    assert config["num_nextn_predict_layers"] == 1
    assert config == config_dict()


def test_files_are_small():
    assert sum(file.stat().st_size for file in MODEL_DIR.iterdir()) < 7_000_000


def test_tokenizer_round_trips(tokenizer):
    for text in [*heldout_prompts(5, seed=7), "naïve – 数据\t\x00 \n\n  x"]:
        ids = tokenizer(text).input_ids
        assert ids[0] == tokenizer.bos_token_id == 0
        assert tokenizer.decode(ids, skip_special_tokens=True) == text
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id, len(tokenizer)) == (1, 2, config_dict()["vocab_size"])
    assert all(len(tokenizer.encode(name, add_special_tokens=False)) == 1 for name in CHAT)


def test_corpus_is_deterministic(record):
    first = corpus_hash()
    corpus.cache_clear()
    assert corpus_hash() == first
    assert heldout_prompts(4, seed=1) == heldout_prompts(4, seed=1)
    if platform.python_version() != record["python"]:
        pytest.skip(f"the recorded hash is of Python {record['python']}")
    assert first == record["corpus_sha256"]


def test_heldout_text_shares_no_paragraph_with_training():
    held = {p.strip() for text in corpus().heldout for p in text.split("\n\n") if len(p.strip()) > 80}
    train = {p.strip() for text in corpus().train for p in text.split("\n\n")}
    assert held and not held & train


def test_export_and_load_are_inverse(micro, tmp_path):
    target, draft = micro
    fields = config_dict(**MICRO)
    hf_config(fields)
    assert fields == config_dict(**MICRO)
    save_checkpoint(target, draft, fields, tmp_path)
    loaded = hf_model(tmp_path)
    rounded = {k: v.bfloat16().float() for k, v in target.state_dict().items() if v.is_floating_point()}
    for name, tensor in loaded.state_dict().items():
        exact = target.state_dict()[name]
        assert torch.equal(tensor, exact) or torch.equal(tensor, rounded[name]), name
    for name, tensor in nextn_model(tmp_path, loaded).state_dict().items():
        exact = draft.state_dict()[name]
        assert torch.equal(tensor, exact) or torch.equal(tensor, exact.bfloat16().float()), name
    again = tmp_path / "again"
    again.mkdir()
    save_checkpoint(loaded, nextn_model(tmp_path, loaded), config_dict(**MICRO), again)
    assert (again / "model.safetensors").read_bytes() == (tmp_path / "model.safetensors").read_bytes()


def test_window_attention_equals_eager(micro):
    target, _ = micro
    ids = micro_ids(2, 300)
    with torch.no_grad():
        eager = target(input_ids=ids, use_cache=False).logits
        target.config._attn_implementation = WINDOW_ATTENTION
        try:
            windowed = target(input_ids=ids, use_cache=False).logits
        finally:
            target.config._attn_implementation = "eager"
    torch.testing.assert_close(windowed, eager, rtol=0, atol=1e-5)


def test_unroll_equals_stepping_the_draft(micro):
    target, draft = micro
    ids, depth, anchor = micro_ids(1, 140), 3, 132
    with torch.no_grad():
        _, streams = target_streams(target, ids)
        together = unroll(draft, streams, ids, depth)
        rows, tokens = streams[:, : anchor + 1], ids[:, 1 : anchor + 2]
        for k in range(depth):
            length = rows.shape[1]
            logits, own = draft(rows, tokens, torch.arange(length)[None], window_mask(length, 128))
            torch.testing.assert_close(logits[0, -1], together[k, 0, anchor + k], rtol=0, atol=1e-5)
            rows = torch.cat([rows, own[:, -1:]], dim=1)
            tokens = torch.cat([tokens, ids[:, anchor + k + 2 : anchor + k + 3]], dim=1)


def test_ancestor_mask_gives_each_path_its_own_logits(micro):
    target, draft = micro
    ids = micro_ids(2, 141)
    ids[1, :139] = ids[0, :139]
    with torch.no_grad():
        _, streams = target_streams(target, ids)
        rows, mask = 140, window_mask(140, 128)
        alone = [
            draft(streams[i : i + 1, :rows], ids[i : i + 1, 1:], torch.arange(rows)[None], mask)[0] for i in (0, 1)
        ]
        parents = [*range(-1, rows - 1), 137, 140]  # the second path leaves the first after row 137
        positions = torch.tensor([*range(rows), 138, 139])
        both, _ = draft(
            torch.cat([streams[:1, :rows], streams[1:, 138:140]], dim=1),
            torch.cat([ids[:1, 1:], ids[1:, 139:141]], dim=1),
            positions[None],
            ancestor_mask(parents, positions, 128),
        )
    torch.testing.assert_close(both[0, 138:140], alone[0][0, 138:140], rtol=0, atol=1e-5)
    torch.testing.assert_close(both[0, 140:142], alone[1][0, 138:140], rtol=0, atol=1e-5)


def test_heldout_loss_is_as_stated(target, tokenizer, record):
    windows = Windows(encode(tokenizer.backend_tokenizer, corpus().heldout))
    loss, _ = heldout_loss(target, windows, count=4, length=512)
    stated = record["figures"]
    assert stated["heldout_loss"] < stated["heldout_bigram_loss"]
    assert loss < stated["heldout_loss"] + 0.5


def test_draft_agreement_is_useful_but_not_perfect(target, draft, tokenizer):
    starts = greedy_prompts(tokenizer, count=16, length=64, seed=5)
    found = acceptance(draft, target, greedy(target, starts, 48), prompt=64)
    assert 0.55 <= found.agreement[0] <= 0.85
    assert sum(found.rank[1:]) > 0.05
