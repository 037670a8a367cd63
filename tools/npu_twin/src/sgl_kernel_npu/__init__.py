"""Stand-in for sgl-kernel-npu. What is not written here imports, and raises when it is called."""

import importlib.abc
import importlib.machinery
import sys
import types


class _AbsentLoader(importlib.abc.Loader):
    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__path__ = []
        module.__getattr__ = lambda name: absent(spec.name, name)
        return module

    def exec_module(self, module):
        pass


class _AbsentFinder(importlib.abc.MetaPathFinder):
    """Last on the path: modules that exist win."""

    def find_spec(self, name, path, target=None):
        if name.startswith(__name__ + "."):
            return importlib.machinery.ModuleSpec(name, _AbsentLoader(), is_package=True)
        return None


def absent(module: str, name: str):
    """A function called ``name`` that raises NotImplementedError."""
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*_, **__):
        raise NotImplementedError(f"npu twin: {module}.{name} is not modelled")

    missing.__name__ = name
    return missing


sys.meta_path.append(_AbsentFinder())
