"""The `dsv4-tree` command."""

import pytest

from dsv4_npu_tree import __version__, cli
from dsv4_npu_tree.hooks.catalog import all_hooks
from dsv4_npu_tree.inspect import doctor


def test_version(capsys):
    assert cli.main(["version"]) == 0
    assert capsys.readouterr().out.strip() == __version__


@pytest.mark.parametrize("good, code", [(True, 0), (False, 1)])
def test_doctor_exit_code(good, code, capsys, monkeypatch):
    for name in ("packages", "device", "operators", "hooks"):
        monkeypatch.setattr(doctor, name, lambda: iter([(True, "fine")]))
    monkeypatch.setattr(doctor, "device", lambda: iter([(good, "the device")]))
    assert cli.main(["doctor"]) == code
    assert f"{'ok  ' if good else 'BAD '}the device" in capsys.readouterr().out


@pytest.mark.parametrize("check", ["packages", "device", "operators"])
def test_this_installation_is_healthy(check):
    findings = list(getattr(doctor, check)())
    assert findings
    assert all(good for good, _ in findings), findings


def test_every_hook_names_sglang():
    targets = [hook.target for hook in all_hooks()]
    assert len(targets) == len(set(targets))
    assert all(target.startswith("sglang.") for target in targets)
