"""Attributes of torch.Tensor that differ on a card."""

import contextlib

import torch


def install() -> None:
    """``is_cuda`` is true for npu tensors, because ``torch_npu.contrib.transfer_to_npu`` makes it so on a card and
    several branches of SGLang depend on it."""
    torch.Tensor.is_cuda = property(lambda tensor: tensor.device.type == "npu")
    torch.Tensor.record_stream = lambda tensor, stream: None
    torch.cuda.get_device_capability = _capability(torch.cuda.get_device_capability)
    _declare_torchvision_nms()


def _capability(of_cuda):
    """torch asks a tensor that says ``is_cuda`` for its compute capability (in ``broadcast``, for one)."""

    def get_device_capability(device=None):
        named = isinstance(device, (str, torch.device))
        return (0, 0) if named and torch.device(device).type == "npu" else of_cuda(device)

    return get_device_capability


def _declare_torchvision_nms() -> None:
    """A torchvision wheel built for CUDA cannot load its own ops next to a CPU torch; its Python part then fails on
    the missing ``nms`` schema at import."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        with contextlib.suppress(RuntimeError):
            library.define(name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _kept.append(library)


_kept: list[torch.library.Library] = []
