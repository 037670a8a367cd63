"""Round files and their picture."""

import pytest

from dsv4_npu_tree.inspect.draw import draw_tree
from dsv4_npu_tree.inspect.dump import RequestRound, Round, load_round, write_round

ENTRY = RequestRound(
    request="r",
    prefix=10,
    token=[5, 6, 7, 8, 9],
    parent=[-1, 0, 0, 1, -2],
    depth=[0, 1, 1, 2, 0],
    score=[1.0, 0.5, 0.25, 0.125, 0.1],
    accepted=[0, 1],
    bonus=77,
)


def test_a_round_survives_its_file(tmp_path):
    entry = Round(4, 3, [ENTRY])
    assert load_round(write_round(str(tmp_path), entry)) == entry


def test_other_files_are_refused_by_name(tmp_path):
    for text in ("", "{}", "[1]", '{"topk": 1, "steps": 1, "requests": [{"x": 1}]}'):
        path = tmp_path / "x.json"
        path.write_text(text)
        with pytest.raises(ValueError, match="x.json is not a round"):
            load_round(path)


def test_the_picture_shows_tree_path_and_bonus():
    assert draw_tree(ENTRY, decode=lambda token: f"t{token}").splitlines() == [
        "● 0 't5'  p=1.000  pos 10",
        "├─ ● 1 't6'  p=0.500  pos 11",
        "│  └─ ○ 3 't8'  p=0.125  pos 12",
        "└─ ○ 2 't7'  p=0.250  pos 11",
        "inert: 4",
        "accepted 2 rows: 't5' 't6', then the target adds 't77'",
    ]
