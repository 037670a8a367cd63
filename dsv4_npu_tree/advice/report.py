"""What `dsv4-tree advise` prints."""

from __future__ import annotations

from dsv4_npu_tree.advice.advisor import (
    Setting,
    best,
    best_of_rows,
    launch_shape,
    plain_rate,
    rate,
    table,
)
from dsv4_npu_tree.advice.cost import ModelCost
from dsv4_npu_tree.advice.profile import Gain, Profile

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def report(model: ModelCost, setting: Setting, profile: Profile, most: int) -> str:
    """Assumptions, the best shape per number of rows, the best shape per batch size, and the two settings."""
    shapes = profile.shapes
    found = table(model, setting, shapes, most)
    launch = launch_shape(found)
    card = setting.card
    lines = [
        "A model, not a measurement. It assumes:",
        f"  card {card.name} x {setting.cards}: {card.tflops:g} TFLOPS bf16, {card.bandwidth:g} TB/s each, used to the "
        "full and shared evenly",
        f"    ({card.source})",
        f"  {model.weight_bytes:g} bytes per weight, {setting.context} tokens of context, "
        f"{setting.overhead * 1e6:g} us per layer for everything else",
        "  rows choose experts independently; no communication, no vector work, no prefill in between",
        "  acceptance of the profile, which holds for its text and its draft",
        "",
        "accepted tokens per target forward (measured), best shape per number of verify rows",
        "  n   shape n/S/K   tokens   interval         more than the best chain of as many rows",
    ]
    for one in best_of_rows(shapes):
        interval = f"{one.low:.3f} .. {one.high:.3f}"
        more = "is a chain" if one.shape.topk == 1 else _gain(one.over_chain)
        lines.append(f"  {one.shape.n:<3} {one.shape!s:<12}  {one.tokens:.3f}    {interval}   {more}".rstrip())
    lines += ["", "modelled tokens per second and request", "  batch   no speculation   best shape     rate    factor"]
    for batch in (b for b in BATCHES if b <= most):
        one, plain = best(model, setting, shapes, batch), plain_rate(model, setting, batch)
        fast = rate(model, setting, one, batch)
        warning = "   slower than no speculation" if fast < plain else ""
        lines.append(f"  {batch:<7} {plain:<16.1f} {one.shape!s:<12} {fast:<9.1f} {fast / plain:.2f}{warning}")
    lines += [
        "",
        "proposal",
        f"  --speculative-num-draft-tokens {launch.n} --speculative-num-steps {launch.steps} "
        f"--speculative-eagle-topk {launch.topk}",
        f'  DSV4_TREE_SHAPES="{found}"',
    ]
    if profile.exponent is not None:
        lines.append(f"  DSV4_TREE_SCORE_EXPONENT={profile.exponent:g}")
    return "\n".join(lines)


def _gain(found: Gain | None) -> str:
    return "" if found is None else f"{found.gain:+.3f} ({found.low:+.3f} .. {found.high:+.3f}), S = {found.steps}"
