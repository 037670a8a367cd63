"""The advisor: parameter counts of the published models, a table that follows the batch, nonsense named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsv4_npu_tree.advice.advisor import (
    Setting,
    best,
    best_of_rows,
    launch_shape,
    round_seconds,
    table,
)
from dsv4_npu_tree.advice.card import CARDS
from dsv4_npu_tree.advice.cost import ModelCost
from dsv4_npu_tree.advice.profile import Gain, Measured, Profile, load_profile
from dsv4_npu_tree.cli import main
from dsv4_npu_tree.tree.shapes import Shape, ShapeTable

FLASH = {
    "hidden_size": 4096,
    "num_attention_heads": 64,
    "head_dim": 512,
    "q_lora_rank": 1024,
    "o_groups": 8,
    "o_lora_rank": 1024,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 6,
    "index_n_heads": 64,
    "index_head_dim": 128,
    "index_topk": 512,
    "vocab_size": 129280,
    "num_hidden_layers": 43,
    "compress_ratios": [0, 0, *[4, 128] * 20, 4, 0],
}
PRO = {
    **FLASH,
    "hidden_size": 7168,
    "num_attention_heads": 128,
    "q_lora_rank": 1536,
    "o_groups": 16,
    "moe_intermediate_size": 3072,
    "n_routed_experts": 384,
    "index_topk": 1024,
    "num_hidden_layers": 61,
    "compress_ratios": [128, 128, *[4, 128] * 29, 4, 0],
}
SHAPES = [
    Measured(Shape(4, 3, 1), 2.5, 2.4, 2.6),
    Measured(Shape(8, 5, 3), 3.1, 3.0, 3.2, Gain(7, 0.2, 0.125, 0.25)),
    Measured(Shape(8, 7, 1), 2.9, 2.8, 3.0),
    Measured(Shape(32, 7, 4), 3.6, 3.5, 3.7),
]


ENTRY = {"n": 8, "steps": 3, "topk": 4, "tokens_per_forward": 2.5, "low": 2.4, "high": 2.6}


def setting(**changes) -> Setting:
    return Setting(**{"card": CARDS["a3"], "cards": 8, "context": 8192, "overhead": 0.0, **changes})


@pytest.mark.parametrize(("config", "total", "active"), [(FLASH, 284, 13), (PRO, 1600, 49)])
def test_parameters_are_those_of_the_published_models(config, total, active):
    """DeepSeek gives 284 B / 13 B active for V4-Flash and 1.6 T / 49 B for V4-Pro; embedding and head are two."""
    model = ModelCost.of_config(config, 1.0)
    assert sum(x.dense + x.experts * x.expert for x in model.layers) + 2 * model.head == pytest.approx(
        total * 1e9, rel=0.02
    )
    assert sum(x.dense + x.chosen * x.expert for x in model.layers) + 2 * model.head == pytest.approx(
        active * 1e9, rel=0.06
    )


def test_rows_touch_experts_until_all_are_read():
    model = ModelCost.of_config(FLASH, 1.0)
    layer = model.layers[0]
    assert layer.touched(1) == pytest.approx(6) and layer.touched(10_000) == pytest.approx(256)
    one, many = model.target(1, 1024), model.target(8, 1024)
    assert one.bytes < many.bytes < 8 * one.bytes
    assert many.operations == pytest.approx(8 * one.operations)


def test_context_costs_what_the_layers_read():
    model = ModelCost.of_config(FLASH, 1.0)
    grown = model.target(1, 65536).bytes - model.target(1, 8192).bytes
    # C4: 512 entries selected either way, the index keys of every entry read; C128: every entry
    assert grown == pytest.approx(21 * (65536 - 8192) // 4 * 130 + 20 * (65536 - 8192) // 128 * 1024)


def test_overhead_is_that_of_layers():
    """A draft step costs one layer of it, a verify all of them."""
    model, shape = ModelCost.of_config(FLASH, 1.0), Shape(8, 3, 4)
    more = round_seconds(model, setting(overhead=1e-3), shape, 1) - round_seconds(model, setting(), shape, 1)
    assert more == pytest.approx(1e-3 * (43 + 3))


def test_a_card_that_is_full_gets_the_narrowest_shape():
    """Bound by compute, a row costs what it costs: the shape with most tokens per row wins."""
    model = ModelCost.of_config(FLASH, 1.0)
    assert best(model, setting(), SHAPES, 65536).shape == Shape(4, 3, 1)
    # and a model whose weights are read whole whatever the rows: more rows are free until compute binds
    dense = ModelCost.of_config({**FLASH, "n_routed_experts": 6}, 1.0)
    assert best(dense, setting(context=128), SHAPES, 1).shape.n > 4


def test_the_table_is_the_best_shape_of_each_batch():
    model = ModelCost.of_config(FLASH, 1.0)
    found = table(model, setting(), SHAPES, 4096)
    assert ShapeTable.parse(str(found), launch_shape(found)) == found
    for batch in range(1, 17):
        rates = {str(m.shape): m.tokens / round_seconds(model, setting(), m.shape, batch) for m in SHAPES}
        assert str(found.at(batch)) == max(rates, key=rates.__getitem__), (batch, rates)


def test_the_committed_profile_has_a_tree_above_every_chain():
    """Of the tiny pair, from eight rows on: the proposed shape, with its whole interval."""
    path = Path(__file__).resolve().parents[2] / "tools" / "tiny_checkpoint" / "acceptance_profile.json"
    profile = load_profile(path)
    assert profile.exponent is not None
    proposed = [one for one in best_of_rows(profile.shapes) if one.shape.n >= 8]
    assert [one.shape.n for one in proposed] == [8, 16, 32]
    for one in proposed:
        assert one.shape.topk > 1 and one.over_chain is not None and one.over_chain.low > 0, one


def test_per_number_of_rows_the_most_accepted():
    assert [str(one.shape) for one in best_of_rows(SHAPES)] == ["4/3/1", "8/5/3", "32/7/4"]
    more = [Measured(Shape(9, 8, 1), 3.0, 2.9, 3.1), Measured(Shape(16, 5, 4), 3.1, 3.0, 3.2), *SHAPES]
    assert best_of_rows(more) == best_of_rows(SHAPES)  # no more than with eight rows


@pytest.fixture
def files(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(FLASH))
    entries = [
        {"n": m.shape.n, "steps": m.shape.steps, "topk": m.shape.topk, "tokens_per_forward": m.tokens}
        | {"low": m.low, "high": m.high}
        | ({"over_best_chain": vars(m.over_chain)} if m.over_chain else {})
        for m in SHAPES
    ]
    (tmp_path / "profile.json").write_text(json.dumps({"shapes": entries, "score_exponent": 2.25}))
    return tmp_path


def test_advise_says_what_it_is_and_proposes_flags(files, capsys):
    assert main(["advise", "--model", str(files), "--profile", str(files / "profile.json")]) == 0
    shown = capsys.readouterr().out
    for part in (
        "A model, not a measurement",
        "arXiv:2506.12708",
        "DSV4_TREE_SHAPES=",
        "DSV4_TREE_SCORE_EXPONENT=2.25",
        "+0.200 (+0.125 .. +0.250), S = 7",
        "8/5/3",
        "8192 tokens of context",
    ):
        assert part in shown, shown
    proposed = shown.split('DSV4_TREE_SHAPES="')[1].split('"')[0]
    n, steps, topk = (int(word) for word in shown.split("--speculative-")[1:] for word in [word.split()[1]])
    ShapeTable.parse(proposed, Shape(n, steps, topk))
    assert load_profile(files / "profile.json") == Profile(SHAPES, 2.25)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--context", "0"], "--context 0"),
        *(
            ([f"--{name}", value], f"--{name} ")
            for name in ("overhead-us", "tflops", "bandwidth", "weight-bytes")
            for value in ("-5", "nan", "inf")
        ),
        (["--tflops", "0"], "--tflops 0"),
        (["--max-batch", "0"], "--max-batch 0"),
        (["--max-batch", "9" * 400], "--max-batch beyond"),
        (["--context", "9" * 400], "--context beyond"),
        (["--cards", "-1"], "--cards -1"),
        (["--model", "nowhere"], "nowhere"),
        (["--profile", "nowhere"], "nowhere"),
    ],
)
def test_bad_arguments_are_named(files, arguments, reason, capsys):
    given = ["advise", "--model", str(files), "--profile", str(files / "profile.json"), *arguments]
    assert main(given) == 1
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", "no acceptance profile"),
        ("[", "no acceptance profile"),
        ('{"shapes": []}', "holds no shape"),
        ('{"shapes": [{"n": 8, "steps": 3, "topk": 1, "tokens_per_forward": 2, "low": 1, "high": 3}]}', "a chain of 3"),
        (
            '{"shapes": [{"n": 8, "steps": 3, "topk": 4, "tokens_per_forward": 9, "low": 1, "high": 3}]}',
            "cannot accept 9",
        ),
        (json.dumps({"shapes": [{**ENTRY, "n": 40, "steps": 20}]}), "steps 20"),
        (json.dumps({"shapes": [{**ENTRY, "n": 40, "topk": 20}]}), "topk 20"),
        (json.dumps({"shapes": [ENTRY], "score_exponent": 99}), "score_exponent 99"),
        (json.dumps({"shapes": [{**ENTRY, "over_best_chain": {"steps": 3}}]}), "no acceptance profile"),
        ("[1]", "no acceptance profile"),
        ("[" * 200000, "no acceptance profile"),
        (json.dumps({"shapes": [{**ENTRY, "tokens_per_forward": float("nan")}]}), "cannot accept nan"),
        *(
            (json.dumps({"shapes": [{**ENTRY, "low": value}]}), "low ")
            for value in (3, None, float("nan"), [], 10**400)
        ),
        *((json.dumps({"shapes": [{**ENTRY, "topk": value}]}), "topk ") for value in (2.0, 10**6, 10**400, "4", True)),
    ],
)
def test_bad_profiles_are_named(files, text, reason, capsys):
    (files / "bad.json").write_text(text)
    with pytest.raises(ValueError, match=reason):
        load_profile(files / "bad.json")
    assert main(["advise", "--model", str(files), "--profile", str(files / "bad.json")]) == 1
    assert "bad.json" in capsys.readouterr().err


def test_a_config_of_another_model_is_named(files, capsys):
    (files / "config.json").write_text('{"hidden_size": 1}')
    assert main(["advise", "--model", str(files), "--profile", str(files / "profile.json")]) == 1
    assert "is no config.json of DeepSeek-V4" in capsys.readouterr().err


@pytest.mark.parametrize("value", [None, "4", -1, 1.5, float("nan"), True, [], 10**400])
@pytest.mark.parametrize("name", [name for name in FLASH if name != "compress_ratios"])
def test_a_config_value_that_no_model_has_is_named(files, name, value, capsys):
    (files / "config.json").write_text(json.dumps({**FLASH, name: value}))
    assert main(["advise", "--model", str(files), "--profile", str(files / "profile.json")]) == 1
    shown = capsys.readouterr()
    assert name in shown.err and shown.err.count("\n") == 1 and not shown.out


@pytest.mark.parametrize(
    "change", [{"n_routed_experts": 0}, {"num_experts_per_tok": 257}, {"compress_ratios": [4]}, {"compress_ratios": 4}]
)
def test_counts_that_do_not_fit_are_refused(files, change, capsys):
    (files / "config.json").write_text(json.dumps({**FLASH, **change}))
    assert main(["advise", "--model", str(files), "--profile", str(files / "profile.json")]) == 1
    assert "is no config.json of DeepSeek-V4" in capsys.readouterr().err
