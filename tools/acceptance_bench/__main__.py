"""`tools/bench_acceptance`: accepted tokens per target forward of chains and trees at equal verify rows."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from acceptance_bench import plot
from acceptance_bench.attention import use_row_attention
from acceptance_bench.fitting import SCORINGS, Fitted, fit
from acceptance_bench.policies import Policy, Shape, run
from acceptance_bench.profile import Observations, observe, profile
from acceptance_bench.reliability import Bin, reliability
from acceptance_bench.results import Measured, rows, shape_entries
from acceptance_bench.table import reliability_table, table
from acceptance_bench.text import Text, continued, prompts, read
from dsv4_npu_tree.config import MAX_STEPS
from tools.tiny_checkpoint import MODEL_DIR, hf_model, nextn_model

DEPTHS, RANKS = 8, 8  # of the profile
SERVED = ("as drafted", "sharpened")  # scorings of the plugin; the others are only measured
BATCH = 15  # texts at a time: some hundred megabytes


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class Pair:
    """Target and draft, and held-out text to run them on."""

    def __init__(self, model: Path, prompt: int, tokens: int):
        self.target = hf_model(model)
        self.draft = use_row_attention(nextn_model(model, self.target))
        self._prompt, self._tokens = prompt, tokens

    def texts(self, half: str, count: int, beyond: int) -> list[Text]:
        """``beyond``: tokens after the last root."""
        ids = continued(self.target, prompts(half, count, self._prompt), self._tokens + beyond)
        return [read(self.target, part, self._prompt) for part in ids.split(BATCH)]


def policies(arguments: argparse.Namespace, fitted: dict[tuple[str, int], Fitted], steps: int) -> list[Policy]:
    found = [Policy(1, max(arguments.nodes) - 1)]
    for stale in [False, True][: 2 if arguments.stale else 1]:
        for name in arguments.scoring:
            found += [Policy(k, steps, name, fitted[name, k].score, stale) for k in arguments.topk]
    return found


def shapes(arguments: argparse.Namespace) -> list[Shape]:
    chains = [Shape(1, n - 1, n) for n in range(2, max(arguments.nodes) + 1)]
    return chains + [Shape(k, s, n) for n in arguments.nodes for k in arguments.topk for s in arguments.steps]


def measure(
    pair: Pair, texts: Sequence[Text], arguments: argparse.Namespace, fitted: dict[tuple[str, int], Fitted]
) -> Measured:
    measured: Measured = {}
    for policy in policies(arguments, fitted, max(arguments.steps)):
        say(f"topk {policy.topk}, {policy.steps} steps, {policy.scoring}, {policy.history} histories")
        for shape, walk in run(pair.draft, texts, policy, shapes(arguments), arguments.tokens).items():
            measured[policy, shape] = walk
    return measured


def observations(pair: Pair, texts: Sequence[Text], ranks: int) -> Observations:
    return Observations.join(observe(pair.draft, text, DEPTHS, ranks) for text in texts)


def calibration(
    pair: Pair, texts: Sequence[Text], arguments: argparse.Namespace, fitted: dict[tuple[str, int], Fitted]
) -> dict[str, list[Bin]]:
    """Path scores of the widest trees, under each scoring."""
    topk, steps, found = max(arguments.topk), max(arguments.steps), {}
    for name in arguments.scoring:
        say(f"reliability of path scores, topk {topk}, {steps} steps, {name}")
        policy = Policy(topk, steps, name, fitted[name, topk].score)
        found[name] = reliability(pair.draft, texts, policy, arguments.tokens)
    return found


def write_profile(path: Path, seen: Observations, measured: Measured, arguments: argparse.Namespace) -> None:
    """One line per key and per shape. Shapes are those of the last scoring that a server has."""
    found = {**profile(seen.best(RANKS)), "prompts": arguments.prompts}
    if measured:
        scoring = [name for name in arguments.scoring if name in SERVED][-1]
        if scoring == "sharpened":
            found["score_exponent"] = fit("sharpened", seen, RANKS).constants["exponent"]
        every = rows(measured, sorted({*range(2, MAX_STEPS + 2), *arguments.nodes}), arguments.prompts)
        lines = ",\n".join(f" {json.dumps(entry)}" for entry in shape_entries(every, scoring))
        shapes = f'"shapes": [\n{lines}\n],\n'
    else:
        shapes = ""
    keys = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items())
    path.write_text("{\n" + shapes + keys + "\n}\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tools/bench_acceptance",
        description="Accepted tokens per target forward of the tiny pair, greedy, on held-out text: chains and trees "
        "at equal verify rows n. The draft is replayed in fp32 at every position of the text; no server is started and "
        "no clock is read. Takes about a quarter of an hour of one core.",
        epilog="scorings: " + ", ".join(SCORINGS),
    )
    parser.add_argument("--nodes", type=int, nargs="*", default=[4, 8, 16, 32], help="verify rows; none: no measuring")
    parser.add_argument("--topk", type=int, nargs="+", default=[2, 4, 8], help="children per node and beams, of trees")
    parser.add_argument("--steps", type=int, nargs="+", default=[3, 4, 5, 8], help="draft steps of trees")
    parser.add_argument("--scoring", nargs="+", choices=SCORINGS, default=["as drafted", "sharpened"], metavar="NAME")
    parser.add_argument("--stale", action="store_true", help="also with draft histories that are not re-parented")
    parser.add_argument("--prompts", type=int, default=210, help="to measure on")
    parser.add_argument("--fit-prompts", type=int, default=120, help="other ones, to fit scorings on")
    parser.add_argument("--prompt-tokens", type=int, default=96)
    parser.add_argument("--tokens", type=int, default=64, help="new tokens per prompt")
    parser.add_argument("--model", type=Path, default=MODEL_DIR)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument(
        "--reliability", action="store_true", help="also compare path scores with how often paths are right"
    )
    parser.add_argument("--profile", type=Path, help="write the acceptance profile of the pair to this file")
    parser.add_argument("--svg", type=Path, help="write a plot to this file")
    arguments = parser.parse_args()
    if arguments.profile and not set(SERVED) & set(arguments.scoring):
        parser.error(f"--profile: shapes are those of a scoring that a server has, {' or '.join(SERVED)}")
    return arguments


def main() -> None:
    arguments = parse()
    torch.set_num_threads(1)

    pair = Pair(arguments.model, arguments.prompt_tokens, arguments.tokens)
    ranks = max(RANKS, *arguments.topk)
    say("greedy text to fit on")
    seen = observations(pair, pair.texts("fit", arguments.fit_prompts, DEPTHS), ranks)
    if not arguments.nodes:
        if arguments.profile:
            write_profile(arguments.profile, seen, {}, arguments)
        return
    fitted = {(name, k): fit(name, seen, k) for name in arguments.scoring for k in arguments.topk}
    say("greedy text to measure on")
    texts = pair.texts("measure", arguments.prompts, max(DEPTHS, *arguments.nodes, *arguments.steps))
    measured = measure(pair, texts, arguments, fitted)
    found = rows(measured, arguments.nodes, arguments.prompts)
    if arguments.profile:
        write_profile(arguments.profile, seen, measured, arguments)
    paths = calibration(pair, texts, arguments, fitted) if arguments.reliability else {}
    if arguments.svg:
        arguments.svg.write_text(plot.svg(found))
    unseen = observations(pair, texts, ranks)
    constants = [
        {"scoring": name, "topk": k, "constants": f.constants, "loss": round(f.loss(unseen.best(k)), 4)}
        for (name, k), f in fitted.items()
    ]
    settings = {k: vars(arguments)[k] for k in ("prompts", "prompt_tokens", "tokens", "fit_prompts")}
    if arguments.json:
        bins = {name: [asdict(b) for b in found_bins] for name, found_bins in paths.items()}
        result = {**settings, "scorings": constants, "rows": [r.as_dict() for r in found], "reliability": bins}
        print(json.dumps(result, indent=1))
        return
    print("\n" + table(found) + "\n")
    print(", ".join(f"{name.replace('_', ' ')} {value}" for name, value in settings.items()) + "; 95 % intervals")
    for entry in constants:
        print(f"{entry['scoring']}, K={entry['topk']}: {entry['constants']}, {entry['loss']:.3f} nats per parent")
    for name, bins in paths.items():
        print("\n" + reliability_table(name, bins))


if __name__ == "__main__":
    main()
