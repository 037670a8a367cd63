"""One sequence: verify a tree of tokens on what is committed, then commit the accepted path."""

from __future__ import annotations

from collections import abc

from dsv4_npu_tree.reference.model import Model, Row
from dsv4_npu_tree.reference.state import History, LayerState
from dsv4_npu_tree.reference.tree import Tree


class Sequence:
    def __init__(self, model: Model) -> None:
        self.model = model
        self.layers = [LayerState(ratio, model.config.sliding_window) for ratio in model.config.compress_ratios]

    @property
    def length(self) -> int:
        return self.layers[0].length

    def verify(self, tree: Tree, tokens: abc.Sequence[int]) -> list[Row | None]:
        """A row per node: that of decoding the node after the committed tokens and the nodes above it on its path.

        None for a node that hangs on nothing. Changes nothing that is committed. A chain is a chunk of a prompt.
        """
        if tree.prefix != self.length:
            raise ValueError(f"the tree stands on {tree.prefix} tokens, {self.length} are committed")
        done: dict[int, Row] = {}
        for node in sorted(range(tree.n), key=tree.depths().__getitem__):  # parents first
            if tree.alive[node]:
                above = [done[u] for u in tree.path(node)[:-1]]
                histories = [
                    History(state, [row.rows[layer] for row in above]) for layer, state in enumerate(self.layers)
                ]
                done[node] = self.model.decode(tokens[node], tree.prefix + len(above), histories)
        return [done.get(node) for node in range(tree.n)]

    def commit(self, rows: abc.Iterable[Row]) -> None:
        """Append the rows of an accepted path, root first. Rows of other nodes are dropped with the round."""
        for row in rows:
            for state, left in zip(self.layers, row.rows, strict=True):
                state.append(left)

    def extend(self, tokens: abc.Sequence[int]) -> list[Row]:
        """Decode and commit tokens one by one."""
        decoded = []
        for token in tokens:
            histories = [History(state, []) for state in self.layers]
            decoded.append(self.model.decode(token, self.length, histories))
            self.commit(decoded[-1:])
        return decoded
