"""Grammars by brute force: the weight of every string up to a length, and of all strings that begin with it.

    I_A(u)  the sum over all derivations of u from A        P_A(u)  ... of all strings that begin with u; Z_A = P_A("")

Vectors over all strings of a length, in the order of their letters, so that the outer product of two is the vector of
their concatenations. No parser is involved, and nothing is iterated to a tolerance. What is an infinite sum (how often
a rule derives nothing, or anything, or hands a string on as it is) is solved in rational arithmetic. The weights of
strings are then finite sums of products of numbers that are not negative, shortest strings first: each operation is
right to a relative 2⁻⁵³, so that some thousands of them are right to 1e-12, and a weight is 0 only where it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
from hypothesis import assume, reject
from hypothesis import strategies as st
from numpy.typing import NDArray

Vectors = list[NDArray[np.float64]]  # one for each length

Rule = tuple[str, tuple[str, ...], Fraction]
Numbers = dict[str, Fraction]

NEWTON_STEPS = 40  # quadratic: grammars that are not on the edge of never ending need ten or so
GRID = 2**200  # what Newton's method is rounded down to
LETTERS = ("a", "b")
TERMINALS = ("a", "b", "any")


@dataclass(frozen=True)
class Drawn:
    """Productions (rule, symbols, weight): the first rule is the start; small names are terminals, "any" is a or b."""

    productions: tuple[tuple[str, tuple[str, ...], float], ...]

    @property
    def text(self) -> str:
        """As lark writes it."""
        rules: dict[str, list[str]] = {}
        for rule, symbols, _ in self.productions:
            rules.setdefault(rule, []).append(" ".join(_written(symbol) for symbol in symbols))
        return "\n".join(f"{rule}: {' | '.join(found)}" for rule, found in rules.items())

    @property
    def weights(self) -> dict[str, float]:
        """By rule and number."""
        number: dict[str, int] = {}
        found = {}
        for rule, _, weight in self.productions:
            number[rule] = number.get(rule, 0) + 1
            found[f"{rule}/{number[rule]}"] = weight
        return found


def _written(symbol: str) -> str:
    return {"a": '"a"', "b": '"b"', "any": "/[ab]/"}.get(symbol, symbol)


@st.composite
def grammars(draw: st.DrawFn) -> Drawn:
    """Grammars over a and b: recursion on either side and in the middle, empty rules, cycles, ambiguity."""
    names = ["start", "x", "y"][: draw(st.integers(1, 3))]
    symbols = st.sampled_from([*names, "a", "b", "any"])
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for name in names:
        longer = draw(st.lists(st.lists(symbols, max_size=3).map(tuple), max_size=2))
        ends = draw(st.sampled_from([("a",), ("b",), (), ("any",), ("a", "b")]))
        found[name] = {one: draw(st.sampled_from([0.1, 0.25, 0.4])) for one in longer} | {ends: 1.0}
    reached = _reached(found)
    assume(set(reached) == set(names))
    return Drawn(tuple((rule, one, w) for rule in names for one, w in found[rule].items()))


def _reached(found: dict[str, dict[tuple[str, ...], float]]) -> list[str]:
    names = ["start"]
    for rule in names:  # grows while we read it
        names += {s for one in found[rule] for s in one if s in found and s not in names}
    return list(dict.fromkeys(names))


class Oracle:
    """I, P and Z of a grammar whose alternatives compete (their weights are normalised), up to a length."""

    def __init__(self, grammar: Drawn, longest: int) -> None:
        total: dict[str, Fraction] = {}
        for rule, _, weight in grammar.productions:
            total[rule] = total.get(rule, Fraction(0)) + Fraction(weight)
        rules = [(rule, symbols, Fraction(weight) / total[rule]) for rule, symbols, weight in grammar.productions]
        self.names, self.longest = list(total), longest
        free, empty = least_solution(self.names, rules, terminal=1), least_solution(self.names, rules, terminal=0)
        self.rules = [(rule, symbols, float(p)) for rule, symbols, p in rules]
        self.Z = {name: float(value) for name, value in free.items()}
        self.exact = {name: self._terminal(name) for name in TERMINALS}
        self.begun = {name: self._terminal(name) for name in TERMINALS}
        for name in self.names:
            self.exact[name] = [np.array([float(empty[name])])]
            self.begun[name] = [np.zeros(1)]  # P of the empty string is Z; here of the string something is left
        units = self._series(rules, empty, empty)
        corners = self._series(rules, empty, free)
        for length in range(1, longest + 1):
            self._extend(self.exact, units, [self._exact_parts(one, length) for one in self.rules])
            self._extend(self.begun, corners, [self._begun_parts(one, length) for one in self.rules])

    def _terminal(self, name: str) -> Vectors:
        found = [np.zeros(len(LETTERS) ** length) for length in range(self.longest + 1)]
        found[1][:] = {"a": [1.0, 0.0], "b": [0.0, 1.0], "any": [0.5, 0.5]}[name]
        return found

    def _series(self, rules: list[Rule], before: Numbers, after: Numbers) -> NDArray[np.float64]:
        """I + M + M² + …, M[A, B]: B takes the whole string, symbols before it and after it have these weights."""
        M = [[Fraction(0)] * len(self.names) for _ in self.names]
        for rule, symbols, p in rules:
            for i, symbol in enumerate(symbols):
                if symbol in self.names:
                    around = [*(before[s] for s in symbols[:i]), *(after[s] for s in symbols[i + 1 :])]
                    M[self.names.index(rule)][self.names.index(symbol)] += p * math.prod(around)
        columns = [solved(M, [Fraction(i == j) for i in range(len(M))]) for j in range(len(M))]
        assert all(value >= 0 for column in columns for value in column)  # the series converges
        return np.array([[float(column[i]) for column in columns] for i in range(len(M))])

    def _extend(self, known: dict[str, Vectors], series: NDArray[np.float64], parts: Vectors) -> None:
        """The next length: what is made of shorter strings, and all ways to hand a whole string on."""
        own = {name: np.zeros_like(parts[0]) for name in self.names}
        for (rule, _, _), part in zip(self.rules, parts, strict=True):
            own[rule] += part
        for name, row in zip(self.names, series, strict=True):
            known[name].append(sum((x * own[other] for other, x in zip(self.names, row, strict=True)), 0.0 * parts[0]))

    def _exact_parts(self, rule: tuple[str, tuple[str, ...], float], length: int) -> NDArray[np.float64]:
        """All cuts of the strings of a length in which no rule has the whole string."""
        _, symbols, p = rule
        whole: Vectors = [np.array([p])]
        for symbol in symbols:
            whole = _joined(whole, self.exact[symbol], length)
        return _of_length(whole, length)

    def _begun_parts(self, rule: tuple[str, tuple[str, ...], float], length: int) -> NDArray[np.float64]:
        """The string ends within the i-th symbol: those before it are whole, those after it are free."""
        _, symbols, p = rule
        found, before = np.zeros(len(LETTERS) ** length), [np.array([p])]
        for i, symbol in enumerate(symbols):
            free = math.prod(self.Z[other] for other in symbols[i + 1 :])
            found += _of_length(_joined(before, self.begun[symbol], length), length) * free
            before = _joined(before, self.exact[symbol], length)
        return found

    def probability(self, string: Sequence[str]) -> float:
        """Of exactly this string."""
        return float(self.exact["start"][len(string)][_place(string)] / self.Z["start"])

    def prefix_probability(self, string: Sequence[str]) -> float:
        """Of all strings that begin so."""
        if not string:
            return 1.0
        return float(self.begun["start"][len(string)][_place(string)] / self.Z["start"])

    def strings(self) -> Iterator[tuple[str, ...]]:
        """All strings up to the length."""
        for length in range(self.longest + 1):
            yield from product(LETTERS, repeat=length)


def _joined(left: Vectors, right: Vectors, longest: int) -> Vectors:
    """Concatenation: every cut of every string; a length that is not there yet has weight 0."""
    found = [np.zeros(len(LETTERS) ** length) for length in range(longest + 1)]
    for m, one in enumerate(left):
        for n, other in enumerate(right[: longest - m + 1]):
            found[m + n] += np.outer(one, other).ravel()
    return found


def _of_length(vectors: Vectors, length: int) -> NDArray[np.float64]:
    return vectors[length] if length < len(vectors) else np.zeros(len(LETTERS) ** length)


def least_solution(names: list[str], rules: list[Rule], terminal: int) -> Numbers:
    """The least x(A) = Σ p Π x(α), within 2⁻¹⁰⁰, 0 only where it is; x of terminals is given.

    A grammar on the edge of never ending is not asked for.

    Newton's method from 0, rounded down, never passes the solution x (Etessami and Yannakakis). And whatever y has
    F(y) ≤ y lies above x (Park): so where x + ε d is such a y, the distance is at most ε d.
    """
    possible, everything = _possible(rules, terminal), dict.fromkeys((*names, *TERMINALS), Fraction(0))
    names = [name for name in names if name in possible]
    rules = [one for one in rules if one[0] in possible and all(s in possible or s in TERMINALS for s in one[1])]
    rules = [one for one in rules if terminal or not any(s in TERMINALS for s in one[1])]

    def value(x: list[Fraction]) -> list[Fraction]:
        at = dict(zip(names, x, strict=True))
        return [
            sum((p * math.prod(at.get(s, Fraction(1)) for s in symbols) for rule, symbols, p in rules if rule == name),
                Fraction(0))
            for name in names
        ]  # fmt: skip

    def slope(x: list[Fraction]) -> list[list[Fraction]]:
        at = dict(zip(names, x, strict=True))
        found = [[Fraction(0)] * len(names) for _ in names]
        for rule, symbols, p in rules:
            for i, symbol in enumerate(symbols):
                if symbol in at:
                    others = math.prod(at.get(s, Fraction(1)) for s in (*symbols[:i], *symbols[i + 1 :]))
                    found[names.index(rule)][names.index(symbol)] += p * others
        return found

    x = [Fraction(0)] * len(names)
    for _ in range(NEWTON_STEPS):
        change = solved(slope(x), [new - old for new, old in zip(value(x), x, strict=True)])
        before, x = x, [Fraction(math.floor((old + step) * GRID), GRID) for old, step in zip(x, change, strict=True)]
        if x == before:
            break
    direction = solved(slope(x), [Fraction(1)] * len(names))
    above = [old + step / 2**120 for old, step in zip(x, direction, strict=True)]
    enclosed = all(new <= old for new, old in zip(value(above), above, strict=True))
    if not (enclosed and all(0 < step < 2**20 for step in direction)):
        reject()
    return everything | dict.fromkeys(TERMINALS, Fraction(terminal)) | dict(zip(names, x, strict=True))


def _possible(rules: list[Rule], terminal: int) -> set[str]:
    """The rules that derive something (nothing, without terminals): as many rounds as there are rules are enough."""
    found = set(TERMINALS) if terminal else set[str]()
    for _ in rules:
        found |= {rule for rule, symbols, _ in rules if all(symbol in found for symbol in symbols)}
    return found - set(TERMINALS)


def solved(M: list[list[Fraction]], b: list[Fraction]) -> list[Fraction]:
    """x = M x + b, by elimination; a grammar for which there is no x is not asked for."""
    n = len(b)
    rows = [[Fraction(i == j) - M[i][j] for j in range(n)] + [b[i]] for i in range(n)]
    for i in range(n):
        pivot = next((row for row in range(i, n) if rows[row][i] != 0), None)
        if pivot is None:
            reject()
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for other in range(n):
            if other != i:
                rows[other] = [x - rows[other][i] * y for x, y in zip(rows[other], rows[i], strict=True)]
    return [row[n] for row in rows]


def _place(string: Sequence[str]) -> int:
    place = 0
    for letter in string:
        place = place * len(LETTERS) + LETTERS.index(letter)
    return place
