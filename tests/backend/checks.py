"""The checks that the tests and the mutations share. A failure names buffer, row and the first differing coordinate."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .snapshot import State, live_state

ROW_TOLERANCE = 1e-4
REQUESTS_AT_ONCE = 8
TOKENS_AT_ONCE = 1500  # the twin's memory grows with them
PAGE = 128


class Mismatch(AssertionError):
    """A check of this file did not hold."""


def same_bits(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Elementwise equality, NaN equal to NaN."""
    equal = left == right
    if left.is_floating_point():
        equal |= left.isnan() & right.isnan()
    return equal


def _words(rows: torch.Tensor) -> torch.Tensor:
    """The bytes of rows in the widest integers that fit, which compare fast."""
    size = rows.shape[1] * rows.element_size()
    return rows.view(next(dtype for dtype in (torch.int64, torch.int16, torch.uint8) if size % dtype.itemsize == 0))


def first_of(differs: torch.Tensor) -> tuple[int, ...]:
    return tuple(differs.nonzero()[0].tolist())


def _at_once(rig, prompts: list[list[int]]) -> int:
    """How many of the first prompts fit the free request rows, slots and C128 pages, as SGLang reckons before it
    allocates: a page more than a prompt fills."""
    page, tokens = rig.requests.c128_page_size, 0
    room = min(rig.allocator.full_available_size(), rig.allocator.swa_available_size())
    pages, count = rig.allocator.c128_attn_allocator.available_size() // page, 0
    for prompt in prompts[: min(REQUESTS_AT_ONCE, rig.requests.available_size())]:
        room -= len(prompt) + PAGE
        pages -= -(-len(prompt) // (PAGE * page))
        tokens += len(prompt)
        if min(room, pages) < 0 or (count and tokens > TOKENS_AT_ONCE):
            break
        count += 1
    assert count, f"no room for a prompt of {len(prompts[0])} tokens"
    return count


def prefill_alone(rig, prompts: list[list[int]], visit: Callable | None = None) -> list[torch.Tensor]:
    """Logits of the last token of each prompt, by a stock prefill in a fresh request; equal prompts share one.

    visit(i, sequence): called for every prompt i while its fresh request is still held.
    """
    same: dict[tuple[int, ...], list[int]] = {}
    for i, prompt in enumerate(prompts):
        same.setdefault(tuple(prompt), []).append(i)
    waiting = [list(prompt) for prompt in same]
    found: dict[int, torch.Tensor] = {}
    while waiting:
        now = waiting[: _at_once(rig, waiting)]
        waiting = waiting[len(now) :]
        fresh, logits = rig.prefill(now)
        for sequence, row in zip(fresh, logits):
            for i in same[tuple(sequence.tokens)]:
                found[i] = row
                if visit is not None:
                    visit(i, sequence)
        rig.release(*fresh)
    return [found[i] for i in range(len(prompts))]


def truths(rig, sequence, tree, tokens) -> dict[int, torch.Tensor]:
    """Logits of every live node: last row of a stock prefill of prefix + path(root -> node) in a fresh request."""
    prompts = [sequence.tokens + [tokens[v] for v in tree.path(node)] for node in tree.live]
    return dict(zip(tree.live, prefill_alone(rig, prompts)))


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
        differs = ~same_bits(rows, other)
        if bool(differs.any()):
            row, column = first_of(differs)
            raise Mismatch(
                f"{what}, length {found.length}: {name} at position or entry {int(index[row])}, column {column}: "
                f"{other[row, column].item()} instead of {rows[row, column].item()} "
                f"({int(differs.any(1).sum())} of {len(rows)} rows differ, largest difference "
                f"{float((rows.double() - other.double()).abs().max()):.3g})"
            )


def check_untouched(
    before: dict[str, torch.Tensor],
    after: dict[str, torch.Tensor],
    what: str,
    except_rows: dict | None = None,
    owner: Callable[[str, int], str] | None = None,
) -> None:
    """Every byte outside the arena is what it was, apart from ``except_rows`` (buffer name -> row numbers).

    owner(name, row): whose row it is, for the message.
    """
    for name, old in before.items():
        changed = (_words(old) != _words(after[name])).any(1)
        if except_rows is not None:
            changed[except_rows[name]] = False
        rows = changed.nonzero().flatten()
        differs = ~same_bits(old[rows], after[name][rows])
        if bool(differs.any()):
            place, column = first_of(differs)
            row = int(rows[place])
            whose = "" if owner is None else f" ({owner(name, row)})"
            raise Mismatch(
                f"{what}: {name} row {row}{whose}, column {column} changed from {old[row, column].item()} to "
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
