"""A regular language with a weight for every string, geometric in its length.

    q(x) = scale(c) · Π_t w(x_t)                        c: the cell of x, given by an automaton
    Q(c) = scale(c) · e_start (I − M)⁻¹ 1_c             M[s, t] = Σ of w over the characters that lead from s to t

The sum over infinitely many strings is one linear system, solved once; it is finite if and only if the spectral radius
of M is below 1. What is left of a string is drawn by the same numbers: (I − M)⁻¹ 1_c at each state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import DomainError
from llrnn.languages.grammars.automaton import reachable
from llrnn.languages.grammars.patterns import pattern
from llrnn.text.automata import DFA, KINDS, partition
from llrnn.text.domain import MOST_MEMBERS, OUTSIDE, Cell, Domain


class Regular(Domain):
    """A regular language: `Regular({"plate": "[a-z]{2}-[0-9]{3}"}, dict.fromkeys("abc012-", 0.05), name="car")`.

    cells       name -> pattern (see `languages.grammars.pattern`) or DFA; they may not overlap
    weights     of characters, and of kinds ("lowercase", "uppercase", "digit", "space", "sign") for all others
    attributes  name -> what the strings of a cell show
    log_scale   name -> log of a factor for all strings of a cell
    name        what reports call the domain
    """

    name = "regular"

    def __init__(
        self,
        cells: Mapping[str, str | DFA],
        weights: Mapping[str, float],
        *,
        attributes: Mapping[str, Sequence[str]] | None = None,
        log_scale: Mapping[str, float] | None = None,
        name: str = "regular",
    ) -> None:
        self.name = name
        shown = attributes or {}
        self._cells = tuple(Cell(f"{name}:{cell}", tuple(shown.get(cell, ()))) for cell in cells)
        made = {cell: pattern(given) if isinstance(given, str) else given for cell, given in cells.items()}
        self._weights = dict(weights)
        self._automaton = partition(made).refined(w for w in weights if w not in KINDS)
        self._log_scale = np.array([(log_scale or {}).get(cell, 0.0) for cell in cells], dtype=np.float64)
        self._settle()

    def _settle(self) -> None:
        self._alphabet = self._automaton.alphabet
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
        ends = labels[:, None] == np.arange(len(self._cells))
        useful = _on_a_way(M, ends.any(1))
        if _is_infinite(M, useful):
            cell = next(c for c in range(len(self._cells)) if _is_infinite(M, _on_a_way(M, ends[:, c])))
            raise DomainError(
                f"the cell {self._cells[cell].name!r} must have finite mass, but its strings, such as "
                f"{self._automaton.witness(cell)!r}, do not grow rarer with their length; give smaller weights"
            )
        ahead: Floats = np.linalg.solve(np.eye(len(M)) - M * (useful[:, None] & useful), ends & useful[:, None])
        return ahead

    @property
    def cells(self) -> tuple[Cell, ...]:
        return self._cells

    @property
    def log_mass(self) -> Floats:
        return self._log_mass

    @property
    def language(self) -> DFA:
        return self._automaton

    def rescaled(self, log_mass: Floats) -> Regular:
        """The same strings, weighted so that the cells have these masses."""
        made = copy(self)
        made._rescale(log_mass)
        return made

    def _rescale(self, log_mass: Floats) -> None:
        self._log_scale = self._log_scale + (log_mass - self._log_mass)
        self._log_mass = np.array(log_mass, dtype=np.float64)

    def locate(self, strings: Sequence[str]) -> tuple[Ints, Floats]:
        cells = self._automaton.label_all(strings)
        log_q = np.full(len(strings), -np.inf)
        own = np.flatnonzero(cells >= 0)
        columns, _ = self._alphabet.padded([strings[i] for i in own.tolist()])
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
                # what each character weighs from here on into the cell, and last the end itself
                ways = self._weight * self._ahead[self._automaton.moves[here], cell]
                ends = np.append(ways, self._automaton.labels[here] == cell).cumsum()
                column[mine] = np.searchsorted(ends, rng.random(len(mine)) * ends[-1], side="right")
            on = column < len(self._weight)
            going, column = going[on], column[on]
            for which, own in zip(going.tolist(), column.tolist(), strict=True):
                drawn[which].append(self._alphabet.draw(own, rng))
            state[going] = self._automaton.moves[state[going], column]
        return ["".join(characters) for characters in drawn]

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
                f"to write out {self.name!r} up to {length} characters takes {number} strings, more than {most:,}; "
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
            "name": self.name,
            "cells": [[cell.name, list(cell.attributes)] for cell in self._cells],
            "weights": self._weights,
            "automaton": self._automaton.described(),
        }
        return plain, {"log_scale": self._log_scale}

    @classmethod
    def restored(cls, plain: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Regular:
        """The inverse of `described`."""
        made = cls.__new__(cls)
        made.name, made._weights = plain["name"], plain["weights"]
        made._cells = tuple(Cell(name, tuple(attributes)) for name, attributes in plain["cells"])
        made._automaton = DFA.restored(plain["automaton"])
        made._log_scale = np.array(arrays["log_scale"], dtype=np.float64)
        made._settle()
        return made

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {len(self._cells)} cells)"


def _on_a_way(M: Floats, ends: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The states that lie on a way from the start to an end."""
    ways = reachable(M > 0) > 0
    on: NDArray[np.bool_] = ways[0] & ways[:, ends].any(1)
    return on


