"""The checks that the tests and the mutations share. A failure names buffer, row and the first differing coordinate."""

from __future__ import annotations

import torch

from .snapshot import State, live_state

ROW_TOLERANCE = 1e-4
REQUESTS_AT_ONCE = 8


class Mismatch(AssertionError):
    """A check of this file did not hold."""


def _same_bits(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Elementwise equality, NaN equal to NaN."""
    equal = left == right
    if left.is_floating_point():
        equal |= left.isnan() & right.isnan()
    return equal


def _first(differs: torch.Tensor) -> tuple[int, ...]:
    return tuple(differs.nonzero()[0].tolist())


def truths(rig, sequence, tree, tokens) -> dict[int, torch.Tensor]:
    """Logits of every live node: last row of a stock prefill of prefix + path(root -> node) in a fresh request."""
    found: dict[int, torch.Tensor] = {}
    for first in range(0, len(tree.live), REQUESTS_AT_ONCE):
        nodes = tree.live[first : first + REQUESTS_AT_ONCE]
        fresh, logits = rig.prefill([sequence.tokens + [tokens[v] for v in tree.path(node)] for node in nodes])
        rig.release(*fresh)
        found.update(zip(nodes, logits))
    return found


def check_rows(logits: torch.Tensor, truth: dict[int, torch.Tensor], what: str) -> float:
    """Every node's log-probabilities ``[n, V]`` are those of its own path. Returns the largest error."""
    worst = 0.0
    for node, expected in truth.items():
        error = (logits[node].log_softmax(-1) - expected.log_softmax(-1)).abs().nan_to_num(nan=torch.inf)
        if float(error.max()) > ROW_TOLERANCE:
            token = int(error.argmax())
            raise Mismatch(
                f"{what}: row {node} differs from its path alone by {float(error.max()):.3g}, most at token {token}: "
                f"logit {float(logits[node, token]):.6f} instead of {float(expected[token]):.6f}"
            )
        worst = max(worst, float(error.max()))
    return worst


def check_state(found: State, expected: State, what: str) -> None:
    """Two sequences own the same bits."""
    assert found.length == expected.length, (found.length, expected.length)
    for name, (index, rows) in expected.content.items():
        other_index, other = found.content[name]
        assert torch.equal(index, other_index), name
        differs = ~_same_bits(rows, other)
        if bool(differs.any()):
            row, column = _first(differs)
            raise Mismatch(
                f"{what}, length {found.length}: {name} at position or entry {int(index[row])}, column {column}: "
                f"{other[row, column].item()} instead of {rows[row, column].item()} "
                f"({int(differs.any(1).sum())} of {len(rows)} rows differ, largest difference "
                f"{float((rows.double() - other.double()).abs().max()):.3g})"
            )


def check_untouched(
    before: dict[str, torch.Tensor], after: dict[str, torch.Tensor], what: str, except_rows: dict | None = None
) -> None:
    """Every byte outside the arena is what it was, apart from ``except_rows`` (buffer name -> row numbers)."""
    for name, old in before.items():
        differs = ~_same_bits(old, after[name])
        if except_rows is not None:
            differs[except_rows[name]] = False
        if bool(differs.any()):
            row, column = _first(differs)
            raise Mismatch(
                f"{what}: {name} row {row}, column {column} changed from {old[row, column].item()} to "
                f"{after[name][row, column].item()} ({int(differs.any(1).sum())} rows changed)"
            )


def serial_states(rig, prefix: list[int], tokens: list[int]) -> tuple[list[State], list[torch.Tensor]]:
    """Stock prefill of ``prefix``, then stock decode of ``tokens`` one by one: state and logits after each token."""
    (fresh,), _ = rig.prefill([prefix])
    states, logits = [], []
    for token in tokens:
        logits.append(rig.decode(fresh, token))
        states.append(live_state(rig, fresh))
    rig.release(fresh)
    return states, logits


def check_decodes(rig, sequence, tokens: list[int], expected: list[torch.Tensor], what: str) -> None:
    """Stock decode of ``tokens`` on a committed sequence gives the logits of the serial run."""
    for step, (token, wanted) in enumerate(zip(tokens, expected)):
        check_rows(rig.decode(sequence, token)[None], {0: wanted}, f"{what}, decode step {step}")
