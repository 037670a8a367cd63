"""The product's own check of a verify round: records it, judges the five identities, compares bytes around the commit.

`DSV4_TREE_CHECK=1` checks every round, `=N` one round in N. Between due rounds the cost is two rows written per request
(the shadow); a due round waits for the device several times.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterable
from typing import Any

import torch

from dsv4_npu_tree.config import check_every
from dsv4_npu_tree.inspect.canary import DUMMY, StorageCanary
from dsv4_npu_tree.inspect.collect import Acceptance, Candidates, Snapshot
from dsv4_npu_tree.inspect.identities import Violation, judge
from dsv4_npu_tree.inspect.record import RequestRound

logger = logging.getLogger(__name__)

Key = tuple[int, tuple[weakref.ref[Any], int]]  # request row, (SGLang's Req, its retractions); names can be reused


class Shadow:
    """What each request's last round left behind, by request row: next prefix length and root token. Written every
    round without waiting for the device."""

    def __init__(self, requests: int, device: torch.device):
        self.left = torch.zeros(requests, 2, dtype=torch.int64, device=device)
        self.owner: dict[int, tuple[weakref.ref[Any], int]] = {}

    def note(self, rows: torch.Tensor, keys: list[Key], prefix: torch.Tensor, root: torch.Tensor) -> None:
        """rows, prefix, root: int64 ``[bs]``; keys of the same requests."""
        self.left[rows] = torch.stack([prefix, root], dim=1)
        self.owner.update(keys)

    def expected(self, keys: list[Key]) -> list[tuple[int, int] | None]:
        """(prefix length, root token) of each request's next round; None where its last round is unknown. Waits for
        the device."""
        left = self.left.tolist()
        return [tuple(left[row]) if self.owner.get(row) == key else None for row, key in keys]  # type: ignore[misc]


_shadows: weakref.WeakKeyDictionary[Any, Shadow] = weakref.WeakKeyDictionary()
_serial = 0


def _keys(batch: Any) -> list[Key]:
    return [(int(r.kv.req_pool_idx), (weakref.ref(r), r.retraction_count)) for r in batch.reqs]


class RoundCheck:
    """One round under inspection. judged: whether it is due for a check, or only recorded for a dump."""

    def __init__(self, snapshot: Snapshot, verify_input: Any, serial: int, judged: bool):
        self.snapshot, self.verify_input, self.serial, self.judged = snapshot, verify_input, serial, judged
        self.canary = StorageCanary(snapshot) if judged else None
        self.records: list[RequestRound] = []
        self.faults: dict[int, list[Violation]] = {}

    def accepted(self, plan: Any, acceptance: Acceptance, columns: int | None = None) -> torch.Tensor:
        """Call before the commit; returns acceptance lengths ``[bs]``, 0 where the commit must be withheld."""
        self.records = self.snapshot.records(plan, self.verify_input, acceptance, columns)
        if self.canary is None:
            return acceptance.lens
        self._add((b, violation) for b, record in enumerate(self.records) for violation in judge(record))
        self._add(self.canary.before_commit(self.records))
        sound = torch.tensor([b not in self.faults for b in range(len(self.records))], device=acceptance.lens.device)
        return acceptance.lens * sound.to(acceptance.lens.dtype)

    def committed(self, plan: Any) -> None:
        """Call after the commit."""
        if self.canary is not None:
            committed = [b not in self.faults for b in range(len(self.records))]
            self._add(self.canary.after_commit(self.records, committed, plan.scratch))

    def _add(self, found: Iterable[tuple[int, Violation]]) -> None:
        """Collect violations; one that belongs to no request stops all. The ranks of a tensor-parallel group agree."""
        here: dict[int, list[Violation]] = {}
        for b, violation in found:
            for request in range(len(self.snapshot.names)) if b == DUMMY else (b,):
                here.setdefault(request, []).append(violation)
        for rank in _everywhere(here):
            for b, violations in rank.items():
                self.faults.setdefault(b, []).extend(violations)

    def messages(self) -> dict[int, str]:
        """Request number in the batch -> what to tell its user; empty if all is well."""
        found = {}
        for b, violations in self.faults.items():
            more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
            found[b] = (
                f"dsv4_tree check: request {self.snapshot.names[b]}, round {self.serial}, {violations[0]}{more}; "
                "the request was stopped, nothing of this round was emitted"
            )
            logger.error("%s", found[b])
        return found


def _everywhere(here: dict[int, list[Violation]]) -> list[dict[int, list[Violation]]]:
    """Violations of every rank that schedules the same batch; they must agree on which requests stop."""
    from sglang.srt.runtime_context import get_parallel

    group = get_parallel().attn_tp_group
    return [here] if group.world_size == 1 else group.all_gather_object(here)


def begin(batch: Any, verify_input: Any, candidates: Candidates, *, dumped: bool) -> RoundCheck | None:
    """Start of a verify, before its forward. None where this round is neither due for a check nor dumped."""
    global _serial
    every = check_every()
    if not every and not dumped:
        return None
    _serial += 1
    judged = bool(every) and _serial % every == 0
    if not judged and not dumped:
        return None
    pool = batch.token_to_kv_pool_allocator.get_kvcache()
    expected = _shadow(pool, batch).expected(_keys(batch))
    return RoundCheck(Snapshot(batch, verify_input, candidates, expected), verify_input, _serial, judged)


def _shadow(pool: Any, batch: Any) -> Shadow:
    if pool not in _shadows:
        _shadows[pool] = Shadow(batch.req_to_token_pool.req_to_token.shape[0], batch.seq_lens.device)
    return _shadows[pool]


def note(batch: Any, acceptance: Acceptance) -> None:
    """End of a verify: remember where each request stands, for the checks of a later round."""
    if not check_every():
        return
    shadow = _shadow(batch.token_to_kv_pool_allocator.get_kvcache(), batch)
    lens = acceptance.lens.long()
    last = acceptance.index.long().gather(1, (lens - 1).clamp(min=0)[:, None])[:, 0].clamp(min=0)
    rows, prefix = batch.req_pool_indices.long(), batch.seq_lens.long() + lens
    shadow.note(rows, _keys(batch), prefix, acceptance.predict.long()[last])
