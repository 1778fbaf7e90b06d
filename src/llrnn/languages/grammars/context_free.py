"""A context-free grammar read letter by letter: Earley's parser with weights, its sets shared and cached.

    item (position, q, origin) : c       begun at `origin`, it stands at `position`; c is what it has weighed since
    W_k(A)   = Σ_items at Z in k  α(item) R_L[Z, A]                          how much A is looked for at node k
    α(item)  = c · W_origin(left)                                            ... and this item, with all around it
    w(x | k) = Σ_items in a terminal α · w_T(x | q)  +  Σ_A W_k(A) FIRST[A, x]

A node is an Earley set: its items with their origins, which are nodes. Equal nodes are one object, so what follows is
worked out once for all prefixes that lead there. Weights at a node are scaled such that letters and end sum to 1.
Stolcke (1995) has forward and inner probabilities; here c is an inner one relative to the scales of both nodes, and all
scales cancel where an item completes another: c' = c_waiting · c_completed.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np

from llrnn.ground.arrays import Floats
from llrnn.ground.errors import BackgroundError
from llrnn.languages.grammars.expressions import Expression
from llrnn.languages.grammars.finite import TerminalAutomaton
from llrnn.languages.grammars.language import Language, LetterColumns
from llrnn.languages.grammars.notation import Notation
from llrnn.languages.grammars.rules import Lengths, Position, Rules

MOST_ITEMS = 20_000  # at one node
MOST_NODES = 200_000  # cached; when there are more, all are forgotten, and made again when needed
MOST_NUMBERS = 64_000_000  # in the nodes of one grammar, 512 MB: a node has one for each nonterminal and column


Place: TypeAlias = tuple[int, int]  # (position, state of its terminal; 0 before a nonterminal)
Item: TypeAlias = "tuple[Place, Set, float]"  # where, since which node, with which weight


class Set:
    """A node: what may be under way after a prefix. Two sets with the same items are the same object."""

    __slots__ = (
        "__weakref__",
        "after",
        "end",
        "items",
        "looked_for",
        "number",
        "shortest",
        "waiting",
        "weights",
    )

    def __init__(self, grammar: ContextFree, number: int, items: Sequence[Item], end: float) -> None:
        self.number, self.items, self.end = number, tuple(items), end
        self.after: dict[int, Set | None] = {}
        self.shortest: int | None = None
        self.waiting: dict[int, list[Item]] = defaultdict(list)  # items by the nonterminal that they wait for
        positions, rules = grammar.rules.positions, grammar.rules
        self.looked_for: Floats = rules.corners[rules.start].copy() if number == 0 else np.zeros(len(rules.names))
        self.weights: Floats = np.zeros(grammar.columns.count)
        for item in items:
            (place, q), origin, c = item
            position = positions[place]
            forward = c * origin.looked_for[position.left]
            if position.symbol >= 0:
                self.waiting[position.symbol].append(item)
                self.looked_for += forward * rules.corners[position.symbol]
            else:
                self.weights += forward * grammar.letters[~position.symbol][q]
        self.weights += self.looked_for @ grammar.first
        if not rules.weighted:
            np.minimum(self.looked_for, 1.0, out=self.looked_for)
            np.minimum(self.weights, 1.0, out=self.weights)

    def __deepcopy__(self, memo: object) -> Set:
        return self  # a value

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a node of a grammar belongs to the grammar at hand; save the prefix instead")


class ContextFree(Language):
    """The language of a grammar whose terminals are expressions."""

    def __init__(
        self, notation: Notation, terminals: Mapping[str, Expression], columns: LetterColumns, *, weighted: bool
    ) -> None:
        self.columns = columns
        automata = {name: TerminalAutomaton.of(expression, columns) for name, expression in terminals.items()}
        usable = {name: automaton for name, automaton in automata.items() if not automaton.is_empty}
        self.rules = rules = Rules(notation, list(usable), weighted=weighted)
        self.readings = list(usable.values())  # in the order of `rules.terminals`
        made = [reading.weights(columns, weighted=weighted) for reading in self.readings]
        self.letters, self.stops = [letters for letters, _ in made], [stop for _, stop in made]
        self.lengths = Lengths(rules, [reading.lengths for reading in self.readings])
        self._sets: dict[object, Set] = {}
        self._grown: dict[object, Set] = {}
        self._waiting: dict[object, Set] = {}
        self._made = 1
        self._most = max(1, MOST_NUMBERS // (2 * len(rules.names) + columns.count))  # twice: `Lengths` has as many
        self._root = Set(self, 0, [], float(rules.empty[rules.start]))  # never shared: it alone looks for the start

    @cached_property
    def first(self) -> Floats:
        """FIRST[A, column]: the weight of a letter as the first of a production of A, (nonterminals, columns)."""
        found = np.zeros((len(self.rules.names), self.columns.count))
        for terminal, letters in enumerate(self.letters):
            for _, position in self.rules.entered.get(~terminal, ()):
                found[position.left] += position.enter * letters[0]
        return found

    @cached_property
    def _begun(self) -> list[list[tuple[int, Position, int]]]:
        """For each column: the positions at which it can begin a production, and the state of the terminal after it."""
        found: list[list[tuple[int, Position, int]]] = [[] for _ in range(self.columns.count)]
        for terminal, reading in enumerate(self.readings):
            for number, position in self.rules.entered.get(~terminal, ()):
                for column, q in reading.moves[0].items():
                    found[column].append((number, position, q))
        return found

    @property
    def root(self) -> Set:
        return self._root

    def weights(self, node: Set) -> Floats:
        return node.weights

    def end(self, node: Set) -> float:
        return node.end

    def shortest(self, node: Set) -> int:
        return self.lengths.of(node)

    def after(self, node: Set, column: int) -> Set | None:
        if column not in node.after:
            node.after[column] = self._scanned(node, column) if node.weights[column] > 0 else None
        return node.after[column]

    def _scanned(self, node: Set, column: int) -> Set:
        reads = self._reads(node, column)
        key = tuple((place, q, origin.number, c) for place, q, origin, c in reads)
        if key not in self._grown:  # letters that are read alike lead to the same node, and need not grow it again
            growth = _Growth(self)
            for place, q, origin, c in reads:
                growth.read(place, q, origin, c)
            growth.complete()
            found = self._set(list(growth.found()), growth.end)  # which may forget all that was grown
            if len(self._grown) >= MOST_NODES:
                self._grown.clear()
            self._grown[key] = found
        return self._grown[key]

    def _reads(self, node: Set, column: int) -> list[tuple[int, int, Set, float]]:
        """The terminals that take a letter: place, state after it, origin and weight."""
        found = []
        for (place, q), origin, c in node.items:
            position = self.rules.positions[place]
            if position.symbol < 0:
                moves, letters = self.readings[~position.symbol].moves[q], self.letters[~position.symbol]
                if column in moves:
                    found.append((place, moves[column], origin, float(c * letters[q, column])))
        begun = self._begun_at(node)
        for place, position, q in self._begun[column]:
            if node.looked_for[position.left] > 0:
                found.append((place, q, begun, float(position.enter * self.letters[~position.symbol][0, column])))
        return found

    def _begun_at(self, node: Set) -> Set:
        """The node that stands for all at which the same items wait: what begins at one of them ends alike.

        So `{ "a"` and `{"a"` come to one node. Weights are relative to the scale of a node, which others do not share.
        """
        if self.rules.weighted or node.number == 0:
            return node
        waiting = tuple((place, origin.number) for items in node.waiting.values() for place, origin, _ in items)
        return self._waiting.setdefault(tuple(sorted(waiting)), node)

    def _set(self, items: list[Item], end: float) -> Set:
        """The node with these items: one that exists, if there is one, up to a common factor."""
        if len(items) > MOST_ITEMS:
            raise BackgroundError(
                f"the grammar is so ambiguous that more than {MOST_ITEMS} items are under way at once; rewrite the "
                "rules that derive the same strings in many ways"
            )
        if not self.rules.weighted:
            return self._shared([(place, origin, 1.0) for place, origin, _ in items], float(end > 0))
        total = self._total(items, end)
        return self._shared([(place, origin, c / total) for place, origin, c in items], end / total)

    def _total(self, items: list[Item], end: float) -> float:
        """What all letters and the end weigh; a set is made for once to find out."""
        raw = Set(self, self._made, items, end)
        return float(raw.weights @ self.columns.sizes) + end

    def _shared(self, items: list[Item], end: float) -> Set:
        items.sort(key=lambda item: (item[0], item[1].number))
        key = (tuple((place, origin.number, _rounded(c)) for place, origin, c in items), _rounded(end))
        if key not in self._sets:
            if len(self._sets) >= min(MOST_NODES, self._most):
                self._forget()
            self._sets[key] = Set(self, self._made, items, end)
            self._made += 1
        return self._sets[key]

    def _forget(self) -> None:
        for known in self._sets.values():
            known.after.clear()
        self._sets.clear()
        self._grown.clear()
        self._waiting.clear()


class _Growth:
    """The items of the next node, as they are found."""

    def __init__(self, grammar: ContextFree) -> None:
        self.grammar, self.rules = grammar, grammar.rules
        self.end = 0.0
        self._items: dict[tuple[int, int, int], float] = defaultdict(float)
        self._origins: dict[int, Set] = {}
        self._whole: dict[int, dict[int, float]] = {}  # by origin: the nonterminals that are complete
        self._latest: list[int] = []

    def found(self) -> Iterator[Item]:
        for (place, q, origin), c in self._items.items():
            yield (place, q), self._origins[origin], c

    def read(self, place: int, q: int, origin: Set, c: float) -> None:
        """The terminal at a place has been read up to state q; it may go on, or be whole."""
        terminal = ~self.rules.positions[place].symbol
        if self.grammar.readings[terminal].moves[q]:
            self._add(place, q, origin, c)
        if (stop := float(self.grammar.stops[terminal][q])) > 0:
            self._pass(self.rules.positions[place], origin, c * stop)

    def _add(self, place: int, q: int, origin: Set, c: float) -> None:
        self._origins[origin.number] = origin
        self._items[place, q, origin.number] += c

    def _pass(self, position: Position, origin: Set, c: float) -> None:
        """The symbol at a position is whole: another one is due, or the production is whole too."""
        for place, between in position.tail:
            self._add(place, 0, origin, c * between)
        if position.done > 0:
            self._finish(position.left, origin, c * position.done)

    def _finish(self, left: int, origin: Set, c: float) -> None:
        if origin.number not in self._whole:
            self._whole[origin.number] = defaultdict(float)
            self._origins[origin.number] = origin
            heapq.heappush(self._latest, -origin.number)
        self._whole[origin.number][left] += c

    def complete(self) -> None:
        """What is whole completes what waited for it, the latest begun first: a node's origins are older than it is."""
        while self._latest:
            origin = self._origins[-heapq.heappop(self._latest)]
            whole: dict[int, float] = defaultdict(float)
            for left, c in self._whole.pop(origin.number).items():
                for other, factor in self.rules.chain(left):
                    whole[other] += c * factor
            for left, c in whole.items():
                self._completed(left, origin, c)

    def _completed(self, left: int, origin: Set, c: float) -> None:
        if origin.number == 0 and left == self.rules.start:
            self.end += c
        for (place, _), older, own in origin.waiting.get(left, ()):
            self._pass(self.rules.positions[place], older, own * c)
        for _, position in self.rules.entered.get(left, ()):
            if origin.looked_for[position.left] > 0:
                for place, between in position.tail:
                    self._add(place, 0, origin, c * position.enter * between)


def _rounded(c: float) -> float:
    """Weights that differ by rounding only are the same."""
    return c if c in (0.0, 1.0) else float(f"{c:.10e}")
