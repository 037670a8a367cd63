"""Where a request ends that accepts several tokens at once: where it would have ended one token at a time."""

from __future__ import annotations

import inspect
import random

import pytest

pytest.importorskip("sglang")

STOPS = (" the", " is", "\n", "(", ".", "self", " of the")
REGEXES = (r"\w+ing\b", r"[0-9]", r"\)\n")


@pytest.fixture(scope="module")
def tokenizer():
    from transformers import AutoTokenizer

    from tools.tiny_checkpoint import MODEL_DIR

    tokenizer = AutoTokenizer.from_pretrained(MODEL_DIR)
    tokenizer.additional_stop_token_ids = None  # SGLang's loader sets it
    return tokenizer


def request(tokenizer, sampling: dict):
    from sglang.srt.managers.schedule_batch import Req
    from sglang.srt.sampling.sampling_params import SamplingParams

    parameters = SamplingParams(temperature=0, **sampling)
    parameters.normalize(tokenizer)
    return Req("r", "", [5], parameters, eos_token_ids={1}, vocab_size=1024)


def end(tokenizer, sampling: dict, paths: list[list[int]], check) -> tuple:
    """Reason, returned tokens and tokens with KV after these accepted paths, or after the one that ended it."""
    req = request(tokenizer, sampling)
    req.tokenizer = tokenizer
    for path in paths:
        req.output_ids.extend(path)
        check(req, len(path))
        if req.finished():
            break
    reason = req.finished_reason.to_json() if req.finished() else None
    return reason, list(req.output_ids[: req.finished_len]), list(req.output_ids)


def cases(tokenizer):
    from pydoc_data import topics

    ids = tokenizer.encode(topics.topics["class"], add_special_tokens=False)
    rng = random.Random(5)
    for _ in range(150):
        sampling = {"max_new_tokens": rng.choice([1, 2, 3, 5, 8, 40, 50])}
        if rng.random() < 0.7:
            sampling["stop"] = rng.sample(STOPS, rng.randint(1, 5))
        if rng.random() < 0.3:
            sampling["stop_regex"] = rng.choice(REGEXES)
        start = rng.randrange(len(ids) - 60)
        text = ids[start : start + 50]
        if rng.random() < 0.4:
            sampling["stop_token_ids"] = rng.sample(text, 4)
        paths = []
        while text:
            length = rng.randint(1, 6)
            paths.append(text[:length])
            text = text[length:]
        yield sampling, paths


def test_ends_where_one_token_at_a_time_ends(tokenizer):
    from sglang.srt.managers.schedule_batch import Req

    from dsv4_npu_tree.hooks.managers.schedule_batch import HOOKS

    stock = inspect.unwrap(Req.update_finish_state)
    (hook,) = HOOKS
    differing = 0
    for sampling, paths in cases(tokenizer):
        single = [[token] for path in paths for token in path]
        reason, returned, _ = end(tokenizer, sampling, single, stock)
        found = end(tokenizer, sampling, paths, lambda req, length: hook.around(stock, req, length))
        assert found[:2] == (reason, returned), (sampling, paths)
        whole, kept = [token for path in paths for token in path], found[2]
        assert kept == whole[: len(kept)], "tokens with KV are all kept"
        differing += end(tokenizer, sampling, paths, stock)[:2] != (reason, returned)
    assert differing > 0, "SGLang's own check already gives this: the hook can go"
    print(f"SGLang's own check of whole paths ends elsewhere in {differing} of 150 cases")


def test_an_abort_ends_at_once(tokenizer):
    from sglang.srt.managers.schedule_batch import FINISH_ABORT, Req

    from dsv4_npu_tree.hooks.managers.schedule_batch import HOOKS

    req = request(tokenizer, {"max_new_tokens": 3})
    req.tokenizer = tokenizer
    req.to_finish = FINISH_ABORT("gone")
    req.output_ids.extend([7, 8])
    HOOKS[0].around(inspect.unwrap(Req.update_finish_state), req, 2)
    assert req.finished() and list(req.output_ids) == [7, 8]
