"""What a round may write, and what it may read: nothing outside the arena before the commit, the accepted rows' own
slots at the commit, no arena row that the round has not written, no table after the plan."""

from __future__ import annotations

import pytest
import torch

from .checks import Mismatch, check_rows, check_state, check_untouched, serial_states, truths
from .conftest import rig_of
from .launch import Shape
from .snapshot import buffers, commit_rows, committed_bytes, live_state, poison_arena
from .trees import Tree, scattered

FORKED = Tree((-1, 0, 0, 1, 2, 2, 4, 5))
PATHS = ([0, 2, 5, 7], [0], [0, 1, 3])


def check_bytes(rig, prefixes: list[int], paths: list[list[int]], draw) -> int:
    """Plan and forward change no byte outside the arena; the commit changes the accepted rows' slots only.

    Returns the number of rows that the commit did change.
    """
    bystanders, _ = rig.prefill([draw(130), draw(9)])
    sequences, _ = rig.prefill([draw(p) for p in prefixes])
    trees = [FORKED] * len(paths)
    rig._speculating(sequences)  # the reserve is SGLang's, not the round's
    before = committed_bytes(rig)
    done = rig.verify(sequences, trees, [draw(rig.shape.n) for _ in trees])
    check_untouched(before, committed_bytes(rig), "plan and forward")
    allowed: dict[str, list[torch.Tensor]] = {name: [] for name in before}
    for sequence, path in zip(sequences, paths):
        for name, rows in commit_rows(rig, sequence, sequence.length, len(path)).items():
            allowed[name].append(rows)
    rig.commit(done, paths)
    after = committed_bytes(rig)
    check_untouched(before, after, "commit", {name: torch.cat(rows) for name, rows in allowed.items()})
    rig.release(*bystanders, *sequences)
    return sum(int((before[name] != after[name]).any(1).sum()) for name in before)


@pytest.mark.parametrize("prefixes", [(126, 15, 61), (13, 127, 255), (1, 4, 128)])
def test_only_accepted_rows_change(rig, prefixes, draw):
    assert check_bytes(rig, list(prefixes), list(PATHS), draw) > 3 * sum(map(len, PATHS))


def test_a_rejected_tree_leaves_no_trace(rig, draw):
    """Verify without commit, then decode: the same as if the round had not been."""
    prompt, later = draw(125), draw(4)
    states, logits = serial_states(rig, prompt, later)
    (sequence,), _ = rig.prefill([prompt])
    rig.verify([sequence], [FORKED], [draw(8)])
    for step, token in enumerate(later):
        check_rows(rig.decode(sequence, token)[None], {0: logits[step]}, f"decode {step} after a dropped round")
    check_state(live_state(rig, sequence), states[-1], "after a dropped round")
    rig.release(sequence)


def test_padded_requests_write_nothing(rig, draw):
    """A batch padded as attention-DP pads it: request row 0, same rows as unpadded, no byte outside the arena."""
    prompt, tokens = draw(126), [draw(8)]
    (sequence,), _ = rig.prefill([prompt])
    alone = rig.verify([sequence], [FORKED], tokens)
    before = committed_bytes(rig)
    poison_arena(rig)
    padded = rig.verify([sequence], [FORKED], tokens, padding=2)
    assert torch.equal(padded.logits, alone.logits)
    check_untouched(before, committed_bytes(rig), "padded verify")
    allowed = commit_rows(rig, sequence, 126, 4)
    rig.commit(padded, [[0, 2, 5, 7]])
    check_untouched(before, committed_bytes(rig), "commit after a padded verify", allowed)
    states, _ = serial_states(rig, prompt, [tokens[0][v] for v in (0, 2, 5, 7)])
    check_state(live_state(rig, sequence), states[-1], "padded batch")
    rig.release(sequence)


def test_an_idle_forward_does_not_see_the_last_round(rig, draw):
    """SGLang drops the metadata before the forward of a rank without tokens, and asks for no other."""
    (sequence,), _ = rig.prefill([draw(126)])
    done = rig.verify([sequence], [FORKED], [draw(8)])
    rig.commit(done, [[0, 2, 5, 7]])
    assert rig.backend.plan is done.plan
    before = committed_bytes(rig)
    rig.idle()
    assert rig.backend.plan is None
    check_untouched(before, committed_bytes(rig), "idle forward")
    rig.release(sequence)


def check_poisoned(rig, prefix: int, tree: Tree, path: list[int], draw) -> None:
    """Two rounds, each in a poisoned arena: every row is its path, the committed state is that of serial decode."""
    prompt = draw(prefix)
    (sequence,), _ = rig.prefill([prompt])
    committed: list[int] = []
    for number in range(2):
        tokens = draw(rig.shape.n)
        poison_arena(rig)
        done = rig.verify([sequence], [tree], [tokens])
        what = f"poisoned arena, prefix {sequence.length}, round {number}"
        check_rows(done.logits[0], truths(rig, sequence, tree, tokens), what)
        rig.commit(done, [path])
        committed += [tokens[v] for v in path]
        states, _ = serial_states(rig, prompt, committed)
        check_state(live_state(rig, sequence), states[-1], what)
    rig.release(sequence)


@pytest.mark.parametrize("prefix", [3, 15, 16, 60, 124, 127, 128, 254])
def test_poisoned_arena(rig, prefix, draw):
    """Every arena row starts as NaN (integer rows as 127): a row that was not copied or stored would show."""
    check_poisoned(rig, prefix, FORKED, [0, 2, 5, 7], draw)


