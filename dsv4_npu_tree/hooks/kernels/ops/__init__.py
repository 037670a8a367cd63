"""Hooks into sglang kernels.ops."""
