"""kv_relocate through the C ABI (`ascendc_kernels/kv_relocate/op_host/kv_relocate.h`)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import torch
from torch import Tensor

from dsv4_npu_tree.ops.kernels.library import KernelLibrary


class Buffer(ctypes.Structure):
    _fields_ = [("src", ctypes.c_uint64), ("dst", ctypes.c_uint64)] + [
        (name, ctypes.c_int64) for name in ("src_rows", "dst_rows", "row_bytes", "move_set")
    ]


class Set(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("runs", "max_rows", "runs_per_job")]


class Args(ctypes.Structure):
    _fields_ = [
        ("buffers", ctypes.POINTER(Buffer)),
        ("buffer_count", ctypes.c_int64),
        ("sets", ctypes.POINTER(Set)),
        ("set_count", ctypes.c_int64),
        ("runs", ctypes.c_void_p),
        ("run_count", ctypes.c_int64),
        ("plan", ctypes.c_void_p),
    ]


def implementation(library: KernelLibrary) -> Callable[..., None]:
    """The function behind `torch.ops.dsv4_tree.kv_relocate` for tensors whose memory `library` can reach."""

    def kv_relocate(*args) -> None:
        launch(library, *args)

    return kv_relocate


def launch(
    library: KernelLibrary,
    src_buffers: list[Tensor],
    dst_buffers: list[Tensor],
    move_set: list[int],
    src: list[Tensor],
    dst: list[Tensor],
    rows: list[Tensor],
    max_rows: list[int],
    runs_per_job: list[int],
) -> None:
    """Arguments of the torch op. ValueError for a buffer whose rows do not follow each other without gaps.

    The host builds plan each call; a card gets its plan from the torch binding, which keeps it in device memory.
    """
    for i, tensor in enumerate((*src_buffers, *dst_buffers)):
        if not tensor.is_contiguous():
            raise ValueError(
                f"kv_relocate buffer {i % len(src_buffers)} has strides {tensor.stride()} for shape "
                f"{tuple(tensor.shape)}; pass a contiguous [rows, width] view"
            )
    runs = torch.cat((*src, *dst, *rows))
    buffers = (Buffer * len(src_buffers))(
        *(
            Buffer(
                source.data_ptr(),
                target.data_ptr(),
                source.shape[0],
                target.shape[0],
                source.shape[1] * source.element_size(),
                index,
            )
            for source, target, index in zip(src_buffers, dst_buffers, move_set)
        )
    )
    sets = (Set * len(src))(*(Set(one.numel(), most, group) for one, most, group in zip(src, max_rows, runs_per_job)))
    args = Args(buffers, len(buffers), sets, len(sets), runs.data_ptr(), runs.numel() // 3, None)
    library.call("kv_relocate", args)
