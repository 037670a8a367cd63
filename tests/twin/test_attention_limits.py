"""What a card refuses, or leaves undefined, raises and names the argument."""

import pytest
import torch

from .attention_case import AttentionCase
from .exact import npu
from .pools import attention_metadata


def _raises(match: str, case: AttentionCase, op=None) -> None:
    with pytest.raises(RuntimeError, match=match):
        case.run(op)


@pytest.mark.usefixtures("strict")
class TestFixedDims:
    def test_sixty_four_heads_of_512_run(self):
        case = AttentionCase([1], [3], heads=64, width=512)
        assert torch.equal(case.run(), case.expected())

    @pytest.mark.parametrize(("heads", "width", "match"), [(4, 512, r"q.shape\[1\] = 4"), (64, 128, "head_dim = 128")])
    def test_others_do_not(self, heads, width, match):
        _raises(match, AttentionCase([1], [3], heads=heads, width=width))

    def test_selection_is_512_or_1024_wide(self):
        _raises("cmp_topk = 16", AttentionCase([1], [80], ratio=4, selected=16, heads=64, width=512))


@pytest.mark.usefixtures("relaxed")
class TestArguments:
    @pytest.mark.parametrize(
        ("change", "match"),
        [
            ({"return_softmax_lse": True}, "return_softmax_lse"),
            ({"ori_mask_mode": 3}, "ori_mask_mode = 3"),
            ({"cmp_mask_mode": 4}, "cmp_mask_mode = 4"),
            ({"ori_win_left": -1}, "ori_win_left"),
            ({"layout_q": "BSND"}, "layout_q"),
            ({"layout_kv": "BSND"}, "layout_kv"),
            ({"cu_seqlens_q": None}, "cu_seqlens_q"),
            ({"seqused_kv": None}, "seqused_kv"),
            ({"ori_block_table": None}, "ori_block_table"),
            ({"sinks": None}, "sinks"),
            ({"metadata": None}, "metadata"),
            ({"seqused_q": npu(torch.tensor([1], dtype=torch.int32))}, "seqused_q"),
            ({"seqused_kv": npu(torch.tensor([40]))}, "seqused_kv.dtype = torch.int64"),
            ({"cmp_sparse_indices": npu(torch.zeros(1, 1, 8, dtype=torch.int32))}, "cmp_sparse_indices"),
        ],
    )
    def test_refused(self, change, match):
        _raises(match, AttentionCase([1], [40], change=change))

    def test_strided_tensors(self):
        case = AttentionCase([1], [40])
        case.change = {"ori_block_table": npu(case.ori_table.repeat_interleave(2, 1))[:, ::2]}
        _raises(r"ori_block_table.stride\(\)", case)

    @pytest.mark.parametrize("block", [8, 24, 1040])
    def test_block_sizes(self, block):
        _raises(f"ori_kv.shape\\[1\\] = {block}", AttentionCase([1], [40], block=block))

    def test_rows_beyond_a_short_ori_table(self):
        case = AttentionCase([1, 1], [40, 40])
        case.ori_table = case.ori_table[:1].contiguous()
        _raises(r"ori_block_table.shape\[0\] = 1", case)

    def test_cmp_table_has_one_line_a_request(self):
        case = AttentionCase([1], [40], ratio=4)
        case.cmp_table = case.cmp_table.repeat(2, 1)
        _raises(r"cmp_block_table.shape\[0\] = 2", case)

    def test_query_longer_than_the_stored_tokens(self):
        _raises(r"seqused_kv\[1\] = 3", AttentionCase([1, 4], [40, 3]))


@pytest.mark.usefixtures("relaxed")
class TestTables:
    @pytest.mark.parametrize("entry", [-1, 9999])
    def test_a_wild_entry_inside_the_window(self, entry):
        case = AttentionCase([1, 1], [300, 40])
        case.ori_table[0, 15] = entry
        _raises(rf"ori_block_table\[0, 15\] = {entry}", case)

    def test_a_wild_entry_in_the_compressed_range(self):
        case = AttentionCase([1], [300], ratio=4)
        case.cmp_table[0, 2] = -1
        _raises(r"cmp_block_table\[0, 2\] = -1", case)

    def test_a_compressed_entry_above_the_limit_is_never_read(self):
        case = AttentionCase([1], [66], ratio=4, cmp_block=16)
        expected = case.run()
        case.cmp_table = torch.cat([case.cmp_table, torch.tensor([[-1]], dtype=torch.int32)], 1)
        assert torch.equal(case.run(), expected)

    def test_a_table_narrower_than_the_read_range(self):
        case = AttentionCase([1], [300])
        case.ori_table = case.ori_table[:, :18].contiguous()
        _raises("19 columns", case)


