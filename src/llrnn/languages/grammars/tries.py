"""The symbols of a vocabulary as a trie of columns, and what a language allows of all of them at once.

Letter by letter, all symbols at a node of a language are one walk of the trie. A language that knows a faster way gives
an `AllowedSymbols`: its answer is a set of parts, of which few differ from one node to the next.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from llrnn.ground.arrays import Bools, Ints

_MANY = 32  # a share of the symbols that is marked one by one rather than listed


class SymbolTrie:
    """The symbols of a vocabulary by what they spell, in columns; nodes are numbered level by level, the root is 0."""

    def __init__(self, parent: Ints, column: Ints, end: Ints, symbols: Ints, n_symbols: int) -> None:
        """Parents and columns of all nodes but the root, sorted by parent and column; where each symbol ends."""
        self.column, self.n_symbols = np.concatenate([[0], column]), n_symbols
        self._parent = np.concatenate([[0], parent])
        self._first = 1 + np.searchsorted(parent, np.arange(len(parent) + 2))  # where the children of each begin
        self._first_view, self._column_view = self._first.data, self.column.data  # for single numbers
        order = np.argsort(end, kind="stable")
        self._symbols, self._first_symbol = symbols[order], np.searchsorted(end[order], np.arange(len(parent) + 2))

    def children(self, nodes: Ints) -> tuple[Ints, Ints]:
        """All children of some nodes, and which of the nodes each is of."""
        return _joined(self._first, nodes)

    def states(self, moves: Ints, q: int) -> Ints:
        """In which state an automaton with moves (states, columns) comes to each node, -1 for none; q at the root."""
        found = np.full(len(self.column), -1)
        found[0], first, last = q, 1, int(self._first[1])
        while first < last:  # level by level
            found[first:last] = moves[found[self._parent[first:last]], self.column[first:last]]
            first, last = last, int(self._first[last])
        return found

    def narrow(
        self, nodes: Ints, states: Ints, moves: Sequence[Mapping[int, int]], most: int
    ) -> tuple[list[tuple[int, int]], Ints, Ints]:
        """What an automaton reads below few nodes, for as long as they are few: nodes and states, and the last ones."""
        at, found = list(zip(nodes.tolist(), states.tolist(), strict=True)), dict[tuple[int, int], None]()
        first, column = self._first_view, self._column_view
        while 0 < len(at) <= most:
            at = [
                pair
                for node, q in at
                for child in range(first[node], first[node + 1])
                if (after := moves[q].get(column[child])) is not None and (pair := (child, after)) not in found
            ]
            found.update(dict.fromkeys(at))
        last = np.array(at, dtype=np.int64).reshape(-1, 2)
        return list(found), last[:, 0], last[:, 1]

    def has_children(self, nodes: Ints) -> Bools:
        found: Bools = self._first[nodes] < self._first[nodes + 1]
        return found

    def symbols(self, nodes: Ints) -> Ints:
        """The symbols that end at some nodes."""
        return self._symbols[_joined(self._first_symbol, nodes)[0]]


def _joined(first: Ints, of: Ints) -> tuple[Ints, Ints]:
    """The ranges from first[n] to first[n + 1] of some n, one after the other; and the place of n for each number."""
    begin = first[of]
    count = first[of + 1] - begin
    place = np.repeat(np.arange(len(of)), count)
    return np.arange(len(place)) + (begin - np.cumsum(count) + count)[place], place


class Ends:
    """The symbols that end where one terminal is being read."""

    __slots__ = ("marks", "symbols")

    def __init__(self, symbols: Ints, n_symbols: int) -> None:
        self.symbols, self.marks = symbols, np.zeros(n_symbols if len(symbols) > n_symbols // _MANY else 0, np.bool_)
        if len(self.marks):
            self.marks[symbols] = True

    def mark(self, marked: Bools) -> None:
        """Set the places of these symbols."""
        if len(self.marks):
            marked |= self.marks
        else:
            marked[self.symbols] = True


Allowed: TypeAlias = frozenset[Ends]


class AllowedSymbols(ABC):
    """Which symbols of a trie a language allows at a node, in parts that are cached; the end aside."""

    numbers = 0  # that are cached

    @abstractmethod
    def allowed(self, node: Any) -> Allowed:
        """The symbols that may follow; `TooDeepError` where they have to be read letter by letter."""


class TooDeepError(Exception):
    """A symbol spells more than summaries of a language can hold."""


def distinct(nodes: Sequence[Ints]) -> Ints:
    """All nodes, sorted, each once; they come level by level, so most are sorted already."""
    found = np.sort(np.concatenate(nodes), kind="stable")
    new = np.ones(len(found), dtype=np.bool_)
    np.not_equal(found[1:], found[:-1], out=new[1:])
    return found[new]
