"""Schemas and implementations of the torch.ops.dsv4_tree operators."""
