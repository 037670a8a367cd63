"""Scatter into caches, slot lists, tensor formats."""

import torch

from torch_npu.ops.limits import Limits
from torch_npu.ops.registry import npu_op


@npu_op("npu_scatter_nd_update_(Tensor(a!) self, Tensor indices, Tensor updates) -> Tensor(a!)")
def npu_scatter_nd_update_(target: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
    """target[indices] = updates, in place. indices: int ``[..., n]``, the last dimension addresses n leading
    dimensions of the target."""
    limits = Limits("npu.npu_scatter_nd_update_")
    limits.require(updates.dtype == target.dtype, "updates.dtype", updates.dtype, f"must be {target.dtype}")
    for axis in range(indices.shape[-1]):
        column = indices[..., axis]
        if column.numel():
            low, high = int(column.min()), int(column.max())
            limits.require(low >= 0 and high < target.shape[axis], "indices", (low, high), f"size {target.shape[axis]}")
    target[tuple(indices.long().unbind(-1))] = updates
    return target


@npu_op(
    "cache_loc_update(Tensor req_indices, Tensor token_pool, Tensor start_offset, Tensor end_offset, "
    "Tensor(a!) out_cache_loc) -> Tensor(a!)"
)
def cache_loc_update(
    requests: torch.Tensor,
    token_pool: torch.Tensor,
    start_offset: torch.Tensor,
    end_offset: torch.Tensor,
    out_cache_loc: torch.Tensor,
) -> torch.Tensor:
    """Slots ``token_pool[request, start:end]`` of each request, one after the other.

    token_pool: int32 ``[rows, columns]``. out_cache_loc: int32 ``[sum of lengths]``, written in place. At most 16 a
    request (a longer one overruns the kernel's buffer).
    """
    limits = Limits("npu.cache_loc_update")
    limits.require(out_cache_loc.dtype == torch.int32, "out_cache_loc.dtype", out_cache_loc.dtype, "must be int32")
    start, end = start_offset.long(), end_offset.long()
    lengths = end - start
    if lengths.numel() == 0:
        return out_cache_loc
    longest, total = int(lengths.max()), int(lengths.sum())
    limits.require(int(lengths.min()) >= 0 and longest <= 16, "end_offset - start_offset", longest, "must be in 0..16")
    limits.require(total <= out_cache_loc.numel(), "out_cache_loc.shape", tuple(out_cache_loc.shape), f"needs {total}")
    limits.require(int(end.max()) <= token_pool.shape[1], "end_offset", int(end.max()), "past the end of the pool row")
    row = torch.repeat_interleave(requests.long(), lengths)
    first = torch.repeat_interleave(start - (torch.cumsum(lengths, 0) - lengths), lengths)
    column = torch.arange(total) + first
    out_cache_loc.view(-1)[:total] = token_pool[row, column].to(torch.int32)
    return out_cache_loc


@npu_op("npu_format_cast(Tensor self, int acl_format, *, int? customize_dtype=None, int? input_dtype=None) -> Tensor")
def npu_format_cast(tensor: torch.Tensor, acl_format: int, *, customize_dtype=None, input_dtype=None) -> torch.Tensor:
    """A copy: private formats keep the logical values."""
    Limits("npu.npu_format_cast").require(customize_dtype is None, "customize_dtype", customize_dtype, "not modelled")
    return tensor.clone()
