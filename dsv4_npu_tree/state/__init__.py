"""Compressor state along a tree path."""
