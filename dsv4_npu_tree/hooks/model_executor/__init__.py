"""Hooks into sglang model_executor."""
