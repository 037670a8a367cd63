"""Signs of life on stderr: one line that counts seconds on a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

QUIET_INTERVAL = 10


class Progress:
    """``with step(label)``: call ``tick(seconds)`` inside as often as you like."""

    def __init__(self, stream: TextIO):
        self._stream, self._live = stream, stream.isatty()
        self._label, self._shown = "", 0.0

    @contextmanager
    def step(self, label: str) -> Iterator[None]:
        self._label, self._shown = label, 0.0
        started = time.monotonic()
        self._write(f"{label} ...", end="" if self._live else "\n")
        yield
        self._write(f"{label}, done in {time.monotonic() - started:.0f} s")

    def tick(self, seconds: float) -> None:
        if self._live:
            self._write(f"{self._label} ... {seconds:.0f} s", end="")
        elif seconds - self._shown >= QUIET_INTERVAL:
            self._shown = seconds
            self._write(f"{self._label} ... {seconds:.0f} s")

    def _write(self, text: str, end: str = "\n") -> None:
        self._stream.write(("\r\033[K" if self._live else "") + text + end)
        self._stream.flush()
