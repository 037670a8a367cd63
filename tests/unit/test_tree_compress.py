"""compress_project + tree_compress against the stock compressor of the CPU twin, bit by bit."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from dsv4_npu_tree.ops.compress_project import compress_project
from dsv4_npu_tree.ops.kernels import NAME, implementation
from dsv4_npu_tree.ops.kernels.library import KernelLibrary, library_path
from dsv4_npu_tree.ops.library import REFERENCE, SELECTION_VARIABLE, provide
from dsv4_npu_tree.ops.tree_compress import ABSENT, tree_compress

pytest.importorskip("torch_npu._twin", reason="the stock op in fp64 is the CPU twin's")

HIDDEN, ROPE, EPS = 64, 64, 1e-6
KINDS = {"c4": (4, 512), "indexer": (4, 128), "c128": (128, 512)}


@pytest.fixture(autouse=True, params=[REFERENCE, NAME])
def selected(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test runs on the torch implementation and, where a kernel library is built, on the kernel."""
    if request.param == NAME:
        path = library_path()
        adapter = implementation("tree_compress", KernelLibrary(path)) if path else None
        if adapter is None:
            pytest.skip("no kernel library with tree_compress; set DSV4_TREE_KERNELS or pip install .")
        provide("tree_compress", "PrivateUse1", adapter, name=NAME)
        monkeypatch.setenv(SELECTION_VARIABLE, "")
    else:
        monkeypatch.setenv(SELECTION_VARIABLE, REFERENCE)
    return request.param


