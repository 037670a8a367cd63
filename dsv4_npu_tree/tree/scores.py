"""What a candidate's draft probability is worth when paths compete for verify rows."""

from __future__ import annotations

import torch
from torch import Tensor

# No child outranks or equals its parent: nodes are taken by path score, and a parent must come first.
CEILING = 1 - 1e-4
# Of the best sibling: a large exponent would take the others of a sure draft to 0, where paths tie and nodes lose their
# parents.
FLOOR = 1e-6


def sharpen(probability: Tensor, exponent: float) -> Tensor:
    """c = p ** a / sum(p ** a) over the candidates of one parent.

    probability: fp32 ``[..., K]``, the draft's. Returns the same shape; a path score is the product of c instead of p.
    The draft of a greedy target is as flat as the target's distribution, but the target's argmax does not vary: of
    candidates with probability p far more than a share p are right, and products of p punish depth. Rows of zeros
    stay zeros.
    """
    tiny = torch.finfo(probability.dtype).tiny
    # relative to the best candidate: p ** a alone underflows for a flat draft over a large vocabulary
    weight = (probability / probability.amax(-1, keepdim=True).clamp(min=tiny)).pow(exponent).clamp(min=FLOOR)
    weight = torch.where(probability > 0, weight, 0.0)
    return (weight / weight.sum(-1, keepdim=True).clamp(min=tiny)).clamp(max=CEILING)
