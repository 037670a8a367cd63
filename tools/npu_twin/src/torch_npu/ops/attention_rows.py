"""Softmax attention of query rows over sets of pool slots, with a sink. Shared K = V, one KV head."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Visible:
    """What some rows see of one pool.

    pool: ``[slots, D]``. slots: int64 ``[R, W]``. read: bool ``[R, W]``, false where a column is padding. A slot that
    appears twice counts twice, as it does in a kernel that copies rows.
    """

    pool: torch.Tensor
    slots: torch.Tensor
    read: torch.Tensor

    def rows(self, start: int, end: int) -> "Visible":
        return Visible(self.pool, self.slots[start:end], self.read[start:end])

    def gather(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The union of the rows' slots: KV double ``[U, D]``, multiplicity double ``[R, U]``."""
        union = torch.unique(self.slots[self.read])
        keys = self.pool.index_select(0, union).double()
        times = torch.zeros(self.slots.shape[0], union.numel(), dtype=torch.float64)
        if union.numel():
            place = torch.searchsorted(union, self.slots).clamp_(max=union.numel() - 1)
            times.scatter_add_(1, place, self.read.double())
        return keys, times


def attend(q: torch.Tensor, parts: list[Visible], sinks: torch.Tensor, scale: float) -> torch.Tensor:
    """softmax([q.K * scale, sink]) V per head; the sink has weight and no value.

    q: ``[R, H, D]``. sinks: fp32 ``[H]``. Returns ``[R, H, D]`` in q's dtype; a row that sees nothing gets zeros.
    """
    gathered = [part.gather() for part in parts]
    keys = torch.cat([kv for kv, _ in gathered])
    times = torch.cat([count for _, count in gathered], dim=1)
    rows, heads, width = q.shape
    if rows > 1 and not bool(torch.isfinite(keys).all()):
        # 0 * inf is nan: a slot that only a neighbour sees must not reach this row.
        single = [attend(q[i : i + 1], [part.rows(i, i + 1) for part in parts], sinks, scale) for i in range(rows)]
        return torch.cat(single)
    if keys.shape[0] == 0:
        return torch.zeros_like(q)
    scores = (q.reshape(rows * heads, width).double() @ keys.T).mul_(scale).view(rows, heads, -1)
    scores.masked_fill_((times == 0).unsqueeze(1), float("-inf"))
    sink = sinks.double().view(1, heads, 1)
    top = torch.maximum(scores.amax(-1, keepdim=True), sink)
    weights = scores.sub_(top).exp_().mul_(times.unsqueeze(1))
    total = weights.sum(-1, keepdim=True) + (sink - top).exp_()
    mixed = (weights.view(rows * heads, -1) @ keys).view(rows, heads, width)
    return mixed.div_(total).to(q.dtype)
