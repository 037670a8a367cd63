"""Quantised lightning indexer against its definition."""

import pytest
import torch

from .exact import npu
from .pools import indexer_metadata, rows, scattered_table


class IndexerCase:
    def __init__(self, q_lens, used, heads=3, width=16, count=8, block=16):
        self.q_lens, self.used, self.count = q_lens, used, count
        self.ends = [0, *torch.tensor(q_lens).cumsum(0).tolist()]
        rows = self.ends[-1]
        columns = -(-max(1, max(used) // 4) // block)
        total = len(used) * columns + 2
        self.query = torch.randint(-127, 128, (rows, heads, width)).to(torch.int8)
        self.key = torch.randint(-127, 128, (total, block, 1, width)).to(torch.int8)
        self.weights = torch.randn(rows, heads).half()
        self.q_scale = torch.rand(rows, heads).half()
        self.k_scale = torch.rand(total, block, 1).half()
        self.table = scattered_table(len(used), columns, total)
        self.change = {}

    def run(self):
        heads, width = self.query.shape[1:]
        call = {
            "query": self.query,
            "key": self.key,
            "weights": self.weights,
            "query_dequant_scale": self.q_scale,
            "key_dequant_scale": self.k_scale,
            "actual_seq_lengths_query": torch.tensor(self.ends[1:], dtype=torch.int32),
            "actual_seq_lengths_key": torch.tensor(self.used, dtype=torch.int32),
            "block_table": self.table,
        } | self.change
        out, values = torch.ops.custom.npu_quant_lightning_indexer(
            **{name: npu(value) for name, value in call.items()},
            metadata=indexer_metadata(self.ends, self.used, heads, width, self.count),
            layout_query="TND",
            layout_key="PA_BSND",
            sparse_count=self.count,
            cmp_ratio=4,
        )
        assert values.numel() == 0
        return out.cpu()

    def scores(self, request: int, token: int, limit: int) -> list[float]:
        """Score of every visible key."""
        found = []
        visible = list(range(limit))
        keys = rows(self.key, self.table, request, visible).double()
        scales = rows(self.k_scale.unsqueeze(-1), self.table, request, visible)[:, 0].tolist()
        for key, scale in zip(keys, scales):
            total = 0.0
            for head in range(self.query.shape[1]):
                product = float((self.query[token, head].double() * key).sum())
                product *= float(self.q_scale[token, head].double())
                total += max(product * scale, 0.0) * float(self.weights[token, head].double())
            found.append(total)
        return found

    def expected(self):
        out = torch.full((self.ends[-1], 1, self.count), -1, dtype=torch.int32)
        for request, length in enumerate(self.q_lens):
            for i in range(length):
                token = self.ends[request] + i
                limit = max(0, (self.used[request] - length + i + 1) // 4)
                scores = self.scores(request, token, limit)
                best = sorted(range(limit), key=lambda entry: (-scores[entry], entry))[: self.count]
                out[token, 0, : len(best)] = torch.tensor(best, dtype=torch.int32)
        return out


@pytest.mark.usefixtures("relaxed")
@pytest.mark.parametrize(
    ("q_lens", "used"),
    [([1], [3]), ([1, 1, 1], [64, 5, 200]), ([60], [60]), ([40, 1, 17], [90, 33, 17]), ([1] * 40, list(range(1, 41)))],
)
def test_matches_its_definition(q_lens, used):
    case = IndexerCase(q_lens, used)
    assert torch.equal(case.run(), case.expected())


@pytest.mark.usefixtures("relaxed")
@pytest.mark.parametrize(("q_lens", "used"), [([1, 1, 1], [0, 90, 0]), ([5, 20, 5], [0, 70, 0]), ([1, 6], [0, 0])])
def test_padding_selects_nothing_and_reads_nothing(q_lens, used):
    """Requests without a stored token, as attention-DP pads with."""
    case = IndexerCase(q_lens, used)
    expected = case.expected()
    for request, stored in enumerate(used):
        if not stored:
            case.table[request] = -1
            assert (expected[case.ends[request] : case.ends[request + 1]] == -1).all()
    assert torch.equal(case.run(), expected)


@pytest.mark.usefixtures("relaxed")
def test_equal_scores_go_to_the_lower_index():
    case = IndexerCase([1], [160])
    case.key[:] = 1
    case.k_scale[:] = 1
    assert case.run()[0, 0].tolist() == list(range(8))


@pytest.mark.usefixtures("relaxed")
def test_rows_stand_alone():
    whole = IndexerCase([90], [240], heads=5, width=128, count=16)
    expected = whole.run()
    for i in (0, 1, 44, 89):
        one = IndexerCase([1], [151 + i], heads=5, width=128, count=16)
        one.key, one.k_scale, one.table = whole.key, whole.k_scale, whole.table
        one.query, one.weights = whole.query[i : i + 1], whole.weights[i : i + 1]
        one.q_scale = whole.q_scale[i : i + 1]
        assert torch.equal(one.run()[0], expected[i])


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize(("heads", "width"), [(3, 128), (64, 16)])
def test_dims_are_fixed(heads, width):
    with pytest.raises(RuntimeError, match=r"query.shape\[[12]\]"):
        IndexerCase([1], [8], heads=heads, width=width).run()


@pytest.mark.usefixtures("relaxed")
class TestLimits:
    @pytest.mark.parametrize(
        ("change", "match"),
        [
            ({"key_dequant_scale": torch.rand(3, 16, 1)}, "key_dequant_scale.dtype"),
            ({"weights": torch.rand(1, 3)}, "weights.dtype"),
            ({"actual_seq_lengths_key": torch.tensor([40])}, "actual_seq_lengths_key.dtype"),
            ({"block_table": torch.zeros(2, 1, dtype=torch.int32)}, r"block_table.shape\[0\] = 2"),
            ({"actual_seq_lengths_query": torch.tensor([2], dtype=torch.int32)}, "actual_seq_lengths_query"),
        ],
    )
    def test_refused(self, change, match):
        case = IndexerCase([1], [40])
        case.change = change
        with pytest.raises(RuntimeError, match=match):
            case.run()

    def test_query_longer_than_the_stored_tokens(self):
        with pytest.raises(RuntimeError, match=r"actual_seq_lengths_key\[1\] = 3"):
            IndexerCase([1, 4], [40, 3]).run()

    def test_wild_entries_inside_the_read_range(self):
        case = IndexerCase([1], [100])
        case.table[0, 1] = -1
        with pytest.raises(RuntimeError, match=r"block_table\[0, 1\] = -1"):
            case.run()

    def test_stale_metadata(self):
        case = IndexerCase([1, 1], [40, 40])
        case.ends = [0, 2, 2]
        with pytest.raises(RuntimeError, match=r"actual_seq_lengths_key\[0\]|metadata"):
            other = IndexerCase([1, 1], [40, 40])
            case.change = {"actual_seq_lengths_query": torch.tensor(other.ends[1:], dtype=torch.int32)}
            case.run()
