"""On a card this module points ``torch.cuda`` at ``torch.npu``. Here: the names that are safe on a CPU-only torch.

``Tensor.is_cuda`` is set when torch_npu loads (see ``torch_npu.tensor``)."""

import torch

from torch_npu import npu

_NAMES = (
    "Event",
    "Stream",
    "current_device",
    "current_stream",
    "default_stream",
    "empty_cache",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "set_device",
    "set_stream",
    "stream",
    "synchronize",
)
for _name in _NAMES:
    setattr(torch.cuda, _name, getattr(npu, _name))
