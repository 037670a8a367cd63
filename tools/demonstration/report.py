"""What the demo prints: the launch line, the tree of one round, the table."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from demonstration.server import REPOSITORY

_EXPLANATION = (
    "",
    "A target forward is one decode step of the model, however many rows it verifies; prefill gives the first token.",
    "A chain guesses one token per position. A tree verifies several at once and keeps the longest path that is right.",
)


def show_launch(command: list[str], prompt: str) -> None:
    shown = command[1 : command.index("--host")]
    print(f"\nThe server runs as\n  python {shlex.join(shown).replace(str(REPOSITORY) + '/', '')}")
    print(f"\nPrompt ----------\n{prompt}\nAnswer ----------", flush=True)


def show_tree(folder: Path, rid: str, model: str) -> None:
    """Draw a round of request ``rid``: one that accepted a node which a chain would not have proposed, if there is any,
    with the longest accepted path."""
    from transformers import AutoTokenizer

    from dsv4_npu_tree.inspect.draw import draw_tree
    from dsv4_npu_tree.inspect.dump import load_round

    tokenizer = AutoTokenizer.from_pretrained(model)
    rounds = [
        request
        for path in sorted(folder.glob("round-*.json"))
        for request in load_round(path).requests
        if request.request == rid
    ]
    if not rounds:
        print("\nNo round was needed: the answer ended with its first token.")
        return

    def interest(entry: Any) -> tuple[bool, int]:
        return not all(_first_choice(entry, node) for node in entry.accepted), len(entry.accepted)

    number, best = max(enumerate(rounds, 1), key=lambda item: interest(item[1]))
    print(f"\nCandidate tree of round {number} of {len(rounds)} (● accepted by the target, ○ candidate)")
    print(draw_tree(best, lambda token: tokenizer.decode([token])))


def _first_choice(entry: Any, node: int) -> bool:
    """True where no sibling of the node has a higher score."""
    siblings = [other for other, parent in enumerate(entry.parent) if parent == entry.parent[node]]
    return node == 0 or entry.score[node] >= max(entry.score[other] for other in siblings)


def figures(answers: dict[str, dict], *, topk: int, steps: int, draft_tokens: int) -> dict[str, Any]:
    """The JSON object of the demo. A forward is a decode forward of the target: prefill gives the first token."""
    plain, chain, tree = (answers[name] for name in ("plain", "chain", "tree"))
    return {
        "identical": plain["output_ids"] == tree["output_ids"],
        "prompt_tokens": tree["meta_info"]["prompt_tokens"],
        "new_tokens": tree["meta_info"]["completion_tokens"],
        "plain": {"forwards": _forwards(plain)},
        "chain": {"forwards": _forwards(chain), "accept_length": _accept_length(chain)},
        "tree": {
            "forwards": _forwards(tree),
            "accept_length": _accept_length(tree),
            "topk": topk,
            "steps": steps,
            "draft_tokens": draft_tokens,
        },
    }


def _forwards(answer: dict) -> int:
    """Verify forwards counted by SGLang, or one per token after the first without speculation."""
    meta = answer["meta_info"]
    return meta.get("spec_verify_ct", meta["completion_tokens"] - 1)


def _accept_length(answer: dict) -> float:
    """Tokens per target forward, SGLang's ``spec_accept_length``."""
    return round(answer["meta_info"]["completion_tokens"] / max(1, _forwards(answer)), 3)


def table(answers: dict[str, dict], figures: dict[str, Any]) -> str:
    tree = figures["tree"]
    labels = {
        "plain": "no speculation",
        "chain": f"chain, topk 1, {tree['steps']} steps",
        "tree": f"tree, topk {tree['topk']}, {tree['steps']} steps, {tree['draft_tokens']} nodes",
    }
    reference = answers["plain"]["output_ids"]
    rows = [("", "target forwards", "tokens per forward", "same text")]
    for name, label in labels.items():
        same = "-" if name == "plain" else "yes" if answers[name]["output_ids"] == reference else "NO"
        rows.append((label, str(_forwards(answers[name])), f"{_accept_length(answers[name]):.2f}", same))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    head = f"\n{figures['prompt_tokens']} prompt tokens, {figures['new_tokens']} new tokens, greedy"
    lines = ["  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:]))]) for row in rows]
    return "\n".join([head, *lines, *_EXPLANATION])
