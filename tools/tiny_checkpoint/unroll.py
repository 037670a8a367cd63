"""The draft chained on itself at every position of a known text at once.

A chain at depth k has true target streams up to its anchor and the draft's own streams after it.  Row block k (of R
rows, one per position) holds the rows at depth k of all chains: the row at position p belongs to the chain anchored
at p - k + 1, reads true rows up to that anchor, then the chain's own rows.  This is what a chain of draft steps
computes when every drafted token equals the text.
"""

import torch

from tools.tiny_checkpoint.nextn import NextN, additive_mask


def unroll_mask(rows: int, depth: int, window: int) -> torch.Tensor:
    """Additive mask [1, 1, depth * R, depth * R] over the row blocks of depths 1..depth."""
    p = torch.arange(rows)
    row_depth, row = torch.arange(1, depth + 1).repeat_interleave(rows)[:, None], p.repeat(depth)[:, None]
    column_depth, column = row_depth.T, row.T
    on_text = (column_depth == 1) & (column <= row - row_depth + 1)
    on_chain = (column_depth > 1) & (column_depth <= row_depth) & (column == row - row_depth + column_depth)
    itself = (column_depth == row_depth) & (column == row)
    return additive_mask((on_text | on_chain | itself) & (column > row - window))


def unroll(draft: NextN, streams: torch.Tensor, ids: torch.Tensor, depth: int) -> torch.Tensor:
    """Draft logits at every depth and position; gradients flow through the last pass only.

    streams [B, S, hc_mult, D] of the target on ids [B, S] int64
    -> [depth, B, S - 1, V]: [k, b, p] predicts token p + 2, at depth k + 1; rows with p < k have no chain behind them
    """
    batch, rows = ids.shape[0], ids.shape[1] - 1
    tokens, positions = ids[:, 1:], torch.arange(rows)[None]
    window = draft.config.sliding_window
    blocks = [streams[:, :rows]]
    for reached in range(1, depth + 1):
        last = reached == depth
        with torch.set_grad_enabled(last and torch.is_grad_enabled()):
            logits, own = draft(
                torch.cat(blocks, dim=1),
                tokens.repeat(1, reached),
                positions.repeat(1, reached),
                unroll_mask(rows, reached, window),
            )
        newest = own[:, -rows:]
        blocks.append(torch.cat([torch.zeros_like(newest[:, :1]), newest[:, :-1]], dim=1))
    return logits.view(batch, depth, rows, -1).transpose(0, 1)
