"""What a verify row sees: the stored rows that its block tables lead to."""

from __future__ import annotations

from .checks import Mismatch, first_of, same_bits
from .snapshot import buffers, owned_rows


class Sight:
    """The rows of one planned round, until the next forward. Read through the tables that the attention ops are given.

    compared: bytes that ``check`` has compared.
    """

    def __init__(self, rig, plan):
        self.rig, self.compared = rig, 0
        arena = rig.pool.dsv4_tree_arena
        tables = {
            "swa": (arena.swa, plan.swa_table),
            "c4": (arena.c4, plan.c4_table),
            "c128": (arena.c128, plan.c128_table),
        }
        self._tables = {kind: (space.block, table.cpu().long()) for kind, (space, table) in tables.items()}
        self._used = plan.seqused.tolist()
        ratios = rig.runner.model_config.hf_config.compress_ratios
        layers = {"swa": range(len(ratios))}
        for kind, ratio in (("c4", 4), ("index_k", 4), ("index_scale", 4), ("c128", 128)):
            layers[kind] = [layer for layer, r in enumerate(ratios) if r == ratio]
        #: (layer, buffer, its kind of table), in the order in which a forward writes them
        self.order = sorted(
            (layer, f"{kind}[{i}]", "c4" if kind.startswith("index") else kind)
            for kind, of_kind in layers.items()
            for i, layer in enumerate(of_kind)
        )

    def check(self, line: int, alone, what: str) -> None:
        """Row ``line`` sees the stored bits that ``alone`` owns, a stock prefill of its path. A failure names the
        first layer that differs."""
        if self._used[line] != alone.length:
            raise Mismatch(f"{what} sees {self._used[line]} tokens instead of {alone.length}")
        owned, found = owned_rows(self.rig, alone, alone.length), buffers(self.rig.pool)
        for layer, name, kind in self.order:
            index, rows = owned[name].index, owned[name].rows
            block, table = self._tables[kind]
            seen = found[name][table[line, index // block] * block + index % block].cpu()
            expected = found[name][rows].cpu()
            self.compared += seen.numel() * seen.element_size()
            differs = ~same_bits(seen, expected)
            if bool(differs.any()):
                row, column = first_of(differs)
                raise Mismatch(
                    f"{what} sees layer {layer}, {name} at position or entry {int(index[row])}, column {column}: "
                    f"{seen[row, column].item()} instead of {expected[row, column].item()} "
                    f"({int(differs.any(1).sum())} of {len(seen)} rows differ)"
                )
