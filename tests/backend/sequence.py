"""One request of a rig: the tokens whose KV is stored, and SGLang's own bookkeeping of its slots."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Any


@dataclass(eq=False)
class Sequence:
    """tokens: those with KV. req: SGLang's Req, which owns the request row and the allocated length."""

    tokens: list[int]
    req: Any

    @property
    def length(self) -> int:
        return len(self.tokens)

    @property
    def row(self) -> int:
        return int(self.req.kv.req_pool_idx)


_names = iter(range(10**9))


def new_request(tokens: list[int]):
    """A Req of SGLang for these prompt tokens."""
    from sglang.srt.managers.schedule_batch import Req
    from sglang.srt.sampling.sampling_params import SamplingParams

    req = Req(
        rid=f"rig-{next(_names)}",
        origin_input_text="",
        origin_input_ids=array("q", tokens),
        sampling_params=SamplingParams(temperature=0, max_new_tokens=64),
    )
    req.full_untruncated_fill_ids = req.origin_input_ids
    req.logprob_start_len = -1
    return req
