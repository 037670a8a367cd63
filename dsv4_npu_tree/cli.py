"""The `dsv4-tree` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from dsv4_npu_tree import __version__

OK, BAD = "ok  ", "BAD "


def _version(_: argparse.Namespace) -> int:
    print(__version__)
    return 0


def _doctor(_: argparse.Namespace) -> int:
    from dsv4_npu_tree.inspect import doctor

    checks: tuple[Callable[[], doctor.Findings], ...] = (doctor.packages, doctor.device, doctor.operators, doctor.hooks)
    healthy = True
    for check in checks:
        for good, text in check():
            healthy &= good
            print((OK if good else BAD) + text, flush=True)
    return 0 if healthy else 1


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(prog="dsv4-tree", description="Tree speculation for DeepSeek-V4 on Ascend NPU.")
    commands = root.add_subparsers(required=True, metavar="command")
    version = commands.add_parser("version", help="print the version of this package")
    version.set_defaults(run=_version)
    doctor = commands.add_parser("doctor", help="check that this installation can serve; exit code 1 if it cannot")
    doctor.set_defaults(run=_doctor)
    return root


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    return options.run(options)


if __name__ == "__main__":
    sys.exit(main())
