"""Collects records: what the tables say before a forward, and what was planned and accepted after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from dsv4_npu_tree.inspect.record import WINDOW, CompressorRecord, RequestRound, SpaceRecord
from dsv4_npu_tree.ops.tree_compress import ABSENT
from dsv4_npu_tree.paging.arena import Space
from dsv4_npu_tree.paging.tables import PAGE


@dataclass(frozen=True)
class Candidates:
    """The draft's pool of a round. selected, parents: arguments of `ops.tree_build`. tokens: int ``[bs, pool]`` or
    None. topk: children per node."""

    selected: torch.Tensor
    parents: torch.Tensor
    tokens: torch.Tensor | None
    topk: int


@dataclass(frozen=True)
class Acceptance:
    """What verification decided. index ``[bs, S+1]``: global node ids, -1 padded. lens ``[bs]``. predict ``[bs*n]``:
    target tokens of the accepted nodes. logits ``[bs*n, V]``: the target's, whose argmax decided; None if sampled."""

    index: torch.Tensor
    lens: torch.Tensor
    predict: torch.Tensor
    logits: torch.Tensor | None


class Snapshot:
    """Tables and prefix lengths of a batch, copied to the host before its forward."""

    def __init__(self, batch: Any, verify_input: Any, candidates: Candidates, expected: list[tuple[int, int] | None]):
        """batch: SGLang's, about to be verified. expected: prefix length and root token of each request, where known.
        Waits for the device."""
        pool, requests = batch.token_to_kv_pool_allocator.get_kvcache(), batch.req_to_token_pool
        self.pool, self.arena = pool, pool.dsv4_tree_arena
        self.names = [request.rid for request in batch.reqs]
        self.request: list[int] = batch.req_pool_indices.tolist()
        self.prefix: list[int] = batch.seq_lens.tolist()
        self.n = verify_input.draft_token_num
        self.expected = expected
        self.candidates = candidates
        rows = batch.req_pool_indices.long()
        longest = max(self.prefix) + self.n
        full = requests.req_to_token[rows, :longest].long()
        self.full: list[list[int]] = full.tolist()
        # the window's block and what follows; older positions may be evicted
        self.swa_first = [max(0, p - 2 * WINDOW) // PAGE * PAGE for p in self.prefix]
        self.swa: list[list[int]] = [
            pool.full_to_swa_index_mapping[row[first : p + self.n]].tolist()
            for row, first, p in zip(full, self.swa_first, self.prefix)
        ]
        self.c128_page = requests.c128_page_size
        self.sidecar: list[list[int]] = requests.req_to_c128_sidecar[rows].tolist()
        self.ring_sizes = {s.ratio: s.ring_size for s in pool.compress_state_pools if s is not None}

    def own(self, b: int, ratio: int, entry: int) -> int:
        """The slot of an entry in the request's own pages; 0 where it is evicted or not allocated."""
        if ratio == 1:
            at = entry - self.swa_first[b]
            return self.swa[b][at] if 0 <= at < len(self.swa[b]) else 0
        if ratio == 4:
            return self.full[b][entry * 4] // 4
        page = self.sidecar[b][entry // self.c128_page]
        return page * self.c128_page + entry % self.c128_page if page > 0 else 0

    def ring_row(self, b: int, ratio: int, position: int) -> int:
        """State row of a position (SGLang mem_cache/deepseek_v4_compress_state.py)."""
        size = self.ring_sizes[ratio]
        if ratio == 128:
            return self.request[b] * size + position % size
        slot = self.own(b, 1, position)
        return slot // PAGE * size + slot % size

    def records(self, plan: Any, verify_input: Any, acceptance: Acceptance, columns: int | None) -> list[RequestRound]:
        """One record per request. columns: keep at most that many table columns, the last ones. Waits for the
        device."""
        topology = plan.topology
        hosted = {
            name: getattr(topology, name).tolist()
            for name in ("parent", "depth", "ancestors", "branch_table", "home_branch")
        }
        hosted["next_token"] = topology.retrieve_next_token.tolist()
        hosted["next_sibling"] = topology.retrieve_next_sibling.tolist()
        hosted["position"] = verify_input.positions.view(-1, self.n).tolist()
        hosted["token"] = verify_input.draft_token.view(-1, self.n).tolist()
        hosted["seqused"] = plan.seqused.view(-1, self.n).tolist()
        hosted["score"] = verify_input.tree_scores.tolist()
        index, lens = acceptance.index.tolist(), acceptance.lens.tolist()
        predict = acceptance.predict.view(-1, self.n).tolist()
        best = None if acceptance.logits is None else acceptance.logits.argmax(-1).view(-1, self.n).tolist()
        candidates = self._candidates()
        spaces, compressors = self._spaces(plan, columns), self._compressors(plan)
        found = []
        for b, name in enumerate(self.names):
            accepted = [node - b * self.n for node in index[b][: lens[b]]]
            inside = [node if 0 <= node < self.n else 0 for node in accepted]
            target: list[int | None] = [None] * self.n if best is None else best[b]
            for node in inside if best is None else ():
                target[node] = predict[b][node]
            expected = self.expected[b] or (None, None)
            ids, parents, tokens = candidates[b]
            found.append(
                RequestRound(
                    request=name,
                    prefix=self.prefix[b],
                    token=hosted["token"][b],
                    parent=hosted["parent"][b],
                    depth=hosted["depth"][b],
                    score=[1.0, *hosted["score"][b]],
                    accepted=accepted,
                    bonus=predict[b][inside[-1] if inside else 0],
                    position=hosted["position"][b],
                    ancestors=hosted["ancestors"][b],
                    next_token=hosted["next_token"][b],
                    next_sibling=hosted["next_sibling"][b],
                    home=hosted["home_branch"][b],
                    branches=[[node for node in row if node >= 0] for row in hosted["branch_table"][b]],
                    seqused=hosted["seqused"][b],
                    target=target,
                    candidate=ids,
                    candidate_parent=parents,
                    candidate_token=tokens,
                    spaces=spaces[b],
                    compressors=compressors[b],
                    steps=topology.steps,
                    expected_prefix=expected[0],
                    expected_root=expected[1],
                    emitted=[predict[b][node] for node in inside],
                    greedy=best is not None,
                )
            )
        return found

    def _candidates(self) -> list[tuple[list[int], list[int], list[int | None]]]:
        """Per request: candidate ids, their parents' ids (-1 the root) and the pool's tokens."""
        pool, found = self.candidates, []
        selected, parents = pool.selected.tolist(), pool.parents.tolist()
        tokens = None if pool.tokens is None else pool.tokens.gather(1, pool.selected.long()).tolist()
        for b, ids in enumerate(selected):
            above = [-1 if c // pool.topk == 0 else parents[b][c // pool.topk] for c in ids]
            found.append((ids, above, [None] * len(ids) if tokens is None else tokens[b]))
        return found

    def _spaces(self, plan: Any, columns: int | None) -> list[list[SpaceRecord]]:
        found: list[list[SpaceRecord]] = [[] for _ in self.names]
        tables = {1: plan.swa_table, 4: plan.c4_table, 128: plan.c128_table}
        stores = {1: (plan.store_row, plan.store_slot)}
        stores |= {ratio: (plan.entry_row[ratio], plan.entry_slot[ratio]) for ratio in plan.entry_slot}
        depths = plan.topology.steps + 1
        for space in (self.arena.swa, self.arena.c4, self.arena.c128):
            if space is None:
                continue
            ratio = space.ratio
            table = tables[ratio].view(-1, self.n, tables[ratio].shape[1]).tolist()
            writes: list[list[list[int]]] = [[] for _ in table]
            for row, slot in zip(stores[ratio][0].tolist(), stores[ratio][1].tolist()):
                if ratio == 1 or slot != 0:
                    writes[row // self.n].append([row % self.n, slot])
            runs = plan.tails[ratio]
            tails = [x.reshape(len(table), -1).tolist() for x in (runs.src, runs.dst, runs.rows)]
            target = plan.targets[ratio]
            targets = [x.tolist() for x in (target.first, target.second, target.room)]
            for b, prefix in enumerate(self.prefix):
                done, end = prefix // ratio, (prefix + depths) // ratio
                first = max(0, prefix - WINDOW + 1) // space.block if ratio == 1 else 0
                if columns is not None:
                    first = max(first, -(-end // space.block) - columns)
                to, after, room = (column[b] for column in targets)
                found[b].append(
                    SpaceRecord(
                        ratio=ratio,
                        block=space.block,
                        arena=self.arena_rows(space, b),
                        first_column=first,
                        table=[row[first:] for row in table[b]],
                        own=[self.own(b, ratio, e) for e in range(first * space.block, max(end, done))],
                        writes=writes[b],
                        tails=[list(run) for run in zip(*(column[b] for column in tails)) if run[2]],
                        targets=[to + k if k < room else after + k - room for k in range(end - done)],
                    )
                )
        return found

    def arena_rows(self, space: Space, b: int) -> list[int]:
        rows = space.branches * space.branch_rows
        first = space.base + self.request[b] * rows
        return [first, first + rows]

    def _compressors(self, plan: Any) -> list[list[CompressorRecord]]:
        found: list[list[CompressorRecord]] = [[] for _ in self.names]
        for ratio, windows in plan.windows.items():
            closes = windows.closes.view(-1, self.n).tolist()
            rows = windows.window.view(len(closes), self.n, -1)
            targets = plan.ring_rows[ratio].tolist()
            for b, prefix in enumerate(self.prefix):
                first = max(0, prefix + 1 - rows.shape[2])
                found[b].append(
                    CompressorRecord(
                        ratio=ratio,
                        first_position=first,
                        ring=[self.ring_row(b, ratio, p) for p in range(first, prefix + len(targets[b]))],
                        windows=[
                            (node, [self._window_row(b, value) for value in rows[b, node].tolist()])
                            for node in range(self.n)
                            if closes[b][node]
                        ],
                        targets=targets[b],
                    )
                )
        return found

    def _window_row(self, b: int, value: int) -> int | None:
        """A row of the tree counted within its request."""
        if value == ABSENT:
            return None
        return value if value >= 0 else value + b * self.n
