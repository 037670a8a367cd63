"""What the arena costs: one formula, used to print it, to take it off the KV budget, and to refuse it."""

from __future__ import annotations

from dataclasses import dataclass

from dsv4_npu_tree.config import TreeConfig
from dsv4_npu_tree.paging.arena import arena_pages, space_of
from dsv4_npu_tree.paging.tables import PAGE

MIB = 2**20


@dataclass(frozen=True)
class ModelRows:
    """Row sizes of a model. ratios: compress ratio of each layer; head_dim, indexer_dim, hidden: channels.

    SWA, C4 and C128 rows are bf16 (Atlas A3: 1024 B at 512 channels); a C4 row carries an int8 indexer key and an fp16
    scale. The draft (NextN) is one SWA layer.
    """

    ratios: tuple[int, ...]
    head_dim: int = 512
    indexer_dim: int = 128
    hidden: int = 4096

    @property
    def kv_bytes(self) -> int:
        return 2 * self.head_dim

    @property
    def state_bytes(self) -> int:
        """fp32 bytes of one token's rows ``2 * coff * D`` over all compressors."""
        c4_width, c128_width = 4 * (self.head_dim + self.indexer_dim), 2 * self.head_dim
        return 4 * (self.ratios.count(4) * c4_width + self.ratios.count(128) * c128_width)


@dataclass(frozen=True)
class Term:
    """rows (rounded up to pool pages) times bytes over all layers."""

    name: str
    rows: int
    bytes_per_row: int

    @property
    def bytes(self) -> int:
        return self.rows * self.bytes_per_row


@dataclass(frozen=True)
class ArenaBudget:
    """Bytes for ``requests`` request rows.

    terms: arena rows of the target and draft pools. projection_bytes: fp32 copies of the compressor projections
    (state/project.py). scratch_bytes: projected rows of a full batch of trees. request_bytes: what one more request row
    adds, before rounding up to pool pages.
    """

    requests: int
    branches: int
    terms: tuple[Term, ...]
    projection_bytes: int
    scratch_bytes: int
    request_bytes: int

    @classmethod
    def of(cls, config: TreeConfig, requests: int, model: ModelRows, c128_page: int) -> ArenaBudget:
        """requests: request rows of the pool (running requests + 1). c128_page: entries of a C128 page."""
        c4_layers, c128_layers = model.ratios.count(4), model.ratios.count(128)
        spaces = (
            ("swa", 1, PAGE, config.max_branches, model.kv_bytes * len(model.ratios)),
            ("c4", 4, PAGE // 4, config.max_branches, (model.kv_bytes + model.indexer_dim + 2) * c4_layers),
            ("c128", 128, c128_page, config.max_branches, model.kv_bytes * c128_layers),
            ("draft swa", 1, PAGE, config.topk, model.kv_bytes),
        )
        terms, one = [], model.state_bytes * config.n
        for name, ratio, page, branches, row_bytes in spaces:
            if row_bytes:
                space = space_of(ratio, page, config, branches)
                terms.append(Term(name, arena_pages(space, requests, page) * page, row_bytes))
                one += space.rows(1) * row_bytes
        projection, scratch = model.state_bytes * model.hidden, model.state_bytes * requests * config.n
        return cls(requests, config.max_branches, tuple(terms), projection, scratch, one)

    @property
    def arena_bytes(self) -> int:
        return sum(term.bytes for term in self.terms)

    @property
    def bytes(self) -> int:
        """Everything that comes off the KV budget."""
        return self.arena_bytes + self.projection_bytes + self.scratch_bytes

    def __str__(self) -> str:
        terms = " + ".join(f"{t.name} {t.rows} rows x {t.bytes_per_row} B" for t in self.terms)
        return (
            f"dsv4_tree arena for {self.requests} request rows x {self.branches} branches: {terms} = "
            f"{self.arena_bytes / MIB:.1f} MiB; fp32 projections {self.projection_bytes / MIB:.1f} MiB, scratch rows "
            f"{self.scratch_bytes / MIB:.1f} MiB; {self.request_bytes / MIB:.1f} MiB per running request"
        )

    def refusal(self, available: float, where: str) -> str | None:
        """Why the arena does not fit into ``available`` bytes, with the flags to change; None if it fits."""
        if self.bytes < available:
            return None
        return (
            f"{self}, which does not fit {where} of {available / MIB:.1f} MiB: lower --max-running-requests or "
            "--speculative-num-draft-tokens, or raise --mem-fraction-static"
        )
