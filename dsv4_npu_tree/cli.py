"""The `dsv4-tree` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

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


def _explain(options: argparse.Namespace) -> int:
    from dsv4_npu_tree.inspect.dump import Round, load_round
    from dsv4_npu_tree.inspect.explain import explain
    from dsv4_npu_tree.inspect.follow import follow
    from dsv4_npu_tree.inspect.picture import picture

    try:
        entry = load_round(options.file)
        chosen = [r for r in entry.requests if options.request in (None, r.request)]
        if not chosen:
            names = ", ".join(r.request for r in entry.requests)
            raise ValueError(f"--request {options.request}: {options.file} has {names}")
        entry = Round(entry.serial, entry.topk, entry.steps, chosen)
        decode = _decoder(options.tokenizer)
        if options.svg is not None:
            Path(options.svg).write_text(picture(entry, decode), encoding="utf-8")
        if options.row is None:
            print(explain(entry, decode))
        else:
            print("\n\n".join(follow(request, options.row, decode) for request in chosen))
    except (OSError, ValueError) as error:
        print(f"dsv4-tree explain: {error}", file=sys.stderr)
        return 1
    return 0


def _decoder(tokenizer: str | None) -> Callable[[int], str]:
    """Token ids as text of this tokenizer, or as numbers. Raises ValueError."""
    if tokenizer is None:
        return str
    try:
        from transformers import AutoTokenizer

        loaded = AutoTokenizer.from_pretrained(tokenizer)
    except (ImportError, OSError, ValueError) as error:
        raise ValueError(f"--tokenizer {tokenizer}: {error}") from error
    return lambda token: str(loaded.decode([token]))


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(prog="dsv4-tree", description="Tree speculation for DeepSeek-V4 on Ascend NPU.")
    commands = root.add_subparsers(required=True, metavar="command")
    version = commands.add_parser("version", help="print the version of this package")
    version.set_defaults(run=_version)
    doctor = commands.add_parser("doctor", help="check that this installation can serve; exit code 1 if it cannot")
    doctor.set_defaults(run=_doctor)
    explain = commands.add_parser("explain", help="draw a verify round that DSV4_TREE_DUMP wrote")
    explain.add_argument("file", help="a round-*.json file")
    explain.add_argument("--row", type=int, help="follow this row through the five identities")
    explain.add_argument("--request", help="only this request id")
    explain.add_argument("--svg", metavar="OUT", help="draw the round into this SVG file too")
    explain.add_argument("--tokenizer", metavar="PATH", help="show tokens as text of this model's tokenizer")
    explain.set_defaults(run=_explain)
    return root


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    return options.run(options)


if __name__ == "__main__":
    sys.exit(main())
