"""``hccl`` process group: gloo on CPU views of the npu tensors."""

import torch
import torch.distributed as dist

from torch_npu import _twin

_SAME_NAME = (
    "allreduce",
    "allreduce_coalesced",
    "allgather",
    "allgather_into_tensor_coalesced",
    "_allgather_base",
    "alltoall",
    "alltoall_base",
    "barrier",
    "broadcast",
    "gather",
    "recv",
    "recv_anysource",
    "reduce",
    "reduce_scatter",
    "_reduce_scatter_base",
    "reduce_scatter_tensor_coalesced",
    "scatter",
    "send",
)
_RENAMED = {
    "all_gather_single": "_allgather_base",
    "reduce_scatter_single": "_reduce_scatter_base",
    "all_to_all_single": "alltoall_base",
}


def _on_cpu(value):
    if isinstance(value, torch.Tensor):
        return _twin.cpu_view(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_on_cpu(item) for item in value)
    return value


class ProcessGroupHCCL(dist.ProcessGroup):
    class Options:
        """Fields that SGLang fills in; gloo takes none of them."""

        def __init__(self, *_, **__):
            self.hccl_config = {}
            self._timeout = None

    def __init__(self, store, rank, size, timeout):
        super().__init__(rank, size)
        self._gloo = dist.ProcessGroupGloo(store, rank, size, timeout)

    def getBackendName(self):  # noqa: N802 - torch's name
        return "hccl"

    def name(self):
        return "hccl"


def _forward(gloo_name: str):
    def call(self, *arguments, **options):
        options = {key: _on_cpu(value) for key, value in options.items()}
        return getattr(self._gloo, gloo_name)(*map(_on_cpu, arguments), **options)

    return call


for _name in _SAME_NAME:
    setattr(ProcessGroupHCCL, _name, _forward(_name))
for _name, _gloo_name in _RENAMED.items():
    setattr(ProcessGroupHCCL, _name, _forward(_gloo_name))


def register() -> None:
    dist.Backend.register_backend("hccl", ProcessGroupHCCL, devices=["npu"])
