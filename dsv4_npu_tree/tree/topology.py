"""The topology of one verify round: which node hangs where, in which branch, at which position."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Topology:
    """The outputs of `dsv4_tree::tree_build` for a batch; shapes, dtypes and meaning are given there."""

    positions: Tensor
    retrieve_index: Tensor
    retrieve_next_token: Tensor
    retrieve_next_sibling: Tensor
    parent: Tensor
    depth: Tensor
    ancestors: Tensor
    branch_table: Tensor
    home_branch: Tensor
    n: int
    steps: int
    topk: int

    @property
    def bs(self) -> int:
        return self.parent.shape[0]

    @property
    def device(self) -> torch.device:
        return self.parent.device

    @property
    def max_branches(self) -> int:
        return self.branch_table.shape[1]

    @property
    def seq_lens(self) -> Tensor:
        """Prefix length P of every request (the root's position); int64 [bs]."""
        return self.positions.view(self.bs, self.n)[:, 0]

    def padded(self, bs: int) -> Topology:
        """This topology with padding requests behind it, up to `bs` requests: a lone root at position 0 each."""
        extra = bs - self.bs
        assert extra >= 0, f"{self.bs} requests do not fit a batch of {bs}"
        if extra == 0:
            return self

        def pad(tensor: Tensor, value: int) -> Tensor:
            return torch.cat([tensor, tensor.new_full((extra, *tensor.shape[1:]), value)])

        padded = Topology(
            positions=pad(self.positions.view(self.bs, self.n), 0).view(-1),
            retrieve_index=torch.arange(bs * self.n, device=self.device).view(bs, self.n),
            retrieve_next_token=pad(self.retrieve_next_token, -1),
            retrieve_next_sibling=pad(self.retrieve_next_sibling, -1),
            parent=pad(self.parent, -2),
            depth=pad(self.depth, 0),
            ancestors=pad(self.ancestors, 0),
            branch_table=pad(self.branch_table, -1),
            home_branch=pad(self.home_branch, -1),
            n=self.n,
            steps=self.steps,
            topk=self.topk,
        )
        padded.parent[self.bs :, 0] = -1
        padded.ancestors[self.bs :, 0] = 1
        padded.branch_table[self.bs :, 0, 0] = 0
        padded.home_branch[self.bs :, 0] = 0
        return padded

    def paths(self, request: int) -> list[list[int]]:
        """Root-to-leaf paths of a request, one per branch, as node indices. Waits for the device."""
        rows = self.branch_table[request].tolist()
        return [[node for node in row if node >= 0] for row in rows if row[0] >= 0]

    def children(self, request: int, node: int) -> list[int]:
        """Children of a node in verification order. Waits for the device."""
        child = int(self.retrieve_next_token[request, node])
        siblings = self.retrieve_next_sibling[request].tolist()
        found: list[int] = []
        while child >= 0:
            assert len(found) < self.n, f"sibling links of request {request} are cyclic below node {node}"
            found.append(child)
            child = siblings[child]
        return found
