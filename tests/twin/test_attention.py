"""Shared-KV sparse attention against its definition, row by row; row invariance; the in-tree op's quirks."""

import pytest
import torch

from .attention_case import AttentionCase
from .exact import npu

pytestmark = pytest.mark.usefixtures("relaxed")

SHAPES = {
    "decode": ([1, 1, 1], [1, 127, 300]),
    "prefill": ([70, 3], [70, 200]),
    "long_prefill": ([200], [230]),
    "chunk": ([40, 1, 25], [260, 33, 25]),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("ratio", "selected"), [(0, 0), (4, 0), (128, 0), (4, 24), (128, 2)])
def test_every_template_matches_its_definition(shape, ratio, selected):
    case = AttentionCase(*SHAPES[shape], ratio=ratio, selected=selected)
    assert torch.equal(case.run(), case.expected())


@pytest.mark.parametrize(("ratio", "selected"), [(0, 0), (128, 0), (4, 24)])
def test_prefill_rows_equal_their_own_decode(ratio, selected):
    case = AttentionCase([150], [310], ratio=ratio, selected=selected)
    whole = case.run()
    assert torch.equal(case.as_rows(list(range(150))).run(), whole)
    assert torch.equal(case.as_rows([149, 3, 3, 80]).run(), whole[[149, 3, 3, 80]])
    for token in (0, 77, 149):
        assert torch.equal(case.as_rows([token]).run()[0], whole[token])


def test_a_neighbours_infinite_row_does_not_leak():
    case = AttentionCase([1, 1], [20, 20])
    clean = case.run()
    case.ori[case.ori_table[1].long()] = float("inf")
    poisoned = case.run()
    assert torch.equal(poisoned[0], clean[0])
    assert poisoned[1].isnan().all()


@pytest.mark.parametrize("q_len", [1, 5])
@pytest.mark.parametrize(("ratio", "selected"), [(0, 0), (4, 0), (128, 0), (4, 24)])
def test_padding_gets_zeros_and_reads_nothing(q_len, ratio, selected):
    """Requests without a stored token (attention-DP pads with them), in front, between and behind."""
    case = AttentionCase([q_len, 1, q_len, 6, q_len], [0, 300, 0, 140, 0], ratio=ratio, selected=selected)
    expected = case.expected()
    for request in (0, 2, 4):
        case.ori_table[request] = -1
        case.q[case.ends[request] : case.ends[request + 1]] = float("nan")
        if ratio:
            case.cmp_table[request] = -1
    found = case.run()
    assert torch.equal(found, expected)
    assert not found[: case.ends[1]].any() and not found[case.ends[4] :].any()


def test_a_batch_of_padding_alone():
    case = AttentionCase([1, 4], [0, 0], ratio=4)
    assert not case.run().any()


def test_entries_left_of_the_window_are_never_read():
    case = AttentionCase([1], [300])
    expected = case.run()
    case.ori_table[0, : (300 - 128) // 16] = -1
    assert torch.equal(case.run(), expected)


def test_window_width_is_an_argument():
    case = AttentionCase([5], [60], change={"ori_win_left": 7})
    rows = [case.mix(token, case.window(0, position, 7)) for _, token, position in case.rows()]
    assert torch.equal(case.run(), torch.stack(rows))


class TestListedSlots:
    """``ori_sparse_indices``: physical slots in place of the window."""

    def _case(self, **shape) -> tuple[AttentionCase, torch.Tensor]:
        case = AttentionCase([2, 1], [150, 9], **shape)
        slots = torch.full((3, 1, 128), -1, dtype=torch.int32)
        for token, count in enumerate((100, 128, 5)):
            slots[token, 0, :count] = torch.randperm(case.ori.shape[0] * case.block)[:count].int()
        case.change = {"ori_sparse_indices": npu(slots)}
        return case, slots

    def _expected(self, case, slots):
        flat = case.ori.flatten(0, 1)[:, 0]
        out = []
        for request, token, position in case.rows():
            listed = [slot for slot in slots[token, 0].tolist() if slot >= 0][: case.used[request]]
            out.append(case.mix(token, torch.cat([flat[listed], case.compressed(request, token, position)])))
        return torch.stack(out)

    @pytest.mark.parametrize("ratio", [0, 128])
    def test_swa_and_cfa_of_the_in_tree_op_attend_to_them(self, ratio):
        case, slots = self._case(ratio=ratio)
        assert torch.equal(case.run(torch.ops.npu.sparse_attn_sharedkv), self._expected(case, slots))

    def test_scfa_ignores_them_in_silence(self):
        case, _ = self._case(ratio=4, selected=16)
        assert torch.equal(case.run(torch.ops.npu.sparse_attn_sharedkv), case.expected())

    def test_the_custom_op_ignores_them(self):
        case, _ = self._case()
        assert torch.equal(case.run(), case.expected())

    def test_the_list_ends_at_the_first_negative_and_at_the_stored_length(self):
        case, slots = self._case()
        slots[0, 0, 3] = -1
        slots[2, 0, :20] = torch.arange(20)
        case.change = {"ori_sparse_indices": npu(slots)}
        cut = slots.clone()
        cut[0, 0, 3:] = -1
        cut[2, 0, 9:] = -1
        assert torch.equal(case.run(torch.ops.npu.sparse_attn_sharedkv), self._expected(case, cut))

    def test_an_empty_list_gives_zeros(self):
        case, slots = self._case()
        slots[1] = -1
        case.change = {"ori_sparse_indices": npu(slots)}
        assert not case.run(torch.ops.npu.sparse_attn_sharedkv)[1].any()

    def test_a_slot_outside_the_pool_raises(self):
        case, slots = self._case()
        slots[1, 0, 4] = case.ori.shape[0] * case.block
        case.change = {"ori_sparse_indices": npu(slots)}
        with pytest.raises(RuntimeError, match=r"ori_sparse_indices\[1, 0, 4\]"):
            case.run(torch.ops.npu.sparse_attn_sharedkv)
