"""A real ModelRunner of SGLang in this process, on the CPU twin of an Ascend card."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
CHECKPOINT = ROOT / "tools" / "tiny_checkpoint" / "model"


def checkpoint() -> str | None:
    """The tiny checkpoint: DSV4_TREE_CHECKPOINT, else the one that tools/tiny_checkpoint writes; None if absent."""
    for candidate in (os.environ.get("DSV4_TREE_CHECKPOINT"), str(CHECKPOINT)):
        if candidate and (Path(candidate) / "config.json").is_file():
            return candidate
    return None


@dataclass(frozen=True)
class Shape:
    """Speculative settings and arena settings of a rig; the pools are sized for the tests, not for a server."""

    n: int = 8
    steps: int = 3
    topk: int = 4
    block_rows: int = 16
    max_branches: int | None = None
    backend: str = "dsv4_tree"
    requests: int = 16
    tokens: int = 32768


def server_args(shape: Shape, model: str):
    """Resolved SGLang arguments, as `launch_server` would resolve them."""
    from sglang.srt.plugins import load_plugins

    load_plugins()
    from sglang.srt.server_args import ServerArgs

    os.environ["DSV4_TREE_BLOCK_ROWS"] = str(shape.block_rows)
    os.environ.pop("DSV4_TREE_MAX_BRANCHES", None)
    if shape.max_branches is not None:
        os.environ["DSV4_TREE_MAX_BRANCHES"] = str(shape.max_branches)
    args = ServerArgs(
        model_path=model,
        device="npu",
        attention_backend=shape.backend,
        page_size=128,
        disable_cuda_graph=True,
        disable_overlap_schedule=True,
        mem_fraction_static=0.5,
        max_running_requests=shape.requests,
        max_total_tokens=shape.tokens,
        swa_full_tokens_ratio=0.3,  # SWA slots differ from full slots
        context_length=4096,
        chunked_prefill_size=4096,
        log_level="warning",
        speculative_algorithm="EAGLE",
        speculative_num_steps=shape.steps,
        speculative_eagle_topk=shape.topk,
        speculative_num_draft_tokens=shape.n,
    )
    args.resolve_once()
    return args


_process_ready = False


def _forget_probed_block() -> None:
    """A server probes its block size once a process; the next rig asks for another one."""
    from dsv4_npu_tree import config
    from dsv4_npu_tree.hooks.model_executor import pool_configurator

    config._probed_block_rows = None
    pool_configurator._probe.cache_clear()


def launch(shape: Shape, model: str):
    """Publish the arguments and build the target ModelRunner with its pools and its attention backend."""
    global _process_ready
    args = server_args(shape, model)
    _forget_probed_block()
    from sglang.srt.arg_groups.overrides import resolving_view
    from sglang.srt.configs.model_config import ModelConfig
    from sglang.srt.distributed import bootstrap
    from sglang.srt.layers.moe import initialize_moe_config
    from sglang.srt.layers.quantization.fp4_utils import initialize_fp4_gemm_config
    from sglang.srt.layers.quantization.fp8_utils import initialize_fp8_gemm_config
    from sglang.srt.layers.quantization.unquant import initialize_bf16_gemm_config
    from sglang.srt.model_executor.model_runner import ModelRunner
    from sglang.srt.runtime_context import SpawnRanks, get_device, get_resources, publish, spawn_world_rank
    from sglang.srt.server_args import PortArgs

    publish(
        args,
        role="scheduler",
        ranks=SpawnRanks(world_rank=spawn_world_rank(args, tp_rank=0, pp_rank=0), gpu_id=0),
    )
    config = ModelConfig.from_server_args(args)
    port = PortArgs.init_new(args).nccl_port
    if not _process_ready:
        initialize_moe_config()
        initialize_fp8_gemm_config()
        initialize_bf16_gemm_config()
        initialize_fp4_gemm_config()
        bootstrap.init_parallel_runtime(server_args=args, device=get_device().device, dist_port=port)
        _process_ready = True
    get_resources().expert_location_metadata = None  # of the previous runner of this process
    bootstrap.init_layer_runtime(model_config=config)
    runner = ModelRunner(
        model_config=config,
        mem_fraction_static=resolving_view(args).mem_fraction_static,
        gpu_id=0,
        nccl_port=port,
        server_args=args,
    )
    with torch.no_grad():
        runner.alloc_memory_pool()
        runner.init_attention_backends()
        runner.init_cuda_graphs()
    return runner
