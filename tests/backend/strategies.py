"""Hypothesis strategies for scenarios. They shrink towards one request with a short prompt and one round."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from .scenario import Life, Scenario, Turn
from .trees import INERT, Tree, chain, comb, full, star

LONGEST = 600
ACROSS_A_PAGE = (2040, 2060)  # the 16 entries of a C128 page end at 2048
SLOTS_TOKENS = 2600  # prompts of one scenario; the pool holds them, their serial twins and some fresh requests


def weighted(*choices: tuple[int, st.SearchStrategy]) -> st.SearchStrategy:
    """One of the strategies, by weight. Shrinks towards the first.

    `one_of` knows no weights, and hypothesis spreads large integers more evenly than the places of a short list.
    """
    line = [choice for weight, choice in choices for _ in range(weight)]
    return st.integers(0, 2**32 - 1).flatmap(lambda number: line[number % len(line)])


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
    named = st.sampled_from([star(n), chain(n, steps), comb(n, steps), *([full(n)] if n < 2 ** (steps + 1) else [])])
    return weighted((4, grown_trees(n, steps)), (2, orphaned_trees(n, steps)), (1, named))


@st.composite
def turns(draw, n: int, steps: int) -> Turn:
    """A tree, tokens that often repeat among siblings and elsewhere, and an accepted node of any depth."""
    tree = draw(trees(n, steps))
    token = weighted((1, st.integers(3, 8)), (1, st.integers(3, 1000)))
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

    kinds = [(5, st.integers(1, 20)), (4, around(128)), (3, around(16, 32, 48, 64, 112, 144))]
    if longest > 260:
        kinds += [(2, around(256)), (1, st.one_of(st.integers(1, longest), around(384, 512, longest - 2)))]
    return weighted(*kinds)


@st.composite
def lives(draw, n: int, steps: int, rounds: int, longest: int) -> Life:
    turn = turns(n, steps)
    first, more = draw(turn), draw(st.integers(0, rounds - 1))
    later = draw(st.lists(weighted((5, turn), (1, st.none())), min_size=more, max_size=more))
    joins = draw(st.sampled_from([0, 0, 0, *range(rounds)]))  # most of them together
    return Life(draw(prefixes(longest)), draw(st.integers(0, 10**6)), joins, (first, *later)[: rounds - joins])


@st.composite
def scenarios(
    draw, n: int, steps: int, *, requests: int = 5, rounds: int = 4, longest: int = LONGEST, across: bool = False
) -> Scenario:
    """across: the first prompt ends at the C128 page boundary; it has one round and at most one companion (costly)."""
    size = draw(weighted(*((1, st.just(count)) for count in range(1, requests + 1))))
    cast = draw(st.lists(lives(n, steps, rounds, longest), min_size=size, max_size=size))
    if across:
        long = replace(cast[0], prefix=draw(st.integers(*ACROSS_A_PAGE)), turns=cast[0].turns[:1])
        cast = [long, *cast[1:2]]
    while sum(life.prefix for life in cast) > SLOTS_TOKENS:
        cast.pop()
    begin = min(life.joins for life in cast)
    return Scenario(tuple(replace(life, joins=life.joins - begin) for life in cast))
