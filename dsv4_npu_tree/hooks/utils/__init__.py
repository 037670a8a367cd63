"""Hooks into sglang utils."""
