"""The product of a character model and an automaton: how much mass stands where after t characters.

    α_t(p): the probability that a string has t characters or more and its first t lead to the product state p
    ended[t, l] = Σ_{p of label l} α_t(p) · p(end | p)

A string of a label is drawn backwards: its length and last state by what ended there, then each state before it with
probability ∝ α_{t-1}(p') · p(character | p'). The last character of every state is known, so the ways into a state are
found in one sorted column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import DomainError
from llrnn.languages.domains.characters import CharacterModel
from llrnn.text.automata import Automaton

_NOTHING = 1e-16  # of the whole mass: what a float64 sum does not show
_LONGEST = 2000  # characters; a model whose words do not end by then does not end


@dataclass(frozen=True, eq=False)
class Forward:
    """α for every length, over the P product states that can be reached."""

    model: CharacterModel
    state: Ints  # (P,) the model's state
    label: Ints  # (P,)
    moves: NDArray[np.int32]  # (P, A)
    alpha: list[Floats]  # for t = 0, 1, ...: (P,)
    ended: Floats  # (T + 1, labels)
    _sorted: dict[int, tuple[Ints, Ints]] = field(default_factory=dict)

    @classmethod
    def of(cls, model: CharacterModel, automaton: Automaton, labels: int) -> Forward:
        state, other, moves = _reachable(model, automaton)
        label = automaton.labels[other]
        alpha = [np.zeros(len(state))]
        alpha[0][0] = 1.0
        step, end = _Step(model, state, moves), model.prob[state, -1]
        ended = []
        while alpha[-1].sum() > _NOTHING:
            if len(alpha) > _LONGEST:
                raise DomainError(
                    f"a spelling must end, but {alpha[-1].sum():.1e} of its mass is longer than {_LONGEST} characters; "
                    "give it words to learn from that end, or a lower order"
                )
            inside = label >= 0
            ended.append(np.bincount(label[inside], weights=(alpha[-1] * end)[inside], minlength=labels))
            alpha.append(step(alpha[-1]))
        return cls(model, state, label, moves, alpha, np.stack(ended))

    def draw(
        self, labels: Ints, in_band: Callable[[Ints], NDArray[np.bool_]], count: int, rng: np.random.Generator
    ) -> list[str]:
        """Strings of some labels whose length is in a band, with probability ∝ q(x)."""
        weights = np.where(in_band(np.arange(len(self.ended))), self.ended[:, labels].sum(1), 0.0)
        length = _choose(weights, count, rng)
        columns = np.full((count, int(length.max(initial=0))), -1)
        at = np.zeros(count, dtype=np.int64)
        members = np.concatenate([self._members[label] for label in labels.tolist()])
        end = self.model.prob[self.state[members], -1]
        for t in range(int(length.max(initial=0)), 0, -1):
            new = np.flatnonzero(length == t)
            if len(new):
                at[new] = members[_choose(self.alpha[t][members] * end, len(new), rng)]
            going = np.flatnonzero(length >= t)
            columns[going, t - 1] = self.model.last[self.state[at[going]]]
            self._step_back(at, going, t, rng)
        draw = self.model.alphabet.draw
        return ["".join(draw(int(column), rng) for column in row[row >= 0]) for row in columns]

    @cached_property
    def _members(self) -> list[Ints]:
        """The states of each label."""
        order = np.argsort(self.label, kind="stable")
        first = np.searchsorted(self.label[order], np.arange(self.ended.shape[1] + 1))
        return [order[first[i] : first[i + 1]] for i in range(self.ended.shape[1])]

    def _step_back(self, at: Ints, going: Ints, t: int, rng: np.random.Generator) -> None:
        """Replace the state after t characters of each string by the one before; equal states are handled together."""
        states, which = np.unique(at[going], return_inverse=True)
        for number, state in enumerate(states.tolist()):
            mine = going[which == number]
            column = int(self.model.last[self.state[state]])
            before = self._ways_into(state, column)
            weights = self.alpha[t - 1][before] * self.model.prob[self.state[before], column]
            at[mine] = before[_choose(weights, len(mine), rng)]

    def _ways_into(self, state: int, column: int) -> Ints:
        """The states from which a character leads to this one."""
        if column not in self._sorted:
            order = np.argsort(self.moves[:, column], kind="stable")
            self._sorted[column] = order, self.moves[order, column].astype(np.int64)
        order, targets = self._sorted[column]
        first, last = np.searchsorted(targets, [state, state + 1])
        return np.asarray(order[first:last], dtype=np.int64)


def _choose(weights: Floats, count: int, rng: np.random.Generator) -> Ints:
    """Places drawn with probability ∝ weight, (count,); a place without weight is never drawn."""
    ends = weights.cumsum()
    drawn = np.searchsorted(ends, rng.random(count) * ends[-1], side="right")
    chosen: Ints = np.minimum(drawn, np.flatnonzero(weights)[-1])
    return chosen


def _reachable(model: CharacterModel, automaton: Automaton) -> tuple[Ints, Ints, NDArray[np.int32]]:
    """The pairs of states that some string leads to: both states of each, and the moves between pairs."""
    Q = len(automaton.labels)
    pairs = np.zeros(1, dtype=np.int64)  # the model's state · Q + the automaton's; the first is the beginning
    moves: list[Ints] = []
    frontier = pairs
    while len(frontier):
        after = model.moves[frontier // Q] * Q + automaton.moves[frontier % Q]
        moves.append(after)
        frontier = np.setdiff1d(after, pairs)
        pairs = np.concatenate([pairs, frontier])
    order = np.argsort(pairs)
    flat = np.concatenate(moves)
    place = order[np.searchsorted(pairs[order], flat)].astype(np.int32)
    return pairs // Q, pairs % Q, place


class _Step:
    """What takes α_t to α_{t+1}: all moves sorted by where they lead, so that each sum is over neighbours."""

    def __init__(self, model: CharacterModel, state: Ints, moves: NDArray[np.int32]) -> None:
        P, A = moves.shape
        target = moves.reshape(-1)
        order = np.argsort(target, kind="stable")
        # nothing leads back to the beginning, state 0; every other state was reached by some move
        self._first = np.searchsorted(target[order], np.arange(1, P))
        self._source = (order // A).astype(np.int32)
        self._prob = model.prob[state, :A].reshape(-1)[order]

    def __call__(self, alpha: Floats) -> Floats:
        return np.concatenate([[0.0], np.add.reduceat(alpha[self._source] * self._prob, self._first)])
