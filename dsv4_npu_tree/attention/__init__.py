"""Attention backends of `dsv4_tree` (import torch_npu: only inside an NPU process)."""
