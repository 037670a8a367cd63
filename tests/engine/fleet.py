"""The servers of a test session: each starts when first asked for, two at a time, and lives until the session ends."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from demonstration.server import CHAIN, EAGER, PLAIN, REPOSITORY, SHARING, TREE, Server
from prompts import Prompt

NEW_TOKENS = 64
# Short chunks that do not divide 2048, so that a radix hit ends inside a chunk.
SMALL_CHUNK = ("--chunked-prefill-size", "384")
# Two attention-DP ranks; SGLang counts its slots after every batch of theirs, and ends the server if one is missing.
ATTENTION_RANKS = ("--tp-size", "2", "--attn-dp-size", "2", *SHARING)
ATTENTION_RANKS_ENV = {"NPU_TWIN_DEVICES": "2", "SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_BUSY": "1"}
SERVERS: dict[str, dict[str, Any]] = {
    "plain": {"flags": (*PLAIN, *EAGER, *SHARING)},
    "tree": {"flags": SHARING, "launcher": (str(REPOSITORY / "tools" / "serve"),)},
    "chain": {"flags": (*CHAIN, *EAGER, *SHARING)},
    "small chunks": {"flags": (*TREE, *SMALL_CHUNK, *SHARING)},
    "two ranks": {"flags": (*TREE, "--tp-size", "2", *SHARING), "env": {"NPU_TWIN_DEVICES": "2"}},
    "two ranks, plain": {
        "flags": (*PLAIN, *EAGER, "--tp-size", "2", *SHARING),
        "env": {"NPU_TWIN_DEVICES": "2"},
    },
    "checked": {"flags": (*TREE, *SHARING), "env": {"DSV4_TREE_CHECK": "1"}},
    "planted fault": {
        "flags": (*TREE, *SHARING),
        "env": {
            "DSV4_TREE_CHECK": "1",
            "DSV4_TREE_PLANT_AT": "150",
            "PYTHONPATH": str(REPOSITORY / "tests" / "engine" / "planted"),
        },
    },
    "attention ranks": {"flags": (*TREE, *ATTENTION_RANKS), "env": ATTENTION_RANKS_ENV},
    "attention ranks, plain": {"flags": (*PLAIN, *EAGER, *ATTENTION_RANKS), "env": ATTENTION_RANKS_ENV},
    "attention ranks, own vocabulary": {
        "flags": (*TREE, *ATTENTION_RANKS, "--enable-dp-lm-head"),
        "env": ATTENTION_RANKS_ENV,
    },
    "attention ranks, prefill beside verify": {
        "flags": (*TREE, *ATTENTION_RANKS),
        "env": {**ATTENTION_RANKS_ENV, "SGLANG_ENABLE_DP_SPEC_PREFILL_COORDINATION": "1"},
    },
    "attention ranks, checked": {
        "flags": (*TREE, *ATTENTION_RANKS),
        "env": {**ATTENTION_RANKS_ENV, "DSV4_TREE_CHECK": "1"},
    },
    "without plugin": {"flags": (*PLAIN, *EAGER, *SHARING), "env": {"SGLANG_PLUGINS": "__none__"}},
}


class Fleet:
    """``fleet[name]`` is a server that is ready. ``warm(names)`` starts some ahead of their use."""

    def __init__(self, logs: Path):
        self._logs, self._pool = logs, ThreadPoolExecutor(2)
        self._starting: dict[str, Future[Server]] = {}
        self._servers: list[Server] = []

    def warm(self, *names: str) -> None:
        for name in names:
            if name not in self._starting:
                self._starting[name] = self._pool.submit(self._start, name)

    def __getitem__(self, name: str) -> Server:
        self.warm(name)
        return self._starting[name].result()

    def retire(self, name: str) -> None:
        """Stop a server that no later test needs; asking for it again would start it anew."""
        self._starting.pop(name).result().stop()

    def stop(self) -> None:
        for future in self._starting.values():
            future.cancel()
        self._pool.shutdown(wait=True)
        for server in self._servers:
            server.stop(patience=0)

    def _start(self, name: str) -> Server:
        server = Server(log=self._logs / f"{name.replace(' ', '-')}.log", **SERVERS[name])
        self._servers.append(server)
        return server.wait()


class References:
    """Greedy answers without speculation, each computed once, NEW_TOKENS long with its leading logprobs."""

    def __init__(self, fleet: Fleet):
        self._fleet = fleet
        self._answers: dict[Prompt, dict[str, Any]] = {}

    def __call__(self, prompt: Prompt) -> dict[str, Any]:
        if prompt not in self._answers:
            self._fleet["plain"].flush()
            self._answers[prompt] = greedy(self._fleet["plain"], prompt, return_logprob=True, top_logprobs_num=8)
        return self._answers[prompt]


def greedy(server: Server, prompt: Prompt, new_tokens: int = NEW_TOKENS, **fields: Any) -> dict[str, Any]:
    sampling = {"temperature": 0, "max_new_tokens": new_tokens, "ignore_eos": True}
    return server.generate(list(prompt.ids), sampling_params=sampling, **fields)
