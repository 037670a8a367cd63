"""Hooks into sglang hardware_backend.npu."""
