"""Peak figures of a card: the roofline that the advisor works under."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Card:
    """tflops: dense bf16, 1e12 operations a second. bandwidth: HBM, 1e12 bytes a second. source: of both."""

    name: str
    tflops: float
    bandwidth: float
    source: str


CARDS = {
    "a3": Card(
        "a3",
        752.0,
        3.2,
        "Ascend 910C package (two dies): Zuo et al., Serving Large Language Models on Huawei CloudMatrix384, "
        "arXiv:2506.12708, section 3",
    ),
    "a2": Card("a2", 376.0, 1.6, "one die of the 910C as a stand-in for the 910B: half the figures of a3"),
}
