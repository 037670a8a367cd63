"""Registration of ops: schema, npu kernel over CPU views, call counts."""

from collections import Counter
from collections.abc import Callable

import torch
from torch.library import Library

from torch_npu import _twin

calls: Counter[str] = Counter()
_libraries = {"npu": Library("npu", "FRAGMENT"), "custom": Library("custom", "FRAGMENT")}


def npu_op(schema: str) -> Callable:
    """Define ``torch.ops.npu.*``; the decorated function gets CPU views and returns CPU tensors."""
    return _define("npu", schema)


def custom_op(schema: str) -> Callable:
    """Define ``torch.ops.custom.*``; the decorated function gets CPU views and returns CPU tensors."""
    return _define("custom", schema)


def host_op(schema: str) -> Callable:
    """Define a ``torch.ops.npu.*`` that takes CPU tensors and returns npu tensors; npu arguments are refused."""
    library = _libraries["npu"]
    name = _name(schema)
    library.define(schema)

    def register(function):
        def kernel(*arguments, **options):
            calls[f"npu.{name}"] += 1
            return _to_npu(function(*arguments, **options))

        def refuse(*_, **__):
            raise RuntimeError(f"npu twin: npu.{name} reads host memory, its tensors must be on the CPU")

        library.impl(name, kernel, "CPU")
        library.impl(name, refuse, "PrivateUse1")
        return function

    return register


def _define(namespace: str, schema: str) -> Callable:
    library = _libraries[namespace]
    name = _name(schema)
    label = f"{namespace}.{name}"
    library.define(schema)

    def register(function):
        def kernel(*arguments, **options):
            calls[label] += 1
            result = function(
                *[_to_cpu(value) for value in arguments], **{key: _to_cpu(value) for key, value in options.items()}
            )
            return _to_npu(result)

        library.impl(name, kernel, "PrivateUse1")
        return function

    return register


def _name(schema: str) -> str:
    return schema[: schema.index("(")]


def _to_cpu(value):
    if isinstance(value, torch.Tensor):
        return _twin.cpu_view(value)
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], torch.Tensor):
        return [_twin.cpu_view(tensor) for tensor in value]
    return value


def _to_npu(result):
    if isinstance(result, torch.Tensor):
        return _twin.npu_view(result)
    if isinstance(result, (list, tuple)):
        return type(result)(_twin.npu_view(tensor) for tensor in result)
    return result
