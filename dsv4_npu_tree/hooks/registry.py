"""Hooks into SGLang functions: declared with the signature they were written for, checked before anything runs.

SGLang's plugin loader logs and swallows every exception, so a hook that fails to apply would leave a half-patched
server. ``check_installed`` is therefore called from places that SGLang itself calls when arguments are resolved and
when the backend is built; it names the first symbol that is missing, changed or not wrapped.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from dsv4_npu_tree.config import tree_active

TESTED_SGLANG = "0.5.23"


class HookError(RuntimeError):
    """An upstream symbol is not what this plugin was written for."""


@dataclass(frozen=True)
class Hook:
    """around(original, *args, **kwargs) replaces calls of ``target`` while dsv4_tree is active.

    parameters: the target's parameter names in SGLang 0.5.23. always: also act when dsv4_tree is not active yet (the
    hook then decides by itself; used where arguments are still being resolved).
    """

    target: str
    parameters: tuple[str, ...]
    around: Callable[..., Any]
    always: bool = False

    def resolve(self) -> Any:
        """The current attribute behind ``target``. Raises HookError."""
        try:
            return pkgutil.resolve_name(self.target)
        except (ImportError, AttributeError) as error:
            raise HookError(f"SGLang has no {self.target} ({error}); tested with sglang=={TESTED_SGLANG}") from error

    def verify(self) -> None:
        """Raise HookError where the target's parameters are not the known ones."""
        found = tuple(inspect.signature(inspect.unwrap(self.resolve())).parameters)
        if found != self.parameters:
            raise HookError(
                f"{self.target} takes {found} here, this plugin was written for {self.parameters}; "
                f"tested with sglang=={TESTED_SGLANG}"
            )

    def wrapper(self) -> Callable[..., Any]:
        """The AROUND callable given to SGLang: calls straight through while dsv4_tree is not active."""
        around, always = self.around, self.always

        def call(original, *args, **kwargs):
            if always or tree_active():
                return around(original, *args, **kwargs)
            return original(*args, **kwargs)

        return call


_installed: dict[str, Any] = {}
_faults: list[str] = []


def install(hooks: Iterable[Hook]) -> None:
    """Register hooks with SGLang; a hook whose target does not fit is kept as a fault for ``check_installed``."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    for hook in hooks:
        if hook.target in _installed:
            continue
        try:
            hook.verify()
        except HookError as error:
            _faults.append(str(error))
            continue
        _installed[hook.target] = hook.resolve()
        HookRegistry.register(hook.target, hook.wrapper(), HookType.AROUND)


def check_installed(expected: Iterable[Hook]) -> None:
    """Raise HookError unless every expected hook is in place."""
    import sglang
    from sglang.srt.plugins.hook_registry import HookRegistry

    if _faults:
        raise HookError(_faults[0])
    if sglang.__version__ != TESTED_SGLANG:
        raise HookError(f"sglang {sglang.__version__} is installed, dsv4_tree was written for {TESTED_SGLANG}")
    for hook in expected:
        original = _installed.get(hook.target)
        if original is None:
            raise HookError(f"dsv4_tree did not register its hook on {hook.target}")
        if hook.target not in HookRegistry._patched or hook.resolve() is original:
            raise HookError(f"SGLang did not apply the dsv4_tree hook on {hook.target}; see its log for the reason")
