"""Hooks into sglang kernels."""
