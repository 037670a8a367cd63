"""Sends one request the way its client behaves: waits for the answer, hangs up, or has it aborted."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import time
import urllib.request
from typing import Any

from demonstration.server import Server, ServerError
from traffic import Ask

PATIENCE = 900.0


def call(server: Server, ask: Ask, rid: str) -> dict[str, Any] | None:
    """The answer as far as it came; None where the client left before anything had come."""
    time.sleep(ask.delay)
    fields = {**ask.fields, "rid": rid}
    if ask.ending == "hang up" and not fields.pop("stream", False):
        _hang_up(server, ask, fields)
        return None
    if ask.ending == "abort" and not fields.get("stream"):
        return _aborted_blind(server, ask, fields)
    if not fields.pop("stream", False):
        return server.generate(ask.ids, sampling_params=ask.sampling, **fields)
    last = None
    parts = server.stream(ask.ids, sampling_params=ask.sampling, **fields)
    with contextlib.closing(parts):
        asked = False
        for last in parts:
            if ask.ending != "wait" and not asked and len(last["output_ids"]) >= ask.after:
                asked = True
                if ask.ending == "hang up":
                    return last
                abort(server, rid)
    return last


def abort(server: Server, rid: str) -> None:
    body = json.dumps({"rid": rid}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.port}/abort_request", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=PATIENCE):
        pass


def _send(server: Server, ask: Ask, fields: dict[str, Any]) -> http.client.HTTPConnection:
    body = json.dumps({"input_ids": ask.ids, "sampling_params": {"temperature": 0, **ask.sampling}, **fields})
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    connection.request("POST", "/generate", body, {"Content-Type": "application/json"})
    return connection


def _hang_up(server: Server, ask: Ask, fields: dict[str, Any]) -> None:
    connection = _send(server, ask, fields)
    time.sleep(0.1 + 0.2 * ask.after)
    if connection.sock is not None:
        connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()


def _aborted_blind(server: Server, ask: Ask, fields: dict[str, Any]) -> dict[str, Any] | None:
    """Aborted after a time, wherever the request is by then: waiting, running, or answered."""
    connection = _send(server, ask, fields)
    time.sleep(0.1 + 0.2 * ask.after)
    abort(server, fields["rid"])
    response = connection.getresponse()
    text = response.read()
    connection.close()
    if response.status != 200:
        raise ServerError(f"an aborted request answered HTTP {response.status}: {text[:300]!r}")
    return json.loads(text)
