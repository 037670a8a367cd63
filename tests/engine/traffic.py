"""A seeded stream of requests: every way in which a request can come, run and end."""

from __future__ import annotations

import collections
import functools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from prompts import manual, prompt

CONTEXT = 8192  # of the tiny checkpoint
HIT = 2048  # a radix hit resumes at a multiple of this
STOPS = (" the", " is", "\n", "(", "import", ".", " of the", "object", "self")
REGEXES = (r"\w+ing\b", r"[0-9]", r"\)\n", r"the \w+ ")
SAMPLED = (
    {"temperature": 0.8},
    {"temperature": 1.0, "top_p": 0.9},
    {"temperature": 1.2, "top_k": 20},
    {"temperature": 0.7, "top_p": 0.8, "top_k": 50},
)


@functools.cache
def common_tokens() -> list[int]:
    """The tokens that an answer is most likely to have."""
    return [token for token, _ in collections.Counter(manual()).most_common(16)]


@dataclass
class Ask:
    """One request. ending: how the client behaves after ``after`` tokens: "wait" for the end, "hang up", "abort".

    follow_up: tokens that the client says after the answer, in a second request that repeats the conversation.
    """

    kind: str
    ids: list[int]
    sampling: dict[str, Any]
    fields: dict[str, Any] = field(default_factory=dict)
    ending: str = "wait"
    after: int = 0
    follow_up: list[int] | None = None
    delay: float = 0.0

    @property
    def greedy(self) -> bool:
        return self.sampling.get("temperature", 0) == 0


class Traffic:
    """Waves of requests that are sent together; everything follows from the seed."""

    def __init__(self, seed: int, *, bases: int = 3):
        """bases: long prefixes that ``shared`` chooses from."""
        self._rng = random.Random(seed)
        self._bases = [self._text(HIT + 2) for _ in range(bases)]

    def mixed(self, count: int) -> list[Ask]:
        """Every kind of short request, at random; no kind is left out of ``count`` >= 12."""
        kinds: list[Callable[[], Ask]] = [
            *(self._one_token, self._edge, self._cut, self._stop_string, self._stop_token, self._stop_regex),
            *(self._until_eos, self._sampled, self._noise, self._logprobs, self._stop_string, self._stop_token),
        ]
        return self._varied([kinds[number % len(kinds)]() for number in range(count)])

    def crowd(self, count: int) -> list[Ask]:
        """Requests that all start a third page of window rows before they can give back the first: memory runs out
        while they run."""
        asks = [
            Ask("crowd", self._text(self._rng.randint(226, 250)), self._for(self._rng.randint(25, 60)))
            for _ in range(count)
        ]
        return self._varied(asks)

    def shared(self, count: int) -> list[Ask]:
        """Prompts that share a long prefix with earlier ones."""
        asks = []
        for _ in range(count):
            base = self._rng.choice(self._bases)
            tail = self._text(self._rng.randint(1, 140))
            asks.append(Ask("shared prefix", base + tail, self._for(self._rng.randint(8, 48))))
            asks[-1].delay = self._rng.random() * 4
        return asks

    def long(self, count: int) -> list[Ask]:
        """Prompts of several thousand tokens, more than a prefill chunk; answers longer than the window."""
        asks = [
            Ask("long", self._text(self._rng.randint(3000, 6500)), self._for(self._rng.randint(60, 180)))
            for _ in range(count)
        ]
        return self._varied(asks)

    def to_the_limit(self) -> list[Ask]:
        """A request without a length of its own that only the context ends, and one that starts further on in it."""
        first = self._text(CONTEXT - self._rng.randint(40, 60))
        asks = [Ask("context limit", first, {"ignore_eos": True})]
        second = self._text(CONTEXT - self._rng.randint(14, 30))
        return [*asks, Ask("context limit", second, {"ignore_eos": True})]

    def _text(self, length: int) -> list[int]:
        return list(prompt(length, self._rng.randrange(len(manual()) - length)).ids)

    def _for(self, new_tokens: int) -> dict[str, Any]:
        return {"max_new_tokens": new_tokens, "ignore_eos": True}

    def _short(self) -> list[int]:
        return self._text(self._rng.randint(3, 90))

    def _one_token(self) -> Ask:
        return Ask("one token", self._text(1), self._for(self._rng.randint(1, 40)))

    def _edge(self) -> Ask:
        length = self._rng.choice([2, 3, 4, 5, 125, 126, 127, 128, 129, 130, 253, 254, 255, 256, 257, 383, 384, 511])
        return Ask("edge of a page", self._text(length), self._for(self._rng.randint(6, 50)))

    def _cut(self) -> Ask:
        return Ask("cut by length", self._short(), self._for(self._rng.choice([1, 2, 3, 4, 5, 6, 7])))

    def _stop_string(self) -> Ask:
        stop = self._rng.sample(STOPS, self._rng.randint(1, 3))
        sampling = {"max_new_tokens": 64, "stop": stop, "no_stop_trim": self._rng.random() < 0.3}
        return Ask("stop string", self._short(), sampling)

    def _stop_token(self) -> Ask:
        stop = self._rng.sample(common_tokens(), 3)
        return Ask("stop token", self._short(), {"max_new_tokens": 64, "stop_token_ids": stop})

    def _stop_regex(self) -> Ask:
        return Ask("stop regex", self._short(), {"max_new_tokens": 48, "stop_regex": self._rng.choice(REGEXES)})

    def _until_eos(self) -> Ask:
        return Ask("until eos", self._short(), {"max_new_tokens": self._rng.randint(40, 110)})

    def _sampled(self) -> Ask:
        return Ask("sampled", self._short(), {**self._for(self._rng.randint(10, 60)), **self._rng.choice(SAMPLED)})

    def _noise(self) -> Ask:
        ids = [self._rng.randrange(7, 1000) for _ in range(self._rng.randint(2, 200))]
        return Ask("random tokens", ids, self._for(self._rng.randint(6, 50)))

    def _logprobs(self) -> Ask:
        fields = {"return_logprob": True, "top_logprobs_num": self._rng.choice([0, 2, 5])}
        return Ask("logprobs", self._short(), self._for(self._rng.randint(2, 50)), fields)

    def _varied(self, asks: list[Ask]) -> list[Ask]:
        """In random order, each at its own time: some stream, some leave early, some come back with a follow-up."""
        self._rng.shuffle(asks)
        for number, ask in enumerate(asks):
            ask.delay = self._rng.random() * 2
            role = number % 14
            if role in (0, 1, 2, 3):
                ask.fields["stream"] = True
            if role in (2, 3, 4, 5):
                ask.ending = "hang up" if role % 2 else "abort"
                ask.after = self._rng.choice([0, 1, 4, 12])
            if role in (6, 0) and ask.greedy:
                ask.follow_up = self._text(self._rng.randint(1, 20))
        return asks
