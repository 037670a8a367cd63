"""The README's commands."""

from __future__ import annotations

import json
import re
import shlex
import subprocess

import pytest
from demonstration.server import REPOSITORY

pytestmark = pytest.mark.engine


def test_curl_line_of_the_readme(fleet):
    """The tree server of this session was started by tools/serve."""
    line = re.search(r"^\s*(curl .*)$", (REPOSITORY / "README.md").read_text(), re.MULTILINE)
    assert line, "README.md has no curl line"
    command = shlex.split(line.group(1).replace("30000", str(fleet["tree"].port)))
    ran = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True)
    answer = json.loads(ran.stdout)
    assert answer["text"]
    assert answer["meta_info"]["spec_verify_ct"] > 0


def test_demo_prints_its_figures_as_json(fleet):
    fleet.stop()  # nothing else of this session needs a server: leave the machine to the demo
    command = [str(REPOSITORY / "tools" / "demo"), "--max-new-tokens", "24", "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=580, stdin=subprocess.DEVNULL)
    assert ran.returncode == 0, ran.stderr[-2000:]
    figures = json.loads(ran.stdout.splitlines()[-1])
    assert figures["identical"] is True
    assert figures["new_tokens"] <= 24
    assert figures["plain"]["forwards"] == figures["new_tokens"] - 1
    for name in ("chain", "tree"):
        assert 1 <= figures[name]["accept_length"] <= 4
        assert figures[name]["forwards"] <= figures["plain"]["forwards"]
    assert (figures["tree"]["topk"], figures["tree"]["steps"], figures["tree"]["draft_tokens"]) == (4, 3, 8)
    assert "tokens per forward" in ran.stdout
