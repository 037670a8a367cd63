"""Every hook of the plugin."""

from __future__ import annotations

from dsv4_npu_tree.hooks.arg_groups import deepseek_v4_hook, speculative_hook
from dsv4_npu_tree.hooks.hardware_backend.npu.dsv4 import dsv4_common_hooks, dsv4_rope
from dsv4_npu_tree.hooks.kernels.ops.speculative import spec_tree
from dsv4_npu_tree.hooks.managers import schedule_batch, tokenizer_manager
from dsv4_npu_tree.hooks.managers.scheduler_components import batch_result_processor, weight_updater
from dsv4_npu_tree.hooks.mem_cache import allocation_sizing, deepseek_v4_memory_pool, kv_cache_configurator
from dsv4_npu_tree.hooks.model_executor import pool_configurator
from dsv4_npu_tree.hooks.registry import Hook
from dsv4_npu_tree.hooks.speculative import (
    draft_utils,
    eagle_utils,
    eagle_worker_common,
    eagle_worker_v2,
    spec_utils,
)
from dsv4_npu_tree.hooks.utils import common

_MODULES = (
    deepseek_v4_hook,
    speculative_hook,
    dsv4_common_hooks,
    dsv4_rope,
    spec_tree,
    allocation_sizing,
    deepseek_v4_memory_pool,
    kv_cache_configurator,
    pool_configurator,
    draft_utils,
    eagle_utils,
    eagle_worker_common,
    eagle_worker_v2,
    spec_utils,
    schedule_batch,
    tokenizer_manager,
    batch_result_processor,
    weight_updater,
    common,
)


def all_hooks() -> list[Hook]:
    return [hook for module in _MODULES for hook in module.HOOKS]
