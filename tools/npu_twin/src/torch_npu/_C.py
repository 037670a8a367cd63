"""Names that SGLang imports from the compiled half of torch_npu."""

import sys
from types import ModuleType

import torch

from torch_npu.hccl import ProcessGroupHCCL

_distributed_c10d = ModuleType("torch_npu._C._distributed_c10d")
_distributed_c10d.ProcessGroupHCCL = ProcessGroupHCCL
sys.modules[_distributed_c10d.__name__] = _distributed_c10d


def _weak_ref_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor over the same bytes. Here it keeps them alive, which on a card it does not."""
    return tensor.view(tensor.shape)
