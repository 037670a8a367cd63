"""Streams and events. A call is complete when it returns, so they only keep identity, nesting and host time."""

import itertools
import threading
import time

import torch

from torch_npu import _twin

_ids = itertools.count()


class Event:
    def __init__(self, enable_timing=False, blocking=False, interprocess=False, external=False):
        self._seconds = 0.0

    def record(self, stream=None):
        self._seconds = time.perf_counter()

    def wait(self, stream=None):
        pass

    def query(self) -> bool:
        return True

    def synchronize(self):
        pass

    def elapsed_time(self, end: "Event") -> float:
        """Host milliseconds from this record to ``end``'s."""
        return (end._seconds - self._seconds) * 1e3


class Stream:
    def __init__(self, device=None, priority=0, **_):
        self.stream_id = next(_ids)
        self.device_index = _twin.current_device()
        self.device = torch.device("npu", self.device_index)
        self.priority = priority
        self.npu_stream = self.cuda_stream = self.stream_id

    def wait_stream(self, stream):
        pass

    def wait_event(self, event):
        pass

    def record_event(self, event=None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def synchronize(self):
        pass

    def query(self) -> bool:
        return True

    def __enter__(self):
        _nesting().append(self)
        return self

    def __exit__(self, *exception):
        _nesting().pop()


class StreamContext:
    """``with torch.npu.stream(s)``; None keeps the current stream."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        _nesting().append(self.stream or current_stream())
        return self.stream

    def __exit__(self, *exception):
        _nesting().pop()


ExternalStream = Stream
stream = StreamContext
_default = Stream()
_thread = threading.local()


def _nesting() -> list[Stream]:
    if not hasattr(_thread, "streams"):
        _thread.streams = [_default]
    return _thread.streams


def current_stream(device=None) -> Stream:
    return _nesting()[-1]


def default_stream(device=None) -> Stream:
    return _default


def set_stream(stream: Stream) -> None:
    _nesting()[-1] = stream
