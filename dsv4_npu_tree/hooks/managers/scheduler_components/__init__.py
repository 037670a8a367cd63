"""Hooks into sglang managers.scheduler_components."""
