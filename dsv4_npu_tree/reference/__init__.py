"""Slow first-principles oracles; imports nothing of the package."""
