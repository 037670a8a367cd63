"""A head start: embedding and head fitted to the bigram counts of the text before the layers are trained.

The residual streams start as copies of the embedding, so with quiet layers the model's logits are
``head @ rms_norm(embed[token])``.  Fitting that product to the smoothed bigram distribution is a dense problem of
V x V, seconds of work, and saves the layers from having to learn it token by token.
"""

import torch
import torch.nn.functional as F

from tools.tiny_checkpoint.lookback import CONSTANT

SMOOTHING = 20.0  # unigram pseudo-counts per row


def bigram_log_probabilities(ids: list[int], vocab_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """-> (log p(next | token) [V, V] float32, p(token) [V] float32), smoothed by the unigram."""
    stream = torch.tensor(ids)
    pairs = stream[:-1] * vocab_size + stream[1:]
    counts = torch.bincount(pairs, minlength=vocab_size**2).view(vocab_size, vocab_size).float()
    unigram = torch.bincount(stream, minlength=vocab_size).float() + 0.5
    unigram = unigram / unigram.sum()
    rows = (counts + SMOOTHING * unigram) / (counts.sum(1, keepdim=True) + SMOOTHING)
    return rows.log(), unigram


def fit_bigram(
    ids: list[int], vocab_size: int, hidden: int, generator: torch.Generator, steps: int = 100, progress=print
) -> tuple[torch.Tensor, torch.Tensor]:
    """-> (embed [V, D], head [V, D]) float32 with ``softmax(head @ embed)`` close to the bigram.

    The rows of embed have rms 1 and ``CONSTANT`` in channel 0.
    """
    log_rows, unigram = bigram_log_probabilities(ids, vocab_size)
    rows = log_rows.exp()
    free = torch.randn(vocab_size, hidden - 1, generator=generator).requires_grad_()
    head = (0.05 * torch.randn(vocab_size, hidden, generator=generator)).requires_grad_()
    scale = ((hidden - CONSTANT**2) / (hidden - 1)) ** 0.5

    def embed() -> torch.Tensor:
        return torch.cat([torch.full((vocab_size, 1), CONSTANT), scale * F.rms_norm(free, (hidden - 1,))], dim=1)

    optimiser = torch.optim.Adam([free, head], lr=0.05)
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = 0.05 * (1.0 - step / steps)
        log_fit = (embed() @ head.T).log_softmax(-1)
        loss = -(unigram[:, None] * rows * log_fit).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    progress(f"bigram fit loss {loss.item():.3f}")
    return embed().detach(), head.detach()
