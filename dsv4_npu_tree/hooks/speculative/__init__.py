"""Hooks on sglang.srt.speculative."""
