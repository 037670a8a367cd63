"""The `torch.ops.dsv4_tree` namespace: one schema per op, any number of implementations behind it.

An op is defined once per process for the dispatch keys CPU and PrivateUse1 (the key of `npu` tensors). Both keys call
the implementation that is selected at the time of the call, so a kernel can take over from the torch implementation
without touching schema or callers:

    define("tree_build(Tensor parent_list, ...) -> ...", impl)      # the torch implementation, called "reference"
    provide("tree_build", "PrivateUse1", kernel, name="ascendc")    # later, when the kernel library is loaded

`DSV4_TREE_OPS=reference` keeps every op on its torch implementation; unset, the last one provided for the key is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch

NAMESPACE = "dsv4_tree"
KEYS = ("CPU", "PrivateUse1")
REFERENCE = "reference"
SELECTION_VARIABLE = "DSV4_TREE_OPS"

# A torch namespace can be DEFined once per process, a Python module can be executed twice (reload, test isolation). The
# state therefore hangs on torch itself, where it lives exactly as long as the namespace does.
_SLOT = "_dsv4_tree_registry"


class _Registry:
    """What one process knows of the namespace: the library handle, schemas, implementations by op, key and name."""

    def __init__(self) -> None:
        self.library = torch.library.Library(NAMESPACE, "DEF")
        self.schemas: dict[str, str] = {}
        self.implementations: dict[tuple[str, str], dict[str, Callable[..., Any]]] = {}

    def selected(self, op: str, key: str) -> Callable[..., Any]:
        known = self.implementations[op, key]
        wanted = os.environ.get(SELECTION_VARIABLE)
        if not wanted:
            return next(reversed(known.values()))
        if wanted not in known:
            raise RuntimeError(
                f"{SELECTION_VARIABLE}={wanted} names no implementation of {NAMESPACE}::{op} for {key}; "
                f"choose one of {sorted(known)} or unset the variable"
            )
        return known[wanted]


def _registry() -> _Registry:
    registry = getattr(torch.library, _SLOT, None)
    if registry is None:
        registry = _Registry()
        setattr(torch.library, _SLOT, registry)
    return registry


def define(schema: str, impl: Callable[..., Any]) -> None:
    """Define an op by its schema (without namespace) with `impl` as the torch implementation for both keys.

    Defining the same schema again only replaces `impl`. Another schema under a known name raises ValueError.
    """
    registry = _registry()
    op = schema.split("(", 1)[0].strip()
    known = registry.schemas.get(op)
    if known is not None and known != schema:
        raise ValueError(f"{NAMESPACE}::{op} is already defined as {known!r}; keep to that schema, not {schema!r}")
    if known is None:
        registry.library.define(schema)
        registry.schemas[op] = schema
        for key in KEYS:
            registry.implementations[op, key] = {}
            registry.library.impl(op, _dispatcher(registry, op, key), key)
    for key in KEYS:
        registry.implementations[op, key][REFERENCE] = impl


def provide(op: str, key: str, impl: Callable[..., Any], name: str) -> None:
    """Add implementation `name` of a defined op for one dispatch key; it becomes the default of that key."""
    registry = _registry()
    if (op, key) not in registry.implementations:
        raise ValueError(f"{NAMESPACE}::{op} is not defined for {key}; define it first (keys: {', '.join(KEYS)})")
    known = registry.implementations[op, key]
    known.pop(name, None)
    known[name] = impl


def selection() -> dict[str, dict[str, str]]:
    """Per op and dispatch key, the name of the implementation that a call would run now. Raises RuntimeError where
    `DSV4_TREE_OPS` names none."""
    registry = _registry()
    chosen: dict[str, dict[str, str]] = {op: {} for op in registry.schemas}
    for (op, key), known in registry.implementations.items():
        running = registry.selected(op, key)
        chosen[op][key] = next(name for name, impl in known.items() if impl is running)
    return chosen


def _dispatcher(registry: _Registry, op: str, key: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return registry.selected(op, key)(*args, **kwargs)

    return call