def _is_infinite(M: Floats, useful: NDArray[np.bool_]) -> bool:
    return bool(np.abs(np.linalg.eigvals(M * (useful[:, None] & useful))).max() >= 1.0 - 1e-12)


# Numbers as they are written: every number has a probability, and none has to be listed.
#
#     q(x) ∝ ρ^length / 10^digits            within a cell: geometric in the length, any digits alike
#
# Cells: how many digits, what reads like a year, decimals, percentages, ordinals, groups of thousands, what is joined
# by signs (dates, scores). Which cell is likely after which words is for the network to learn.


_ORDINALS = {
    "fr": "(er|re|e|è|ère|ème|eme|nd|nde|ers|es)",
    "en": "(st|nd|rd|th)",
    "de": r"\.",
    "et": r"\.",
    "tr": r"('?(inci|ıncı|uncu|üncü|nci|ncı|ncu|ncü)|\.)",
}
_ORDINALS["any"] = f"({'|'.join(_ORDINALS.values())})"
_SMALL, _LONG = 2, 7  # digits
_SEPARATORS = " .,\u00a0\u202f'"
_RATIO = 0.3


class Numbers(Regular):
    """Numbers as they are written in a language: `Numbers("fr")`.

    language    fr, en, de, et or tr; "any" has the ordinals of all, any other has none
    ratio       how much rarer a number is with each further digit, between 0 and 1
    """

    def __init__(self, language: str = "en", *, ratio: float = _RATIO, name: str = "number") -> None:
        if not 0 < ratio < 1:
            raise DomainError(
                f"the ratio of {name!r} must lie between 0 and 1, found {ratio}: longer numbers must be rarer, "
                "or the cell of long numbers, '10000000' among them, has no finite mass"
            )
        cells = _cells(language)
        signs = sorted({c for automaton in cells.values() for c in automaton.characters if not "0" <= c <= "9"})
        weights = dict.fromkeys("0123456789", ratio / 10) | dict.fromkeys(signs, ratio)
        small = {f"digits{n}": ("small",) for n in range(1, _SMALL + 1)}
        shown = {cell: [f"Numeral:{one}" for one in ("any", cell, *small.get(cell, ()))] for cell in cells}
        super().__init__(cells, weights, attributes=shown, name=name)
        # to begin with, all cells have equal mass: there are more long numbers, but nobody writes them more often
        self._rescale(np.full(len(cells), -np.log(len(cells))))

    def counted(self, counts: Mapping[str, float]) -> Regular:
        """Cells weighted by how often numbers of each were seen, one more each."""
        cell, number = self.locate(list(counts))[0], np.array(list(counts.values()), dtype=np.float64)
        seen = 1.0 + np.bincount(cell[cell >= 0], number[cell >= 0], len(self.cells))
        return self.rescaled(np.log(seen / seen.sum()))


def _cells(language: str) -> dict[str, DFA]:
    """Patterns of cells; what could be read in two ways belongs to the one that stands first."""
    digits = {f"digits{n}": rf"[1-9][0-9]{{{n - 1}}}" for n in range(2, _LONG)}
    patterns = {
        "year": r"1[0-9]{3}|20[0-9]{2}",
        "digits1": r"[0-9]",
        **digits,
        "long": rf"[1-9][0-9]{{{_LONG - 1},}}",
        "padded": r"0[0-9]+",
        "grouped": rf"[1-9][0-9]{{0,2}}([{_SEPARATORS}][0-9]{{3}})+",
        "decimal": r"[0-9]+[.,][0-9]+",
        "percentage": "[0-9]+([.,][0-9]+)?[ \u00a0\u202f]?%",
        "joined": r"[0-9]{1,4}([-/:x][0-9]{1,4})+",
    }
    if language in _ORDINALS:
        patterns["ordinal"] = r"[0-9]+" + _ORDINALS[language]
    cells: dict[str, DFA] = {}
    for name, text in patterns.items():
        automaton = pattern(text)
        for earlier in cells.values():
            automaton = automaton.minus(earlier)
        cells[name] = automaton
    return cells
