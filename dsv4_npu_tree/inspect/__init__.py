"""Dumps of a round and their pictures."""
