"""Resolves SGLang arguments without starting anything: a child process that imports SGLang once and forks per case.

    python resolver.py <cases.json >results.json

A case: {"flags": [...], "env": {...}, "arch35": bool, "delete": dotted name, "reorder": dotted name}. ``delete``
removes a function of SGLang before plugins load, ``reorder`` replaces it by one with other parameters. A result:
{"error": type name or null, "message": text, "running": resolved --max-running-requests}.
"""

from __future__ import annotations

import json
import os
import pkgutil
import sys


def _break(case: dict) -> None:
    """Make SGLang differ from the version that the plugin knows, or the card from the one it serves."""
    if case.get("arch35"):
        import acl

        acl.rt.get_device_info = staticmethod(lambda device, attribute: (3510, 0))
    for name in filter(None, (case.get("delete"), case.get("reorder"))):
        owner, _, attribute = name.rpartition(".")
        holder = pkgutil.resolve_name(owner)
        if case.get("delete"):
            delattr(holder, attribute)
        else:
            setattr(holder, attribute, lambda surprise: None)


def _resolve(flags: list[str]) -> int | None:
    """Resolve and check; returns the bound of running requests over all ranks."""
    from sglang.srt.arg_groups.overrides import resolving_view
    from sglang.srt.plugins import load_plugins
    from sglang.srt.server_args import prepare_server_args

    load_plugins()
    server_args = prepare_server_args(flags)
    server_args.resolve_once()
    server_args.check_server_args()
    return resolving_view(server_args).max_running_requests


def _child(case: dict, write: int) -> None:
    try:
        os.environ.update(case.get("env", {}))
        _break(case)
        result = {"error": None, "message": "", "running": _resolve(case["flags"])}
    except BaseException as error:  # an argparse refusal is a SystemExit
        result = {"error": type(error).__name__, "message": str(error)}
    os.write(write, json.dumps(result).encode())
    os._exit(0)


def main() -> None:
    import sglang.launch_server  # noqa: F401
    import sglang.srt.speculative.eagle_worker_v2  # noqa: F401

    results = []
    for case in json.load(sys.stdin):
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            _child(case, write)
        os.close(write)
        with os.fdopen(read) as pipe:
            results.append(json.loads(pipe.read() or '{"error": "died", "message": ""}'))
        os.waitpid(pid, 0)
    print("\n" + json.dumps(results))


if __name__ == "__main__":
    main()
