"""Round files, and what `dsv4-tree explain` makes of them."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from rounds import sound_round

from dsv4_npu_tree.cli import main
from dsv4_npu_tree.inspect.draw import draw_tree
from dsv4_npu_tree.inspect.dump import Round, load_round, write_round
from dsv4_npu_tree.inspect.follow import follow
from dsv4_npu_tree.inspect.picture import picture

ENTRY = sound_round(126, (-1, 0, 0, 1, -2, 2, 3, 5), [0, 2, 5])
ROUND = Round(7, 4, 3, [ENTRY, replace(sound_round(10, (-1, 0, 0, 1), [0]), request="s")])


@pytest.fixture
def file(tmp_path):
    return write_round(str(tmp_path), ROUND)


def test_a_round_survives_its_file(file):
    assert load_round(file) == ROUND


def test_other_files_are_refused_by_name(tmp_path, capsys):
    for text in ("", "{}", "[1]", '{"serial": 1, "topk": 1, "steps": 1, "requests": [{"x": 1}]}'):
        path = tmp_path / "x.json"
        path.write_text(text)
        with pytest.raises(ValueError, match="x.json is not a round"):
            load_round(path)
        assert main(["explain", str(path)]) == 1
    assert main(["explain", str(tmp_path / "none.json")]) == 1
    assert "none.json" in capsys.readouterr().err


def _edited(file, level, **changes):
    """The file with other values in its first request, or in the first record of one of its lists."""
    data = json.loads(file.read_text())
    {"file": data, "request": data["requests"][0], **{k: data["requests"][0][k][0] for k in ("spaces", "compressors")}}[
        level
    ].update(changes)
    file.write_text(json.dumps(data))
    return file


@pytest.mark.parametrize(
    "level, changes, text",
    [
        ("file", {"version": 2}, "is a round of format 2, this version reads format 1"),
        ("file", {"requests": []}, "no request"),
        ("file", {"serial": None}, "round.serial is no int"),
        ("request", {"prefix": "126"}, "round.requests[0].prefix is no int"),
        ("request", {"prefix": 10**15}, "own slots of ratio 1"),
        ("request", {"token": [1] * 7 + [True]}, "round.requests[0].token[7] is no int"),
        ("request", {"token": [1 << 63] * 8}, "is no 64-bit number"),
        ("request", {"score": [0.5] * 7}, "score does not have 8 entries"),
        ("request", {"accepted": [0] * 9}, "9 rows accepted"),
        ("spaces", {"ratio": 2}, "address spaces [2, 4, 128]"),
        ("request", {"spaces": [], "compressors": []}, "address spaces []"),
        ("request", {"compressors": []}, "compressors [] for address spaces [1, 4, 128]"),
        ("spaces", {"block": 0}, "blocks of 0"),
        ("spaces", {"block": 10**9, "tails": [[0, 0, 10**9]]}, "blocks of 1000000000"),
        ("file", {"version": True}, "is a round of format True"),
        ("request", {"emitted": [1, 2]}, "2 tokens emitted"),
        ("spaces", {"table": [[]] * 7}, "table of ratio 1"),
        ("spaces", {"tails": [[1, 2, 10**15]]}, "tails of ratio 1"),
        ("spaces", {"writes": [[8, 4096]]}, "writes of ratio 1"),
        ("compressors", {"windows": [[1]]}, "not enough values"),
        ("compressors", {"targets": []}, "ring targets of ratio 4"),
    ],
)
def test_a_file_that_does_not_fit_is_one_line(file, capsys, level, changes, text):
    assert main(["explain", str(_edited(file, level, **changes))]) == 1
    shown = capsys.readouterr()
    assert text in shown.err and file.name in shown.err and shown.err.count("\n") == 1 and not shown.out


def test_files_that_are_no_json_are_one_line(tmp_path, capsys):
    path = tmp_path / "x.json"
    for content in (b"[" * 100_000, b"\xff\x00", b'{"version": ' + b"9" * 5000, b'{"version": 1, "requests": [{'):
        path.write_bytes(content)
        assert main(["explain", str(path)]) == 1
        assert capsys.readouterr().err.count("\n") == 1


def test_names_that_a_terminal_would_act_on(file, tmp_path, capsys):
    out = tmp_path / "round.svg"
    path = _edited(file, "request", request="a\x1b[2J\x00b")
    assert main(["explain", str(path), "--svg", str(out)]) == 0
    assert "\x1b" not in capsys.readouterr().out
    ET.fromstring(out.read_text())


def test_no_picture_for_a_row_that_is_not_there(file, tmp_path):
    out = tmp_path / "round.svg"
    assert main(["explain", str(file), "--row", "8", "--svg", str(out)]) == 1 and not out.exists()


@pytest.mark.parametrize(
    "changes, text",
    [
        ({"parent": [0, 0, 0, 1, -2, 2, 3, 5]}, "parent of node 0 is 0"),
        ({"parent": [-1, 3, 0, 1, -2, 2, 3, 5]}, "parents that do not lead to the root: 1, 3, 6"),
        ({"accepted": [0, -8]}, "no row -8"),
        ({"accepted": []}, "a path that starts at the root"),
        ({"candidate_parent": [-1, -1, 900, 900, 1, 2, 4]}, "parent (its candidate was not selected)"),
    ],
)
def test_a_round_that_went_wrong_is_drawn(file, tmp_path, capsys, changes, text):
    """Faults are what dumps are read for."""
    _edited(file, "request", **changes)
    assert main(["explain", str(file), "--svg", str(tmp_path / "x.svg")]) == 0
    shown = capsys.readouterr().out
    assert text in shown and "BROKEN" in shown
    ET.fromstring((tmp_path / "x.svg").read_text())
    for row in range(4):
        assert main(["explain", str(file), "--row", str(row)]) == 0


def test_a_request_may_be_named_anything(tmp_path):
    out = tmp_path / "x.svg"
    path = write_round(str(tmp_path), Round(1, 4, 3, [replace(ENTRY, request="\x00\x1b<&>\ud800")]))
    assert main(["explain", str(path), "--svg", str(out), "--row", "4"]) == 0
    ET.fromstring(out.read_text(encoding="utf-8"))


def test_the_picture_shows_tree_path_and_bonus():
    assert draw_tree(ENTRY, decode=lambda token: f"t{token}").splitlines() == [
        "● 0 't100'  score 1.000  pos 126",
        "├─ ○ 1 't101'  score 0.800  pos 127",
        "│  └─ ○ 3 't103'  score 0.600  pos 128",
        "│     └─ ○ 6 't106'  score 0.300  pos 129",
        "└─ ● 2 't102'  score 0.700  pos 127",
        "   └─ ● 5 't105'  score 0.400  pos 128",
        "      └─ ○ 7 't107'  score 0.200  pos 129",
        "inert: 4",
        "accepted 3 rows: 't100' 't102' 't105', then the target adds 't999'",
    ]


def test_explain_shows_everything(file, capsys):
    assert main(["explain", str(file)]) == 0
    shown = capsys.readouterr().out
    for part in (
        "round 7: 2 requests, topk 4, 3 draft steps",
        "request r: prefix 126 tokens, 8 rows, 2 of 7 branches",
        "5    ●  '105'  2       2      128       129   1       7      -",
        "5  ■ · ■ · · ■ · ·",
        "SWA block table, blocks of 16 entries",
        "C128 block table",
        "  visibility holds",
        "request s: prefix 10 tokens",
    ):
        assert part in shown, shown
    assert "BROKEN" not in shown


def test_explain_names_a_broken_identity(tmp_path, capsys):
    broken = replace(ENTRY, position=[*ENTRY.position[:5], 130, *ENTRY.position[6:]])
    path = write_round(str(tmp_path), Round(1, 4, 3, [broken]))
    assert main(["explain", str(path), "--row", "5"]) == 0
    shown = capsys.readouterr().out
    assert "2. position: BROKEN" in shown and "row 5, position: position: expected 128, found 130" in shown
    assert "3. visibility: holds" in shown


def test_one_row_through_the_identities():
    shown = follow(ENTRY, 5)
    for part in (
        "path 0 > 2 > 5",
        "candidate 4 of the draft's pool, child of candidate 1 (row 2)",
        "prefix 126 + depth 2 = 128; given 128",
        "entry 127: slot 4143, row 2",
        "C4: entries 0..31: 16 in the request's own pages, 15 in copies of its tail, 1 of the tree",
        "first child 7, next sibling -1",
        "SWA: committed to slot 640",
    ):
        assert part in shown, shown
    assert "closes a block, pools 6 ring rows and tree rows 0, 2" in follow(ENTRY, 2)
    assert "inert" in follow(ENTRY, 4)


def test_a_row_that_is_not_there(file, capsys):
    assert main(["explain", str(file), "--row", "8"]) == 1
    assert "row 8: request r has rows 0..7" in capsys.readouterr().err
    assert main(["explain", str(file), "--request", "t"]) == 1
    assert "has r, s" in capsys.readouterr().err


def test_the_svg_is_well_formed(file, tmp_path):
    out = tmp_path / "round.svg"
    assert main(["explain", str(file), "--svg", str(out)]) == 0
    root = ET.fromstring(out.read_text())
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert any("request r, prefix 126" in text for text in texts)
    assert "accepted [0, 2, 5], bonus '999'; inert rows [4]" in texts
    assert sum("all five identities hold" in text for text in texts) == 2
    assert "&lt;" in picture(ROUND, decode=lambda token: "<&>")
