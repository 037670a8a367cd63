"""Hooks on sglang.srt.managers."""
