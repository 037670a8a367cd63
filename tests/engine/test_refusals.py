"""What cannot work is refused before anything starts, in a line that names the flag to change."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from demonstration.server import COMMON, TREE, Server, ServerError, default_model, environment

pytestmark = pytest.mark.engine


def shape(backend: str, steps: int, topk: int, n: int, algorithm: str = "EAGLE") -> list[str]:
    return [
        *("--attention-backend", backend, "--speculative-algorithm", algorithm, "--speculative-num-steps", str(steps)),
        *("--speculative-eagle-topk", str(topk), "--speculative-num-draft-tokens", str(n)),
    ]


EAGLE_WORKER = "sglang.srt.speculative.eagle_worker_common._finalize_accept_tree_path"
BUILD = "sglang.srt.speculative.eagle_utils.build_tree_kernel_efficient"
# name: (case, words of the message in order); no words: it resolves
CASES: dict[str, tuple[dict, tuple[str, ...]]] = {
    "the README's flags": ({"flags": TREE}, ()),
    "the backend without speculation": ({"flags": ["--attention-backend", "dsv4_tree"]}, ()),
    "64 nodes": ({"flags": shape("dsv4_tree", 5, 8, 64)}, ()),
    "a tree with stock dsv4": (
        {"flags": shape("dsv4", 3, 4, 8)},
        ("--speculative-eagle-topk 4", "--attention-backend dsv4_tree"),
    ),
    "a chain": ({"flags": shape("dsv4_tree", 3, 1, 4)}, ("--speculative-eagle-topk 1", "dsv4")),
    "65 nodes": ({"flags": shape("dsv4_tree", 5, 8, 65)}, ("--speculative-num-draft-tokens 65", "64")),
    "17 steps": ({"flags": shape("dsv4_tree", 17, 2, 8)}, ("--speculative-num-steps 17", "16")),
    "more nodes than candidates": ({"flags": shape("dsv4_tree", 2, 2, 16)}, ("--speculative-num-draft-tokens 16", "7")),
    "fewer nodes than a path": ({"flags": shape("dsv4_tree", 3, 4, 3)}, ("--speculative-num-draft-tokens 3", "4..37")),
    "attention data parallelism": ({"flags": [*TREE, "--tp-size", "2", "--attn-dp-size", "2"]}, ()),
    "attention data parallelism, old spelling": (
        {"flags": [*TREE, "--tp-size", "2", "--dp-size", "2", "--enable-dp-attention"]},
        (),
    ),
    "attention data parallelism, own bound": (
        {"flags": [*TREE, "--tp-size", "2", "--attn-dp-size", "2", "--max-running-requests", "10"]},
        (),
    ),
    "a shape per batch size on each attention rank": (
        {
            "flags": [*TREE, "--tp-size", "2", "--attn-dp-size", "2"],
            "env": {"DSV4_TREE_SHAPES": "1:8/3/4 4:4/3/1"},
        },
        ("DSV4_TREE_SHAPES", "attention data parallelism"),
    ),
    "tensor parallelism inside attention ranks": (
        {"flags": [*TREE, "--tp-size", "4", "--attn-dp-size", "2"]},
        ("--attn-dp-size", "--tp-size"),
    ),
    "expert parallelism": ({"flags": [*TREE, "--tp-size", "2", "--ep-size", "2"]}, ("--ep-size",)),
    "adapters": ({"flags": [*TREE, "--lora-paths", "a=/x"]}, ("--lora-paths",)),
    "several tokenizer workers": ({"flags": [*TREE, "--tokenizer-worker-num", "2"]}, ("--tokenizer-worker-num",)),
    "pages of 64": ({"flags": [*TREE, "--page-size", "64"]}, ("--page-size 64", "128")),
    "an A5 card": ({"flags": TREE, "arch35": True}, ("A5",)),
    "DSpark": ({"flags": shape("dsv4_tree", 3, 4, 8, "DSPARK")}, ("--speculative-algorithm", "EAGLE")),
    "pipeline parallelism": ({"flags": [*TREE, "--pp-size", "2"]}, ("--pp-size",)),
    "a hierarchical cache": ({"flags": [*TREE, "--enable-hierarchical-cache"]}, ("--enable-hierarchical-cache",)),
    "mixed backends": (
        {"flags": [*TREE[2:], "--prefill-attention-backend", "dsv4", "--decode-attention-backend", "dsv4_tree"]},
        ("mixed attention backends", "--attention-backend dsv4_tree"),
    ),
    "another device": ({"flags": [*TREE, "--device", "cpu"]}, ("--device cpu", "npu")),
    "a missing upstream symbol": ({"flags": TREE, "delete": EAGLE_WORKER}, (EAGLE_WORKER, "0.5.23")),
    "a changed upstream symbol": ({"flags": TREE, "reorder": BUILD}, (BUILD, "0.5.23")),
}


@pytest.fixture(scope="module")
def results():
    common = ["--model-path", default_model(), *COMMON]
    cases = [{**case, "flags": [*common, *case["flags"]]} for case, _ in CASES.values()]
    ran = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("resolver.py"))],
        input=json.dumps(cases),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return dict(zip(CASES, json.loads(ran.stdout.splitlines()[-1])))


@pytest.mark.parametrize("name", CASES)
def test_arguments(name, results):
    words, result = CASES[name][1], results[name]
    if not words:
        assert result["error"] is None, result
        return
    assert result["error"] not in (None, "died"), result
    position = 0
    for word in words:
        position = result["message"].find(word, position)
        assert position >= 0, f"{word!r} is not in {result['message']!r}"
    reasons = [line for line in result["message"].splitlines() if line.strip()]
    assert len(reasons) <= 2, reasons


@pytest.mark.parametrize(
    "name, running",
    [
        ("the README's flags", 32),
        ("attention data parallelism", 64),
        ("attention data parallelism, old spelling", 64),
        ("attention data parallelism, own bound", 10),
    ],
)
def test_running_requests_are_bounded_per_attention_rank(name, running, results):
    """SGLang divides the number by the ranks; each has an arena for its share."""
    assert results[name]["running"] == running


def refused_start(flags, tmp_path):
    """The reason that a server gives for not starting, and its log."""
    with Server(tuple(flags), tmp_path / "server.log") as server, pytest.raises(ServerError) as error:
        server.wait(timeout=200)
    return str(error.value), server.log.read_text(errors="replace")


def test_a_refused_server_ends_before_weights_load(tmp_path):
    reason, log = refused_start(shape("dsv4_tree", 3, 1, 4), tmp_path)
    assert "--speculative-eagle-topk 1 is a chain" in reason
    assert "Load weight" not in log


def test_an_arena_that_does_not_fit(tmp_path):
    reason, log = refused_start([*TREE, "--max-running-requests", "8192"], tmp_path)
    assert "does not fit" in reason
    assert "--max-running-requests" in reason
    assert "MiB" in reason
    assert "Load weight" not in log
