"""A resolution that holds only while an upstream guard runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def declared(server_args, **fields) -> Iterator[None]:
    """Declare ``fields`` on server_args, and take back exactly that declaration afterwards (others stay)."""
    from sglang.srt.arg_groups.overrides import declare_resolution

    declare_resolution(server_args, "dsv4_npu_tree.guard", **fields)
    mine = server_args._resolved_overrides[-1]
    try:
        yield
    finally:
        server_args._resolved_overrides[:] = [d for d in server_args._resolved_overrides if d is not mine]
