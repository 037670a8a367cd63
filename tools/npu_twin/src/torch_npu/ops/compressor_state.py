"""Where the compressor's token rows live: ring rows before the call, rows of the call itself.

Column of position p of request b in the table (cache_mode 2): ``coff * ratio + p - start[b]``. Columns below
``coff * ratio`` are history and are only read, the others are this call's tokens and are only written.
"""

from dataclasses import dataclass

import torch

from torch_npu.ops.limits import Limits


@dataclass
class Work:
    """Requests of one call.

    state: fp32 ``[rows, 2 * coff * D]``, row = kv | score (+ ape). table: int32 ``[B, columns]`` of state rows.
    starts, used, ends: per request the first position, live tokens, and first row of ``x`` (``[B + 1]``).
    """

    limits: Limits
    state: torch.Tensor
    table: torch.Tensor
    starts: list[int]
    used: list[int]
    ends: list[int]
    ratio: int
    coff: int

    def __post_init__(self):
        self.history = self.coff * self.ratio
        self.start = torch.tensor(self.starts)
        lengths = torch.tensor(self.used)
        self.batch = torch.repeat_interleave(torch.arange(len(self.used)), lengths)
        first = torch.cumsum(lengths, 0) - lengths
        self.offset = torch.arange(int(lengths.sum())) - first[self.batch]
        self.token = torch.tensor(self.ends)[:-1][self.batch] + self.offset
        self.position = self.start[self.batch] + self.offset
        self._check_table()

    def emissions(self) -> tuple[torch.Tensor, torch.Tensor]:
        """(request, first position) of every block that this call completes, in request order."""
        requests, blocks = [], []
        for request, (start, used) in enumerate(zip(self.starts, self.used, strict=True)):
            done = range(start // self.ratio, (start + used) // self.ratio)
            requests += [request] * len(done)
            blocks += [block * self.ratio for block in done]
        return torch.tensor(requests, dtype=torch.int64), torch.tensor(blocks, dtype=torch.int64)

    def window(self, request: torch.Tensor, block: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """For emissions ``[E]``: positions ``[E, coff * ratio]`` that a block pools, the state row of each (0 unless it
        is history) and the row of ``x`` of each (0 unless it is in the call)."""
        position = block[:, None] + torch.arange(-(self.coff - 1) * self.ratio, self.ratio)
        start = self.start[request][:, None]
        past = (position >= 0) & (position < start)
        column = torch.where(past, position - start + self.history, 0)
        ring = torch.where(past, self.table[request[:, None], column].long(), 0)
        now = position >= start
        token = torch.where(now, torch.tensor(self.ends)[:-1][request][:, None] + position - start, 0)
        return position, ring, token

    def persisted(self) -> tuple[torch.Tensor, torch.Tensor]:
        """(index into the live tokens, state row) of the rows that are kept: positions at or above
        ``trunc(start + used, ratio) - (coff - 1) * ratio``. Everything older in the call is dropped."""
        end = self.start + torch.tensor(self.used)
        oldest = end // self.ratio * self.ratio - (self.coff - 1) * self.ratio
        kept = (self.position >= oldest[self.batch]).nonzero()[:, 0]
        return kept, self.table[self.batch[kept], self.history + self.offset[kept]].long()

    def check_race(self, request: torch.Tensor, position: torch.Tensor, ring: torch.Tensor) -> None:
        """A row that one request writes and another reads in the same call: C4 has no barrier between the two."""
        kept, rows = self.persisted()
        if self.coff == 1 or rows.numel() == 0:
            return
        writer = torch.full((self.state.shape[0],), -1)
        writer[rows] = self.batch[kept]
        past = (position >= 0) & (position < self.start[request][:, None])
        owner = writer[ring]
        raced = past & (owner >= 0) & (owner != request[:, None])
        if bool(raced.any()):
            emission, column = raced.nonzero()[0].tolist()
            self.limits.refuse(
                "state_block_table",
                f"state row {int(ring[emission, column])}",
                f"request {int(request[emission])} reads what request {int(owner[emission, column])} writes",
            )

    def check_writes(self, rows: torch.Tensor, values: torch.Tensor) -> None:
        """Two tokens on one state row are harmless only if they write the same bits."""
        if torch.unique(rows).numel() == rows.numel():
            return
        last = torch.zeros(self.state.shape[0], dtype=torch.int64)
        last[rows] = torch.arange(rows.numel())
        differs = (values != values[last[rows]]).any(-1)
        if bool(differs.any()):
            row = int(rows[differs.nonzero()[0, 0]])
            self.limits.refuse("state_block_table", f"state row {row}", "two tokens write different values to it")

    def _check_table(self) -> None:
        needed = self.history + max(self.used)
        self.limits.require(
            self.table.shape[1] >= needed,
            "state_block_table.shape",
            tuple(self.table.shape),
            f"{needed} columns are read (coff * ratio + longest request)",
        )
        columns = torch.arange(self.table.shape[1])
        lengths = torch.tensor(self.used)[:, None]
        touched = (lengths > 0) & (columns < self.history + lengths)
        wild = touched & ((self.table < 0) | (self.table >= self.state.shape[0]))
        if bool(wild.any()):
            line, column = wild.nonzero()[0].tolist()
            self.limits.refuse(
                f"state_block_table[{line}, {column}]",
                int(self.table[line, column]),
                f"state has {self.state.shape[0]} rows, there is no -1 handling",
            )
