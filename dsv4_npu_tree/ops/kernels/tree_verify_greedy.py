"""tree_verify_greedy through the C ABI (`ascendc_kernels/tree_verify_greedy/op_host/tree_verify_greedy.h`)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from torch import Tensor

from dsv4_npu_tree.ops.kernels.library import KernelLibrary

_TENSORS = (
    "predicts",
    "accept_index",
    "accept_token_num",
    "candidates",
    "retrieve_index",
    "retrieve_next_token",
    "retrieve_next_sibling",
    "target_predict",
)
_WRITTEN = 3


class Args(ctypes.Structure):
    _fields_ = (
        [(name, ctypes.c_void_p) for name in _TENSORS]
        + [(f"{name}_bytes", ctypes.c_int64) for name in _TENSORS]
        + [(name, ctypes.c_int64) for name in ("bs", "n", "columns")]
    )


def implementation(library: KernelLibrary) -> Callable[..., None]:
    """The function behind `torch.ops.dsv4_tree.tree_verify_greedy` for tensors whose memory `library` can reach."""

    def tree_verify_greedy(*tensors: Tensor) -> None:
        launch(library, *tensors)

    return tree_verify_greedy


def launch(library: KernelLibrary, *tensors: Tensor, stream: int = 0) -> None:
    """Writes and reads the tensors of `ops.tree_verify_greedy.tree_verify_greedy`, in its order."""
    whole = [tensor.contiguous() for tensor in tensors]
    bs, n = whole[3].shape
    args = Args(
        *(tensor.data_ptr() for tensor in whole),
        *(tensor.element_size() for tensor in whole),
        bs,
        n,
        whole[1].shape[1],
    )
    library.call("tree_verify_greedy", args, stream)
    for given, written in zip(tensors[:_WRITTEN], whole):
        if written is not given:
            given.copy_(written)
