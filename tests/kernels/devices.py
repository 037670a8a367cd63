"""The same calls of the tree kernels on the host layer and on a card: CPU tensors in, CPU tensors out."""

from __future__ import annotations

import importlib

import torch
from torch import Tensor

from dsv4_npu_tree.ops.kernels import tree_build as build_adapter
from dsv4_npu_tree.ops.kernels import tree_verify_greedy as verify_adapter
from dsv4_npu_tree.ops.kernels.library import KernelLibrary
from dsv4_npu_tree.ops.library import selection

Outputs = tuple[Tensor, ...]


def why_no_card() -> str | None:
    try:
        torch_npu = importlib.import_module("torch_npu")
    except ImportError as error:
        return f"no torch_npu: {error}"
    if hasattr(torch_npu, "_twin"):
        return "torch_npu is the CPU twin"
    return None if torch.npu.is_available() else "no NPU visible"


def kernels_serve_npu_tensors() -> None:
    """Loads the kernels; fails unless every op of an npu tensor runs on them: a torch implementation would pass too."""
    kernels = importlib.import_module("dsv4_npu_tree.ops.kernels")
    chosen = selection()
    serving = {op: chosen[op][kernels.CARD_KEY] for op in kernels.OPS}
    assert serving == dict.fromkeys(kernels.OPS, kernels.NAME), kernels.describe()


class Device:
    """What a test needs of a device."""

    cores: int | None = None
    """Of a host layer; None: changes from call to call. A card has its own."""

    def tree_build(self, tensors: Outputs, *shape: int) -> Outputs:
        """Nine outputs of the op; shape: topk, steps, n, max_branches."""
        raise NotImplementedError

    def tree_mask(self, tensors: Outputs, *shape: int, mask: Tensor, mode: int) -> Tensor:
        """`mask` after the kernel has written it in `mode`."""
        raise NotImplementedError

    def tree_verify_greedy(self, *tensors: Tensor) -> Outputs:
        """predicts, accept_index and accept_token_num after the op; the tensors given stay as they are."""
        raise NotImplementedError


class Host(Device):
    """The checking host library: a broken rule raises HazardError. Each call has another number and order of cores,
    unless `cores` is set."""

    def __init__(self, library: KernelLibrary, mode: str) -> None:
        self.library = library
        self.mode = mode
        self._calls = 0

    def _configure(self) -> None:
        self._calls += 1
        self.library.configure(self.mode, cores=self.cores or (1, 8, 3, 48)[self._calls % 4], seed=self._calls)

    def tree_build(self, tensors: Outputs, *shape: int) -> Outputs:
        self._configure()
        return build_adapter.launch(self.library, *tensors, *shape)

    def tree_mask(self, tensors: Outputs, *shape: int, mask: Tensor, mode: int) -> Tensor:
        self._configure()
        build_adapter.launch(self.library, *tensors, *shape, mask=mask, mask_mode=mode)
        return mask

    def tree_verify_greedy(self, *tensors: Tensor) -> Outputs:
        self._configure()
        written = [tensor.clone() for tensor in tensors[:3]]
        verify_adapter.launch(self.library, *written, *tensors[3:])
        return tuple(written)


class Card(Device):
    """An Ascend card: the torch ops with npu tensors."""

    def __init__(self) -> None:
        kernels_serve_npu_tensors()

    def tree_build(self, tensors: Outputs, *shape: int) -> Outputs:
        outputs = torch.ops.dsv4_tree.tree_build(*(tensor.npu() for tensor in tensors), *shape)
        return tuple(output.cpu() for output in outputs)

    def tree_mask(self, tensors: Outputs, *shape: int, mask: Tensor, mode: int) -> Tensor:
        on_card = mask.npu()
        torch.ops.dsv4_tree.tree_build(*(tensor.npu() for tensor in tensors), *shape, mask=on_card, mask_mode=mode)
        return on_card.cpu()

    def tree_verify_greedy(self, *tensors: Tensor) -> Outputs:
        moved = [tensor.npu() for tensor in tensors]
        torch.ops.dsv4_tree.tree_verify_greedy(*moved)
        return tuple(tensor.cpu() for tensor in moved[:3])
