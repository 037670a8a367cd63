"""The table of tree shapes by batch size: what it says, and what it refuses."""

from __future__ import annotations

import pytest

from dsv4_npu_tree import config
from dsv4_npu_tree.tree.shapes import Shape, ShapeTable

LARGEST = Shape(16, 5, 4)


def test_the_shape_follows_the_batch():
    table = ShapeTable.parse("1:16/5/4, 5:8/3/4 17:4/3/1", LARGEST)
    assert [str(table.at(batch)) for batch in (0, 1, 4, 5, 16, 17, 999)] == [
        *["16/5/4"] * 3,
        *["8/3/4"] * 2,
        *["4/3/1"] * 2,
    ]
    assert ShapeTable.parse(str(table), LARGEST) == table


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "first entry must start at batch size 1, for example 1:16/5/4"),
        ("2:8/3/4", "first entry must start at batch size 1"),
        ("1:8/3", "not BATCH:n/steps/topk"),
        ("1:8-3-4", "not BATCH:n/steps/topk"),
        ("1:-8/3/4", "not BATCH:n/steps/topk"),
        ("1:8/3/4 1:4/3/1", "batch sizes must rise"),
        ("1:8/3/4 9:4/3/1 5:4/3/1", "the entry before starts at 9"),
        ("1:17/5/4", "n 17 is outside 1..16, the launch flag --speculative-num-draft-tokens"),
        ("1:16/6/4", "steps 6 is outside 1..5, the launch flag --speculative-num-steps"),
        ("1:16/5/8", "topk 8 is outside 1..4, the launch flag --speculative-eagle-topk"),
        ("1:0/3/4", "n 0 is outside"),
        ("1:8/0/4", "steps 0 is outside"),
        ("1:8/3/1", "a chain of 3 steps has 4 rows, not 8"),
        ("1:4/5/4", "paths of 6 rows"),
        ("1:16/2/2", "7 rows in all"),
    ],
)
def test_nonsense_is_refused_by_name(text, reason, monkeypatch):
    with pytest.raises(ValueError, match=reason):
        ShapeTable.parse(text, LARGEST)
    monkeypatch.setenv("DSV4_TREE_SHAPES", text)
    with pytest.raises(ValueError, match="DSV4_TREE_SHAPES") as error:
        config.shape_table(16, 5, 4)
    assert reason in str(error.value)


def test_history_modes(monkeypatch):
    assert not config.stale_history()
    monkeypatch.setenv("DSV4_TREE_DRAFT_HISTORY", "stale")
    assert config.stale_history()
    monkeypatch.setenv("DSV4_TREE_DRAFT_HISTORY", "old")
    with pytest.raises(ValueError, match="choose exact or stale"):
        config.stale_history()
