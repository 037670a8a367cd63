"""The ``npu::`` and ``custom::`` ops of SGLang's DeepSeek-V4 path, on CPU.

Each op checks what a card checks, raises where a card would refuse or leave the result undefined, accumulates in
double and rounds once, so that a row's result never depends on the other rows of the call.
"""

import importlib

import torch

_MODULES = (
    "activation",
    "attention",
    "attention_metadata",
    "cache",
    "compressor",
    "grouped_matmul",
    "hyper_connection",
    "indexer",
    "norm",
    "quantization",
    "rope",
    "routing",
    "sampling",
    "tree",
)


def load() -> None:
    """Register every op."""
    for name in _MODULES:
        importlib.import_module(f"torch_npu.ops.{name}")


def lookup(name: str):
    """``torch.ops.npu.<name>``, or a function that raises when called."""
    try:
        return getattr(torch.ops.npu, name)
    except AttributeError:
        pass

    def missing(*_, **__):
        raise NotImplementedError(f"npu twin: torch_npu.{name} is not modelled")

    missing.__name__ = name
    return missing
