"""Hooks into sglang layers."""
