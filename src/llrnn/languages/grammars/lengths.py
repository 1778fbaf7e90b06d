"""The shortest string that completes a prefix: Earley's items in the semiring (min, +).

    rest(position)  = letters of the symbols after it, at least
    ahead_k(A)      = min over items at Z in k   corner(Z, A) + rest(item) + ahead_origin(left)
    shortest(k)     = min over items             least(symbol) + rest(item) + ahead_origin(left)         0 at an end

corner(Z, A) are the letters that must follow A, where A begins Z.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import accumulate
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from llrnn.ground.arrays import Floats
from llrnn.languages.grammars.rules import Rules


class Lengths:
    """Least lengths for the rules of a grammar, and for its nodes when they are asked for."""

    def __init__(self, rules: Rules, terminals: Sequence[Sequence[int]]) -> None:
        """`terminals`: for each terminal, the letters to its nearest stop from each of its states."""
        self._rules, self._terminals = rules, terminals
        self._least = self._least_of_rules()
        self._rest = self._rests()
        self._after = self._edges()
        self._corners: dict[int, Floats] = {}
        self._ahead: WeakKeyDictionary[Any, Floats] = WeakKeyDictionary()

    def _symbol(self, symbol: int, least: Floats) -> float:
        """The letters of a symbol, which may be none."""
        return float(least[symbol]) if symbol >= 0 else float(self._terminals[~symbol][0])

    def _least_of_rules(self) -> Floats:
        """Rules by their least length, shortest first (Knuth): each production is summed once, when all is known."""
        least: Floats = np.full(len(self._rules.names), np.inf)
        missing: list[int] = []
        waiting: dict[int, list[int]] = defaultdict(list)
        ready: list[tuple[float, int]] = []
        productions = self._rules.productions
        for number, (left, right) in enumerate(productions):
            rules = {symbol for symbol in right if symbol >= 0}
            missing.append(len(rules))
            for symbol in rules:
                waiting[symbol].append(number)
            if not rules:
                heappush(ready, (sum(self._symbol(symbol, least) for symbol in right), left))
        while ready:
            length, rule = heappop(ready)
            if least[rule] < np.inf:
                continue
            least[rule] = length
            for number in waiting[rule]:
                missing[number] -= 1
                if missing[number] == 0:
                    left, right = productions[number]
                    heappush(ready, (sum(self._symbol(symbol, least) for symbol in right), left))
        return least

    def _rests(self) -> list[float]:
        rests: list[float] = []
        for _, right in self._rules.productions:
            lengths = [self._symbol(symbol, self._least) for symbol in right]
            rests += [*accumulate(lengths[:0:-1], initial=0.0)][::-1][: len(right)]
        return rests

    def _edges(self) -> dict[int, list[tuple[int, float]]]:
        """For each rule: the rules that begin it, and the letters that must follow them there."""
        found: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for number, position in enumerate(self._rules.positions):
            if position.symbol >= 0 and position.enter > 0:
                found[position.left].append((position.symbol, self._rest[number]))
        return found

    def _corner(self, rule: int) -> Floats:
        """corner[Z, ·] of one rule (Dijkstra), remembered; of most rules nobody asks."""
        if rule not in self._corners:
            found: Floats = np.full(len(self._rules.names), np.inf)
            ready = [(0.0, rule)]
            while ready:
                length, here = heappop(ready)
                if length < found[here]:
                    found[here] = length
                    for after, more in self._after[here]:
                        heappush(ready, (length + more, after))
            self._corners[rule] = found
        return self._corners[rule]

    def of(self, node: Any) -> int:
        """The letters that must follow at least after a node."""
        if node.shortest is None:
            node.shortest = 0 if node.end > 0 else int(self._of(node))
        found: int = node.shortest
        return found

    def _of(self, node: Any) -> float:
        if node.number == 0:
            return float(self._least[self._rules.start])
        found = np.inf
        for (place, q), origin, _ in node.items:
            position = self._rules.positions[place]
            symbol = position.symbol
            due = float(self._least[symbol]) if symbol >= 0 else float(self._terminals[~symbol][q])
            found = min(found, due + self._rest[place] + float(self._ahead_of(origin)[position.left]))
        return found

    def _ahead_of(self, node: Any) -> Floats:
        """The letters that must follow each nonterminal that begins at a node, (nonterminals,)."""
        stack = [node]
        while stack:  # without recursion: origins nest as deep as the text
            top = stack[-1]
            missing = [origin for _, origin, _ in top.items if origin not in self._ahead]
            if missing:
                stack += missing
                continue
            stack.pop()
            if top not in self._ahead:
                self._ahead[top] = self._from_items(top)
        return self._ahead[node]

    def _from_items(self, node: Any) -> Floats:
        ahead = self._corner(self._rules.start).copy() if node.number == 0 else np.full(len(self._least), np.inf)
        for (place, _), origin, _ in node.items:
            position = self._rules.positions[place]
            if position.symbol >= 0:
                after = self._rest[place] + self._ahead[origin][position.left]
                np.minimum(ahead, self._corner(position.symbol) + after, out=ahead)
        return ahead
