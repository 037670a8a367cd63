"""sglang.srt.hardware_backend.npu.dsv4.dsv4_memory_pool: build the pool tensors with arena rows at their end.

This upstream module imports torch_npu, so it is patched while a pool is being built and never as a hook target.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from dsv4_npu_tree.config import TreeConfig
from dsv4_npu_tree.paging.arena import Arena, Space, arena_pages, space_of


class ArenaBuild:
    """Grows the buffers of one pool while it is built, and remembers where each arena starts.

    spaces: by ratio (1, 4, 128).
    """

    def __init__(self, config: TreeConfig, requests: int, branches: int):
        self.config, self.requests, self.branches = config, requests, branches
        self.spaces: dict[int, Space] = {}

    def extra_pages(self, ratio: int, page: int, known_pages: int) -> int:
        space = space_of(ratio, page, self.config, self.branches)
        self.spaces[ratio] = replace(space, base=known_pages * page)
        return arena_pages(space, self.requests, page)

    def arena(self) -> Arena:
        return Arena(self.requests, self.spaces[1], self.spaces.get(4), self.spaces.get(128))


@contextmanager
def growing_pools(build: ArenaBuild) -> Iterator[None]:
    """Inside, NPU DSV4 pools come out with the arena's pages behind their own."""
    from sglang.srt.constants import GPU_MEMORY_TYPE_KV_CACHE
    from sglang.srt.hardware_backend.npu.dsv4.dsv4_memory_pool import (
        DSV4NPUTokenToKVPool,
        NPUDeepSeekV4IndexerPool,
        NPUDeepSeekV4SingleKVPool,
    )

    create_buffer = NPUDeepSeekV4SingleKVPool.create_buffer
    create_indexer = NPUDeepSeekV4IndexerPool._create_buffer
    make_kv_pool = DSV4NPUTokenToKVPool._make_kv_pool
    ratio_in_build: list[int] = []

    def make_grown_kv_pool(self, **kwargs):
        page, whole = kwargs["page_size"], kwargs["global_page_size"]
        ratio_in_build.append(whole // page if page * 4 == whole or page * 128 == whole else 1)
        try:
            return make_kv_pool(self, **kwargs)
        finally:
            ratio_in_build.pop()

    def create_grown_buffer(self, *, num_pages):
        page, size = self.kernel_page_size, self.size
        known = (size + page + 1) // page  # create_buffer's own page count
        extra = build.extra_pages(ratio_in_build[-1], page, known)
        self.size = size + extra * page
        try:
            buffer = create_buffer(self, num_pages=num_pages)
        finally:
            self.size = size
        if buffer.shape[0] != known + extra:
            raise RuntimeError(
                f"dsv4_tree: a KV buffer has {buffer.shape[0]} pages, expected {known} and {extra} for the arena"
            )
        return buffer

    def create_grown_indexer(self):
        create_indexer(self)
        page = self._kernel_page_size
        known = self.index_k_buffer[0].shape[0]
        extra = build.extra_pages(4, page, known)
        with self.memory_saver_adapter.region(GPU_MEMORY_TYPE_KV_CACHE):
            for name in ("index_k_buffer", "index_scale_buffer"):
                shape, dtype, layers = getattr(self, name)[0].shape[1:], getattr(self, name)[0].dtype, self.layer_num
                setattr(self, name, None)  # release before the larger ones are made
                grown = [torch.zeros(known + extra, *shape, dtype=dtype, device=self.device) for _ in range(layers)]
                setattr(self, name, grown)

    NPUDeepSeekV4SingleKVPool.create_buffer = create_grown_buffer
    NPUDeepSeekV4IndexerPool._create_buffer = create_grown_indexer
    DSV4NPUTokenToKVPool._make_kv_pool = make_grown_kv_pool
    try:
        yield
    finally:
        NPUDeepSeekV4SingleKVPool.create_buffer = create_buffer
        NPUDeepSeekV4IndexerPool._create_buffer = create_indexer
        DSV4NPUTokenToKVPool._make_kv_pool = make_kv_pool
