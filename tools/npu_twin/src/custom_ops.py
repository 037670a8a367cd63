"""CANN's custom op package. SGLang imports it when an npu process starts; the ops are registered by torch_npu."""

from torch_npu import triton_kernels

triton_kernels.install()
