"""Grammars by brute force: the weight of every string up to a length, and of all strings that begin with it.

    I_A(u)  the sum over all derivations of u from A        P_A(u)  ... of all strings that begin with u; Z_A = P_A("")

Vectors over all strings of a length, in the order of their letters, so that the outer product of two is the vector of
their concatenations. Everything is iterated to its least fixed point; no parser is involved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from numpy.typing import NDArray

Vectors = list[NDArray[np.float64]]  # one for each length

ROUNDS = 600
LETTERS = ("a", "b")


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
        total: dict[str, float] = {}
        for rule, _, weight in grammar.productions:
            total[rule] = total.get(rule, 0.0) + weight
        self.rules = [(rule, symbols, weight / total[rule]) for rule, symbols, weight in grammar.productions]
        self.names, self.longest, n = list(total), longest, len(LETTERS)
        self.sizes = [n**length for length in range(longest + 1)]
        self.Z = self._fixed(dict.fromkeys(self.names, 0.0), self._next_z)
        self.exact = {name: self._terminal(name) for name in ("a", "b", "any")}
        self.exact |= self._fixed({name: self._nothing() for name in self.names}, self._next_exact)
        self.begun = {name: self._begun_terminal(name) for name in ("a", "b", "any")}
        self.begun |= self._fixed({name: self._nothing() for name in self.names}, self._next_begun)

    def _nothing(self) -> Vectors:
        return [np.zeros(size) for size in self.sizes]

    def _terminal(self, name: str) -> Vectors:
        found = self._nothing()
        found[1][:] = {"a": [1.0, 0.0], "b": [0.0, 1.0], "any": [0.5, 0.5]}[name]
        return found

    def _begun_terminal(self, name: str) -> Vectors:
        found = self._terminal(name)
        found[0][:] = 1.0
        return found

    def _z(self, name: str) -> float:
        return self.Z[name] if name in self.names else 1.0

    def _fixed(self, start: dict[str, Any], step: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
        """Iterate to the least fixed point; a grammar that takes too long is not asked for."""
        found = start
        for _ in range(ROUNDS):
            after = step(found)
            if all(np.array_equal(old, new) for name in found for old, new in _pairs(found[name], after[name])):
                return after
            change = max(
                float(np.max(np.abs(np.asarray(new) - old), initial=0.0))
                for name in found
                for old, new in _pairs(found[name], after[name])
            )
            found = after
            if change < 1e-16:
                return found
        assume(False)
        raise AssertionError

    def _next_z(self, Z: dict[str, float]) -> dict[str, float]:
        found = dict.fromkeys(self.names, 0.0)
        for rule, symbols, p in self.rules:
            found[rule] += p * float(np.prod([Z.get(symbol, 1.0) for symbol in symbols]))
        return found

    def _joined(self, left: Vectors, right: Vectors) -> Vectors:
        """Concatenation: every cut of every string."""
        found = self._nothing()
        for m, one in enumerate(left):
            for n, other in enumerate(right[: self.longest - m + 1]):
                found[m + n] += np.outer(one, other).ravel()
        return found

    def _next_exact(self, known: dict[str, Vectors]) -> dict[str, Vectors]:
        found = {name: self._nothing() for name in self.names}
        for rule, symbols, p in self.rules:
            whole = self._nothing()
            whole[0][:] = p
            for symbol in symbols:
                whole = self._joined(whole, known[symbol] if symbol in known else self.exact[symbol])
            for length, part in enumerate(whole):
                found[rule][length] += part
        return found

    def _next_begun(self, known: dict[str, Vectors]) -> dict[str, Vectors]:
        """The string ends within the i-th symbol: those before it are whole, those after it are free."""
        found = {name: self._nothing() for name in self.names}
        for rule, symbols, p in self.rules:
            before = self._nothing()
            before[0][:] = p
            found[rule][0] += p * float(np.prod([self._z(symbol) for symbol in symbols]))
            for i, symbol in enumerate(symbols):
                free = float(np.prod([self._z(other) for other in symbols[i + 1 :]]))
                within = [*(known[symbol] if symbol in known else self.begun[symbol])]
                within[0] = np.zeros(1)  # of the string something is left for this symbol
                for length, part in enumerate(self._joined(before, within)):
                    found[rule][length] += part * free
                before = self._joined(before, self.exact[symbol])
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


def _pairs(old: object, new: object) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    if isinstance(old, list) and isinstance(new, list):
        return list(zip(old, new, strict=True))
    return [(np.asarray(old), np.asarray(new))]


def _place(string: Sequence[str]) -> int:
    place = 0
    for letter in string:
        place = place * len(LETTERS) + LETTERS.index(letter)
    return place
