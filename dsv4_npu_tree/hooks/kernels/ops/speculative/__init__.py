"""Hooks into sglang kernels.ops.speculative."""
