"""``python -m tools.tiny_checkpoint build --out DIR [--seed 0]`` and ``... eval [--model DIR]``."""

import argparse
import functools
import json
from pathlib import Path

import torch

from tools.tiny_checkpoint import MODEL_DIR
from tools.tiny_checkpoint.build import build
from tools.tiny_checkpoint.figures import figures


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.tiny_checkpoint", description=__doc__)
    parser.add_argument("--threads", type=int, default=1, help="torch threads (1 is best on a shared machine)")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("build", help="train and write the checkpoint")
    command.add_argument("--out", type=Path, required=True)
    command.add_argument("--seed", type=int, default=0)
    command = commands.add_parser("eval", help="print the figures of a built checkpoint")
    command.add_argument("--model", type=Path, default=MODEL_DIR)
    arguments = parser.parse_args()

    torch.set_num_threads(arguments.threads)
    progress = functools.partial(print, flush=True)
    if arguments.command == "build":
        result = build(arguments.out, arguments.seed, progress=progress)
    else:
        result = figures(arguments.model, progress=progress)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
