"""The constants of scorings, fitted by likelihood to what the target said about a draft's candidates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy, binary_cross_entropy_with_logits

from acceptance_bench import scoring
from acceptance_bench.drafting import Score
from acceptance_bench.profile import Observations
from acceptance_bench.scoring import CEILING, FLOOR

# Candidates that the exponent is fitted on, whatever the topk of a tree: a server has one DSV4_TREE_SCORE_EXPONENT.
SHARED = 4


@dataclass(frozen=True)
class Fitted:
    """A scoring with its constants. loss: nats per parent of candidates that were not fitted to, if judged."""

    score: Score
    constants: dict

    def loss(self, seen: Observations) -> float:
        value = self.score(seen.probability, 1).clamp(FLOOR, CEILING)
        return (binary_cross_entropy(value, seen.right.float()) * seen.probability.shape[-1]).item()


def _as_drafted(seen: Observations) -> Fitted:
    return Fitted(scoring.as_drafted, {})


def _sharpened(seen: Observations) -> Fitted:
    (exponent,) = _fit(lambda log_exponent: scoring.sharpened(log_exponent.exp()), [0.7], seen)
    constants = {"exponent": _short(exponent.exp())}
    return Fitted(scoring.sharpened(**constants), constants)


def _logistic(seen: Observations) -> Fitted:
    constants = dict(zip(("slope", "intercept"), _pair(seen.probability, seen.right)))
    return Fitted(scoring.logistic(**constants), constants)


def _logistic_by_rank(seen: Observations) -> Fitted:
    pairs = [_pair(seen.probability[..., r], seen.right[..., r]) for r in range(seen.probability.shape[-1])]
    constants = dict(zip(("slope", "intercept"), map(list, zip(*pairs))))
    return Fitted(scoring.logistic(**constants), constants)


def _by_rank(seen: Observations) -> Fitted:
    constants = {"shares": [_short(x) for x in seen.right.float().mean((0, 1))]}
    return Fitted(scoring.by_rank(**constants), constants)


def _power(seen: Observations) -> Fitted:
    (exponent,) = _fit(lambda log_exponent: scoring.power(log_exponent.exp()), [0.0], seen)
    constants = {"exponent": _short(exponent.exp())}
    return Fitted(scoring.power(**constants), constants)


def _bonus(seen: Observations) -> Fitted:
    (factor,) = _fit(lambda log_factor: scoring.bonus(log_factor.exp()), [0.0], seen)
    constants = {"factor": _short(factor.exp())}
    return Fitted(scoring.bonus(**constants), constants)


def _narrow(score: Callable, widths: list[int]) -> Callable[[Observations], Fitted]:
    def fit(seen: Observations) -> Fitted:
        inner = _sharpened(seen)
        return Fitted(score(inner.score, widths), {**inner.constants, "widths": widths})

    return fit


SCORINGS: dict[str, Callable[[Observations], Fitted]] = {
    "as drafted": _as_drafted,
    "sharpened": _sharpened,
    "logistic by rank": _logistic_by_rank,
    "logistic": _logistic,
    "by rank": _by_rank,
    "bonus": _bonus,
    "power": _power,
    "sharpened, 2 beams": _narrow(scoring.fewer_beams, [2]),
    "sharpened, 2 children": _narrow(scoring.fewer_children, [16, 2]),
}


def fit(name: str, seen: Observations, topk: int) -> Fitted:
    """A scoring for trees of ``topk``, which never sees a later candidate; an exponent is the same for every topk."""
    return SCORINGS[name](seen.best(SHARED if name.startswith("sharpened") else topk))


def _pair(probability: Tensor, right: Tensor) -> tuple[float, float]:
    logit, goal = probability.clamp(FLOOR, CEILING).logit(), right.float()

    def loss(slope: Tensor, intercept: Tensor) -> Tensor:
        return binary_cross_entropy_with_logits(slope * logit + intercept, goal)

    slope, intercept = _minimise(loss, [1.0, 0.0])
    return _short(slope), _short(intercept)


def _fit(form: Callable[..., Score], start: list[float], seen: Observations) -> list[Tensor]:
    goal = seen.right.float()

    def loss(*constants: Tensor) -> Tensor:
        return binary_cross_entropy(form(*constants)(seen.probability, 1).clamp(FLOOR, CEILING), goal)

    return _minimise(loss, start)


def _minimise(loss: Callable[..., Tensor], start: list[float]) -> list[Tensor]:
    constants = [torch.tensor(value, requires_grad=True) for value in start]
    optimiser = torch.optim.LBFGS(constants, max_iter=60, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        value = loss(*constants)
        value.backward()
        return value

    optimiser.step(closure)
    return [constant.detach() for constant in constants]


def _short(value: Tensor) -> float:
    return round(value.item(), 3)
