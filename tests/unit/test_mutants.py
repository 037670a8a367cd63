"""Every mutant still fits the package, and its test exists."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tools.mutants.catalog import MUTANTS
from tools.mutants.mutant import StaleMutant

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.rule)
def test_replaces_one_line(mutant, tmp_path):
    number = mutant.line(ROOT)
    source = (ROOT / "dsv4_npu_tree" / mutant.file).read_text()
    copy = tmp_path / "dsv4_npu_tree" / mutant.file
    copy.parent.mkdir(parents=True)
    copy.write_text(source)
    mutant.apply(tmp_path)
    before, after = source.splitlines(), copy.read_text().splitlines()
    assert [i for i, (a, b) in enumerate(zip(before, after, strict=True), 1) if a != b] == [number]
    compile(copy.read_text(), mutant.file, "exec")


def test_rules_and_lines_are_distinct():
    assert len({m.rule for m in MUTANTS}) == len({(m.file, m.original) for m in MUTANTS}) == len(MUTANTS) >= 18


def test_a_line_that_is_gone_is_an_error():
    with pytest.raises(StaleMutant, match="0 lines 'gone'"):
        replace(MUTANTS[0], original="gone").line(ROOT)


def test_every_named_test_exists():
    named = sorted({m.test for m in MUTANTS})
    listing = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", *named],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert listing.returncode == 0, listing.stdout[-2000:]
    assert [line for line in named if line not in listing.stdout.splitlines()] == []
