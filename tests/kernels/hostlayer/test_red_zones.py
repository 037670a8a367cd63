"""Kernels run on copies of their tensors between red zones: what is written outside is found; aliases keep working."""

from __future__ import annotations

import ctypes
import itertools
import mmap
from dataclasses import dataclass

import numpy as np
import pytest

from hostlayer.library import HAZARD, LAUNCH_FAILED, OK, HostLibrary, Outcome


class Declared(ctypes.Structure):
    """`Declared` of cases/tensors.cpp."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("writable", ctypes.c_int32),
        ("name", ctypes.c_char_p),
    ]


@dataclass
class Part:
    """Bytes [begin, end) of the test's memory as a tensor."""

    name: str
    begin: int
    end: int
    writable: bool = True


def memory_of(size: int, align: int = 512) -> np.ndarray:
    """Bytes that start at a multiple of `align`, none of them 0xFF."""
    raw = np.zeros(size + align, np.uint8)
    start = -raw.ctypes.data % align
    memory = raw[start : start + size]
    memory[:] = np.arange(size) % 250
    return memory


def run(suite: HostLibrary, kernel: str, memory: np.ndarray, parts: list[Part], offset: int = 0) -> Outcome:
    suite.configure("strict")
    base = memory.ctypes.data
    tensors = (Declared * len(parts))(
        *(Declared(base + part.begin, part.end - part.begin, part.writable, part.name.encode()) for part in parts)
    )
    return suite.call(
        "hostlayer_tensors", kernel.encode(), tensors, ctypes.c_uint32(len(parts)), ctypes.c_int64(offset)
    )


@pytest.mark.parametrize("size", [1, 100, 1024, 4000])
@pytest.mark.parametrize("begin", [512, 515])
def test_a_byte_on_either_side_is_watched(suite: HostLibrary, begin: int, size: int) -> None:
    memory = memory_of(8192)
    before = memory.copy()
    for offset in (-512, -33, -1, size, size + 7, size + 511):
        outcome = run(suite, "poke", memory, [Part("out", begin, begin + size)], offset)
        side = "before" if offset < 0 else "after"
        assert outcome == Outcome(
            HAZARD,
            f"kernel poke: red zone overwritten: bytes [{offset}, {offset + 1}) {side} out, which has {size}",
        )
        np.testing.assert_array_equal(memory, before)
    for offset in (0, size - 1):
        assert run(suite, "poke", memory, [Part("out", begin, begin + size)], offset) == Outcome(OK, "")
        before[begin + offset] = 0xFF
        np.testing.assert_array_equal(memory, before)


def test_a_zone_moved_over_itself_is_seen(suite: HostLibrary) -> None:
    for offset in (-9, 512, 700):
        assert "red zone overwritten" in run(suite, "repeat", memory_of(4096), [Part("out", 512, 1024)], offset).error


def test_neighbours_are_told_apart(suite: HostLibrary) -> None:
    """Two tensors that touch in the caller's memory have red zones between them."""
    memory = memory_of(4096)
    parts = [Part("probe", 1024, 2048), Part("out", 512, 1024), Part("in", 2048, 2056, writable=False)]
    assert "bytes [512, 513) after out, which has 512" in run(suite, "poke", memory, parts, 512).error
    assert "bytes [-1, 0) before out" in run(suite, "poke", memory, parts, -1).error
    assert "bytes [8, 9) after in, which has 8" in run(suite, "poke_input", memory, parts, 8).error
    assert "bytes [-1, 0) before in" in run(suite, "poke_input", memory, parts, -1).error
    overlapping = [Part("in", 1000, 1100, writable=False), Part("out", 1050, 1200)]
    assert "bytes [150, 151) after out, which has 150" in run(suite, "poke", memory, overlapping, 150).error
    assert "bytes [-1, 0) before in, which has 100" in run(suite, "poke_input", memory, overlapping, -1).error


def test_an_input_stays_as_it_is_where_no_output_overlaps_it(suite: HostLibrary) -> None:
    memory = memory_of(4096)
    before = memory.copy()
    parts = [Part("out", 1024, 1040), Part("in", 1000, 1100, writable=False), Part("probe", 1050, 1060)]
    parts.append(Part("part of out", 1028, 1030))
    for offset in (0, 23, 40, 49, 60, 99):
        outcome = run(suite, "poke_input", memory, parts, offset)
        where = f"read-only tensor changed: bytes [{offset}, {offset + 1}) of in, which has 100"
        assert outcome == Outcome(HAZARD, f"kernel poke_input: {where}")
        np.testing.assert_array_equal(memory, before)
    for offset in (24, 35, 39, 50, 59):
        assert run(suite, "poke_input", memory, parts, offset).status == OK
        before[1000 + offset] = 0xFF
        np.testing.assert_array_equal(memory, before)


def test_the_input_that_changed_is_named(suite: HostLibrary) -> None:
    parts = [Part("in", 1000, 1100, writable=False), Part("table", 1090, 1200, writable=False), Part("out", 1190, 1210)]
    outcome = run(suite, "poke_input", memory_of(4096), parts, 150)
    assert outcome.error.endswith("read-only tensor changed: bytes [60, 61) of table, which has 110")


