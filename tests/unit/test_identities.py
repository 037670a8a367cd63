"""The five identities on hand-made rounds: silent on sound ones, and each fault is named with its row."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from rounds import ARENA, sound_round

from dsv4_npu_tree.inspect.canary import DUMMY, GuardedRows
from dsv4_npu_tree.inspect.identities import IDENTITIES, judge

FORKED = (-1, 0, 0, 1, 2, 2, 4, 5)
TREES = {
    "chain": ((-1, 0, 1, 2), [0, 1, 2, 3]),
    "star": ((-1, *[0] * 7), [0, 4]),
    "forked": (FORKED, [0, 2, 5, 7]),
    "orphans": ((-1, 0, 0, 1, -2, -2, 3, 3), [0, 1]),
    "root alone": (FORKED, [0]),
}


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("prefix", [1, 3, 4, 15, 16, 17, 124, 126, 127, 128, 254, 600])
def test_sound_rounds(tree, prefix):
    parents, accepted = TREES[tree]
    assert judge(sound_round(prefix, parents, accepted)) == []


def _with(entry, name, index, value):
    column = list(getattr(entry, name))
    column[index] = value
    return replace(entry, **{name: column})


def _space(entry, number, **changes):
    spaces = list(entry.spaces)
    spaces[number] = replace(spaces[number], **changes)
    return replace(entry, spaces=spaces)


def _compressor(entry, number, **changes):
    compressors = list(entry.compressors)
    compressors[number] = replace(compressors[number], **changes)
    return replace(entry, compressors=compressors)


def _swapped_table(entry):
    """Row 5 reads the branch of row 6."""
    table = [list(row) for row in entry.spaces[0].table]
    table[5] = table[6]
    return _space(entry, 0, table=table)


def _window(entry):
    windows = [
        (node, [*rows[:-2], -1 - 1, rows[-1]] if node == 2 else rows) for node, rows in entry.compressors[0].windows
    ]
    return _compressor(entry, 0, windows=windows)


# fault, identity, row, text
FAULTS = {
    "token": (lambda e: _with(e, "token", 3, 7), "candidate", 3, "token of candidate 2"),
    "parent of another candidate": (lambda e: _with(e, "candidate_parent", 4, 0), "candidate", 5, "parent"),
    "orphan kept": (lambda e: _with(e, "candidate_parent", 2, 900), "candidate", 3, "not selected"),
    "root": (lambda e: replace(e, expected_root=5), "candidate", 0, "root token"),
    "prefix": (lambda e: replace(e, expected_prefix=125), "position", 0, "prefix length"),
    "depth": (lambda e: _with(e, "depth", 6, 2), "position", 6, "depth"),
    "position": (lambda e: _with(e, "position", 4, 127), "position", 4, "position"),
    "ancestors": (lambda e: _with(e, "ancestors", 5, 0b100011), "visibility", 5, "ancestor mask"),
    "tokens seen": (lambda e: _with(e, "seqused", 7, 131), "visibility", 7, "tokens seen"),
    "another branch": (_swapped_table, "visibility", 5, "SWA entry 128"),
    "tail not copied": (lambda e: _space(e, 1, tails=[]), "visibility", 0, "C4 entry 16"),
    "sibling pooled": (_window, "visibility", 2, "C4 window, position 126"),
    "block not closed": (lambda e: _compressor(e, 1, windows=[]), "visibility", 1, "closes a C128 block"),
    "first child": (lambda e: _with(e, "next_token", 2, 5), "traversal", 2, "first child"),
    "sibling": (lambda e: _with(e, "next_sibling", 4, -1), "traversal", 4, "next sibling"),
    "path jumps": (lambda e: replace(e, accepted=[0, 2, 7]), "traversal", 2, "accepted child"),
    "other token": (lambda e: _with(e, "target", 2, 1), "traversal", 2, "accepted child with the target's token 1"),
    "bonus": (lambda e: replace(e, bonus=1), "traversal", 7, "bonus"),
    "outside the arena": (
        lambda e: _space(e, 0, writes=[[0, ARENA - 1], *e.spaces[0].writes]),
        "kv",
        0,
        "SWA row is stored",
    ),
    "slot shared": (
        lambda e: _space(e, 0, writes=[*e.spaces[0].writes, [6, e.spaces[0].writes[0][1]]]),
        "kv",
        6,
        "slot",
    ),
    "committed elsewhere": (
        lambda e: _space(e, 0, targets=[3, *e.spaces[0].targets[1:]]),
        "kv",
        0,
        "SWA commit of entry 126",
    ),
    "ring row": (lambda e: _compressor(e, 0, targets=[6, 7, 0, 2]), "kv", 0, "C4 state of position 129"),
    "tail from elsewhere": (
        lambda e: _space(e, 0, tails=[[1, to, rows] for _, to, rows in e.spaces[0].tails]),
        "kv",
        0,
        "SWA tail from",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named(name):
    plant, identity, row, text = FAULTS[name]
    entry = sound_round(126, FORKED, [0, 2, 5, 7])
    found = [v for v in judge(plant(entry)) if (v.identity, v.row) == (identity, row) and text in v.what]
    assert found, [str(v) for v in judge(plant(entry))]


def test_every_identity_has_a_fault():
    assert {identity for _, identity, _, _ in FAULTS.values()} == set(IDENTITIES)


def test_a_greedy_round_may_not_stop_early():
    entry = sound_round(20, FORKED, [0, 2])
    entry = _with(replace(entry, bonus=104), "target", 2, 104)
    assert [str(v) for v in judge(entry)] == [
        "row 2, traversal: child with the target's token 104: expected accepted, found rejected"
    ]
    assert judge(replace(entry, greedy=False)) == []


def test_parents_that_lead_nowhere():
    entry = _with(sound_round(20, FORKED, [0]), "parent", 4, 6)
    assert "parent of node 4 is 6" in str(judge(entry)[0])


def test_the_last_of_64_rows():
    """Its bit is the sign of the ancestor mask, an int64."""
    entry = sound_round(20, (-1, *[0] * 63), [0, 63])
    signed = [mask - (1 << 64) if mask >> 63 else mask for mask in entry.ancestors]
    assert min(signed) < 0
    entry = replace(entry, ancestors=signed)
    assert judge(entry) == []
    found = judge(_with(entry, "ancestors", 63, signed[63] + 2))
    assert [(v.row, v.what) for v in found] == [(63, "ancestor mask")]


def test_a_root_that_is_none():
    entry = sound_round(20, (-1, -2, -2, -2), [0])
    for parent in (-2, 0, 3):
        assert [v.row for v in judge(_with(entry, "parent", 0, parent))] == [0]


def test_a_prefix_entry_without_a_slot():
    """Tables and lookup agree on slot 0, which is nobody's."""
    entry = sound_round(130, FORKED, [0])
    table = [[0, *row[1:]] for row in entry.spaces[2].table]
    entry = _space(entry, 2, table=table, own=[0, *entry.spaces[2].own[1:]], tails=[])
    found = judge(entry)
    assert {(v.identity, v.what) for v in found} == {("visibility", "C128 entry 0")}
    assert "own row 0" in str(found[0])


def test_an_accepted_entry_without_a_slot():
    """Nowhere to go for an entry that the accepted path closes; none is needed for one that it does not reach."""
    for accepted, faults in (([0, 2], ["C128 commit of accepted entry 0"]), ([0], [])):
        entry = _space(sound_round(126, FORKED, accepted), 2, targets=[0], own=[0])
        assert [v.what for v in judge(entry)] == faults


def test_every_request_with_changed_rows_is_named():
    """Two requests share row 7, rows 5 and 6 have one owner each, row 0 belongs to nobody."""
    buffer = torch.zeros(9, 4)
    rows = GuardedRows("swa", [("swa[0]", buffer)], {0: {DUMMY: 0}, 5: {0: 3}, 6: {1: 3}, 7: {1: 9, 2: 9}})
    assert list(rows.changed(rows.saved)) == []
    buffer[8] = 1
    assert list(rows.changed(rows.saved)) == []
    buffer[5:8] = 1
    assert sorted(rows.changed(rows.saved)) == [("swa[0]", (0, 3)), ("swa[0]", (1, 3)), ("swa[0]", (2, 9))]
    buffer[0] = float("nan")
    assert ("swa[0]", (DUMMY, 0)) in rows.changed(rows.saved)
