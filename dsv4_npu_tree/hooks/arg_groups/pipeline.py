"""sglang.srt.arg_groups.pipeline: resolve and refuse the configuration before weights load."""

from __future__ import annotations

import logging

from dsv4_npu_tree import BACKEND
from dsv4_npu_tree.config import DEFAULT_RUNNING_REQUESTS, TreeConfig, asks_for_tree, backends_of, refusals
from dsv4_npu_tree.hooks.registry import check_installed
from dsv4_npu_tree.paging.budget import MIB, ArenaBudget, ModelRows

logger = logging.getLogger(__name__)
_SOURCE = "dsv4_npu_tree"
_BACKEND_FIELDS = ("attention_backend", "prefill_attention_backend", "decode_attention_backend")


def _is_deepseek_v4(server_args) -> bool:
    from sglang.srt.arg_groups.model_override_base import model_config_of

    return "DeepseekV4ForCausalLM" in model_config_of(server_args).hf_config.architectures


def _refuse(server_args) -> None:
    """Raise ValueError with one line per reason if dsv4_tree cannot run as configured."""
    from sglang.srt.arg_groups.model_override_base import resolving_view
    from sglang.srt.hardware_backend.npu.utils import is_npu_arch35

    reasons = refusals(resolving_view(server_args), backends_of(server_args), arch35=is_npu_arch35())
    if not _is_deepseek_v4(server_args):
        reasons.insert(0, f"--attention-backend {BACKEND} serves DeepSeek-V4 only")
    if reasons:
        raise ValueError(f"{BACKEND} cannot run with these arguments:\n  " + "\n  ".join(reasons))


def _point_to_tree(server_args) -> None:
    """Upstream refuses topk > 1 for DeepSeek-V4 without saying what to change; say it."""
    topk = server_args.speculative_eagle_topk
    if server_args.speculative_algorithm is not None and topk and topk > 1 and _is_deepseek_v4(server_args):
        raise ValueError(
            f"--speculative-eagle-topk {topk} on DeepSeek-V4 needs --attention-backend {BACKEND} "
            "(dsv4 verifies chains only: pass --speculative-eagle-topk 1 for it)"
        )


def _refuse_arena(server_args) -> None:
    """Raise ValueError if the arena alone exceeds what --mem-fraction-static gives; the exact check, against what is
    left after the weights, follows when the pools are sized."""
    from sglang.srt.arg_groups.model_override_base import model_config_of, resolving_view
    from sglang.srt.utils.common import get_device_memory_capacity

    cfg, model = resolving_view(server_args), model_config_of(server_args)
    capacity = get_device_memory_capacity("npu")
    if capacity is None or cfg.mem_fraction_static is None or cfg.max_running_requests is None:
        return
    running = max(1, cfg.max_running_requests // cfg.attn_dp_size)
    config = TreeConfig.of_shape(
        cfg.speculative_num_draft_tokens, cfg.speculative_num_steps, cfg.speculative_eagle_topk
    )
    rows = ModelRows(
        tuple(model.compress_ratios[: model.num_hidden_layers]),
        model.qk_nope_head_dim + model.qk_rope_head_dim,
        model.index_head_dim,
        model.hidden_size,
    )
    budget = ArenaBudget.of(config, running + 1, rows, cfg.c128_page_size)
    reason = budget.refusal(capacity * MIB * cfg.mem_fraction_static, "the device memory share")
    if reason is not None:
        raise ValueError(reason)


def _disable_graphs(server_args) -> None:
    from sglang.srt.arg_groups.model_override_base import resolving_view
    from sglang.srt.arg_groups.overrides import declare_resolution
    from sglang.srt.model_executor.cuda_graph_config import Backend, Phase, with_phase

    config = resolving_view(server_args).cuda_graph_config
    if {config.decode.backend, config.prefill.backend} == {Backend.DISABLED}:
        return
    for phase in (Phase.DECODE, Phase.PREFILL):
        config = with_phase(config, phase, backend=Backend.DISABLED)
    declare_resolution(server_args, _SOURCE, cuda_graph_config=config, disable_cuda_graph=True)
    logger.warning("%s runs eagerly: NPU graph capture of trees is not there yet, graphs are switched off", BACKEND)


def _bound_running_requests(server_args) -> None:
    from sglang.srt.arg_groups.model_override_base import resolving_view
    from sglang.srt.arg_groups.overrides import declare_resolution

    cfg = resolving_view(server_args)
    if cfg.speculative_algorithm is None or cfg.max_running_requests is not None:
        return
    # SGLang has turned --dp-size with --enable-dp-attention into attn_dp_size by now.
    limit = DEFAULT_RUNNING_REQUESTS * cfg.attn_dp_size
    declare_resolution(server_args, _SOURCE, max_running_requests=limit)
    logger.info(
        "%s: --max-running-requests defaults to %d (%d per attention-DP rank, the arena grows with it)",
        BACKEND,
        limit,
        DEFAULT_RUNNING_REQUESTS,
    )


def model_overrides(server_args, hf_config) -> dict:
    """Override provider: keep the backend name that the user typed."""
    return dict.fromkeys(_BACKEND_FIELDS, BACKEND) if asks_for_tree(server_args) else {}


def register(all_hooks) -> None:
    """Register the override provider and the resolution steps. all_hooks: callable returning every hook to check."""
    # The built-in provider registers when this module is imported; the last one wins, so import it first.
    import sglang.srt.arg_groups.overrides  # noqa: F401
    from sglang.srt.arg_groups.model_override_base import register_model_override
    from sglang.srt.arg_groups.resolution_hooks import register_resolution_hook

    register_model_override("DeepseekV4ForCausalLM")(model_overrides)

    @register_resolution_hook("handle_model_specific_adjustments")
    def _check_hooks(server_args, previous):
        if asks_for_tree(server_args):
            check_installed(all_hooks())
            _refuse(server_args)
            _bound_running_requests(server_args)
        elif str(server_args.device).startswith("npu"):
            _point_to_tree(server_args)
        previous(server_args)

    @register_resolution_hook("handle_speculative_decoding")
    def _refuse_shape(server_args, previous):
        previous(server_args)
        if asks_for_tree(server_args):
            _refuse(server_args)

    @register_resolution_hook("handle_other_validations")
    def _settle(server_args, previous):
        previous(server_args)
        from sglang.srt.arg_groups.model_override_base import resolving_view

        if asks_for_tree(server_args) and resolving_view(server_args).speculative_algorithm is not None:
            _refuse_arena(server_args)
            _disable_graphs(server_args)
