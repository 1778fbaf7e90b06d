"""Regular languages with a weight for every string, numbers, and domains of which some strings are listed.

A regular language is geometric in the length of its strings:

    q(x) = scale(c) · Π_t w(x_t)                        c: the cell of x, given by an automaton
    Q(c) = scale(c) · e_start (I − M)⁻¹ 1_c             M[s, t] = Σ of w over the characters that lead from s to t

The sum over infinitely many strings is one linear system, solved once; it is finite if and only if the spectral radius
of M is below 1. What is left of a string is drawn by the same numbers: (I − M)⁻¹ 1_c at each state.

Listed strings have cells of their own in front (`Names`); all others stay in the cells they have:

    q(x) = what the list says of x                      for a listed string, which has left its cell of the domain
    q(x) = rest · q_domain(x)                           for any other string

`Numbers`: every number in digits has a probability, and none has to be listed.

    q(x) ∝ ρ^length / 10^digits            within a cell: geometric in the length, any digits alike

Cells: how many digits, what reads like a year, decimals, percentages, ordinals, groups of thousands, what is joined
by signs (dates, scores). Which cell is likely after which words is for the network to learn.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import DomainError
from llrnn.languages.domains.ranked import Transitions, best_ahead, best_first, sorted_transitions
from llrnn.languages.domains.spelling import Spelling
from llrnn.languages.grammars.automaton import reachable
from llrnn.languages.grammars.notation import pattern
from llrnn.text.automata import DFA, KINDS, check_string, partition
from llrnn.text.vocabulary import MOST_MEMBERS, OUTSIDE, Cell, Domain, log_mass_left, log_mass_without


class Regular(Domain):
    """A domain (an infinite set of strings with weights) given by regular expressions, one for each cell.

    A cell is a set of strings that share one symbol of the vocabulary. The weight q(x) of a string is the product of
    the weights of its characters, times the scale of its cell. The sum over all strings of a cell must be finite: where
    a pattern repeats characters without bound, their weights must sum to less than 1. A DomainError otherwise, or if
    cells overlap.

    cells       name of a cell -> pattern (see `languages.grammars.pattern`) or DFA
    weights     character -> weight, and kind ("lowercase", "uppercase", "digit", "space", "sign") -> weight of all its
                other characters together, which share it equally; 0 where none is given. A string of weight 0 is
                outside the domain
    attributes  name of a cell -> features of its strings, such as `["POS:NUM"]`; none where they are not given
    log_scale   name of a cell -> log of a factor for all its strings; 0 where none is given
    name        the name of the domain in reports

        Regular({"plate": "[a-z]{2}-[0-9]{3}"}, dict.fromkeys("abc012-", 0.05), name="car")
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
        self._ahead = self._summed()  # (states, cells): what all strings from a state into a cell weigh
        with np.errstate(divide="ignore"):
            self._log_mass: Floats = np.log(self._ahead[0]) + self._log_scale

    def _step(self) -> Floats:
        """Return the matrix M, (states, states), of the domain's automaton.

        M[s, t] is the summed weight of all characters that lead from state s to state t, 0 if there are none.
        """
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
        """Return a copy of the domain in which the weights q(x) of the strings of cell c sum to exp(log_mass[c]).

        log_mass    (C,) for each of the C cells (sets of strings); ratios of weights within a cell do not change

        For example:

            domain.rescaled(np.log([0.9, 0.1]))
        """
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
        log_weight = np.append(self._log_weight, 0.0)  # -1: behind the end
        log_q[own] = log_weight[columns].sum(1) + self._log_scale[cells[own]]
        return np.where(log_q > -np.inf, cells, OUTSIDE), log_q

    @cached_property
    def _log_weight(self) -> Floats:
        """The log weight of one character of each column of the domain's alphabet, (columns,); −∞ for weight 0.

        A column is a character, or a class of characters that share the weight of the class equally.
        """
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self._weight) + self._alphabet.log_share)

    def _read(self, letters: str) -> tuple[int, float]:
        """Return (state of the domain's automaton after reading `letters`, sum of the log weights of these characters).

        (0, −∞) if one is a line break or a surrogate, which no word has; (0, 0.0) for "". The state may be one from
        which no string can be completed, and the sum −∞ if a character has weight 0.
        """
        state, log = 0, 0.0
        for column in self._alphabet.columns(letters).tolist():
            if column < 0:
                return 0, -np.inf
            state, log = int(self._automaton.moves[state, column]), log + float(self._log_weight[column])
        return state, log

    def log_mass_of(self, letters: str) -> Floats:
        state, log = self._read(letters)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.maximum(self._ahead[state], 0.0)) + self._log_scale + log)

    @cached_property
    def _best(self) -> Floats:
        """Log weight of the best continuation from each state into each cell (set of strings), (states, cells).

        It is the largest sum of the log weights of the characters that lead from the state to the end of a string of
        the cell, without the scale of the cell; −∞ where none does.
        """
        inside = self._automaton.labels[:, None] == np.arange(len(self._cells))
        return best_ahead(np.where(inside, 0.0, -np.inf), self._log_weight, self._automaton.moves)

    def ranked(self, letters: str, log_weight: Floats, least: float = -np.inf) -> Iterator[tuple[float, str]]:
        start, log = self._read(letters)
        weight = np.where(self._log_mass > -np.inf, log_weight + self._log_scale, -np.inf)
        labels, moves, characters = self._automaton.labels, self._automaton.moves, self._alphabet.characters_of
        ahead = (self._best + weight).max(1)
        end = np.where(labels >= 0, weight[labels], -np.inf)

        @cache
        def transitions(state: int) -> Transitions:
            return sorted_transitions(self._log_weight, ahead[moves[state]])

        def move(state: int, column: int) -> int:
            return int(moves[state, column])

        if log == -np.inf:
            return iter(())
        return best_first(start, letters, log, characters, transitions, move, lambda s: float(end[s]), least=least)

    def draw(self, cell: int, count: int, rng: np.random.Generator) -> list[str]:
        """Sample `count` independent strings x of a cell (one of the sets of strings), with probability ∝ q(x).

        q(x) is the weight of a string in the domain.

        cell        index of the cell in `cells`; it must have a string of weight above 0, which is not checked

        All strings are drawn one character at a time; those in the same state are drawn together.
        """
        drawn: list[list[str]] = [[] for _ in range(count)]
        state, going = np.zeros(count, dtype=np.int64), np.arange(count)
        while len(going):
            column = np.empty(len(going), dtype=np.int64)
            for here in np.unique(state[going]).tolist():
                mine = np.flatnonzero(state[going] == here)
                # what each character weighs from here on into the cell, and last the end itself
                weights = self._weight * self._ahead[self._automaton.moves[here], cell]
                ends = np.append(weights, self._automaton.labels[here] == cell).cumsum()
                column[mine] = np.searchsorted(ends, rng.random(len(mine)) * ends[-1], side="right")
            on = column < len(self._weight)
            going, column = going[on], column[on]
            for which, own in zip(going.tolist(), column.tolist(), strict=True):
                drawn[which].append(self._alphabet.draw(own, rng))
            state[going] = self._automaton.moves[state[going], column]
        return ["".join(characters) for characters in drawn]

    def members(self, cell: int) -> Sequence[str] | None:
        return self._automaton.strings(cell, MOST_MEMBERS)

    def described(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        cells = [[cell.name, list(cell.attributes)] for cell in self._cells]
        plain = {"kind": "regular", "name": self.name, "cells": cells, "weights": self._weights}
        return {**plain, "automaton": self._automaton.described()}, {"log_scale": self._log_scale}

    @classmethod
    def restored(cls, plain: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Regular:
        """Make a `Regular` domain from the JSON-compatible data and arrays that its method `described` returned."""
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
    """Return which states lie on a path from state 0 to a state where `ends` is True, (states,), bool.

    Both ends of a path lie on it; a path may have no move.

    M           (states, states) transition weights; M[s, t] above 0: there is a move from s to t
    ends        (states,) bool
    """
    reached = reachable(M > 0) > 0
    on: NDArray[np.bool_] = reached[0] & reached[:, ends].any(1)
    return on


def _is_infinite(M: Floats, useful: NDArray[np.bool_]) -> bool:
    return bool(np.abs(np.linalg.eigvals(M * (useful[:, None] & useful))).max() >= 1.0 - 1e-12)


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
    """The domain (an infinite set of strings with weights) of numbers in digits: integers, years, decimals and more.

    Each kind is a cell, a set of strings that share one symbol of the vocabulary: integers by their number of digits,
    years, decimals, percentages, ordinals, grouped thousands, dates and scores. Weights sum to 1/C in each of C cells.

    language    "fr", "en", "de", "et" or "tr": whose ordinals (`3e`, `3rd`); "any": those of all; others have none
    ratio       factor for each further digit, between 0 and 1: how much rarer longer numbers are
    name        the name of the domain in reports

        Numbers("fr").locate(["1987", "3,5"])
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
        """Return a copy whose cells (kinds of numbers, such as years) are as frequent as in a text, add-one smoothed.

        The weights of the strings of cell c sum to (n_c + 1) / Σ_d (n_d + 1), with n_c the summed counts of its
        strings; ratios of weights within a cell do not change.

        counts      string -> how often it was seen; strings that are no numbers are ignored

        For example:

            Numbers("fr").counted({"1987": 12, "3,5": 2})
        """
        cell, number = self.locate(list(counts))[0], np.array(list(counts.values()), dtype=np.float64)
        seen = 1.0 + np.bincount(cell[cell >= 0], number[cell >= 0], len(self.cells))
        return self.rescaled(np.log(seen / seen.sum()))


@cache
def _cells(language: str) -> Mapping[str, DFA]:
    """Return a mapping name -> DFA of the cells of `Numbers`: the kinds of numbers, such as `year` and `decimal`.

    language    whose ordinals there are, as in `Numbers`; without the kind `ordinal` for a language that is not known

    The automata accept no common string: one that fits several patterns belongs to the first.
    """
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


class Names(Domain):
    """The domain (a set of strings with weights) of proper names: a list of known names, mixed with any other spelling.

        q(x) = share · g(x) + (1 − share) · s(x)        g: the gazetteer, normalised;  s: the spelling, normalised

    Its cells are sets of strings that share one symbol of the vocabulary: first those of the known names, then those of
    the spelling, without the known names.

    gazetteer   known name -> its attributes; names with the same attributes form one cell
    spelling    the domain of all other names; it must contain the known ones too
    weights     known name -> weight in g before normalisation; 1 where it is not given
    share       probability of g as a whole, between 0 and 1
    name        the name of the domain in reports

        Names({"Rome": ["City"], "Anna": ["Person"]}, Spelling(words))
    """

    name = "name"

    def __init__(
        self,
        gazetteer: Mapping[str, Sequence[str]],
        spelling: Spelling,
        *,
        weights: Mapping[str, float] | None = None,
        share: float = 0.5,
        name: str = "name",
    ) -> None:
        if not 0 < share < 1:
            raise DomainError(f"the share of the gazetteer of {name!r} must lie between 0 and 1, found {share}")
        self.name, self._domain, self._spelling, self._share = name, spelling, spelling, share
        self._gazetteer = {entry: tuple(sorted(shown)) for entry, shown in sorted(gazetteer.items())}
        self._weights = np.array([(weights or {}).get(entry, 1.0) for entry in self._gazetteer], dtype=np.float64)
        self._kinds = sorted(set(self._gazetteer.values()))  # the distinct sets of attributes
        self._n_own = len(self._kinds)
        self._check()

    def _check(self) -> None:
        if not self._gazetteer:
            raise DomainError(f"the gazetteer of {self.name!r} is empty; a spelling alone needs no Names")
        for entry in self._gazetteer:
            problem = check_string(entry)
            if problem is not None:
                raise DomainError(f"the gazetteer of {self.name!r} holds {entry!r}, which is no symbol: {problem}")
            if self.language.label(entry) < 0:
                raise DomainError(
                    f"the gazetteer of {self.name!r} holds {entry!r}, which was taken out of its spelling: "
                    "take it out of both, or give the spelling as it was (a vocabulary cuts it by itself)"
                )
        if not (np.isfinite(self._weights).all() and (self._weights > 0).all()):
            raise DomainError(f"the weights of the gazetteer of {self.name!r} must be finite and above 0")

    @cached_property
    def _log_rest(self) -> float:
        return float(np.log(1 - self._share) - np.logaddexp.reduce(self._domain.log_mass))

    @cached_property
    def _listed(self) -> dict[str, tuple[int, float]]:
        spelled = np.exp(self._domain.locate(list(self._gazetteer))[1] + self._log_rest)
        log_q = np.log(self._share * self._weights / self._weights.sum() + spelled).tolist()
        cells = [self._kinds.index(shown) for shown in self._gazetteer.values()]
        return dict(zip(self._gazetteer, zip(cells, log_q, strict=True), strict=True))

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        own = (Cell(f"{self.name}:{'+'.join(kind) or 'listed'}", (f"Name:{self.name}", *kind)) for kind in self._kinds)
        spelled, source = self._domain.cells, self._domain.name  # nobody knows that those are names
        return (*own, *(Cell(f"{self.name}:{cell.name}", cell.attributes, source) for cell in spelled))

    @cached_property
    def log_mass(self) -> Floats:
        own = np.full(self._n_own, -np.inf)
        for cell, log_q in self._listed.values():
            own[cell] = np.logaddexp(own[cell], log_q)
        return np.concatenate([own, log_mass_left(self._domain, list(self._listed)) + self._log_rest])

    @property
    def language(self) -> DFA:
        return self._domain.language

    def locate(self, strings: Sequence[str]) -> tuple[Ints, Floats]:
        cells, log_q = self._domain.locate(strings)
        cells, log_q = np.where(cells >= 0, cells + self._n_own, cells), log_q + self._log_rest
        for i, string in enumerate(strings):
            cells[i], log_q[i] = self._listed.get(string, (cells[i], log_q[i]))
        return cells, log_q

    def log_mass_of(self, letters: str) -> Floats:
        own, gone = np.full(self._n_own, -np.inf), [string for string in self._listed if string.startswith(letters)]
        for string in gone:
            cell, log_q = self._listed[string]
            own[cell] = np.logaddexp(own[cell], log_q)
        whole = log_mass_without(self._domain.log_mass_of(letters), *self._domain.locate(gone))
        return np.concatenate([own, whole + self._log_rest])

    def ranked(self, letters: str, log_weight: Floats, least: float = -np.inf) -> Iterator[tuple[float, str]]:
        own = [
            (log_q + float(log_weight[cell]), string)
            for string, (cell, log_q) in self._listed.items()
            if string.startswith(letters) and log_weight[cell] > -np.inf
        ]
        others = self._domain.ranked(letters, log_weight[self._n_own :] + self._log_rest, least)
        rest = (one for one in others if one[1] not in self._listed)
        own = [one for one in own if one[0] >= least]
        return heapq.merge(sorted(own, reverse=True), rest, key=lambda one: one[0], reverse=True)

    def draw(self, cell: int, count: int, rng: np.random.Generator) -> list[str]:
        if cell < self._n_own:
            mine = self._members(cell)
            weights = np.exp([self._listed[string][1] for string in mine])
            return [mine[i] for i in rng.choice(len(mine), size=count, p=weights / weights.sum())]
        drawn: list[str] = []
        while len(drawn) < count:  # listed strings have left the cells of the domain
            more = self._domain.draw(cell - self._n_own, count - len(drawn), rng)
            drawn += [string for string in more if string not in self._listed]
        return drawn

    def _members(self, cell: int) -> list[str]:
        return [string for string, (own, _) in self._listed.items() if own == cell]

    def members(self, cell: int) -> Sequence[str] | None:
        if cell < self._n_own:
            return self._members(cell)
        whole = self._domain.members(cell - self._n_own)
        return None if whole is None else [string for string in whole if string not in self._listed]

    def without(self, language: DFA) -> Domain:
        kept = {entry: shown for entry, shown in self._gazetteer.items() if language.label(entry) < 0}
        weights = dict(zip(self._gazetteer, self._weights.tolist(), strict=True))
        return Names(kept, self._spelling.without(language), weights=weights, share=self._share, name=self.name)

    def described(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        plain, arrays = self._domain.described()
        entries = {entry: list(shown) for entry, shown in self._gazetteer.items()}
        own = {"kind": "names", "name": self.name, "share": self._share, "gazetteer": entries, "spelling": plain}
        return own, {**{f"spelling.{k}": array for k, array in arrays.items()}, "weights": self._weights}

    @classmethod
    def restored(cls, plain: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Names:
        """Make a `Names` domain from the JSON-compatible data and arrays that its method `described` returned."""
        own = {k.removeprefix("spelling."): array for k, array in arrays.items() if k.startswith("spelling.")}
        weights = dict(zip(sorted(plain["gazetteer"]), arrays["weights"].tolist(), strict=True))
        spelling = Spelling.restored(plain["spelling"], own)
        return cls(plain["gazetteer"], spelling, weights=weights, share=plain["share"], name=plain["name"])

    def __repr__(self) -> str:
        return f"Names({len(self._gazetteer)} entries, {self._domain!r})"
