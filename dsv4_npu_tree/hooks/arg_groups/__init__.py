"""Hooks into sglang arg_groups."""
