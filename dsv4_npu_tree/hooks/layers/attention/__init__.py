"""Hooks into sglang layers.attention."""