def check_scrambled(rig, prefix: int, path: list[int], draw) -> None:
    """Between verify and commit the request's table rows go to somebody else; the committed bytes do not change."""
    prompt, tokens = draw(prefix), draw(rig.shape.n)
    results = []
    for scramble in (False, True):
        (sequence,), _ = rig.prefill([prompt])
        done = rig.verify([sequence], [FORKED], [tokens])
        (other,), _ = rig.prefill([draw(40)])
        if scramble:
            tables = (
                rig.requests.req_to_token[sequence.row],
                rig.requests.req_to_c128_sidecar[sequence.row],
                rig.pool.full_to_swa_index_mapping,
            )
            saved = [table.clone() for table in tables]
            tables[0].copy_(rig.requests.req_to_token[other.row])
            tables[1].fill_(1)
            tables[2].copy_(tables[2].roll(128))
        rig.commit(done, [path])
        if scramble:
            for table, old in zip(tables, saved):
                table.copy_(old)
        results.append(live_state(rig, sequence))
        rig.release(sequence, other)
    check_state(results[1], results[0], f"prefix {prefix}, tables scrambled before the commit")
    states, _ = serial_states(rig, prompt, [tokens[v] for v in path])
    check_state(results[1], states[-1], f"prefix {prefix}, tables scrambled, against serial decode")


@pytest.mark.parametrize("prefix", [14, 126, 255])
def test_commit_reads_no_table(rig, prefix, draw):
    check_scrambled(rig, prefix, [0, 2, 5, 7], draw)


def test_released_rows_are_reused_cleanly(rig, draw):
    """A request row and its arena branches serve the next request without a trace of the last one."""
    for prefix in (127, 20, 126):
        (sequence,), _ = rig.prefill([draw(prefix)])
        tokens = draw(8)
        tree = scattered(8, 3, seed=prefix)
        done = rig.verify([sequence], [tree], [tokens])
        check_rows(done.logits[0], truths(rig, sequence, tree, tokens), f"reused row, prefix {prefix}")
        rig.commit(done, [tree.path(tree.leaves[0])])
        rig.release(sequence)


def test_allocators_do_not_know_the_arena(rig, draw):
    """Slots and pages that SGLang can hand out end where the arena begins, and come back after use."""
    arena, allocator = rig.pool.dsv4_tree_arena, rig.allocator
    free = allocator.available_size(), allocator.c128_attn_allocator.available_size(), rig.requests.available_size()
    (sequence,), _ = rig.prefill([draw(200)])
    rig.commit(rig.verify([sequence], [FORKED], [draw(8)]), [[0, 2]])
    assert int(rig.pool.full_to_swa_index_mapping.max()) < arena.swa.base
    assert allocator.size // 4 < arena.c4.base and allocator.size_swa < arena.swa.base
    assert allocator.c128_attn_allocator.size < arena.c128.base
    rig.release(sequence)
    now = allocator.available_size(), allocator.c128_attn_allocator.available_size(), rig.requests.available_size()
    assert now == free
    assert all(len(buffer) > 0 for buffer in buffers(rig.pool).values())


@pytest.mark.parametrize("block_rows", [32, 64, 128])
def test_other_block_sizes(block_rows, draw):
    """Larger blocks, up to plain pages of 128 and 32 rows: the same rows and states, in a poisoned arena."""
    rig = rig_of(Shape(block_rows=block_rows))
    assert rig.pool.dsv4_tree_arena.swa.block == block_rows
    for prefix in (63, 126):
        check_poisoned(rig, prefix, FORKED, [0, 2, 5, 7], draw)
    check_bytes(rig, [126, 15, 61], list(PATHS), draw)


@pytest.mark.parametrize("max_branches", [1, 2])
def test_more_leaves_than_branches(max_branches, draw):
    """The lowest-scoring leaves become inert; every other row and any commit stay exact."""
    rig = rig_of(Shape(max_branches=max_branches))
    scores = [0.9, 0.8, 0.3, 0.7, 0.6, 0.2, 0.5]
    tree = FORKED.pruned(scores, max_branches)
    assert len(tree.leaves) == max_branches < len(FORKED.leaves)
    for prefix in (13, 126):
        prompt, tokens = draw(prefix), draw(8)
        (sequence,), _ = rig.prefill([prompt])
        poison_arena(rig)
        done = rig.verify([sequence], [FORKED], [tokens], scores=[scores])
        truth = truths(rig, sequence, tree, tokens)
        check_rows(done.logits[0], truth, f"{max_branches} branches, prefix {prefix}")
        path = tree.path(tree.leaves[-1])
        rig.commit(done, [path])
        states, _ = serial_states(rig, prompt, [tokens[v] for v in path])
        check_state(live_state(rig, sequence), states[-1], f"{max_branches} branches, prefix {prefix}")
        rig.release(sequence)


def test_the_checks_can_fail(rig, draw):
    """A changed byte, a changed logit: each check names it."""
    (sequence,), _ = rig.prefill([draw(20)])
    before, state = committed_bytes(rig), live_state(rig, sequence)
    slot = commit_rows(rig, sequence, 19, 1)["swa[2]"]
    rig.pool.swa_kv_pool.kv_buffer[2].view(-1, 512)[slot[0], 7] += 1
    with pytest.raises(Mismatch, match=rf"swa\[2\] row {int(slot[0])}, column 7"):
        check_untouched(before, committed_bytes(rig), "control")
    with pytest.raises(Mismatch, match="entry 19, column 7"):
        check_state(live_state(rig, sequence), state, "control")
    rig.release(sequence)
