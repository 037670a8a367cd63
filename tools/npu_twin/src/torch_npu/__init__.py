"""A CPU-only stand-in for torch_npu.

Importing it renames torch's PrivateUse1 device to ``npu`` (host memory, CPU kernels), publishes ``torch.npu``, the
``hccl`` process group and the ``npu::`` / ``custom::`` ops that SGLang's DeepSeek-V4 path calls. Torch imports it by
itself in every process through the ``torch.backends`` entry point.
"""

from torch_npu import environment

environment.apply()


def _autoload():
    """Entry point that torch calls at the end of its own import; importing this module does the work. Defined
    before torch is imported, because torch asks for it when torch_npu is imported first."""


import torch  # noqa: E402

from torch_npu import _twin  # noqa: E402

__version__ = "2.13.0"

torch.utils.rename_privateuse1_backend("npu")

from torch_npu import npu  # noqa: E402

torch._register_device_module("npu", npu)
npu.publish()
torch.utils.generate_methods_for_privateuse1_backend(for_tensor=True, for_module=True, for_storage=True)

from torch_npu import _C, contrib, hccl, multiprocessing, ops, profiler, tensor  # noqa: E402, F401

tensor.install()
hccl.register()
ops.load()

cpu_view = _twin.cpu_view
npu_view = _twin.npu_view
float8_e8m0fnu = torch.float8_e8m0fnu


def _apply_patches(patches):
    """Monkey patches of the real package; nothing here needs them."""


def __getattr__(name):
    """``torch_npu.npu_rms_norm`` is ``torch.ops.npu.npu_rms_norm``; an op that is not here raises when called."""
    if name.startswith(("npu_", "_npu_")):
        return ops.lookup(name)
    raise AttributeError(f"module 'torch_npu' has no attribute {name!r}")
