"""The arena formula: its numbers for V4-Flash, its refusal, and equality with the pools' own page arithmetic."""

import pytest

from dsv4_npu_tree.config import TreeConfig
from dsv4_npu_tree.paging.arena import arena_pages, space_of
from dsv4_npu_tree.paging.budget import ArenaBudget, ModelRows

FLASH = ModelRows((0, 0, *(4, 128) * 20, 4))
SHAPE = TreeConfig(n=8, steps=3, topk=4, max_branches=7)


def test_flash_layers_are_two_swa_21_c4_20_c128():
    assert [FLASH.ratios.count(ratio) for ratio in (0, 4, 128)] == [2, 21, 20]


def test_flash_costs_what_the_row_counts_say():
    budget = ArenaBudget.of(SHAPE, 33, FLASH, 16)
    rows = 33 * 7 * 32
    assert {t.name: (t.rows, t.bytes_per_row) for t in budget.terms} == {
        "swa": (-(-rows // 128) * 128, 43 * 1024),
        "c4": (rows, 21 * (1024 + 128 + 2)),
        "c128": (rows // 2, 20 * 1024),
        "draft swa": (33 * 4 * 32, 1024),
    }
    assert budget.arena_bytes == sum(t.rows * t.bytes_per_row for t in budget.terms)
    assert budget.arena_bytes < 0.7 * 2**30
    # fp32 wkv and wgate of every compressor: C4 2 x 1024, its indexer 2 x 256, C128 2 x 512 rows of 4096
    assert budget.projection_bytes == 4 * 4096 * (21 * (2048 + 512) + 20 * 1024)
    assert budget.scratch_bytes == 33 * 8 * 4 * (21 * (2048 + 512) + 20 * 1024)
    assert budget.bytes == budget.arena_bytes + budget.projection_bytes + budget.scratch_bytes


PRO = ModelRows((128, 128, *(4, 128) * 29, 4), hidden=7168)


def test_pro_layers_are_30_c4_31_c128():
    assert [PRO.ratios.count(ratio) for ratio in (0, 4, 128)] == [0, 30, 31]


# MiB per running request and of the fp32 projections; docs/operations.md prints this table
@pytest.mark.parametrize(
    ("model", "n", "steps", "per_request", "projections"),
    [
        (FLASH, 8, 3, 19.2, 1160),
        (FLASH, 16, 5, 40.6, 1160),
        (FLASH, 32, 7, 47.5, 1160),
        (PRO, 8, 3, 27.6, 2968),
        (PRO, 16, 5, 58.5, 2968),
        (PRO, 32, 7, 68.5, 2968),
    ],
)
def test_bytes_of_one_more_request(model, n, steps, per_request, projections):
    config = TreeConfig(n, steps, 4, max_branches=min(n - 1, 16))
    one, many = (ArenaBudget.of(config, requests, model, 16) for requests in (64, 192))
    assert one.request_bytes == pytest.approx((many.bytes - one.bytes) / 128, rel=1e-6)
    assert round(one.request_bytes / 2**20, 1) == per_request
    assert round(one.projection_bytes / 2**20) == projections
    assert f"{per_request} MiB per running request" in str(one)


def test_a_larger_block_costs_proportionally_more():
    small = ArenaBudget.of(SHAPE, 33, FLASH, 16)
    large = ArenaBudget.of(TreeConfig(8, 3, 4, 7, block_rows=128), 33, FLASH, 16)
    swa = [next(t.rows for t in b.terms if t.name == "swa") for b in (small, large)]
    assert swa[1] == pytest.approx(8 * swa[0], rel=0.02)


def test_refusal_names_numbers_and_flags():
    budget = ArenaBudget.of(SHAPE, 33, FLASH, 16)
    assert budget.refusal(budget.bytes + 1, "the KV budget") is None
    reason = budget.refusal(budget.bytes, "the KV budget")
    assert reason is not None
    for word in ("33 request rows", "7 branches", "MiB", "--max-running-requests", "--mem-fraction-static"):
        assert word in reason


@pytest.mark.parametrize("block_rows", [16, 32, 64, 128])
@pytest.mark.parametrize("requests", [1, 5, 33])
def test_two_blocks_hold_tail_and_path(block_rows, requests):
    config = TreeConfig(17, 16, 4, 16, block_rows=block_rows)
    space = space_of(1, 128, config, 16)
    assert space.branch_rows >= (block_rows - 1) + (config.steps + 1)
    assert (
        arena_pages(space, requests, 128) * 128 >= space.rows(requests) > (arena_pages(space, requests, 128) - 1) * 128
    )
    entries = space_of(4, 32, config, 16)
    assert entries.branch_rows >= (entries.block - 1) + -(-(config.steps + 1) // 4)