@dataclass
class Compressor:
    """Weights of one compressor on the twin's device."""

    kind: str
    seed: int = 0

    def __post_init__(self) -> None:
        self.ratio, self.dim = KINDS[self.kind]
        self.coff = 2 if self.ratio == 4 else 1
        random = torch.Generator().manual_seed(self.seed)
        span = self.coff * self.dim
        self.wkv, self.wgate = (torch.randn(span, HIDDEN, generator=random).bfloat16().to("npu") for _ in range(2))
        self.ape = torch.randn(self.ratio, span, generator=random).to("npu")
        self.norm = (1 + 0.2 * torch.randn(self.dim, generator=random)).to("npu")
        angle = (torch.rand(1024, ROPE // 2, generator=random) * 6.3).repeat_interleave(2, -1)
        self.cos, self.sin = angle.cos().to("npu"), angle.sin().to("npu")

    def rows(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        weight = torch.cat([self.wkv, self.wgate]).float()
        return compress_project(x, weight, self.ape, positions)

    def stock(self, sequences: list[torch.Tensor]) -> list[torch.Tensor]:
        """Entries of every block of each token sequence, as the stock op gives them for a prefill."""
        lengths = [len(x) for x in sequences]
        history, longest = self.coff * self.ratio, max(lengths)
        ends = [0, *itertools.accumulate(lengths)]
        table = torch.zeros(len(lengths), history + longest, dtype=torch.int32)
        for line, (start, length) in enumerate(zip(ends, lengths)):
            table[line, history : history + length] = torch.arange(start, start + length) + 1
        blocks = [length // self.ratio for length in lengths]
        first = torch.cat([torch.arange(count) * self.ratio for count in blocks])
        emitted = min(ends[-1], ends[-1] // self.ratio + len(lengths))
        lines = torch.cat([first, torch.zeros(emitted - len(first), dtype=torch.int64)]).to("npu")
        state = torch.zeros(ends[-1] + 1, 1, 2 * self.coff * self.dim).to("npu")
        out = torch.ops.npu.compressor(
            torch.cat(sequences),
            self.wkv,
            self.wgate,
            state,
            self.ape,
            self.norm,
            self.sin[lines],
            self.cos[lines],
            ROPE,
            self.ratio,
            state_block_table=table.to("npu"),
            cu_seqlens=torch.tensor(ends, dtype=torch.int32).to("npu"),
            seqused=torch.tensor(lengths, dtype=torch.int32).to("npu"),
            start_pos=torch.zeros(len(lengths), dtype=torch.int32).to("npu"),
            coff=self.coff,
            norm_eps=EPS,
            rotary_mode=2,
            cache_mode=2,
        )
        return list(out[: sum(blocks)].cpu().split(blocks))

    def tree(self, prefix: torch.Tensor, nodes: torch.Tensor, parents: list[int]) -> dict[int, torch.Tensor]:
        """Entries of the closing nodes of a tree of tokens behind a prefix of tokens."""
        start, span = len(prefix), self.coff * self.ratio
        paths = [path_to(parents, node) for node in range(len(parents))]
        positions = torch.tensor([start + len(path) - 1 for path in paths])
        window = torch.full((len(parents), span), ABSENT)
        for node, path in enumerate(paths):
            for slot, at in enumerate(range(int(positions[node]) - span + 1, int(positions[node]) + 1)):
                if at >= 0:
                    window[node, slot] = at if at < start else -1 - path[at - start]
        closes = (positions + 1) % self.ratio == 0
        first = torch.where(closes, positions + 1 - self.ratio, 0).to("npu")
        out = tree_compress(
            self.rows(nodes, positions.to("npu")),
            self.rows(prefix, torch.arange(start).to("npu")),
            window.to("npu"),
            closes.to("npu"),
            self.norm,
            self.cos[first],
            self.sin[first],
            coff=self.coff,
            norm_eps=EPS,
        ).cpu()
        assert not out[~closes].any()
        return {node: out[node] for node in closes.nonzero().flatten().tolist()}


def path_to(parents: list[int], node: int) -> list[int]:
    return [*(path_to(parents, parents[node]) if parents[node] >= 0 else []), node]


def tokens(seed: int, count: int) -> torch.Tensor:
    return torch.randn(count, HIDDEN, generator=torch.Generator().manual_seed(seed)).bfloat16().to("npu")


@pytest.mark.parametrize("kind", ["c4", "indexer"])
@pytest.mark.parametrize("prefix", [1, 2, 3, 4, 5, 6, 7, 8, 125, 126, 127, 128])
def test_a_chain_equals_one_stock_request(kind: str, prefix: int) -> None:
    """Every P mod 4, the first block with its absent rows, and the 128 boundary."""
    compressor, x = Compressor(kind), tokens(prefix, prefix + 9)
    (blocks,) = compressor.stock([x])
    entries = compressor.tree(x[:prefix], x[prefix:], list(range(-1, 8)))
    assert len(entries) in (2, 3)
    for node, entry in entries.items():
        assert torch.equal(entry, blocks[(prefix + node) // 4])


@pytest.mark.parametrize("prefix", [120, 124, 127, 128, 248, 255])
def test_a_c128_chain_equals_one_stock_request(prefix: int) -> None:
    compressor, x = Compressor("c128"), tokens(prefix, prefix + 9)
    (blocks,) = compressor.stock([x])
    entries = compressor.tree(x[:prefix], x[prefix:], list(range(-1, 8)))
    assert len(entries) == (prefix != 128)
    for node, entry in entries.items():
        assert torch.equal(entry, blocks[(prefix + node) // 128])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_every_closing_node_of_a_tree_equals_its_path_alone(kind: str, seed: int) -> None:
    compressor, rng = Compressor(kind, seed), np.random.default_rng(seed)
    prefix = int(rng.integers(1, 30) if kind != "c128" else 128 - rng.integers(1, 5))
    parents = [-1]
    while len(parents) < 16:
        parent = int(rng.integers(len(parents)))
        if len(path_to(parents, parent)) <= 6:
            parents.append(parent)
    before, nodes = tokens(seed, prefix), tokens(seed + 100, len(parents))
    entries = compressor.tree(before, nodes, parents)
    assert entries
    alone = compressor.stock([torch.cat([before, nodes[path_to(parents, node)]]) for node in entries])
    for (node, entry), blocks in zip(entries.items(), alone):
        assert torch.equal(entry, blocks[-1]), f"node {node}"


def test_siblings_do_not_share_rows() -> None:
    """Two nodes at one position with different tokens give different entries, and each its own path's."""
    compressor, before, nodes = Compressor("indexer"), tokens(1, 6), tokens(2, 3)
    entries = compressor.tree(before, nodes, [-1, 0, 0])
    assert list(entries) == [1, 2]
    assert not torch.equal(entries[1], entries[2])
