"""The servers of a test session: each starts when first asked for, two at a time, and lives until the session ends."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from demonstration.server import CHAIN, EAGER, PLAIN, REPOSITORY, SHARING, TREE, Server
from prompts import Prompt

HERE = Path(__file__).resolve().parent
NEW_TOKENS = 64
# Short chunks that do not divide 2048, so that a radix hit ends inside a chunk.
SMALL_CHUNK = ("--chunked-prefill-size", "384")
# Four draft forwards: beams are re-selected three times, and the deepest nodes depend on all of them.
DEEP = (
    *TREE[: TREE.index("--speculative-num-steps")],
    *("--speculative-num-steps", "5", "--speculative-eagle-topk", "4", "--speculative-num-draft-tokens", "16"),
)
# 28 pages of window rows for fourteen requests of two to three each, next to a prefill that needs 24: requests wait,
# are retracted, and push each other out of the cache. 28 pages of C128 entries, as many as these requests can need:
# SGLang admits requests without counting those. It checks its page counts every round here, and the plugin in ledger/
# counts the pools and fills freed pages with NaN.
SMALL_POOLS = (
    *("--max-total-tokens", "57344", "--swa-full-tokens-ratio", "0.0626", "--max-running-requests", "14"),
    *("--chunked-prefill-size", "1024", "--sleep-on-idle"),
)
WATCHED = ("--enable-metrics", "--decode-log-interval", "1")
WATCHING = {
    "PYTHONPATH": os.pathsep.join(filter(None, (f"{HERE / 'ledger'}", f"{HERE.parent}", os.environ.get("PYTHONPATH")))),
    "SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_BUSY": "1",
    "SGLANG_CHECK_KV_PAGE_INVARIANTS": "1",
    "SGLANG_ENABLE_TREE_CACHE_SANITY_CHECK": "1",
}
# Two attention-DP ranks; SGLang counts its slots after every batch of theirs, and ends the server if one is missing.
ATTENTION_RANKS = ("--tp-size", "2", "--attn-dp-size", "2", *SHARING)
ATTENTION_RANKS_ENV = {"NPU_TWIN_DEVICES": "2", "SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_BUSY": "1"}
SERVERS: dict[str, dict[str, Any]] = {
    "plain": {"flags": (*PLAIN, *EAGER, *SHARING)},
    "tree": {"flags": SHARING, "launcher": (str(REPOSITORY / "tools" / "serve"),)},
    "deep tree": {"flags": (*DEEP, *SHARING), "env": {"DSV4_TREE_SCORE_EXPONENT": "2.2"}},
    "chain": {"flags": (*CHAIN, *EAGER, *SHARING)},
    "small chunks": {"flags": (*TREE, *SMALL_CHUNK, *SHARING)},
    "small pools": {"flags": (*TREE, *SMALL_POOLS, *WATCHED), "env": WATCHING},
    "two ranks": {
        "flags": (*TREE, "--tp-size", "2", *SHARING),
        "env": {"NPU_TWIN_DEVICES": "2", "DSV4_TREE_CHECK": "1"},
    },
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
    "shapes": {
        "flags": (*TREE, *SHARING),
        "env": {
            "DSV4_TREE_SHAPES": "1:8/3/4 3:5/3/2 9:4/3/1",
            "DSV4_TREE_DUMP": "{logs}/rounds",
            "DSV4_TREE_CHECK": "1",
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
        self.logs, self._pool = logs, ThreadPoolExecutor(2)
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
        spec = SERVERS[name]
        env = {key: value.replace("{logs}", str(self.logs)) for key, value in spec.get("env", {}).items()}
        server = Server(log=self.logs / f"{name.replace(' ', '-')}.log", **{**spec, "env": env})
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
