"""What `dsv4_tree` runs with, and every configuration it refuses."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from dsv4_npu_tree import BACKEND
from dsv4_npu_tree.tree.shapes import Shape, ShapeTable

MAX_NODES = 64  # a node set is an int64 bitmask
MAX_STEPS = 16  # tail and path of a branch fit into two 16-row blocks
MAX_TOPK = 16
MAX_BRANCHES = 16  # default cap of branches per request
DEFAULT_RUNNING_REQUESTS = 32  # per attention-DP rank: the arena grows with it
BLOCK_ROWS = (16, 32, 64, 128)
MAX_SCORE_EXPONENT = 16.0

ENV_BLOCK_ROWS = "DSV4_TREE_BLOCK_ROWS"
ENV_MAX_BRANCHES = "DSV4_TREE_MAX_BRANCHES"
ENV_CHECK = "DSV4_TREE_CHECK"
ENV_SHAPES = "DSV4_TREE_SHAPES"
ENV_HISTORY = "DSV4_TREE_DRAFT_HISTORY"
ENV_SCORE_EXPONENT = "DSV4_TREE_SCORE_EXPONENT"


@dataclass(frozen=True)
class TreeConfig:
    """Shape of the trees and of the arena.

    n: verify rows per request, root included. steps: draft steps S. topk: children per node K. max_branches: branches
    B of one request. block_rows: SWA rows of an attention block (16, 32, 64 or 128).
    """

    n: int
    steps: int
    topk: int
    max_branches: int
    block_rows: int = 16

    @classmethod
    def of_shape(cls, n: int, steps: int, topk: int) -> TreeConfig:
        """Config of a speculative shape, with the two DSV4_TREE_* environment settings. Raises ValueError."""
        block_rows = _env_int(ENV_BLOCK_ROWS, 16)
        if block_rows not in BLOCK_ROWS:
            raise ValueError(f"{ENV_BLOCK_ROWS}={block_rows}: choose one of {', '.join(map(str, BLOCK_ROWS))}")
        default = max(1, min(n - 1, MAX_BRANCHES))
        max_branches = _env_int(ENV_MAX_BRANCHES, default)
        if not 1 <= max_branches <= max(1, n - 1):
            raise ValueError(f"{ENV_MAX_BRANCHES}={max_branches}: choose 1..{max(1, n - 1)} for {n} draft tokens")
        return cls(n, steps, topk, max_branches, block_rows)

    @property
    def c4_block(self) -> int:
        """C4 entries of an attention block: small blocks of 16, or the native page of 32."""
        return 32 if self.block_rows == 128 else 16

    def c128_block(self, page: int) -> int:
        """C128 entries of an attention block, of a pool with ``page`` entries per page."""
        return page if self.block_rows == 128 else 16


def _env_int(name: str, default: int) -> int:
    text = os.environ.get(name)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name}={text!r} is not a whole number") from None


def check_every() -> int:
    """DSV4_TREE_CHECK: 0 checks no round, 1 every round, N one round in N. Raises ValueError."""
    every = _env_int(ENV_CHECK, 0)
    if every < 0:
        raise ValueError(f"{ENV_CHECK}={every}: choose 0 (off), 1 (every round) or N (one round in N)")
    return every


def shape_table(n: int, steps: int, topk: int) -> ShapeTable | None:
    """DSV4_TREE_SHAPES for a server launched with this shape, or None if it is not set. Raises ValueError."""
    text = os.environ.get(ENV_SHAPES)
    if text is None:
        return None
    try:
        return ShapeTable.parse(text, Shape(n, steps, topk))
    except ValueError as error:
        raise ValueError(f"{ENV_SHAPES}={text!r}: {error}") from None


def stale_history() -> bool:
    """DSV4_TREE_DRAFT_HISTORY: `exact` (default), or `stale`, which drafts from beam histories as SGLang leaves them
    and exists for comparison only. Raises ValueError."""
    history = os.environ.get(ENV_HISTORY, "exact")
    if history not in ("exact", "stale"):
        raise ValueError(f"{ENV_HISTORY}={history!r}: choose exact or stale")
    return history == "stale"


def score_exponent() -> float | None:
    """DSV4_TREE_SCORE_EXPONENT: the exponent of tree/scores.py, or None if it is not set: paths are ranked by the
    product of draft probabilities. Raises ValueError."""
    text = os.environ.get(ENV_SCORE_EXPONENT)
    if text is None:
        return None
    try:
        exponent = float(text)
    except ValueError:
        raise ValueError(f"{ENV_SCORE_EXPONENT}={text!r} is not a number") from None
    if not 0.0 < exponent <= MAX_SCORE_EXPONENT:
        raise ValueError(f"{ENV_SCORE_EXPONENT}={text}: choose a number above 0, up to {MAX_SCORE_EXPONENT:g}")
    return exponent


def _spec_refusals(cfg: Any) -> Iterator[str]:
    algorithm = str(cfg.speculative_algorithm).upper()
    if algorithm != "EAGLE":
        yield f"--speculative-algorithm {cfg.speculative_algorithm}: trees need EAGLE"
        return
    n, steps, topk = cfg.speculative_num_draft_tokens, cfg.speculative_num_steps, cfg.speculative_eagle_topk
    if not n or not steps or not topk:
        yield (
            "give the tree's shape: --speculative-num-steps, --speculative-eagle-topk and "
            "--speculative-num-draft-tokens (for example 3, 4 and 8)"
        )
        return
    if topk == 1:
        yield "--speculative-eagle-topk 1 is a chain: use --attention-backend dsv4, or a topk of 2 or more"
    if topk > MAX_TOPK:
        yield f"--speculative-eagle-topk {topk}: at most {MAX_TOPK}"
    if n > MAX_NODES:
        yield f"--speculative-num-draft-tokens {n}: at most {MAX_NODES} verify rows per request"
    if steps > MAX_STEPS:
        yield f"--speculative-num-steps {steps}: at most {MAX_STEPS}"
    candidates = topk + (steps - 1) * topk * topk
    inside = 1 < topk <= MAX_TOPK and steps <= MAX_STEPS and n <= MAX_NODES
    if inside and not steps + 1 <= n <= candidates + 1:
        yield (
            f"--speculative-num-draft-tokens {n}: {steps} steps of topk {topk} give {candidates} candidates and "
            f"paths of {steps + 1} nodes, choose {steps + 1}..{candidates + 1}"
        )


def attention_dp(cfg: Any) -> bool:
    """True where attention runs data parallel over the ranks."""
    return cfg.attn_dp_size > 1


# (flag as the user types it, does the config set it)
_UNSUPPORTED: tuple[tuple[str, Callable[[Any], bool]], ...] = (
    ("--pp-size above 1", lambda c: c.pp_size > 1),
    (
        "--attn-dp-size other than --tp-size (tensor parallelism inside an attention rank pads its prompts)",
        lambda c: attention_dp(c) and c.attn_dp_size != c.tp_size,
    ),
    ("--ep-size above 1", lambda c: c.ep_size > 1),
    ("--enable-prefill-cp", lambda c: c.enable_prefill_cp),
    ("--attn-cp-size above 1", lambda c: c.attn_cp_size > 1),
    ("--dcp-size above 1", lambda c: c.dcp_size > 1),
    ("--disaggregation-mode (prefill/decode disaggregation)", lambda c: c.disaggregation_mode != "null"),
    ("--enable-hierarchical-cache", lambda c: c.enable_hierarchical_cache),
    ("--enable-unified-memory", lambda c: c.enable_unified_memory),
    ("--enable-page-major-kv-layout", lambda c: c.enable_page_major_kv_layout),
    ("--enable-hisparse", lambda c: c.enable_hisparse),
    ("--enable-two-batch-overlap", lambda c: c.enable_two_batch_overlap),
    ("--enable-single-batch-overlap", lambda c: c.enable_single_batch_overlap),
    ("--enable-pdmux", lambda c: c.enable_pdmux),
    ("--enable-mixed-chunk", lambda c: c.enable_mixed_chunk),
    ("--enable-lora (and --lora-paths)", lambda c: bool(c.enable_lora or c.lora_paths)),
    ("--moe-dense-tp-size", lambda c: c.moe_dense_tp_size is not None),
    ("--moe-a2a-backend", lambda c: c.moe_a2a_backend != "none"),
    ("--tokenizer-worker-num above 1 (its workers load no plugins)", lambda c: c.tokenizer_worker_num > 1),
    ("--enable-deterministic-inference", lambda c: c.enable_deterministic_inference),
    ("--enable-flexkv", lambda c: c.enable_flexkv),
    ("--enable-unified-cache-external-linker", lambda c: c.enable_unified_cache_external_linker),
    ("--enable-session-radix-cache", lambda c: c.enable_session_radix_cache),
    ("--disable-hybrid-swa-memory", lambda c: c.disable_hybrid_swa_memory),
    ("--enable-decoder-swa-bounded-replay", lambda c: bool(c.enable_decoder_swa_bounded_replay)),
    ("--enable-attn-tp-input-scattered", lambda c: c.enable_attn_tp_input_scattered),
    ("--enable-torch-compile", lambda c: c.enable_torch_compile),
    ("--kv-canary", lambda c: c.kv_canary != "none"),
    ("--decoupled-spec-role", lambda c: c.decoupled_spec_role != "null"),
    ("--enable-pd-role-switch", lambda c: c.enable_pd_role_switch),
    ("--speculative-draft-window-size", lambda c: c.speculative_draft_window_size is not None),
    ("--speculative-draft-kv-cache-dtype", lambda c: c.speculative_draft_kv_cache_dtype is not None),
    ("--enable-multi-layer-eagle", lambda c: c.enable_multi_layer_eagle),
    ("--speculative-adaptive", lambda c: c.speculative_adaptive),
    ("--speculative-use-rejection-sampling", lambda c: c.speculative_use_rejection_sampling),
    (
        "--speculative-accept-threshold-single/-acc below 1 (it accepts tokens that the target would not)",
        lambda c: c.speculative_accept_threshold_single < 1 or c.speculative_accept_threshold_acc < 1,
    ),
    ("--enable-watermark", lambda c: c.enable_watermark),
    ("--speculative-token-map", lambda c: bool(c.speculative_token_map)),
    (
        "--speculative-draft-attention-backend",
        lambda c: c.speculative_draft_attention_backend not in (None, BACKEND),
    ),
    ("--enable-streaming-session", lambda c: c.enable_streaming_session),
    ("SGLANG_ENABLE_OVERLAP_PLAN_STREAM=1", lambda c: _env_flag("SGLANG_ENABLE_OVERLAP_PLAN_STREAM")),
    ("SGLANG_OPT_USE_ONLINE_COMPRESS=1", lambda c: _env_flag("SGLANG_OPT_USE_ONLINE_COMPRESS")),
    ("SGLANG_SIMULATE_ACC_LEN", lambda c: float(os.environ.get("SGLANG_SIMULATE_ACC_LEN") or 0) > 0),
)


def _env_flag(name: str) -> bool:
    return os.environ.get(name, "").lower() in ("1", "true", "t", "yes", "y", "on")


def backends_of(server_args: Any) -> tuple[str | None, str | None, str | None]:
    """The three attention backend flags as the user typed them."""
    return (
        server_args.attention_backend,
        server_args.prefill_attention_backend,
        server_args.decode_attention_backend,
    )


def asks_for_tree(server_args: Any) -> bool:
    """True where any attention backend flag names dsv4_tree."""
    return BACKEND in backends_of(server_args)


def refusals(cfg: Any, typed: tuple[str | None, str | None, str | None], *, arch35: bool) -> list[str]:
    """Every reason why this configuration cannot run, one line each; empty means it can.

    cfg: resolved SGLang server arguments. typed: ``backends_of`` the arguments as typed. arch35: an A5 card.
    """
    reasons = []
    if any(backend not in (BACKEND, None) for backend in typed):
        reasons.append(
            f"mixed attention backends {typed}: pass --attention-backend {BACKEND} alone, or {BACKEND} for "
            "--prefill-attention-backend and --decode-attention-backend too"
        )
    if not str(cfg.device).startswith("npu"):
        reasons.append(f"--device {cfg.device}: {BACKEND} runs on --device npu")
    if cfg.page_size not in (None, 128):
        reasons.append(f"--page-size {cfg.page_size}: DeepSeek-V4 on Ascend has pages of 128, pass --page-size 128")
    if arch35:
        reasons.append("Atlas A5: its compressor addresses one ring per request, which cannot hold siblings; use A2/A3")
    if cfg.speculative_algorithm is not None:
        reasons += _spec_refusals(cfg)
        reasons += [f"{flag} is not supported with {BACKEND}, drop it" for flag, isset in _UNSUPPORTED if isset(cfg)]
        reasons += _environment_refusals(cfg)
    return reasons


def _environment_refusals(cfg: Any) -> list[str]:
    try:
        TreeConfig.of_shape(
            cfg.speculative_num_draft_tokens or 2, cfg.speculative_num_steps or 1, cfg.speculative_eagle_topk or 2
        )
        check_every()
        stale_history()
        score_exponent()
        # what is no number is refused with its flag
        shape = cfg.speculative_num_draft_tokens, cfg.speculative_num_steps, cfg.speculative_eagle_topk
        table = shape_table(*shape) if all(shape) else None
    except ValueError as error:
        return [str(error)]
    if table is not None and attention_dp(cfg):
        return [
            f"{ENV_SHAPES} with attention data parallelism: ranks would draft and verify different shapes, unset it"
        ]
    return []


_probed_block_rows: int | None = None


def settle_block_rows(block_rows: int) -> None:
    """Keep the block size that the start-up probe found to work for the rest of this process."""
    global _probed_block_rows
    assert block_rows in BLOCK_ROWS, block_rows
    _probed_block_rows = block_rows


def tree_config() -> TreeConfig:
    """The config of this process: SGLang's published speculative settings, and the probed block size once known."""
    from sglang.srt.runtime_context import get_spec

    spec = get_spec()
    config = TreeConfig.of_shape(
        int(spec.speculative_num_draft_tokens), int(spec.speculative_num_steps), int(spec.speculative_eagle_topk)
    )
    return config if _probed_block_rows is None else replace(config, block_rows=_probed_block_rows)


def tree_active() -> bool:
    """True in a process whose resolved backend is dsv4_tree and which speculates (False before configuration)."""
    from sglang.srt.runtime_context import attention_backends, get_spec

    try:
        return BACKEND in attention_backends() and get_spec().speculative_algorithm is not None
    except ValueError:  # SGLang has not published its configuration in this process yet
        return False
