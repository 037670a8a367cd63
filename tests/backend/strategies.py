"""Hypothesis strategies for scenarios. They shrink towards one request with a short prompt and one round."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from .scenario import Life, Scenario, Turn
from .trees import INERT, Tree, chain, comb, full, star

LONGEST = 600
ACROSS_A_PAGE = (2040, 2060)  # the 16 entries of a C128 page end at 2048
SLOTS_TOKENS = 2600  # prompts of one scenario; the pool holds them, their serial twins and some fresh requests


@st.composite
def grown_trees(draw, n: int, steps: int) -> Tree:
    """A random tree in candidate order: a node hangs on the parent of the node before it, or on a later one."""
    parents, depth = [-1], [0]
    for node in range(1, n):
        open_nodes = [p for p in range(max(parents[-1], 0), node) if depth[p] < steps]
        parents.append(draw(st.sampled_from(open_nodes)))
        depth.append(depth[parents[-1]] + 1)
    return Tree(tuple(parents))


@st.composite
def orphaned_trees(draw, n: int, steps: int) -> Tree:
    """A random tree with a candidate at depth 1 that was not selected: what hangs below it is inert."""
    missing = draw(st.integers(1, n - 1))  # its place among n + 1 nodes; those before it are children of the root
    parents, depth = [-1, *[0] * missing], [0, *[1] * missing]
    while len(parents) < n + 1:
        open_nodes = [p for p in range(max(parents[-1], 1), len(parents)) if depth[p] < steps]
        parents.append(draw(st.sampled_from(open_nodes)))
        depth.append(depth[parents[-1]] + 1)
    del parents[missing]
    return Tree(tuple(INERT if p == missing else p - (p > missing) for p in parents))


def trees(n: int, steps: int) -> st.SearchStrategy[Tree]:
    grown = grown_trees(n, steps)
    named = st.sampled_from([star(n), chain(n, steps), comb(n, steps), *([full(n)] if n < 2 ** (steps + 1) else [])])
    return st.one_of(grown, grown, grown, orphaned_trees(n, steps), named)


@st.composite
def turns(draw, n: int, steps: int) -> Turn:
    """A tree, tokens that often repeat among siblings and elsewhere, and an accepted node of any depth."""
    tree = draw(trees(n, steps))
    token = draw(st.sampled_from([st.integers(3, 8), st.integers(3, 1000)]))
    tokens = draw(st.lists(token, min_size=n, max_size=n))
    by_depth: dict[int, list[int]] = {}
    for node in tree.live:
        by_depth.setdefault(tree.depth(node), []).append(node)
    depth = draw(st.sampled_from(sorted(by_depth)))
    return Turn(tree, tuple(tokens), draw(st.sampled_from(by_depth[depth])))


def prefixes(longest: int = LONGEST) -> st.SearchStrategy[int]:
    """Prompt lengths, most of them a few tokens from where a block of 4, 16 or 128 positions ends."""

    def around(*edges: int) -> st.SearchStrategy[int]:
        close = [edge + off for edge in edges for off in range(-5, 3)]
        return st.sampled_from([length for length in close if 1 <= length <= longest])

    kinds = [st.integers(1, 20)] * 5 + [around(128)] * 4 + [around(16, 32, 48, 64, 112, 144)] * 3
    if longest > 260:
        kinds += [around(256), st.one_of(st.integers(1, longest), around(384, 512, longest - 2))]
    return st.one_of(*kinds)


@st.composite
def lives(draw, n: int, steps: int, rounds: int, longest: int) -> Life:
    turn = turns(n, steps)
    first = draw(turn)
    # one in five rounds is sat out
    later = draw(st.lists(st.one_of(turn, turn, turn, turn, st.none()), max_size=rounds - 1))
    joins = draw(st.integers(0, rounds - 1))
    return Life(draw(prefixes(longest)), draw(st.integers(0, 10**6)), joins, (first, *later)[: rounds - joins])


@st.composite
def scenarios(
    draw, n: int, steps: int, *, requests: int = 5, rounds: int = 4, longest: int = LONGEST, across: bool = False
) -> Scenario:
    """across: now and then one prompt ends at the C128 page boundary."""
    cast = draw(st.lists(lives(n, steps, rounds, longest), min_size=1, max_size=requests))
    if across and draw(st.integers(0, 49)) == 31:  # costly, so seldom
        cast = [replace(cast[0], prefix=draw(st.integers(*ACROSS_A_PAGE))), *cast[1:2]]
    while sum(life.prefix for life in cast) > SLOTS_TOKENS:
        cast.pop()
    begin = min(life.joins for life in cast)
    return Scenario(tuple(replace(life, joins=life.joins - begin) for life in cast))
