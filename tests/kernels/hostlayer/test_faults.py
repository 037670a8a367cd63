"""Fault injection: every planted fault is reported as what it is, every control is silent."""

from __future__ import annotations

import ctypes

import pytest

from hostlayer.library import HAZARD, MODES, OK, HostLibrary, Outcome

BOTH = MODES
STRICT = ("strict",)  # the compiler's automatic synchronisation removes the fault

# name: (what the report must say, modes that must report)
FAULTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # The numbers are those of the project's list of faults (M10, M14 and M18 do not exist).
    "m1_no_enque": (("read-after-write race", "Adds (V)", "DataCopy (MTE2"), BOTH),
    "m2_gm_out_of_bounds": (("GM out of bounds", "of x, which has 1024"), BOTH),
    "m3_unaligned_ub": (("UB address not 32 B aligned", "UB byte 4"), BOTH),
    "m4_scalar_after_copy": (("race", "between S and MTE2"), STRICT),
    "m5_double_free": (("queue state", "FreeTensor"), BOTH),
    "m6_false_sharing": (("false sharing of a data-cache line",), BOTH),
    "m7_ub_overflow": (("UB overflow", "188160"), BOTH),
    "m8_no_free": (("queue depth exceeded", "AllocTensor"), BOTH),
    "m9_count_not_32": (("count not a multiple of 32 B", "20 bytes"), BOTH),
    "m11_scalar_after_vector": (("race", "between S and V"), STRICT),
    "m12_overwrite_outgoing": (("write-after-read race", "between V and MTE3"), BOTH),
    "m13_no_sync_all": (("cross-core race", "of y"), BOTH),
    "m15_flag_left_set": (("flag left set", "MTE2_V"), BOTH),
    "m16_wait_forever": (("deadlock", "WaitFlag"), BOTH),
    "m17_dirty_line": (("dirty line vs DMA", "DataCacheCleanAndInvalid"), BOTH),
    "m19_uninitialised": (("uninitialised UB read", "(V) reads UB byte 252"), BOTH),
    # Queues and flags.
    "leaked_buffer": (("queue state", "never freed"), BOTH),
    "deque_empty": (("queue state", "empty"), BOTH),
    "used_after_free": (("queue state", "after FreeTensor"), BOTH),
    "nine_buffers": (("limit", "8 event ids"), BOTH),
    "refill_before_free": (("write-after-read race", "between MTE2 and MTE3"), BOTH),
    "scalar_read_then_refill": (("write-after-read race", "between MTE2 and S"), STRICT),
    "flag_set_twice": (("flag set twice",), BOTH),
    "reserved_event_id": (("event id", "reserved"), BOTH),
    "event_id_of_queue": (("event id", "a queue holds"), BOTH),
    # Pipes.
    "copy_after_scalar": (("race", "between MTE3 and S"), STRICT),
    "vector_after_vector": (("race", "between V and V"), STRICT),
    "overlapping_dma_in": (("write-after-write race", "UB bytes [128, 256)"), BOTH),
    "overlapping_dma_out": (("write-after-write race", "GM bytes [128, 256) of y"), BOTH),
    "read_back": (("read-after-write race", "between MTE2 and MTE3"), BOTH),
    "chained_edges": (("read-after-write race", "between MTE3 and MTE2"), BOTH),
    "scalar_read_after_store": (("race", "between S and MTE3"), STRICT),
    # Memory.
    "pad_tail_read": (("uninitialised UB read", "byte 20"), BOTH),
    "ub_out_of_bounds": (("UB out of bounds",), BOTH),
    "input_written": (("read-only tensor written",), BOTH),
    "past_declared_size": (("GM out of bounds", "SetGlobalBuffer"), BOTH),
    "too_many_blocks": (("limit", "4095"), BOTH),
    "compare_count": (("limit", "256 B"), BOTH),
    "compare_mode": (("limit", "EQ only"), BOTH),
    "cast_round_mode": (("limit", "round mode"), BOTH),
    "gather_offset": (("UB out of bounds", "gather"), BOTH),
    "partial_overlap": (("operand overlap",), BOTH),
    # Writes that no instruction reports.
    "raw_write_after_end": (("red zone overwritten", "bytes [1024, 1025) after y, which has 1024"), BOTH),
    "raw_write_before_start": (("red zone overwritten", "bytes [-1, 0) before y, which has 1024"), BOTH),
    "raw_write_into_input": (("read-only tensor changed", "bytes [8, 12) of x, which has 1024"), BOTH),
    # Cores and the data cache.
    "dirty_at_end": (("dirty line left",), BOTH),
    "stale_line": (("stale data-cache line",), BOTH),
    "two_writers": (("cross-core race",), BOTH),
    "missing_core": (("deadlock", "SyncAll", "1 of 3"), BOTH),
    "sync_all_kernel_type": (("kernel type", "MIX_AIV_1_0"), BOTH),
    "soft_workspace": (("SyncAll workspace", "not zeroed"), BOTH),
}
SEEDS = (1, 2, 3, 5, 8)  # order in which concurrent cores advance; a verdict may not depend on it


def run(suite: HostLibrary, name: str, mode: str, faulty: bool, seed: int) -> Outcome:
    suite.configure(mode, seed=seed)
    return suite.call("hostlayer_case", name.encode(), ctypes.c_int(faulty))


def test_every_case_is_listed(suite: HostLibrary) -> None:
    names = ctypes.create_string_buffer(8192)
    assert suite.native.hostlayer_names(names, ctypes.c_size_t(8192)) == OK
    assert sorted(names.value.decode().split()) == sorted(FAULTS)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_reported_as_what_it_is(suite: HostLibrary, name: str, mode: str) -> None:
    words, modes = FAULTS[name]
    for seed in SEEDS:
        outcome = run(suite, name, mode, True, seed)
        if mode not in modes:
            assert outcome == Outcome(OK, "")
            continue
        assert outcome.status == HAZARD
        assert f"kernel {name}" in outcome.error
        for word in words:
            assert word in outcome.error
        if "race" in words[0]:
            assert ".cpp:" in outcome.error and "bytes [" in outcome.error


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FAULTS)
def test_control_is_silent(suite: HostLibrary, name: str, mode: str) -> None:
    for seed in SEEDS:
        assert run(suite, name, mode, False, seed) == Outcome(OK, "")


def test_a_hazard_leaves_the_process_able_to_launch_again(suite: HostLibrary) -> None:
    for _ in range(3):
        assert run(suite, "m13_no_sync_all", "strict", True, 1).status == HAZARD
        assert run(suite, "m13_no_sync_all", "strict", False, 1).status == OK


def test_sync_all_of_more_blocks_than_cores_is_a_deadlock(suite: HostLibrary) -> None:
    suite.configure("strict", cores=2)
    outcome = suite.call("hostlayer_case", b"m13_no_sync_all", ctypes.c_int(0))
    suite.configure("strict", cores=8)
    assert outcome.status == HAZARD and "4 blocks on 2 cores" in outcome.error


def test_settings_are_refused_when_unknown(suite: HostLibrary) -> None:
    with pytest.raises(ValueError, match="loose"):
        suite.configure("loose")
    with pytest.raises(ValueError, match="49"):
        suite.configure("strict", cores=49)
