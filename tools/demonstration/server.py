"""One SGLang server as a child process: the launch line a card user types, its log kept in a file."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
ENV_MODEL = "DSV4_TREE_MODEL"
STEPS, TOPK, DRAFT_TOKENS = 3, 4, 8

COMMON = ("--device", "npu", "--page-size", "128")
PLAIN = ("--attention-backend", "dsv4")
CHAIN = (
    *PLAIN,
    *("--speculative-algorithm", "EAGLE", "--speculative-num-steps", str(STEPS)),
    *("--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", str(STEPS + 1)),
)
TREE = (
    *("--attention-backend", "dsv4_tree", "--speculative-algorithm", "EAGLE", "--speculative-num-steps", str(STEPS)),
    *("--speculative-eagle-topk", str(TOPK), "--speculative-num-draft-tokens", str(DRAFT_TOKENS)),
)
# Graph capture is what the tree backend switches off by itself; the CPU twin has nothing to gain from it either.
EAGER = ("--disable-cuda-graph",)
# For a server that shares the machine: an idle scheduler polls without pause by default, which takes a core from the
# server at work, and fills the card's memory with KV cache, which on the twin is the machine's.
SHARING = ("--sleep-on-idle", "--max-total-tokens", "131072")

_ERROR = re.compile(r"[\w.]*(Error|Exception)(: |$)")


class ServerError(RuntimeError):
    """The server did not start, died or refused a request."""


class Refusal(ServerError):
    """An HTTP 4xx answer: ``status`` and the server's reason."""

    def __init__(self, status: int, reason: str):
        super().__init__(f"HTTP {status}: {reason}")
        self.status, self.reason = status, reason


def default_model() -> str:
    """The tiny checkpoint of this repository, or the one that DSV4_TREE_MODEL names."""
    return os.environ.get(ENV_MODEL) or str(REPOSITORY / "tools" / "tiny_checkpoint" / "model")


def environment(**extra: str) -> dict[str, str]:
    """Environment of a server on the CPU twin: the tiny checkpoint is narrower than a card's kernels allow, and its
    tensors are too small for threads to help."""
    return {"OMP_NUM_THREADS": "1", **os.environ, "NPU_TWIN_RELAXED_DIMS": "1", "PYTHONUNBUFFERED": "1", **extra}


def free_port() -> int:
    """A free port below the range that the system hands out by itself, so that it is still free when it is bound."""
    for port in random.sample(range(20_000, 30_000), 200):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise ServerError("found no free port between 20000 and 30000")


class Server:
    """A running server. ``wait`` until it is ready, ``generate``, ``stop`` (also a context manager)."""

    def __init__(
        self,
        flags: tuple[str, ...],
        log: Path,
        *,
        model: str | None = None,
        env: dict[str, str] | None = None,
        launcher: tuple[str, ...] = (),
    ):
        """flags: on top of device and page size. launcher: a command that brings its own model and flags instead."""
        self.log, self.port = Path(log), free_port()
        module = (sys.executable, "-m", "sglang.launch_server", "--model-path", model or default_model(), *COMMON)
        self.command = [*(launcher or module), *flags, "--host", "127.0.0.1", "--port", str(self.port)]
        with self.log.open("wb") as sink:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=environment(**(env or {})),
                start_new_session=True,
            )

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait(self, timeout: float = 300, tick: Callable[[float], None] = lambda seconds: None) -> Server:
        """Return when the server answers; ``tick(seconds)`` is called about twice a second. Raises ServerError."""
        started = time.monotonic()
        while True:
            if self._process.poll() is not None:
                raise ServerError(f"the server ended while starting: {self.last_error()} (whole log: {self.log})")
            if self._answers():
                return self
            waited = time.monotonic() - started
            if waited > timeout:
                raise ServerError(f"the server was not ready after {timeout:.0f} s (log: {self.log})")
            tick(waited)
            time.sleep(0.5)

    def generate(self, prompt: str | list[int] | list[list[int]], /, **fields: Any) -> Any:
        """POST /generate. prompt: text or token ids. Sampling parameters are the field ``sampling_params``; greedy by
        default. Raises Refusal on a 4xx, ServerError on anything else that is not an answer."""
        with self._post(prompt, fields) as answer:
            return json.load(answer)

    def stream(self, prompt: str | list[int], /, **fields: Any) -> Iterator[dict[str, Any]]:
        """POST /generate with streaming: every answer so far (``text`` is cumulative), the last one complete."""
        with self._post(prompt, {**fields, "stream": True}) as answer:
            for line in answer:
                if line.startswith(b"data:") and b"[DONE]" not in line:
                    part = json.loads(line[5:])
                    if "error" in part:
                        raise ServerError(str(part["error"]))
                    yield part

    def flush(self) -> None:
        """Forget every cached prefix; waits until the running requests have ended."""
        address = f"http://127.0.0.1:{self.port}/flush_cache?timeout=60"
        with urllib.request.urlopen(urllib.request.Request(address, method="POST"), timeout=120):
            pass

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        return self._process.poll() is None

    def last_error(self) -> str:
        """The last line of the log that names an error, and what follows it."""
        lines = [line.rstrip() for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        telling = [number for number, line in enumerate(lines) if _ERROR.match(line)]
        start = telling[-1] if telling else max(0, len(lines) - 1)
        reason = [line for line in lines[start : start + 4] if not line.startswith("[20")]
        return "\n".join(reason) or "its log is empty"

    def stop(self, patience: float = 5) -> None:
        """End the server and everything it started."""
        self._process.terminate()  # its parent process alone: it takes a child's end for a crash
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(patience)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=30) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def _post(self, prompt: Any, fields: dict[str, Any]) -> Any:
        sampling = {"temperature": 0, **fields.pop("sampling_params", {})}
        kind = "text" if isinstance(prompt, str) else "input_ids"
        body = json.dumps({kind: prompt, "sampling_params": sampling, **fields}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/generate", body, {"Content-Type": "application/json"}
        )
        try:
            return urllib.request.urlopen(request, timeout=600)
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            if 400 <= error.code < 500:
                raise Refusal(error.code, text) from error
            raise ServerError(f"HTTP {error.code}: {text} (log: {self.log})") from error
        except (urllib.error.URLError, OSError) as error:
            raise ServerError(f"no answer from the server: {error}; {self.last_error()} (log: {self.log})") from error
