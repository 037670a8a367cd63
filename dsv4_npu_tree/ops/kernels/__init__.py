"""The Ascend C kernels behind `torch.ops.dsv4_tree`. Importing this package loads them.

They become the implementation "ascendc" of the ops. With a card that holds for npu tensors and the kernels come from
`libdsv4_kernels_torch.so`, which registers them in a namespace of its own. Anywhere else the host build of the same
sources serves CPU and npu tensors: the CPU twin's npu tensors are host memory.
`DSV4_TREE_OPS=reference` keeps the torch implementations, `DSV4_TREE_KERNELS` chooses another library.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
from collections.abc import Callable
from typing import Any

import torch

from dsv4_npu_tree.ops.kernels.library import FOLDER, TORCH_LIBRARY, KernelLibrary, library_path
from dsv4_npu_tree.ops.library import KEYS, REFERENCE, SELECTION_VARIABLE, provide

NAME = "ascendc"
CARD_NAMESPACE, CARD_KEY = "dsv4_tree_npu", "PrivateUse1"
OPS = ("tree_build", "tree_verify_greedy", "kv_relocate", "tree_compress")

_loaded: KernelLibrary | None = None
_serving: tuple[str, ...] = ()
_state = "no kernel library in this installation"


def implementation(op: str, library: KernelLibrary) -> Callable[..., Any] | None:
    """The adapter of `op` over `library`; None where this package has no adapter or the library no kernel."""
    module = f"{__name__}.{op}"
    if not library.has(op) or importlib.util.find_spec(module) is None:
        return None
    return importlib.import_module(module).implementation(library)


def on_card() -> bool:
    """Whether npu tensors are device memory: torch_npu is installed and is not the CPU twin."""
    if importlib.util.find_spec("torch_npu") is None:
        return False
    return not hasattr(importlib.import_module("torch_npu"), "_twin")


def take_over(namespace: str, key: str) -> tuple[str, ...]:
    """Provide the ops of a loaded torch library as the kernels of one dispatch key. RuntimeError if one is missing."""
    for op in OPS:
        if not hasattr(getattr(torch.ops, namespace), op):
            raise RuntimeError(f"{TORCH_LIBRARY} has no {namespace}::{op}; rebuild the kernels with `pip install .`")
        provide(op, key, getattr(getattr(torch.ops, namespace), op).default, name=NAME)
    return OPS


def load() -> None:
    """Load the kernels once per process. The ops are defined in any case; without a library or under
    DSV4_TREE_OPS=reference they stay on their torch implementations."""
    global _loaded, _serving, _state
    for op in OPS:
        importlib.import_module(f"dsv4_npu_tree.ops.{op}")  # defines the op
    if os.environ.get(SELECTION_VARIABLE) == REFERENCE:
        _state = f"not used ({SELECTION_VARIABLE}={REFERENCE})"
        return
    if on_card():
        binding = FOLDER / TORCH_LIBRARY
        if binding.is_file():
            torch.ops.load_library(str(binding))
            _serving, _state = take_over(CARD_NAMESPACE, CARD_KEY), f"npu, {binding}"
        return
    path = library_path()
    if path is None:
        return
    library = KernelLibrary(path)
    serving = []
    for op in OPS:
        adapter = implementation(op, library)
        if adapter is not None:
            for key in KEYS:
                provide(op, key, adapter, name=NAME)
            serving.append(op)
    _loaded, _serving, _state = library, tuple(serving), f"{library.build}, {path}"


def describe() -> str:
    """One line for people: the build, its file, and the ops that run on it."""
    if not _serving:
        return f"kernels: {_state}; every op runs on its torch implementation"
    others = [op for op in OPS if op not in _serving]
    rest = f"; torch implementation: {', '.join(others)}" if others else ""
    return f"kernels: {_state}; used by {', '.join(_serving)}{rest}"


load()
logging.getLogger(__name__).info(describe())
