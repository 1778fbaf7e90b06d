"""A regular language with a weight for every string, geometric in its length.

    q(x) = scale(c) · Π_t w(x_t)                        c: the cell of x, given by an automaton
    Q(c) = scale(c) · e_start (I − M)⁻¹ 1_c             M[s, t] = Σ of w over the characters that lead from s to t

The sum over infinitely many strings is one linear system, solved once; it is finite if and only if the spectral radius
of M is below 1. What is left of a string is drawn by the same numbers: (I − M)⁻¹ 1_c at each state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import DomainError
from llrnn.languages.domains.alphabet import Alphabet
from llrnn.text.automata import KINDS, Automaton, partition, pattern
from llrnn.text.domain import MOST_MEMBERS, OUTSIDE, Cell, Domain


class Regular(Domain):
    """Cells given by patterns (see `text.automata.pattern`) or automata; `weights` by character or kind."""

    def __init__(
        self,
        cells: Mapping[str, str | Automaton],
        weights: Mapping[str, float],
        *,
        attributes: Mapping[str, Sequence[str]] | None = None,
        log_scale: Mapping[str, float] | None = None,
        name: str = "regular",
    ) -> None:
        self._name = name
        shown = attributes or {}
        self._cells = tuple(Cell(f"{name}:{cell}", tuple(shown.get(cell, ()))) for cell in cells)
        made = {cell: pattern(given) if isinstance(given, str) else given for cell, given in cells.items()}
        self._weights = dict(weights)
        self._automaton = _with_characters(partition(made), [w for w in weights if w not in KINDS])
        self._log_scale = np.array([(log_scale or {}).get(cell, 0.0) for cell in cells], dtype=np.float64)
        self._settle()

    def _settle(self) -> None:
        self._alphabet = Alphabet(self._automaton.characters)
        names = (*self._automaton.characters, *KINDS)
        self._weight = np.array([self._weights.get(name, 0.0) for name in names], dtype=np.float64)
        if not (np.isfinite(self._weight).all() and (self._weight >= 0).all()):
            raise DomainError(f"the weights of characters must be finite and 0 or more, found {self._weights}")
        self._ahead = self._summed()  # (states, cells): what all ways from a state into a cell weigh
        with np.errstate(divide="ignore"):
            self._log_mass: Floats = np.log(self._ahead[0]) + self._log_scale

    def _step(self) -> Floats:
        """M[s, t]: what the characters that lead from s to t weigh, (states, states)."""
        moves = self._automaton.moves
        M = np.zeros((len(moves), len(moves)))
        np.add.at(
            M, (np.repeat(np.arange(len(moves)), moves.shape[1]), moves.ravel()), np.tile(self._weight, len(moves))
        )
        return M

    def _summed(self) -> Floats:
        M, labels = self._step(), self._automaton.labels
        states = len(labels)
        ends = (labels[:, None] == np.arange(len(self._cells))).astype(np.float64)
        useful = _reaches(M, ends.any(1))
        M = M * useful[:, None] * useful[None, :]
        if np.abs(np.linalg.eigvals(M)).max() >= 1.0 - 1e-12:
            self._refuse(M, ends)
        ahead: Floats = np.linalg.solve(np.eye(states) - M, ends * useful[:, None])
        return ahead

    def _refuse(self, M: Floats, ends: Floats) -> None:
        """Name a cell whose strings have no finite sum."""
        for number, cell in enumerate(self._cells):
            useful = _reaches(M, ends[:, number] > 0)
            if np.abs(np.linalg.eigvals(M * useful[:, None] * useful[None, :])).max() >= 1.0 - 1e-12:
                raise DomainError(
                    f"the cell {cell.name!r} must have finite mass, but its strings, such as "
                    f"{self._automaton.witness(number)!r}, do not grow rarer with their length; give smaller weights"
                )

    @property
    def name(self) -> str:
        return self._name

    @property
    def cells(self) -> tuple[Cell, ...]:
        return self._cells

    @property
    def log_mass(self) -> Floats:
        return self._log_mass

    @property
    def language(self) -> Automaton:
        return self._automaton

    def rescaled(self, log_mass: Floats) -> Regular:
        """The same strings, weighted so that the cells have these masses."""
        made = Regular.__new__(Regular)
        made.__dict__.update(self.__dict__)
        made._log_scale = self._log_scale + (log_mass - self._log_mass)
        made._log_mass = np.array(log_mass, dtype=np.float64)
        return made

    def locate(self, strings: Sequence[str]) -> tuple[Ints, Floats]:
        cells = self._automaton.label_all(strings)
        log_q = np.full(len(strings), -np.inf)
        own = np.flatnonzero(cells >= 0)
        columns, _ = self._alphabet.columns_of([strings[i] for i in own.tolist()])
        with np.errstate(divide="ignore"):
            log_weight = np.append(np.log(self._weight) + self._alphabet.log_share, 0.0)  # -1: behind the end
        log_q[own] = log_weight[columns].sum(1) + self._log_scale[cells[own]]
        return np.where(log_q > -np.inf, cells, OUTSIDE), log_q

    def draw(self, cell: int, count: int, rng: np.random.Generator) -> list[str]:
        """All strings a character at a time; those in one state are handled together."""
        drawn: list[list[str]] = [[] for _ in range(count)]
        state, going = np.zeros(count, dtype=np.int64), np.arange(count)
        while len(going):
            column = np.empty(len(going), dtype=np.int64)
            for here in np.unique(state[going]).tolist():
                mine = np.flatnonzero(state[going] == here)
                ends = self._ways(here, cell).cumsum()
                column[mine] = np.searchsorted(ends, rng.random(len(mine)) * ends[-1], side="right")
            on = column < len(self._weight)
            going, column = going[on], column[on]
            for which, own in zip(going.tolist(), column.tolist(), strict=True):
                drawn[which].append(self._alphabet.draw(own, rng))
            state[going] = self._automaton.moves[state[going], column]
        return ["".join(characters) for characters in drawn]

    def _ways(self, state: int, cell: int) -> Floats:
        """What each character weighs from here on into the cell, and last the end itself."""
        ends = float(self._automaton.labels[state] == cell)
        return np.append(self._weight * self._ahead[self._automaton.moves[state], cell], ends)

    def length_that_leaves(self, share: float) -> int:
        """The least length such that longer strings have no more than this share of the mass."""
        scale = np.exp(self._log_scale)
        whole, M, length = self._ahead[0] @ scale, self._step(), 0
        here = np.zeros(len(M))
        here[0] = 1.0
        while (here @ M) @ self._ahead @ scale > share * whole:
            here, length = here @ M, length + 1
        return length

    def strings_up_to(self, length: int, most: int) -> list[str]:
        """All strings of so many characters or fewer, shortest first within each cell."""
        short = self._automaton.both(pattern(f".{{1,{max(1, length)}}}"))
        sizes = [short.count(cell) for cell in range(len(self._cells))]
        found = sum(size for size in sizes if size is not None)
        if None in sizes or found > most:
            number = "too many to count" if None in sizes else f"{found:,}"
            raise DomainError(
                f"to write out {self._name!r} up to {length} characters takes {number} strings, more than {most:,}; "
                "allow a larger tolerance, or smaller weights, so that longer strings matter less"
            )
        strings = [string for cell, size in enumerate(sizes) for string in short.strings(cell, size or 0)]
        _, log_q = self.locate(strings)
        return [string for string, log in zip(strings, log_q.tolist(), strict=True) if log > -np.inf]

    def members(self, cell: int) -> Sequence[str] | None:
        size = self._automaton.count(cell)
        return None if size is None or size > MOST_MEMBERS else self._automaton.strings(cell, size)

    def described(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        plain = {
            "kind": "regular",
            "name": self._name,
            "cells": [[cell.name, list(cell.attributes)] for cell in self._cells],
            "weights": self._weights,
            "automaton": self._automaton.described(),
        }
        return plain, {"log_scale": self._log_scale}

    @classmethod
    def restored(cls, plain: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Regular:
        """The inverse of `described`."""
        made = cls.__new__(cls)
        made._name, made._weights = plain["name"], plain["weights"]
        made._cells = tuple(Cell(name, tuple(attributes)) for name, attributes in plain["cells"])
        made._automaton = Automaton.restored(plain["automaton"])
        made._log_scale = np.array(arrays["log_scale"], dtype=np.float64)
        made._settle()
        return made

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r}, {len(self._cells)} cells)"


def _with_characters(automaton: Automaton, characters: Sequence[str]) -> Automaton:
    return automaton.refined([c for c in characters if c not in automaton.characters])


def _reaches(M: Floats, ends: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The states that lie on a way from the start to an end."""
    leads = M > 0
    forward, backward = np.zeros(len(M), dtype=bool), ends.copy()
    forward[0] = True
    for _ in range(len(M)):
        forward, backward = forward | leads[forward].any(0), backward | leads[:, backward].any(1)
    return forward & backward
