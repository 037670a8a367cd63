"""kv_relocate through the C ABI (`ascendc_kernels/kv_relocate/op_host/kv_relocate.h`)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from torch import Tensor

from dsv4_npu_tree.ops.kernels.library import KernelLibrary


class Buffer(ctypes.Structure):
    _fields_ = [("src", ctypes.c_uint64), ("dst", ctypes.c_uint64)] + [
        (name, ctypes.c_int64) for name in ("src_rows", "dst_rows", "row_bytes", "move_set")
    ]


class Set(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("src", "dst", "rows")] + [
        (name, ctypes.c_int64) for name in ("runs", "max_rows", "runs_per_job")
    ]


class Args(ctypes.Structure):
    _fields_ = [
        ("buffers", ctypes.POINTER(Buffer)),
        ("buffer_count", ctypes.c_int64),
        ("sets", ctypes.POINTER(Set)),
        ("set_count", ctypes.c_int64),
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

    Runs are read where they are; only a run tensor with gaps is copied. The host builds plan each call; a card gets its
    plan from the torch binding, which keeps it in device memory.
    """
    for i, tensor in enumerate((*src_buffers, *dst_buffers)):
        if not tensor.is_contiguous():
            raise ValueError(
                f"kv_relocate buffer {i % len(src_buffers)} has strides {tensor.stride()} for shape "
                f"{tuple(tensor.shape)}; pass a contiguous [rows, width] view"
            )
    columns = [[run.contiguous() for run in runs] for runs in zip(src, dst, rows)]  # alive until the kernel is done
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
    sets = (Set * len(columns))(
        *(
            Set(*(column.data_ptr() for column in runs), runs[0].numel(), most, group)
            for runs, most, group in zip(columns, max_rows, runs_per_job)
        )
    )
    library.call("kv_relocate", Args(buffers, len(buffers), sets, len(sets), None))