def test_inputs_are_not_copied_back(suite: HostLibrary) -> None:
    """They may lie where nobody can write."""
    pages, memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ), memory_of(4096)
    there = np.frombuffer(pages, np.uint8).ctypes.data - memory.ctypes.data
    parts = [Part("in", there, there + 4096, writable=False), Part("out", 0, 512), Part("probe", 512, 1024)]
    assert run(suite, "relay", memory, parts) == Outcome(OK, "")
    assert memory[:256].view(np.int32).tolist() == [1] * 64


LAYOUTS = {
    "apart": ((0, 512), (1024, 1280), (2048, 2304)),
    "touching": ((0, 512), (512, 768), (768, 1024)),
    "in place": ((0, 512), (0, 512), (2048, 2304)),
    "part of the input": ((0, 512), (256, 512), (2048, 2304)),
    "partly overlapping": ((0, 512), (384, 640), (2048, 2304)),
    "a chain of three": ((0, 512), (384, 640), (576, 832)),
    "the output holds the others": ((512, 1024), (0, 2048), (1024, 1280)),
    "one tensor": ((0, 1024), (0, 1024), (0, 1024)),
}


@pytest.mark.parametrize("kernel", ["relay", "relay_by_table"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_tensors_overlap_in_the_copy_as_at_the_caller(suite: HostLibrary, layout: str, kernel: str) -> None:
    """In every order of declaration: a tensor that comes later may join earlier ones."""
    ranges = dict(zip(("in", "out", "probe"), LAYOUTS[layout]))
    for order in itertools.permutations(ranges):
        memory = memory_of(4096)
        want = memory.copy().view(np.int32)
        source, target, probe = (ranges[name][0] // 4 for name in ("in", "out", "probe"))
        want[target : target + 64] = want[source : source + 64] + 1
        want[probe : probe + 64] = want[source + 64 : source + 128].copy()
        table = memory[4000:4024].view(np.int64)
        table[:] = [memory.ctypes.data + ranges[name][0] for name in ("in", "out", "probe")]
        want.view(np.int64)[500:503] = table
        parts = [Part(name, *ranges[name], writable=name != "in") for name in order]
        outcome = run(suite, kernel, memory, [*parts, Part("table", 4000, 4024, writable=False)])
        assert outcome == Outcome(OK, ""), order
        np.testing.assert_array_equal(memory.view(np.int32), want, err_msg=str(order))


@pytest.mark.parametrize("begin", [0, 4, 31, 32, 64, 511, 513, 1000])
def test_a_copy_keeps_its_place_in_512_bytes(suite: HostLibrary, begin: int) -> None:
    memory = memory_of(4096)
    parts = [Part("in", begin, begin + 40, writable=False), Part("out", 2048, 2056)]
    assert run(suite, "address", memory, parts) == Outcome(OK, "")
    there = int(memory[2048:2056].view(np.int64)[0])
    assert there % 512 == begin % 512
    assert not memory.ctypes.data <= there < memory.ctypes.data + memory.size


def test_tensors_of_one_data_cache_line_share_it_in_the_copies_too(suite: HostLibrary) -> None:
    memory = memory_of(4096)
    outcome = run(suite, "one_word_each", memory, [Part("out", 1024, 1060), Part("probe", 1060, 1064)])
    assert outcome.status == HAZARD
    assert "false sharing" in outcome.error and "GM bytes [0, 64) of out" in outcome.error
    assert run(suite, "one_word_each", memory, [Part("out", 1024, 1060), Part("probe", 1088, 1092)]).status == OK


def test_a_broken_rule_and_a_red_zone_are_both_named(suite: HostLibrary) -> None:
    outcome = run(suite, "poke_and_overrun", memory_of(4096), [Part("out", 512, 1024)], 512)
    assert outcome.status == HAZARD
    assert "core 0: GM out of bounds" in outcome.error
    assert "; kernel poke_and_overrun: red zone overwritten: bytes [512, 513) after out" in outcome.error


def test_after_a_broken_rule_outputs_are_as_they_were(suite: HostLibrary) -> None:
    memory = memory_of(4096)
    before = memory.copy()
    assert run(suite, "poke_and_overrun", memory, [Part("out", 512, 1024)]).status == HAZARD
    np.testing.assert_array_equal(memory, before)


def test_empty_tensors_have_red_zones_and_missing_ones_are_refused(suite: HostLibrary) -> None:
    memory = memory_of(4096)
    assert run(suite, "poke", memory, [Part("in", 0, 8), Part("out", 512, 512)], 0).error.endswith(
        "bytes [0, 1) after out, which has 0"
    )
    base = memory.ctypes.data
    assert run(suite, "poke_input", memory, [Part("in", 0, 8), Part("out", -base, -base)]) == Outcome(OK, "")
    outcome = run(suite, "poke_input", memory, [Part("in", 0, 8), Part("out", -base, 8 - base)])
    assert outcome == Outcome(LAUNCH_FAILED, "kernel poke_input: tensor out has 8 bytes at no address")
