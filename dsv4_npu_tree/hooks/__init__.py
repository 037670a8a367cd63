"""Seams into SGLang, one module per upstream file."""
