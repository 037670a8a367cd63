"""Rows of the result: each shape with its interval, and its differences from chains."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from acceptance_bench.intervals import Bootstrap, Interval
from acceptance_bench.policies import Policy, Shape
from acceptance_bench.walk import Walk
from dsv4_npu_tree.config import MAX_NODES, MAX_STEPS, MAX_TOPK

Measured = dict[tuple[Policy, Shape], Walk]


@dataclass(frozen=True)
class Difference:
    """Tokens per forward of a row minus those of another, with its paired interval. steps: draft steps of the other."""

    steps: int
    mean: float
    interval: Interval


@dataclass(frozen=True)
class Row:
    """per_forward: accepted tokens per target forward, the target's own token included. by_depth[d - 1]: share of
    forwards that accept a draft token at depth d. same_steps: against the chain of equal draft forwards, which needs
    only S + 1 verify rows. best_chain: against the best chain of at most as many verify rows. drafted: against the same
    shape and histories with scores as drafted. stale: against the same shape and scores with stale histories."""

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
    drafted: Difference | None = None
    stale: Difference | None = None

    as_dict = asdict

    @property
    def kind(self) -> str:
        return "none" if self.steps == 0 else "chain" if self.topk == 1 else "tree"


def rows(measured: Measured, nodes: Iterable[int], prompts: int) -> list[Row]:
    """In the order of ``nodes``: no speculation, chain of S = n - 1, best chain, trees."""
    bootstrap = Bootstrap(prompts)
    chains = {shape.steps: walk for (policy, shape), walk in measured.items() if policy.topk == 1}
    trees = {(p.scoring, p.history, shape): walk for (p, shape), walk in measured.items() if p.topk > 1}

    def row(policy: Policy, shape: Shape, walk: Walk) -> Row:
        allowed = [s for s in chains if s < shape.nodes]
        best = max(allowed, key=lambda s: chains[s].per_forward())

        def other(scoring: str, history: str) -> Difference | None:
            return difference(walk, trees.get((scoring, history, shape)), shape.steps) if shape.topk > 1 else None

        return Row(
            nodes=shape.nodes,
            topk=shape.topk,
            steps=shape.steps,
            scoring=policy.scoring if shape.topk > 1 else "",
            history=policy.history if shape.topk > 1 else "",
            per_forward=walk.per_forward(),
            interval=bootstrap.interval(walk),
            by_depth=by_depth(walk, shape.steps),
            same_steps=difference(walk, chains.get(shape.steps), shape.steps) if shape.topk > 1 else None,
            best_chain=difference(walk, chains[best], best) if shape.topk > 1 else None,
            drafted=other("as drafted", policy.history) if policy.scoring != "as drafted" else None,
            stale=other(policy.scoring, "stale") if policy.history == "exact" else None,
        )

    def difference(walk: Walk, reference: Walk | None, steps: int) -> Difference | None:
        if reference is None:
            return None
        mean = walk.per_forward() - reference.per_forward()
        return Difference(steps, mean, bootstrap.difference(walk, reference))

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


def shape_entries(found: Iterable[Row], scoring: str) -> list[dict]:
    """``shapes`` of a profile, which `dsv4-tree advise` reads: chains, and trees of exact histories under a scoring."""
    entries = {}
    for r in found:
        if r.nodes > MAX_NODES or r.steps > MAX_STEPS or r.topk > MAX_TOPK:
            continue
        if r.kind == "chain" or (r.kind == "tree" and (r.scoring, r.history) == (scoring, "exact")):
            entry = {"n": r.nodes, "steps": r.steps, "topk": r.topk, "tokens_per_forward": round(r.per_forward, 4)}
            entry |= dict(zip(("low", "high"), (round(x, 4) for x in r.interval)))
            if r.best_chain is not None:
                low, high = (round(x, 4) for x in r.best_chain.interval)
                chain = {"steps": r.best_chain.steps, "gain": round(r.best_chain.mean, 4), "low": low, "high": high}
                entry["over_best_chain"] = chain
            entries[r.nodes, r.steps, r.topk] = entry
    return [entries[key] for key in sorted(entries)]


def best(found: Iterable[Row], nodes: int) -> Row:
    """The tree of ``nodes`` with the most tokens per forward."""
    return max((r for r in found if r.kind == "tree" and r.nodes == nodes), key=lambda r: r.per_forward)
