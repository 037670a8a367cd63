"""Process environment that a card would not need. ``setdefault``: whatever the user sets wins."""

import os

_DEFAULTS = {
    # torch.compile would hand graphs to an inductor that knows no npu device.
    "TORCHDYNAMO_DISABLE": "1",
    # SGLang's Triton kernels run in Triton's interpreter, which reads npu tensors as the host memory they are.
    "TRITON_INTERPRET": "1",
    # The fused post/pre kernel of the hyper-connections is CUDA only, and SGLang's gate for it does not exclude npu.
    "SGLANG_OPT_FUSE_MHC_POST_PRE": "0",
    # The fused hash router is a CUDA kernel built at run time; its gate looks at the switch only.
    "SGLANG_OPT_USE_FUSED_HASH_TOPK": "0",
}


def apply() -> None:
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)


def flag(name: str) -> bool:
    """True for 1/true/yes/on."""
    return os.environ.get(name, "").lower() in ("1", "true", "yes", "on")


def relaxed_dims() -> bool:
    """``NPU_TWIN_RELAXED_DIMS``: lift the card's fixed head counts and widths (and nothing else), for tiny models."""
    return flag("NPU_TWIN_RELAXED_DIMS")
