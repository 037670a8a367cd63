"""`tools/demo`: one prompt without speculation, with a chain and with a tree; the answer, one tree, and a table."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from demonstration import report
from demonstration.progress import Progress
from demonstration.server import (
    CHAIN,
    DRAFT_TOKENS,
    EAGER,
    PLAIN,
    SHARING,
    STEPS,
    TOPK,
    TREE,
    Server,
    ServerError,
    default_model,
)

PROMPT = """The "for" statement
*******************

The "for" statement is used to iterate over the elements of a sequence
(such as a string, tuple or list) or other iterable object:

"""
RID = "demo"
RUNS = {"tree": TREE, "plain": (*PLAIN, *EAGER, *SHARING), "chain": (*CHAIN, *EAGER, *SHARING)}
LABELS = {"tree": "tree (dsv4_tree)", "plain": "no speculation (dsv4)", "chain": "chain (dsv4)"}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/demo", description=__doc__)
    parser.add_argument("--prompt", default=PROMPT, help="text to continue (default: the start of a manual page)")
    parser.add_argument("--max-new-tokens", type=int, default=64, help="tokens to generate (default: %(default)s)")
    parser.add_argument("--model", default=default_model(), help="checkpoint (default: the tiny one in tools/)")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object in the last line")
    return parser.parse_args()


def answer(server: Server, options: argparse.Namespace, *, show: bool) -> dict:
    """Greedy answer of a server; printed while it comes if ``show``."""
    printed, final = 0, {}
    sampling = {"temperature": 0, "max_new_tokens": options.max_new_tokens}
    for final in server.stream(options.prompt, sampling_params=sampling, rid=RID):
        # A character cut between two tokens shows as U+FFFD until its other half arrives.
        text = final["text"].rstrip("\ufffd")
        if show and len(text) > printed:
            print(text[printed:], end="", flush=True)
            printed = len(text)
    if show:
        print(final["text"][printed:], flush=True)
    return final


def run(options: argparse.Namespace, folder: Path, progress: Progress) -> dict[str, dict]:
    """The final answer of every run. The next server starts while the one before generates."""
    answers: dict[str, dict] = {}
    started: dict[str, Server] = {}

    def start(name: str) -> None:
        env = {"DSV4_TREE_DUMP": str(folder / "rounds")} if name == "tree" else {}
        started[name] = Server(RUNS[name], folder / f"{name}.log", model=options.model, env=env)

    names = list(RUNS)
    try:
        start(names[0])
        for number, name in enumerate(names, 1):
            with progress.step(f"[{number}/{len(names)}] SGLang server, {LABELS[name]}: starting"):
                started[name].wait(tick=progress.tick)
            if number < len(names):
                start(names[number])
            if name == "tree":
                report.show_launch(started[name].command, options.prompt)
                answers[name] = answer(started[name], options, show=True)
                report.show_tree(folder / "rounds", RID, options.model)
            else:
                with progress.step(f"[{number}/{len(names)}] {LABELS[name]}: generating"):
                    answers[name] = answer(started[name], options, show=False)
            started.pop(name).stop()
    finally:
        for server in started.values():
            server.stop(patience=0)
    return answers


def main() -> int:
    options = arguments()
    if not Path(options.model, "config.json").exists():
        print(f"demo: there is no checkpoint in {options.model}; name one with --model", file=sys.stderr)
        return 2
    folder = Path(tempfile.mkdtemp(prefix="dsv4-tree-demo-"))
    try:
        answers = run(options, folder, Progress(sys.stderr))
    except ServerError as error:
        print(f"\ndemo: {error}\ndemo: logs are in {folder}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndemo: stopped", file=sys.stderr)
        return 130
    figures = report.figures(answers, topk=TOPK, steps=STEPS, draft_tokens=DRAFT_TOKENS)
    print(report.table(answers, figures))
    if options.json:
        print(json.dumps(figures))
    shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
