"""The symbols of a vocabulary as a trie of columns, and what a language allows of all of them at once.

Letter by letter, all symbols at a node of a language are one walk of the trie. A language that knows a faster way gives
`Summaries` (`context_free`): their answer is a set of parts, of which few differ from one node to the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from llrnn.ground.arrays import Bools, Ints

_MANY = 32  # a share of the symbols that is marked one by one rather than listed


class SymbolTrie:
    """A trie of the symbols of a vocabulary, spelled in columns (classes of letters that a grammar reads alike).

    Nodes are numbered level by level; the root is 0. It serves to find all symbols that a grammar allows in one walk.
    `parent` and `column` are those of each node, 0 for the root, (nodes,); `levels`: a slice of the nodes of each depth
    from 1 on.
    """

    def __init__(self, parent: Ints, column: Ints, end: Ints, symbols: Ints, n_symbols: int) -> None:
        """Build the trie from arrays of its nodes, sorted by parent and column.

        parent, column      the parent's number, and the column that leads from it, of nodes 1, 2, …: (nodes - 1,) each
        end                 the node at which each symbol ends; several may end at one
        symbols             the ids of these symbols, in the order of `end`
        n_symbols           the size of the vocabulary
        """
        self.column, self.n_symbols = np.concatenate([[0], column]), n_symbols
        self.parent = np.concatenate([[0], parent])
        self._first = 1 + np.searchsorted(parent, np.arange(len(parent) + 2))  # where the children of each begin
        self._first_view, self._column_view = self._first.data, self.column.data  # for single numbers
        order = np.argsort(end, kind="stable")
        self.listed, self.ends = symbols[order], end[order]  # the symbols, and the node at which each ends
        self._first_symbol = np.searchsorted(self.ends, np.arange(len(parent) + 2))
        self.levels: list[slice] = []  # the nodes of each depth from 1 on
        while (start := self.levels[-1].stop if self.levels else 1) < len(self.column):
            self.levels.append(slice(start, int(self._first[start])))

    def children(self, nodes: Ints) -> tuple[Ints, Ints]:
        """Return the children of all given nodes in one array, and for each the index in `nodes` of its parent.

        Children come parent by parent, in the order of `nodes`, each by ascending column.
        """
        return _joined(self._first, nodes)

    def states(self, moves: Ints, q: int) -> Ints:
        """Return the state of an automaton at each trie node, (nodes,), reading from the root; -1 where it is stuck.

        moves       (states + 1, columns) the next states, -1: none; the last row, all -1, is that of state -1
        q           the state at the root
        """
        found = np.full(len(self.column), -1)
        found[0] = q
        for level in self.levels:
            found[level] = moves[found[self.parent[level]], self.column[level]]
        return found

    def narrow(
        self, nodes: Ints, states: Ints, moves: Sequence[Mapping[int, int]], most: int
    ) -> tuple[list[tuple[int, int]], Ints, Ints]:
        """Run an automaton below a few nodes, level by level, while a level has at most `most` (node, state) pairs.

        nodes, states       the trie nodes to begin at, and the state of the automaton at each
        moves               at [state]: column (class of letters) -> next state

        Return (the pairs that were reached, without those to begin at; nodes of the last level; their states). The last
        two are where the walk was stopped because the level is too large, and can be continued; they are empty if all
        was read.
        """
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
        """Return which of the given nodes have children, (n,), bool."""
        found: Bools = self._first[nodes] < self._first[nodes + 1]
        return found

    def symbols(self, nodes: Ints) -> Ints:
        """Return the ids of the symbols that end at the given nodes, in one array, node by node in their order."""
        return self.listed[_joined(self._first_symbol, nodes)[0]]


def _joined(first: Ints, of: Ints) -> tuple[Ints, Ints]:
    """Return the integers first[n] … first[n + 1] - 1 for all n in `of` in one array, and the index in `of` of each."""
    begin = first[of]
    count = first[of + 1] - begin
    place = np.repeat(np.arange(len(of)), count)
    return np.arange(len(place)) + (begin - np.cumsum(count) + count)[place], place


class Ends:
    """A set of symbol ids that end while a part of a grammar is read; kept as ids or, where they are many, as a mask.

    symbols     (n,) the ids
    n_symbols   size V of the vocabulary

    `ends.mark(marked)` sets a mask (V,) to True at these ids. Two objects are never equal, whatever they hold.
    """

    __slots__ = ("marks", "symbols")

    def __init__(self, symbols: Ints, n_symbols: int) -> None:
        self.symbols, self.marks = symbols, np.zeros(n_symbols if len(symbols) > n_symbols // _MANY else 0, np.bool_)
        if len(self.marks):
            self.marks[symbols] = True

    def mark(self, marked: Bools) -> None:
        """Set `marked`, a mask over the vocabulary, (V,), to True at the symbols of this set, in place."""
        if len(self.marks):
            marked |= self.marks
        else:
            marked[self.symbols] = True


Allowed: TypeAlias = frozenset[Ends]


class TooDeepError(Exception):
    """Raised where a symbol spans more terminals of a grammar than `Summaries` covers.

    The caller then reads it letter by letter.
    """


def distinct(nodes: Sequence[Ints]) -> Ints:
    """Return the node numbers of several arrays in one array, sorted, each once."""
    found = np.sort(np.concatenate(nodes), kind="stable")
    new = np.ones(len(found), dtype=np.bool_)
    np.not_equal(found[1:], found[:-1], out=new[1:])
    return found[new]
