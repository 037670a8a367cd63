"""Accepted tokens per target forward of the tiny pair, by replaying the draft at every position of greedy text."""
