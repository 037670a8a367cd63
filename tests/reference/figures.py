"""What the comparisons measured, to be printed and asserted on."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

KIND = {"sliding_attention": "window", "compressed_sparse_attention": "C4", "heavily_compressed_attention": "C128"}


@dataclass
class Figures:
    """Largest absolute errors of the rows of trees, and how close the choices among them were."""

    logits: float = 0.0
    attended: dict[str, float] = field(default_factory=lambda: defaultdict(float))  # by layer kind
    rounds: int = 0
    rows: int = 0
    set_aside: int = 0  # rows after a choice that fell otherwise, within a gap of rounding
    bound: int = 0  # C4 rows that left entries out
    free: int = 0  # C4 rows that saw all there were
    closed: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # entries closed by rows, by layer kind
    entry_gap: float = np.inf
    expert_gap: float = np.inf
    prefixes: set[int] = field(default_factory=set)
    accepted: set[int] = field(default_factory=set)

    def __str__(self) -> str:
        kinds = ", ".join(f"{kind} {error:.1e}" for kind, error in self.attended.items())
        closed = ", ".join(f"{kind} {count}" for kind, count in self.closed.items() if count)
        return (
            f"{self.rounds} rounds at {len(self.prefixes)} prefixes {min(self.prefixes)}..{max(self.prefixes)}, "
            f"{self.rows} rows ({self.set_aside} set aside); largest error: logits {self.logits:.1e}, "
            f"attention {kinds}; accepted lengths {sorted(self.accepted)}; entries closed in trees: {closed}; "
            f"top-k bound in {self.bound} of {self.bound + self.free} C4 rows; "
            f"smallest gap: entries {self.entry_gap:.1e}, experts {self.expert_gap:.1e}"
        )
