"""Hooks into sglang mem_cache."""
