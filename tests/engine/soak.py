"""Runs waves of traffic against a server and judges every greedy answer by the same request without speculation."""

from __future__ import annotations

import collections
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from caller import call
from demonstration.server import Server
from identity import accept_length, compare
from traffic import Ask

LOGPROB_NOISE = 1e-3  # of one log-probability; a wrong row is off by whole units


@dataclass
class Verdict:
    """An answered request and how it compares: same, tie, differs, or not comparable (sampled, nothing came)."""

    ask: Ask
    answer: dict[str, Any] | None
    outcome: str

    @property
    def meta(self) -> dict[str, Any]:
        return self.answer["meta_info"] if self.answer else {}

    @property
    def finish(self) -> dict[str, Any]:
        return self.meta.get("finish_reason") or {}

    @property
    def cut_short(self) -> bool:
        """The end lay inside an accepted path: more tokens were accepted than returned."""
        histogram = self.meta.get("spec_correct_drafts_histogram")
        if not histogram or self.finish.get("type") == "abort":
            return False
        return 1 + sum(count * (drafts + 1) for drafts, count in enumerate(histogram)) > len(self.answer["output_ids"])


@dataclass
class Soak:
    """server: under test. plain: the same model without speculation, with memory to spare."""

    server: Server
    plain: Server
    name: str
    verdicts: list[Verdict] = field(default_factory=list)
    _sent: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._references = ThreadPoolExecutor(3)

    def wave(self, asks: list[Ask]) -> None:
        """Send these requests together; returns when all have ended and every answer is judged."""
        judged: list[Future[Verdict]] = []
        with ThreadPoolExecutor(max(1, len(asks))) as clients:
            for client in [clients.submit(self._conversation, ask) for ask in asks]:
                judged += client.result()
        self.verdicts += [verdict.result() for verdict in judged]

    def _conversation(self, ask: Ask) -> list[Future[Verdict]]:
        answer, judged = self._one(ask)
        if ask.follow_up and answer and answer["meta_info"]["finish_reason"]["type"] != "abort":
            ids = [*ask.ids, *answer["output_ids"], *ask.follow_up]
            again = Ask("follow-up", ids, {"max_new_tokens": 24, "ignore_eos": True}, dict(ask.fields))
            return [judged, self._one(again)[1]]
        return [judged]

    def _one(self, ask: Ask) -> tuple[dict[str, Any] | None, Future[Verdict]]:
        with self._lock:
            self._sent += 1
            rid = f"{self.name}-{self._sent}"
        answer = call(self.server, ask, rid)
        return answer, self._references.submit(self._judge, ask, answer, rid)

    def _judge(self, ask: Ask, answer: dict[str, Any] | None, rid: str) -> Verdict:
        if answer is None or not ask.greedy or not answer["output_ids"]:
            return Verdict(ask, answer, "not compared")
        wanted = {"return_logprob": True, "top_logprobs_num": 8, "extra_key": rid}  # a key of its own: no prefix reuse
        reference = self.plain.generate(ask.ids, sampling_params=ask.sampling, rid=rid, **wanted)
        return Verdict(ask, answer, judge(answer, reference, partial=ask.ending != "wait"))

    def kinds(self) -> list[str]:
        """One line a kind: requests, outcomes, how they ended."""
        lines = []
        for kind in dict.fromkeys(verdict.ask.kind for verdict in self.verdicts):
            chosen = [verdict for verdict in self.verdicts if verdict.ask.kind == kind]
            outcomes = collections.Counter(verdict.outcome.split(" at")[0].split(":")[0] for verdict in chosen)
            ends = collections.Counter(verdict.finish.get("type", "left") for verdict in chosen)
            cut = sum(verdict.cut_short for verdict in chosen)
            shown = ", ".join(f"{name} {count}" for name, count in [*outcomes.items(), *ends.items()])
            lines.append(f"{kind:16} {len(chosen):4}: {shown}, inside a path {cut}")
        return lines

    def tally(self, tally, run: str) -> None:
        for verdict in self.verdicts:
            if verdict.outcome != "not compared":
                tally.add(run, len(verdict.ask.ids), verdict.outcome, accept_length(verdict.answer))


def judge(answer: dict[str, Any], reference: dict[str, Any], *, partial: bool) -> str:
    """``compare``, and where the tokens are the same, also how the answer ended, its text and its logprobs.

    partial: the client did not wait for the end, so the answer may be the start of the reference.
    """
    meta, expected = answer["meta_info"], reference["meta_info"]
    ended = meta["finish_reason"]
    left = partial and (ended is None or ended["type"] == "abort")
    if left:  # SGLang cuts an aborted answer at no limit and no stop: a whole accepted path may follow
        answer = {**answer, "output_ids": answer["output_ids"][: len(reference["output_ids"])]}
    outcome = compare(answer, reference)
    if outcome != "same":
        return outcome
    if not left:
        for what, found, wanted in (
            ("finish", ended, expected["finish_reason"]),
            ("length", len(answer["output_ids"]), len(reference["output_ids"])),
            ("text", answer["text"], reference["text"]),
        ):
            if found != wanted:
                return f"differs: {what} {found!r} instead of {wanted!r}"
    if "output_token_logprobs" in meta and not left:
        found = meta["output_token_logprobs"]
        if len(found) != len(answer["output_ids"]):
            return f"differs: {len(found)} logprobs for {len(answer['output_ids'])} tokens"
        for place, (one, other) in enumerate(zip(found, expected["output_token_logprobs"])):
            if one[1] != other[1] or abs(one[0] - other[0]) > LOGPROB_NOISE:
                return f"differs: logprob {place} {one[:2]} instead of {other[:2]}"
    return "same"
