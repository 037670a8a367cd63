"""Rows of the result: each shape with its interval, and its differences from chains."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from acceptance_bench.intervals import Bootstrap, Interval
from acceptance_bench.policies import Policy, Shape
from acceptance_bench.walk import Walk

Measured = dict[tuple[Policy, Shape], Walk]


@dataclass(frozen=True)
class Difference:
    """Tokens per forward of a row minus those of a chain of ``steps``, with its paired interval."""

    steps: int
    mean: float
    interval: Interval


@dataclass(frozen=True)
class Row:
    """per_forward: accepted tokens per target forward, the target's own token included. by_depth[d - 1]: share of
    forwards that accept a draft token at depth d. same_steps: against the chain of equal draft forwards, which needs
    only S + 1 verify rows. best_chain: against the best chain of at most as many verify rows."""

    nodes: int
    topk: int
    steps: int
    scoring: str
    history: str
    per_forward: float
    interval: Interval
    by_depth: list[float]
    same_steps: Difference | None
    best_chain: Difference | None

    as_dict = asdict

    @property
    def kind(self) -> str:
        return "none" if self.steps == 0 else "chain" if self.topk == 1 else "tree"


def rows(measured: Measured, nodes: Iterable[int], prompts: int) -> list[Row]:
    """In the order of ``nodes``: no speculation, chain of S = n - 1, best chain, trees."""
    bootstrap = Bootstrap(prompts)
    chains = {shape.steps: walk for (policy, shape), walk in measured.items() if policy.topk == 1}

    def row(policy: Policy, shape: Shape, walk: Walk) -> Row:
        allowed = [s for s in chains if s < shape.nodes]
        best = max(allowed, key=lambda s: chains[s].per_forward())
        return Row(
            nodes=shape.nodes,
            topk=shape.topk,
            steps=shape.steps,
            scoring=policy.scoring if shape.topk > 1 else "",
            history=policy.history if shape.topk > 1 else "",
            per_forward=walk.per_forward(),
            interval=bootstrap.interval(walk),
            by_depth=by_depth(walk, shape.steps),
            same_steps=difference(walk, shape.steps) if shape.topk > 1 and shape.steps in chains else None,
            best_chain=difference(walk, best) if shape.topk > 1 else None,
        )

    def difference(walk: Walk, steps: int) -> Difference:
        chain = chains[steps]
        mean = walk.per_forward() - chain.per_forward()
        return Difference(steps, mean, bootstrap.difference(walk, chain))

    found = [Row(1, 1, 0, "", "", 1.0, (1.0, 1.0), [], None, None)]
    for n in nodes:
        fitting = [s for s in chains if s < n]
        shown = {n - 1, max(fitting, key=lambda s: chains[s].per_forward())}
        for (policy, shape), walk in measured.items():
            if shape.topk > 1 and shape.nodes == n or shape.topk == 1 and shape.steps in shown:
                shape_here = shape if shape.topk > 1 else Shape(1, shape.steps, shape.steps + 1)
                found.append(row(policy, shape_here, walk))
    return found


def by_depth(walk: Walk, steps: int) -> list[float]:
    lengths = walk.lengths
    return [(lengths >= depth).double().mean().item() for depth in range(1, steps + 1)]


def best(found: Iterable[Row], nodes: int) -> Row:
    """The tree of ``nodes`` with the most tokens per forward."""
    return max((r for r in found if r.kind == "tree" and r.nodes == nodes), key=lambda r: r.per_forward)
