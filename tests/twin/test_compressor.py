"""The compressor against its definition: emitted rows, persisted rows, refusals."""

import pytest
import torch

from .compressor_case import HIDDEN, Layer, Ring
from .exact import npu

pytestmark = pytest.mark.usefixtures("relaxed")


def _sequence(length: int) -> torch.Tensor:
    return torch.randn(length, HIDDEN).bfloat16()


@pytest.mark.parametrize("ratio", [4, 128])
@pytest.mark.parametrize("chunks", [[300], [1] * 20, [129, 1, 1, 125, 44], [3, 2, 7, 1, 250, 37]])
def test_any_chunking_emits_the_blocks_of_the_sequence(ratio, chunks):
    layer, x = Layer(ratio), _sequence(sum(chunks))
    ring, emitted, start = Ring(layer), [], 0
    for count in chunks:
        emitted.append(ring.call([x[start : start + count]], [start], [0]))
        start += count
    rows = layer.token_rows(x, 0)
    expected = [layer.block(rows, index) for index in range(start // ratio)]
    got = torch.cat(emitted)
    assert got.shape[0] == len(expected)
    assert torch.equal(got, torch.stack(expected) if expected else got)


@pytest.mark.parametrize("ratio", [4, 128])
def test_requests_of_one_call_stand_alone(ratio):
    layer = Layer(ratio)
    xs = [_sequence(length) for length in (140, 1, 260, 5)]
    together = Ring(layer, sequences=4).call(xs, [0, 0, 0, 0], [0, 1, 2, 3])
    alone = torch.cat([Ring(layer).call([x], [0], [0]) for x in xs])
    assert torch.equal(together, alone)


@pytest.mark.parametrize("ratio", [4, 128])
@pytest.mark.parametrize(("start", "used"), [(0, 3), (0, 4), (8, 5), (11, 5), (126, 4), (127, 1), (0, 300)])
def test_only_the_last_rows_are_persisted(ratio, start, used):
    layer, ring = Layer(ratio), Ring(Layer(ratio), size=1024)
    ring.layer = layer
    x = _sequence(used)
    ring.call([x], [start], [0])
    oldest = (start + used) // ratio * ratio - (layer.coff - 1) * ratio
    rows = layer.token_rows(x, start)
    state = ring.rows()
    for position in range(start, start + used):
        if position >= oldest:
            assert torch.equal(state[position], rows[position - start]), position
        else:
            assert (state[position] == 77).all(), position
    assert (state[start + used :] == 77).all()


def test_c4_forgets_after_a_long_rejected_window():
    """Eight speculative rows, one accepted: the next block pools a row that was never stored."""
    layer, x = Layer(4), _sequence(16)
    ring = Ring(layer, size=16)
    ring.call([x[:8]], [0], [0])
    ring.call([x[8:16]], [8], [0])
    got = ring.call([x[9:12]], [9], [0])
    truth = layer.block(layer.token_rows(x, 0), 2)
    assert not torch.equal(got[0], truth)
    fresh = Ring(layer, size=16)
    for i, count in ((0, 8), (8, 1), (9, 3)):
        got = fresh.call([x[i : i + count]], [i], [0])
    assert torch.equal(got[0], truth)


def test_rows_beyond_seqused_are_ignored():
    layer, x = Layer(4), _sequence(8)
    ring = Ring(layer)
    assert torch.equal(ring.call([x], [0], [0], used=[5]), Ring(layer).call([x[:5]], [0], [0]))
    assert (ring.rows()[5:8] == 77).all()


def test_an_empty_request_among_others():
    layer, x = Layer(4), _sequence(4)
    out = Ring(layer, sequences=2).call([x, x[:1]], [0, 7], [0, 1], used=[4, 0])
    assert torch.equal(out, Ring(layer).call([x], [0], [0]))


def test_undefined_rows_are_recognisable():
    layer = Layer(4)
    ring = Ring(layer)
    x = _sequence(3)
    ring.call([x], [0], [0])
    history = torch.full((1, 9), ring.dummy, dtype=torch.int32)
    history[0, 5:9] = torch.arange(4)
    out = torch.ops.npu.compressor(
        npu(x[:1]),
        npu(layer.wkv),
        npu(layer.wgate),
        ring.state,
        npu(layer.ape),
        npu(layer.norm),
        npu(layer.sin[:1]),
        npu(layer.cos[:1]),
        4,
        4,
        state_block_table=npu(history),
        cu_seqlens=npu(torch.tensor([0, 1], dtype=torch.int32)),
        seqused=npu(torch.tensor([1], dtype=torch.int32)),
        start_pos=npu(torch.tensor([4], dtype=torch.int32)),
        coff=2,
        rotary_mode=2,
        cache_mode=2,
    )
    assert (out.cpu() == 12288).all()


class TestRefusals:
    @pytest.mark.parametrize(
        ("change", "match"),
        [
            ({"rotary_mode": 1}, "rotary_mode = 1"),
            ({"cache_mode": 1}, "cache_mode = 1"),
            ({"coff": 1}, "coff, cmp_ratio"),
            ({"state_block_table": None}, "state_block_table"),
            ({"seqused": None}, "seqused"),
            ({"seqused": npu(torch.tensor([4]))}, "seqused.dtype"),
            ({"seqused": npu(torch.tensor([0], dtype=torch.int32))}, "never returns"),
            ({"seqused": npu(torch.tensor([5], dtype=torch.int32))}, r"seqused\[0\] = 5"),
            ({"cu_seqlens": npu(torch.tensor([0, 3], dtype=torch.int32))}, "cu_seqlens"),
            ({"rope_cos": torch.zeros(0, 4, device="npu"), "rope_sin": torch.zeros(0, 4, device="npu")}, "rope_cos"),
            ({"norm_weight": torch.zeros(8, device="npu").bfloat16()}, "norm_weight.dtype"),
            ({"x": torch.zeros(4, HIDDEN, device="npu")}, "x.dtype"),
        ],
    )
    def test_arguments(self, change, match):
        with pytest.raises(RuntimeError, match=match):
            Ring(Layer(4)).call([_sequence(4)], [0], [0], **change)

    @pytest.mark.parametrize("column", [7, 9])
    def test_minus_one_in_a_touched_column(self, column):
        ring = Ring(Layer(4))
        table = ring.table([8], [4], [0])
        table[0, column] = -1
        with pytest.raises(RuntimeError, match=rf"state_block_table\[0, {column}\] = -1"):
            ring.call([_sequence(4)], [8], [0], state_block_table=npu(table))

    def test_a_table_narrower_than_the_call(self):
        ring = Ring(Layer(4))
        with pytest.raises(RuntimeError, match="12 columns"):
            ring.call([_sequence(4)], [8], [0], state_block_table=npu(ring.table([8], [3], [0])))

    def test_a_read_of_what_another_request_writes(self):
        ring = Ring(Layer(4))
        xs = [_sequence(4), _sequence(3)]
        with pytest.raises(RuntimeError, match="request 0 reads what request 1 writes"):
            ring.call(xs, [8, 5], [0, 0])

    def test_two_values_on_one_state_row(self):
        ring = Ring(Layer(4))
        with pytest.raises(RuntimeError, match="different values"):
            ring.call([_sequence(1), _sequence(1)], [8, 8], [0, 0])

    def test_the_same_value_twice_is_harmless(self):
        ring, x = Ring(Layer(4)), _sequence(1)
        ring.call([x, x], [8, 8], [0, 0])


def test_dims_are_fixed(monkeypatch):
    monkeypatch.delenv("NPU_TWIN_RELAXED_DIMS")
    with pytest.raises(RuntimeError, match=rf"x.shape\[1\] = {HIDDEN}"):
        Ring(Layer(4)).call([_sequence(4)], [0], [0])
