"""Tokens per second of every measured shape at every batch size under a roofline, and the table that follows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dsv4_npu_tree.advice.card import Card
from dsv4_npu_tree.advice.cost import ForwardCost, ModelCost
from dsv4_npu_tree.advice.profile import Measured
from dsv4_npu_tree.tree.shapes import Shape, ShapeTable


@dataclass(frozen=True)
class Setting:
    """card and how many of them share the work evenly; context: tokens before each row; overhead: seconds per layer
    that no roofline knows (launches, communication); a draft step is a forward of one layer."""

    card: Card
    cards: int
    context: int
    overhead: float

    def seconds(self, cost: ForwardCost) -> float:
        compute = cost.operations / (self.card.tflops * 1e12 * self.cards)
        return max(compute, cost.bytes / (self.card.bandwidth * 1e12 * self.cards)) + self.overhead * cost.layers


def round_seconds(model: ModelCost, setting: Setting, shape: Shape, batch: int) -> float:
    """One round: draft extend over the verify rows, S - 1 draft steps of K rows a request, one verify."""
    rows, beams = batch * shape.n, max(2, shape.topk)  # a chain is drafted as one of two beams
    draft = setting.seconds(model.draft_step(rows, setting.context))
    draft += (shape.steps - 1) * setting.seconds(model.draft_step(batch * beams, setting.context))
    return draft + setting.seconds(model.target(rows, setting.context))


def plain_rate(model: ModelCost, setting: Setting, batch: int) -> float:
    """Tokens per second of one request without speculation."""
    return 1 / setting.seconds(model.target(batch, setting.context))


def rate(model: ModelCost, setting: Setting, measured: Measured, batch: int) -> float:
    """Tokens per second of one request."""
    return measured.tokens / round_seconds(model, setting, measured.shape, batch)


def best(model: ModelCost, setting: Setting, shapes: Iterable[Measured], batch: int) -> Measured:
    """The fastest shape at a batch size; equal ones: fewer rows."""
    return max(shapes, key=lambda one: (rate(model, setting, one, batch), -one.shape.n))


def best_of_rows(shapes: Iterable[Measured]) -> list[Measured]:
    """Per number of verify rows the tree or chain that accepts most, narrowest first. Left out: what accepts no more
    than one with fewer rows."""
    found: list[Measured] = []
    for one in sorted(shapes, key=lambda one: (one.shape.n, -one.tokens)):
        if not found or one.tokens > found[-1].tokens:
            found.append(one)
    return found


def table(model: ModelCost, setting: Setting, shapes: list[Measured], most: int) -> ShapeTable:
    """DSV4_TREE_SHAPES for batch sizes up to ``most``; batch sizes are tried in steps of about an eighth."""
    entries: list[tuple[int, Shape]] = []
    batch = 1
    while batch <= most:
        shape = best(model, setting, shapes, batch).shape
        if not entries or entries[-1][1] != shape:
            entries.append((batch, shape))
        batch += max(1, batch // 8)
    return ShapeTable(tuple(entries))


def launch_shape(found: ShapeTable) -> Shape:
    """The largest n, steps and topk of a table: what the launch flags must allow."""
    shapes = [shape for _, shape in found.entries]
    return Shape(max(s.n for s in shapes), max(s.steps for s in shapes), max(2, *(s.topk for s in shapes), 2))
