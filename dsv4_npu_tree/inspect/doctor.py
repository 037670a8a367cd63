"""Does this installation fit: versions, device, op implementations, and every hook against the installed SGLang."""

from __future__ import annotations

import importlib
import logging
import pkgutil
import platform
from collections.abc import Iterator
from importlib import metadata

from dsv4_npu_tree import __version__

Findings = Iterator[tuple[bool, str]]


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def packages() -> Findings:
    """Versions of what the plugin stands on."""
    from dsv4_npu_tree.hooks.registry import TESTED_SGLANG

    yield True, f"dsv4-npu-tree {__version__}, Python {platform.python_version()}"
    torch = _installed("torch")
    yield torch is not None, f"torch {torch or 'is not installed'}"
    twin, real = _installed("npu-twin"), _installed("torch-npu")
    if twin:
        yield True, f"torch_npu {twin}, the CPU twin: results hold for a card as far as its ops behave like the twin's"
    else:
        yield real is not None, f"torch_npu {real or 'is not installed'}"
    sglang = _installed("sglang")
    yield sglang == TESTED_SGLANG, f"sglang {sglang or 'is not installed'} (tested: {TESTED_SGLANG})"


def device() -> Findings:
    """The card that torch sees."""
    try:
        import torch

        npu = torch.get_device_module("npu")
        available = npu.is_available()
        yield available, f"device npu: {npu.get_device_name() if available else 'none available'}"
    except Exception as error:
        yield False, f"device npu: torch knows none ({error})"


def operators() -> Findings:
    """Which implementation each `torch.ops.dsv4_tree` op runs on a card's tensors."""
    from dsv4_npu_tree import ops
    from dsv4_npu_tree.ops.library import selection

    try:
        for module in pkgutil.iter_modules(ops.__path__):
            importlib.import_module(f"{ops.__name__}.{module.name}")
        chosen = selection()
        library = importlib.import_module(f"{ops.__name__}.kernels").describe()
    except (ImportError, RuntimeError) as error:
        yield False, f"ops: {error}"
        return
    yield True, library
    names: dict[str, list[str]] = {}
    for op, keys in chosen.items():
        names.setdefault(keys["PrivateUse1"], []).append(op)
    for name, served in names.items():
        yield True, f"ops with implementation {name!r}: {', '.join(sorted(served))}"


def hooks() -> Findings:
    """Every function of SGLang that the plugin wraps must be there with the parameters it was written for."""
    from dsv4_npu_tree.hooks.catalog import all_hooks
    from dsv4_npu_tree.hooks.registry import HookError

    logging.disable(logging.WARNING)  # SGLang reports optional parts that are missing as it is imported
    known, faults = all_hooks(), []
    for hook in known:
        try:
            hook.verify()
        except HookError as error:
            faults.append(str(error))
    yield not faults, f"hooks: {len(known) - len(faults)} of {len(known)} fit the installed SGLang"
    yield from ((False, f"hook: {fault}") for fault in faults)
