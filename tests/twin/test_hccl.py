"""Collectives between two processes."""

import datetime
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

WORLD = 2


def _rank_main(rank: int, port: int) -> None:
    dist.init_process_group(
        "hccl",
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=WORLD,
        timeout=datetime.timedelta(seconds=60),
    )
    mine = torch.tensor([1.0, 2.0], dtype=torch.bfloat16, device="npu") + rank

    total = mine.clone()
    dist.all_reduce(total)
    assert total.tolist() == [3, 5]

    peak = mine.clone()
    dist.all_reduce(peak, op=dist.ReduceOp.MAX)
    assert peak.tolist() == [2, 3]

    parts = [torch.empty_like(mine) for _ in range(WORLD)]
    dist.all_gather(parts, mine)
    assert [part.tolist() for part in parts] == [[1, 2], [2, 3]]

    joined = torch.empty(4, dtype=torch.bfloat16, device="npu")
    dist.all_gather_into_tensor(joined, mine)
    assert joined.tolist() == [1, 2, 2, 3]

    sent = torch.full((3,), rank, dtype=torch.int64, device="npu")
    dist.broadcast(sent, src=1)
    assert sent.tolist() == [1, 1, 1]

    share = torch.empty(1, device="npu")
    dist.reduce_scatter_tensor(share, torch.tensor([10.0, 20.0], device="npu") + rank)
    assert share.tolist() == [[21], [41]][rank]

    share = torch.empty(1, device="npu")
    dist.reduce_scatter(share, [torch.full((1,), 1.0 + rank, device="npu"), torch.full((1,), 5.0, device="npu")])
    assert share.tolist() == [[3], [10]][rank]

    swapped = torch.empty(2, device="npu")
    dist.all_to_all_single(swapped, torch.tensor([0.0, 1.0], device="npu") + 10 * rank)
    assert swapped.tolist() == [[0, 10], [1, 11]][rank]

    # Unequal attention-DP batches: padded to the longer one and gathered, or placed into one buffer and added.
    rows = torch.arange(6.0, device="npu").view(3, 2) + 100 * rank
    padded = torch.empty(6, 2, device="npu")
    dist.all_gather_into_tensor(padded, rows)
    assert padded[:, 0].tolist() == [0, 2, 4, 100, 102, 104]
    placed = torch.zeros(4, 2, device="npu")  # three rows of rank 0, one of rank 1
    placed[3 * rank : 3 + rank] = rows[: 3 - 2 * rank]
    dist.all_reduce(placed)
    assert placed[:, 1].tolist() == [1, 3, 5, 101]
    share = torch.empty(3, 2, device="npu")
    dist.reduce_scatter_tensor(share, padded)
    assert torch.equal(share.cpu(), 2 * rows.cpu())

    sizes = [[1, 2], [0, 3]][rank]
    received = torch.empty([1, 5][rank], 2, device="npu")
    dist.all_to_all_single(received, rows, [[1, 0], [2, 3]][rank], sizes)
    assert received[:, 0].tolist() == [[0], [2, 4, 100, 102, 104]][rank]

    if rank == 0:
        dist.send(mine, dst=1)
    else:
        got = torch.empty_like(mine)
        dist.recv(got, src=0)
        assert got.tolist() == [1, 2]

    dist.barrier()
    group = dist.new_group([0, 1], backend="hccl")
    dist.all_reduce(mine, group=group)
    assert mine.tolist() == [3, 5]
    dist.destroy_process_group()


def test_two_ranks():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    mp.spawn(_rank_main, args=(port,), nprocs=WORLD)
