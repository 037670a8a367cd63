"""A sound record of one verify round, written out by hand-sized rules: no code of the package decides what is right."""

from __future__ import annotations

from dsv4_npu_tree.inspect.record import CompressorRecord, RequestRound, SpaceRecord

BLOCK, ARENA = 16, 4096  # block rows; first arena row, far above any own slot


def own_slot(ratio: int, entry: int) -> int:
    """Pages of the request lie anywhere: slot of an entry."""
    return 512 // ratio + entry


def sound_round(prefix: int, parents: tuple[int, ...], accepted: list[int], steps: int = 3) -> RequestRound:
    """Record of a tree given by parents (-2 inert) in which ``accepted`` was accepted; token of node v is 100 + v."""
    n = len(parents)
    paths: dict[int, list[int]] = {0: [0]}
    for node in range(1, n):
        if parents[node] >= 0:
            paths[node] = [*paths[parents[node]], node]
    live = list(paths)
    leaves = [node for node in live if node not in parents]
    branches = [paths[leaf] for leaf in leaves]
    home = [next((b for b, branch in enumerate(branches) if node in branch), -1) for node in range(n)]
    depth = [len(paths[node]) - 1 if node in paths else 0 for node in range(n)]
    children = {node: [c for c in range(n) if parents[c] == node] for node in range(n)}
    sibling = [-1] * n
    for below in children.values():
        for node, later in zip(below, below[1:]):
            sibling[node] = later
    target: list[int | None] = [None] * n
    for node, below in zip(accepted, [*accepted[1:], None]):
        target[node] = 999 if below is None else 100 + below
    inert = [node for node in range(n) if node not in paths]
    return RequestRound(
        request="r",
        prefix=prefix,
        token=[100 + node for node in range(n)],
        parent=list(parents),
        depth=depth,
        score=[1.0] + [round(0.9 - 0.1 * node, 3) for node in range(1, n)],
        accepted=accepted,
        bonus=999,
        position=[prefix + d for d in depth],
        ancestors=[sum(1 << v for v in paths[node]) if node in paths else 0 for node in range(n)],
        next_token=[children[node][0] if children[node] else -1 for node in range(n)],
        next_sibling=sibling,
        home=home,
        branches=[*branches, *[[]] * (n - 1 - len(branches))],
        seqused=[prefix + d + 1 for d in depth],
        target=target,
        candidate=list(range(n - 1)),
        candidate_parent=[
            900 if node in inert else -1 if parents[node] == 0 else parents[node] - 1 for node in range(1, n)
        ],
        candidate_token=[100 + node for node in range(1, n)],
        spaces=[_space(ratio, prefix, branches, home, steps) for ratio in (1, 4, 128)],
        compressors=[_compressor(ratio, prefix, paths, steps) for ratio in (4, 128)],
        steps=steps,
        expected_prefix=prefix,
        expected_root=100,
    )


def _space(ratio: int, prefix: int, branches: list[list[int]], home: list[int], steps: int) -> SpaceRecord:
    done, end = prefix // ratio, (prefix + steps + 1) // ratio
    tail_block, size = done // BLOCK, 2 * BLOCK
    first = max(0, prefix - 127) // BLOCK if ratio == 1 else 0
    table, writes, tails = [], [], []
    for branch in home:
        base = ARENA + max(branch, 0) * size
        table.append(
            [own_slot(ratio, c * BLOCK) // BLOCK for c in range(first, tail_block)] + [base // BLOCK, base // BLOCK + 1]
        )
    for branch, path in enumerate(branches):
        base = ARENA + branch * size
        if done % BLOCK:
            tails.append([own_slot(ratio, tail_block * BLOCK), base, done % BLOCK])
        for d, node in enumerate(path):
            if (prefix + d + 1) % ratio == 0:
                writes.append([node, base + (prefix + d) // ratio - tail_block * BLOCK])
    return SpaceRecord(
        ratio=ratio,
        block=BLOCK,
        arena=[ARENA, ARENA + size * len(home)],
        first_column=first,
        table=table,
        own=[own_slot(ratio, entry) for entry in range(first * BLOCK, max(end, done))],
        writes=writes,
        tails=tails,
        targets=[own_slot(ratio, entry) for entry in range(done, end)],
    )


def _compressor(ratio: int, prefix: int, paths: dict[int, list[int]], steps: int) -> CompressorRecord:
    width = 8 if ratio == 4 else 128
    first = max(0, prefix + 1 - width)
    windows: list[tuple[int, list[int | None]]] = []
    for node, path in paths.items():
        end = prefix + len(path)
        if end % ratio == 0:
            rows: list[int | None] = []
            for position in range(end - width, end):
                inside = position >= prefix
                rows.append(None if position < 0 else -1 - path[position - prefix] if inside else position % width)
            windows.append((node, rows))
    span = range(first, prefix + steps + 1)
    ring = [position % width for position in span]
    return CompressorRecord(ratio, first, ring, windows, [(prefix + d) % width for d in range(steps + 1)])
