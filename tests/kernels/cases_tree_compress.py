"""Cases of tree_compress for tests and benchmarks: windows along the paths of random trees, as tensors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from dsv4_npu_tree.reference import compress as oracle

ROPE, EPS = 64, 1e-6
# (ratio, D): C4 attention, C4 indexer, C128 attention.
KINDS = {"c4": (4, 512), "indexer": (4, 128), "c128": (128, 512)}


@dataclass
class Case:
    """Arguments of the op in its order; fp32 tensors unless `ops.tree_compress` says otherwise."""

    scratch: torch.Tensor
    state: torch.Tensor
    window: torch.Tensor
    closes: torch.Tensor
    norm_weight: torch.Tensor
    cos: torch.Tensor
    sin: torch.Tensor
    coff: int
    norm_eps: float = EPS

    @property
    def dim(self) -> int:
        return self.norm_weight.shape[0]

    def arguments(self, device: str = "cpu") -> tuple:
        tensors = (self.scratch, self.state, self.window, self.closes, self.norm_weight, self.cos, self.sin)
        return (*(tensor.to(device) for tensor in tensors), self.coff, self.norm_eps)

    def expected(self) -> np.ndarray:
        """fp64 ``[T, D]`` of the oracle."""
        *tensors, coff, eps = self.arguments()
        return oracle.entries(*(tensor.numpy() for tensor in tensors), coff, eps)

    @property
    def minimum_bytes(self) -> tuple[int, int]:
        """Bytes that must be read and written: window columns that are used, tables, and every output row."""
        closing = self.window[self.closes]
        present = int((closing != oracle.ABSENT).sum())
        tables = closing.numel() * 8 + self.closes.numel() + 4 * self.dim + 8 * self.cos.shape[1] * closing.shape[0]
        return present * 2 * self.dim * 4 + tables, self.closes.numel() * self.dim * 2


def random_parents(rng: np.random.Generator, n: int, steps: int) -> list[int]:
    """Parents of n nodes (root first), depth at most `steps`."""
    parents, depths = [-1], [0]
    for _ in range(n - 1):
        parent = int(rng.choice([v for v, depth in enumerate(depths) if depth < steps]))
        parents.append(parent)
        depths.append(depths[parent] + 1)
    return parents


def path_to(parents: list[int], node: int) -> list[int]:
    path = [node]
    while parents[path[0]] >= 0:
        path.insert(0, parents[path[0]])
    return path


def tree_case(
    seed: int, bs: int, n: int, kind: str, *, steps: int = 6, prefixes: list[int] | None = None, scale: float = 3.0
) -> Case:
    """bs requests with a random tree of n nodes each, after prefixes that make many nodes close a block.

    Ring rows: ``request * size + position % size`` with the sizes of a server without speculation (8 and 128).
    """
    rng = np.random.default_rng(seed)
    ratio, dim = KINDS[kind]
    coff, size = (2, 8) if ratio == 4 else (1, 128)
    if prefixes is None:
        blocks = rng.integers(0, 40, bs) * ratio
        prefixes = [int(b + (rng.integers(1, 4) if ratio == 4 else 128 - rng.integers(1, steps + 2))) for b in blocks]
    window = np.full((bs * n, coff * ratio), -1 - bs * n - 7, dtype=np.int64)  # open rows: never to be read
    closes = np.zeros(bs * n, dtype=bool)
    for request, prefix in enumerate(prefixes):
        parents = random_parents(rng, n, steps)
        for node in range(n):
            path = path_to(parents, node)
            position = prefix + len(path) - 1
            if (position + 1) % ratio != 0:
                continue
            row = request * n + node
            closes[row] = True
            for slot in range(coff * ratio):
                at = position - coff * ratio + 1 + slot
                if at < 0:
                    window[row, slot] = oracle.ABSENT
                elif at < prefix:
                    window[row, slot] = request * size + at % size
                else:
                    window[row, slot] = -1 - (request * n + path[at - prefix])
    return filled(seed, dim, coff, bs * size, window, closes, scale)


def filled(
    seed: int, dim: int, coff: int, state_rows: int, window: np.ndarray, closes: np.ndarray, scale: float = 3.0
) -> Case:
    """A case of given tables with random rows; scores have standard deviation `scale`."""
    random = torch.Generator().manual_seed(seed)
    width, rows = 2 * coff * dim, len(window)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=random)

    def token_rows(count: int) -> torch.Tensor:
        made = normal(count, width)
        made[:, width // 2 :] *= scale
        return made

    angle = (torch.rand(rows, ROPE // 2, generator=random) * 6.3).repeat_interleave(2, -1)
    return Case(
        token_rows(rows),
        token_rows(state_rows),
        torch.from_numpy(window),
        torch.from_numpy(closes),
        1 + 0.2 * normal(dim),
        angle.cos(),
        angle.sin(),
        coff,
    )


def many_rows(seed: int, rows: int, kind: str, closing: float = 1.0) -> Case:
    """Windows of arbitrary entries: any row of state or tree, absent ones anywhere but in the last slot."""
    rng = np.random.default_rng(seed)
    ratio, dim = KINDS[kind]
    coff = 2 if ratio == 4 else 1
    state_rows = 257
    window = rng.integers(-rows, state_rows, (rows, coff * ratio))
    window[:, :-1][rng.random((rows, coff * ratio - 1)) < 0.1] = oracle.ABSENT
    return filled(seed, dim, coff, state_rows, window, rng.random(rows) < closing)


def with_large_scores(case: Case) -> Case:
    """Scores from -1e4 to 1e4, many of them equal."""
    changed = replace(case, scratch=case.scratch.clone(), state=case.state.clone())
    for rows in (changed.scratch, changed.state):
        score = rows[:, rows.shape[1] // 2 :]
        score.copy_((score.sign() * score.abs().pow(6)).clamp(-1e4, 1e4).round())
    return changed


def with_cleared_state(case: Case) -> Case:
    """Some state rows as a pool clears them: kv 0, score -inf. The last slot of a window stays a tree row."""
    changed = replace(case, state=case.state.clone())
    half = case.state.shape[1] // 2
    changed.state[::3, :half] = 0.0
    changed.state[::3, half:] = float("-inf")
    return changed


def with_poison(case: Case) -> Case:
    """NaN in every number that no closing window needs: other rows, other columns, other lines of cos and sin."""
    ratio = case.window.shape[1] // case.coff
    needed = [torch.zeros(rows.shape, dtype=torch.bool) for rows in (case.scratch, case.state)]
    half = case.scratch.shape[1] // 2
    for row in case.closes.nonzero().flatten().tolist():
        for slot, source in enumerate(case.window[row].tolist()):
            if source == oracle.ABSENT:
                continue
            mask, index = (needed[1], source) if source >= 0 else (needed[0], -1 - source)
            first = slot // ratio * case.dim
            mask[index, first : first + case.dim] = True
            mask[index, half + first : half + first + case.dim] = True
    nan = float("nan")
    open_rows = ~case.closes[:, None]
    return replace(
        case,
        scratch=case.scratch.masked_fill(~needed[0], nan),
        state=case.state.masked_fill(~needed[1], nan),
        cos=case.cos.masked_fill(open_rows, nan),
        sin=case.sin.masked_fill(open_rows, nan),
    )


def bench_cases(seed: int = 1) -> dict[str, Case]:
    """Named cases of a benchmark: verify rounds of 8 nodes, and the rare round in which every request crosses 128."""
    cases = {f"{kind} bs {bs} n 8": tree_case(seed, bs, 8, kind) for kind in ("c4", "indexer") for bs in (1, 8, 32)}
    cases["c128 bs 8 n 8, crossing"] = tree_case(seed, 8, 8, "c128")
    cases["c128 bs 8 n 8, idle"] = tree_case(seed, 8, 8, "c128", prefixes=[200] * 8)
    return cases
