"""Plays a scenario on a rig and compares everything with stock prefill and serial decode."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .checks import Mismatch, check_rows, check_state, check_untouched, prefill_alone
from .scenario import Life, Scenario, Turn
from .sequence import Sequence
from .sight import Sight
from .snapshot import commit_rows, committed_bytes, held_rows, live_state, poison_arena
from .trees import INERT


def _bytes(tensors) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@dataclass
class Figures:
    """What was compared. rows: verify rows against a prefill of their path. seen, states, untouched: bytes that rows
    read, that commits left, and that nobody may have written. worst: largest error of a log-probability."""

    scenarios: int = 0
    rounds: int = 0
    rows: int = 0
    commits: int = 0
    tokens: int = 0
    seen: int = 0
    states: int = 0
    untouched: int = 0
    worst: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.scenarios} scenarios, {self.rounds} rounds, {self.rows} rows, {self.commits} commits of "
            f"{self.tokens} tokens; bytes compared: {self.seen:,} seen by rows, {self.states:,} committed, "
            f"{self.untouched:,} untouched; largest row error {self.worst:.3g}"
        )


@dataclass
class _Player:
    """A request on the rig. twin: the same request without speculation, which decodes what was accepted."""

    name: str
    life: Life
    sequence: Sequence
    twin: Sequence


def _check_tree(topology, b: int, turn: Turn, what: str) -> None:
    """The tree that was planned is the one that the scenario says."""
    live = set(turn.tree.live)
    expected = [parent if node in live else INERT for node, parent in enumerate(turn.tree.parents)]
    if topology.parent[b].tolist() != expected:
        raise Mismatch(f"{what}: parents are {topology.parent[b].tolist()} instead of {expected}")


class Playback:
    def __init__(self, rig, figures: Figures):
        self.rig, self.figures = rig, figures
        self.players: list[_Player] = []

    def play(self, scenario: Scenario) -> None:
        """Raises Mismatch with request, round and place. Whatever happens, nothing stays on the rig."""
        rig, figures = self.rig, self.figures
        free = self._free()
        try:
            for number in range(scenario.rounds):
                self._join(scenario, number)
                self._round(number)
                self._leave(number)
        finally:
            self.players.clear()
            rig.release_all()
        if self._free() != free:
            raise Mismatch(f"slots or request rows were lost: {self._free()} free instead of {free}")
        figures.scenarios += 1

    def _free(self) -> tuple[int, int, int]:
        allocator = self.rig.allocator
        return (
            allocator.available_size(),
            allocator.c128_attn_allocator.available_size(),
            self.rig.requests.available_size(),
        )

    def _join(self, scenario: Scenario, number: int) -> None:
        joining = [(i, life) for i, life in enumerate(scenario.requests) if life.joins == number]
        if not joining:
            return
        prompts = [life.prompt for _, life in joining]
        sequences, twins = self.rig.prefill(prompts)[0], self.rig.prefill(prompts)[0]
        for (i, life), sequence, twin in zip(joining, sequences, twins):
            self.players.append(_Player(f"request {i}", life, sequence, twin))

    def _leave(self, number: int) -> None:
        leaving = [player for player in self.players if player.life.leaves == number + 1]
        for player in leaving:
            self.players.remove(player)
            self.rig.release(player.sequence, player.twin)

    def _round(self, number: int) -> None:
        found = [(player, player.life.turn(number)) for player in self.players]
        playing = [(player, turn) for player, turn in found if turn is not None]
        if not playing:
            return
        rig, figures, what = self.rig, self.figures, f"round {number}"
        sequences = [player.sequence for player, _ in playing]
        poison_arena(rig)
        rig._speculating(sequences)  # the reserve is SGLang's, not the round's
        before = committed_bytes(rig)
        done = rig.verify(sequences, [turn.tree for _, turn in playing], [list(turn.tokens) for _, turn in playing])
        self._untouched(before, f"{what}, plan and forward")
        for b, (player, turn) in enumerate(playing):
            _check_tree(done.plan.topology, b, turn, f"{player.name}, {what}")
        self._check_rows(playing, done, what)

        allowed: dict[str, list[torch.Tensor]] = {name: [] for name in before}
        for player, turn in playing:
            for name, rows in commit_rows(rig, player.sequence, player.sequence.length, len(turn.path)).items():
                allowed[name].append(rows)
        before = committed_bytes(rig)  # the rows' prefills came in between
        rig.commit(done, [turn.path for _, turn in playing])
        self._untouched(before, f"{what}, commit", {name: torch.cat(rows) for name, rows in allowed.items()})
        for b, (player, turn) in enumerate(playing):
            self._check_commit(player, turn, done.logits[b], what)
        figures.rounds += 1

    def _check_rows(self, playing: list[tuple[_Player, Turn]], done, what: str) -> None:
        """Every live row: the stored rows that it sees, and its logits, are those of its own path prefilled alone.

        Other forwards come between verify and commit here, as under overlap scheduling.
        """
        sight, n = Sight(self.rig, done.plan), self.rig.shape.n
        rows = [(b, node) for b, (_, turn) in enumerate(playing) for node in turn.tree.live]
        names = [f"{playing[b][0].name}, {what}, row {node} (path {playing[b][1].tree.path(node)})" for b, node in rows]
        prompts = [
            playing[b][0].sequence.tokens + [playing[b][1].tokens[v] for v in playing[b][1].tree.path(node)]
            for b, node in rows
        ]

        def check_sight(i: int, alone: Sequence) -> None:
            b, node = rows[i]
            sight.check(b * n + node, alone, names[i])

        truths = prefill_alone(self.rig, prompts, check_sight)
        for (b, node), name, truth in zip(rows, names, truths):
            error = check_rows(done.logits[b], {node: truth}, name)
            self.figures.worst = max(self.figures.worst, error)
        self.figures.rows += len(rows)
        self.figures.seen += sight.compared

    def _check_commit(self, player: _Player, turn: Turn, logits: torch.Tensor, what: str) -> None:
        """The committed state is that of decoding the accepted tokens one by one; so are the accepted rows."""
        what = f"{player.name}, {what}, accepted {turn.path}"
        for node in turn.path:
            decoded = self.rig.decode(player.twin, turn.tokens[node])
            error = check_rows(logits, {node: decoded}, f"{what}, against serial decode")
            self.figures.worst = max(self.figures.worst, error)
        state = live_state(self.rig, player.sequence)
        check_state(state, live_state(self.rig, player.twin), what)
        self.figures.states += _bytes(rows for _, rows in state.content.values())
        self.figures.commits += 1
        self.figures.tokens += len(turn.path)

    def _untouched(self, before: dict, what: str, allowed: dict | None = None) -> None:
        check_untouched(before, committed_bytes(self.rig), what, allowed, owner=self._owner)
        self.figures.untouched += _bytes(before.values())

    def _owner(self, name: str, row: int) -> str:
        """Whose row of a buffer this is, in the words of the scenario."""
        for player in self.players:
            for held, whose in ((player.sequence, player.name), (player.twin, f"{player.name}'s serial twin")):
                rows = held_rows(self.rig, held).get(name)
                mine = row // 128 == held.row if rows is None else bool((rows == row).any())
                if mine:
                    return f"of {whose}"
        return "of nobody"