@pytest.mark.usefixtures("relaxed")
class TestSelection:
    @pytest.mark.parametrize("entry", [-1, 20])
    def test_the_first_entries_must_be_valid(self, entry):
        case = AttentionCase([1], [80], ratio=4, selected=16)
        case.indices[0, 0, 7] = entry
        _raises(rf"cmp_sparse_indices\[0, 0, 7\] = {entry}", case)

    def test_entries_beyond_the_limit_are_not_looked_at(self):
        case = AttentionCase([1], [30], ratio=4, selected=16)
        expected = case.expected()
        case.indices[0, 0, 7:] = 12345
        assert torch.equal(case.run(), expected)

    def test_windows_above_128_are_wrong_in_scfa_only(self):
        _raises("SCFA", AttentionCase([1], [300], ratio=4, selected=16, change={"ori_win_left": 128}))
        AttentionCase([1], [300], ratio=4, change={"ori_win_left": 128}).run()


@pytest.mark.usefixtures("relaxed")
class TestMetadata:
    def test_of_other_row_offsets(self):
        stale = attention_metadata([0, 2, 3], [40, 40], 4, 32)
        _raises(r"metadata \(cu_seqlens_q\)", AttentionCase([1, 2], [40, 40], change={"metadata": stale}))

    def test_of_another_batch(self):
        stale = attention_metadata([0, 1], [40], 4, 32)
        _raises(r"metadata \(batch\)", AttentionCase([1, 1], [40, 40], change={"metadata": stale}))

    def test_of_another_template(self):
        swa = attention_metadata([0, 1], [40], 4, 32)
        _raises(r"metadata \(cmp_ratio\)", AttentionCase([1], [40], ratio=4, change={"metadata": swa}))
        cfa = attention_metadata([0, 1], [40], 4, 32, ratio=4, cmp=True)
        _raises(r"metadata \(cmp_topk\)", AttentionCase([1], [40], ratio=4, selected=8, change={"metadata": cfa}))

    def test_kv_lengths_may_have_grown_since(self):
        older = attention_metadata([0, 1], [39], 4, 32)
        AttentionCase([1], [40], change={"metadata": older}).run()

    def test_head_counts_may_be_those_of_one_rank(self):
        of_rank = attention_metadata([0, 1], [40], 2, 32)
        AttentionCase([1], [40], change={"metadata": of_rank}).run()

    def test_zeros_are_no_metadata(self):
        empty = torch.zeros(1024, dtype=torch.int32, device="npu")
        _raises(r"metadata \(kind\)", AttentionCase([1], [40], change={"metadata": empty}))

    def test_the_host_op_takes_cpu_tensors_and_serves_the_in_tree_op(self):
        shape = {"num_heads_q": 4, "num_heads_kv": 1, "head_dim": 32, "layout_q": "TND", "layout_kv": "PA_ND"}
        ends, used = torch.tensor([0, 1], dtype=torch.int32), torch.tensor([40], dtype=torch.int32)
        build = torch.ops.npu.sparse_attn_sharedkv_metadata_host
        metadata = build(**shape, cu_seqlens_q=ends, seqused_kv=used, batch_size=1, has_cmp_kv=False)
        assert metadata.device.type == "npu" and metadata.shape == (1024,) and metadata.dtype == torch.int32
        case = AttentionCase([1], [40], change={"metadata": metadata})
        assert torch.equal(case.run(torch.ops.npu.sparse_attn_sharedkv), case.expected())
        with pytest.raises(RuntimeError, match="on the CPU"):
            build(**shape, cu_seqlens_q=npu(ends), seqused_kv=npu(used), batch_size=1, has_cmp_kv=False)
