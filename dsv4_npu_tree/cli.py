"""The `dsv4-tree` command."""

from __future__ import annotations

import argparse
import json
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
            names = ", ".join(r.label for r in entry.requests)
            raise ValueError(f"--request {options.request}: {options.file} has {names}")
        entry = Round(entry.serial, entry.topk, entry.steps, chosen)
        decode = _decoder(options.tokenizer)
        if options.row is None:
            text = explain(entry, decode)
        else:
            text = "\n\n".join(follow(request, options.row, decode) for request in chosen)
        if options.svg is not None:
            Path(options.svg).write_text(picture(entry, decode), encoding="utf-8")
        print(text)
    except (OSError, ValueError) as error:
        return _failed("explain", error)
    return 0


def _advise(options: argparse.Namespace) -> int:
    from dataclasses import replace

    from dsv4_npu_tree.advice.advisor import Setting
    from dsv4_npu_tree.advice.boundary import number
    from dsv4_npu_tree.advice.card import CARDS
    from dsv4_npu_tree.advice.cost import ModelCost
    from dsv4_npu_tree.advice.profile import load_profile
    from dsv4_npu_tree.advice.report import report

    try:
        for name, low, high in (
            ("cards", 1, 1e6), ("context", 1, 1e9), ("max_batch", 1, 1e6), ("weight_bytes", 1e-3, 1e3),
            ("tflops", 1e-3, 1e9), ("bandwidth", 1e-3, 1e9), ("overhead_us", 0, 1e9),
        ):  # fmt: skip
            if (value := getattr(options, name)) is not None:
                number(value, f"--{name.replace('_', '-')}", low, high)
        card = CARDS[options.card]
        if options.tflops is not None or options.bandwidth is not None:
            tflops, bandwidth = options.tflops or card.tflops, options.bandwidth or card.bandwidth
            card = replace(card, name="custom", tflops=tflops, bandwidth=bandwidth, source="as given")
        path = Path(options.model)
        path = path / "config.json" if path.is_dir() else path
        try:
            model = ModelCost.of_config(json.loads(path.read_text()), options.weight_bytes)
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise ValueError(f"{path} is no config.json of DeepSeek-V4: {error!r}") from error
        setting = Setting(card, options.cards, options.context, options.overhead_us * 1e-6)
        print(report(model, setting, load_profile(options.profile), options.max_batch))
    except (OSError, ValueError) as error:
        return _failed("advise", error)
    return 0


def _failed(command: str, error: Exception) -> int:
    """One line on stderr: what libraries report may have many, or quote a whole file."""
    text = " ".join(str(error).split())
    print(f"dsv4-tree {command}: {text if len(text) <= 300 else text[:299] + '…'}", file=sys.stderr)
    return 1


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
    advise = commands.add_parser(
        "advise", help="propose tree shapes by batch size from a roofline and measured acceptance"
    )
    advise.add_argument("--model", required=True, metavar="PATH", help="folder or config.json of the model")
    advise.add_argument("--profile", required=True, metavar="FILE", help="profile of tools/bench_acceptance")
    advise.add_argument("--card", choices=["a2", "a3"], default="a3")
    advise.add_argument("--cards", type=int, default=8, help="cards that share the work (default 8)")
    advise.add_argument("--tflops", type=float, help="dense bf16 TFLOPS of a card instead of the table's")
    advise.add_argument("--bandwidth", type=float, help="HBM TB/s of a card instead of the table's")
    advise.add_argument("--context", type=int, default=8192, help="tokens before each row (default 8192)")
    advise.add_argument("--max-batch", type=int, default=64, help="largest batch (default 64)")
    advise.add_argument("--weight-bytes", type=float, default=1.0, help="bytes per weight (default 1: W8A8)")
    advise.add_argument("--overhead-us", type=float, default=0.0, help="microseconds per layer beyond the roofline")
    advise.set_defaults(run=_advise)
    return root


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    return options.run(options)


if __name__ == "__main__":
    sys.exit(main())
