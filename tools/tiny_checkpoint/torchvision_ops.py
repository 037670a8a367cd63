"""Make ``import torchvision`` work beside a CPU-only torch.

transformers imports torchvision whenever it is installed, and the torchvision that pip resolves may be built for CUDA.
Its extension then does not load, its operators are not registered, and the import fails on their shape functions.
Declaring the operators, with no kernel behind them, is enough: nothing here calls them.
"""

import importlib
import importlib.util

import torch

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_libraries = []  # a Library unregisters its operators when collected


def declare_torchvision_ops() -> None:
    """No effect when torchvision is absent or imports by itself."""
    if importlib.util.find_spec("torchvision") is None:
        return
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        library = torch.library.Library("torchvision", "FRAGMENT")
        _libraries.append(library)
        for schema in _SCHEMAS:
            library.define(schema)
        importlib.import_module("torchvision")
