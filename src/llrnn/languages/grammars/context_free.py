"""A context-free grammar read letter by letter: Earley's parser with weights, its sets shared and cached.

    item (position, q, origin) : c       begun at `origin`, it stands at `position`; c is what it has weighed since
    W_k(A)   = Σ_items at Z in k  α(item) R_L[Z, A]                          how much A is looked for at node k
    α(item)  = c · W_origin(left)                                            ... and this item, with all around it
    w(x | k) = Σ_items in a terminal α · w_T(x | q)  +  Σ_A W_k(A) FIRST[A, x]

A node is an Earley set: its items with their origins, which are nodes. Equal nodes are one object, so what follows is
worked out once for all prefixes that lead there. Weights at a node are scaled such that letters and end sum to 1.
Stolcke (1995) has forward and inner probabilities; here c is an inner one relative to the scales of both nodes, and all
scales cancel where an item completes another: c' = c_waiting · c_completed.

`Rules`: what an Earley parser precomputes from the rules of a grammar.

    p(A → α) = w(A → α) Π Z(α) / Z(A)             Z: the sum over all that a symbol derives; Σ p = 1 at every A
    e(A)     = Σ p(A → α) Π e(α)                   the probability that A is empty
    enter(A → α β, i) = p(A → αβ) Π_{before i} e   the first symbol that is not empty is the i-th
    done(A → αβ, i)   = Π_{after i} e              ... and the last one
    L[A, B] = Σ enter over the positions of B,     R_L = (I − L)⁻¹       all ways for B to begin A (left corners)
    U[B, A] = Σ enter · done likewise,             R_U = (I − U)⁻¹       all ways for A to be B and nothing else

Alternatives of a rule compete: their weights are normalised first, so that every sum is finite; strings that never
end are left out. Left recursion, empty rules and cycles A → B → A are inside the inverses, exactly. A grammar without
weights is the same over {0, 1}. `positions` are places (rule, i) at which the i-th symbol is about to derive
something.

`Lengths`: the shortest string that completes a prefix, by Earley's items in the semiring (min, +).

    rest(position)  = letters of the symbols after it, at least
    ahead_k(A)      = min over items at Z in k   corner(Z, A) + rest(item) + ahead_origin(left)
    shortest(k)     = min over items             least(symbol) + rest(item) + ahead_origin(left)         0 at an end

corner(Z, A) are the letters that must follow A, where A begins Z.

`Summaries`: which symbols a grammar without weights allows at a node, not letter by letter.

    run(F, t, q)     = where the terminal t, from its state q on, may stop         and the symbols that end within it
    rest(F, i, q)    = after(run or call of the symbol at position i, i)           to the end of the production
    after(F, i)      = ∪ over the positions j that may be next of rest(F, j, 0),   F too, where nothing need follow
    call(F, A)       = the A in closed(∪ of rest(F, i, 0) over positions i that begin a left corner of A)
    closed({B: F_B}) = all that is whole where the B are, begun at one node: left corners and chains of single symbols

F is a frontier: nodes of the trie of all symbols, read from all of them at once. Every line is a union over the nodes
of F and over the items of an Earley set, so it holds for each alone and does not ask what is below it on the stack:
it is worked out once for a grammar, whatever the text. At a node of the parser only the stack is left:

    items (i, q, origin)    rest({root}, i, q)    →    closed at the origin    →    after each item that waits there …

until nothing is left of the frontier, which is as deep as one symbol closes brackets. A terminal costs one sweep of
the part of the trie that it can read: where most symbols stay within a string, that is one sweep for all strings.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate
from operator import add, mul
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import BackgroundError
from llrnn.languages.grammars.automaton import Language, LetterColumns, derived, least_costs, reachable
from llrnn.languages.grammars.expressions import Expression
from llrnn.languages.grammars.finite import TerminalAutomaton
from llrnn.languages.grammars.notation import MOST_RULES, Notation, Production, productive_rules
from llrnn.languages.grammars.tries import Allowed, Ends, SymbolTrie, TooDeepError, distinct

MOST_TAILS = 2_000_000
MOST_NONTERMINALS = 3_000  # two matrices of so many squared: 144 MB
_NEWTON_STEPS = 200


@dataclass(frozen=True)
class Position:
    """A place in a production of a grammar: before its i-th symbol, which is about to derive a non-empty string.

    A symbol "is empty" where it derives the empty string.

    left        number of the nonterminal that the production belongs to
    symbol      the symbol after the place: the number of a nonterminal, or ~t for the terminal of index t
    enter       probability of the production, times that of all symbols before the place being empty
    done        probability that all symbols after `symbol` are empty
    tail        for each later place of the production that may come next: (its index in `Rules.positions`, probability
                that all symbols between are empty)
    """

    left: int  # the nonterminal that the production is of
    symbol: int  # a nonterminal, or ~t for the terminal t
    enter: float
    done: float
    tail: tuple[tuple[int, float], ...]  # the positions after it, and the probability that what is between is empty


class Rules:
    """The rules of a context-free grammar with numbers for names, and the sums that an Earley parser precomputes.

    Nonterminals are 0, 1, … (`names`; 0 is the start rule), the terminal of index t in `terminals` is ~t, a negative
    number. `empty`, (nonterminals,), is the probability that each derives the empty string (0 or 1 without weights).
    Productions that cannot derive a string, or are not reached from the start, are dropped.
    """

    def __init__(self, notation: Notation, usable: Sequence[str], *, weighted: bool) -> None:
        """Number the rules of a grammar and normalise their weights, to sum 1 over the alternatives of each rule.

        notation    the grammar
        usable      names of the terminals of which the vocabulary can spell a string; they are numbered in this order
        weighted    False: weights are ignored, and what is possible has weight 1

        A BackgroundError if no string can be derived, or the grammar is too large (`MOST_RULES`, `MOST_NONTERMINALS`).
        """
        productive = productive_rules(notation.productions, usable)
        if notation.start not in productive:
            spelled = {*usable}
            lost = [one for name, one in notation.terminals.items() if name not in spelled]
            shown = "".join(f"{one.name:.60} ({one.text[:60]!r})" for one in lost[:1]) + " and others" * (len(lost) > 1)
            raise BackgroundError(
                f"the language is empty: no string of {notation.start!r} can be written with the symbols of the "
                f"vocabulary, which spell nothing for the terminal {shown}"
            )
        readable = productive.union(usable)
        kept = [one for one in notation.productions if readable.issuperset(one.symbols)]
        self.weighted = weighted
        steps = ((name, (one.rule,), 0.0) for one in kept for name in one.symbols if name in productive)
        self.names = tuple(least_costs(steps, [notation.start]))
        self.terminals = tuple(usable)
        _check_size(kept, self.names)
        self.start = 0
        self._number = {name: number for number, name in enumerate(self.names)}
        self._productions = [one for one in kept if one.rule in self._number]
        self._left = np.array([self._number[one.rule] for one in self._productions])
        symbol = {name: ~number for number, name in enumerate(self.terminals)} | self._number
        self._right = [tuple(symbol[name] for name in one.symbols) for one in self._productions]
        self.empty, self._p = self._probabilities() if weighted else self._possibilities()

    def _possibilities(self) -> tuple[Floats, Floats]:
        empty: Floats = np.zeros(len(self.names))
        empty[list(derived(zip(self._left.tolist(), self._right, strict=True), ()))] = 1.0
        return empty, np.ones(len(self._right))

    def _probabilities(self) -> tuple[Floats, Floats]:
        weight = np.array([one.weight for one in self._productions])
        p: Floats = weight / np.bincount(self._left, weight, len(self.names))[self._left]
        Z = self._solved(p, terminal=1.0)
        whole = np.array([np.prod([Z[s] for s in right if s >= 0]) for right in self._right])
        p = p * whole / Z[self._left]
        p /= np.bincount(self._left, p, len(self.names))[self._left]  # but for rounding it is 1
        return self._solved(p, terminal=0.0), p

    def _solved(self, p: Floats, terminal: float) -> Floats:
        """Return x(A) of each nonterminal A, (nonterminals,): the least solution of x(A) = Σ p Π x(α) (Newton).

        The sum is over productions A → α, the product over the symbols of α. With x = 1 for terminals, x(A) is the
        probability that A derives a finite string; with 0, that it derives the empty string.

        p           (productions,) their probabilities
        terminal    x of every terminal
        """
        n = len(self.names)
        x = np.zeros(n)
        for _ in range(_NEWTON_STEPS):
            value, slope = np.zeros(n), np.zeros((n, n))
            for r, (left, right) in enumerate(zip(self._left.tolist(), self._right, strict=True)):
                factors = [x[s] if s >= 0 else terminal for s in right]
                before, behind = _products(factors), _products(factors[::-1])[::-1]
                value[left] += p[r] * before[-1]
                for i, s in enumerate(right):
                    if s >= 0:
                        slope[left, s] += p[r] * before[i] * behind[i + 1]
            step = _newton_step(np.eye(n) - slope, value - x)
            x = np.clip(x + step, 0.0, 1.0)
            if np.abs(step).max() < 1e-15:
                break
        return x

    @cached_property
    def productions(self) -> list[tuple[int, tuple[int, ...]]]:
        """(left, symbols) of each production A → α: the number of A, and the symbols of α in order.

        They are in the order of the grammar, without those that were dropped. A symbol is the number of a nonterminal,
        or ~t for the terminal of index t.
        """
        return list(zip(self._left.tolist(), self._right, strict=True))

    @cached_property
    def positions(self) -> list[Position]:
        """A list of all places in productions, before each of their symbols, production by production.

        Elsewhere a place is given by its index in this list. A BackgroundError if symbols that may derive the empty
        string stand in such long rows that more than `MOST_TAILS` pairs of places may follow each other.
        """
        found: list[Position] = []
        tails = 0
        for left, right, p in zip(self._left.tolist(), self._right, self._p.tolist(), strict=True):
            begin, empty = len(found), [float(self.empty[s]) if s >= 0 else 0.0 for s in right]
            before, behind = _products(empty), _products(empty[::-1])[::-1]
            for i, symbol in enumerate(right):
                tail = _tail(begin, i, empty)
                tails += len(tail)
                if tails > MOST_TAILS:
                    raise BackgroundError(
                        f"symbols that may be empty stand in a row, so that more than {MOST_TAILS} pairs of them may "
                        "follow each other; make rules of such rows, or repeat with *"
                    )
                found.append(Position(left, symbol, p * before[i], behind[i + 1], tail))
        return found

    @cached_property
    def entered(self) -> dict[int, list[tuple[int, Position]]]:
        """A dict from a symbol to the places before it to which all symbols of the production so far may be empty.

        A place is given as (index in `positions`, `Position`); there the symbol can be the first of its production to
        derive a non-empty string. A symbol is the number of a nonterminal, or ~t for the terminal of index t.
        """
        found: dict[int, list[tuple[int, Position]]] = defaultdict(list)
        for number, position in enumerate(self.positions):
            if position.enter > 0.0:
                found[position.symbol].append((number, position))
        return found

    @cached_property
    def corners(self) -> Floats:
        """R_L[A, B]: summed probability of all ways in which nonterminal B begins A (left corners), A itself included.

        B begins A where A derives B followed by anything, with nothing but empty symbols before it. The array is
        (nonterminals, nonterminals); without weights, 1 where there is a way, else 0.
        """
        return self._closed(self._summed(lambda position: position.enter))

    @cached_property
    def chain(self) -> Callable[[int], list[tuple[int, float]]]:
        """A cached function from a nonterminal B to [(A, R_U[B, A])]: all A that can be B alone, B included.

        R_U[B, A] is the summed probability of all ways for A to derive B and nothing else (1 without weights).
        """
        units = self._closed(self._summed(lambda position: position.enter * position.done).T)
        return cache(lambda symbol: [(int(a), float(units[symbol, a])) for a in np.flatnonzero(units[symbol])])

    def _summed(self, weight: Callable[[Position], float]) -> Floats:
        """Return the matrix of Σ weight(position) at [left, symbol], over all positions that stand before nonterminals.

        It is (nonterminals, nonterminals): `left` is the nonterminal of the production, `symbol` the one after the
        position, both by number.
        """
        found = np.zeros((len(self.names), len(self.names)))
        for position in self.positions:
            if position.symbol >= 0:
                found[position.left, position.symbol] += weight(position)
        return found

    def _closed(self, matrix: Floats) -> Floats:
        """Return I + M + M² + … of a square matrix M; without weights, 1 where that sum is above 0, else 0."""
        if self.weighted:
            inverse: Floats = np.maximum(np.linalg.inv(np.eye(len(matrix)) - matrix), 0.0)
            return inverse * reachable(matrix > 0)  # 0 where rounding saw a way that is none
        return reachable(matrix > 0)


def _newton_step(slope: Floats, error: Floats) -> Floats:
    try:
        return np.asarray(np.linalg.solve(slope, error), dtype=np.float64)
    except np.linalg.LinAlgError:  # a grammar on the edge of never ending
        return np.asarray(np.linalg.lstsq(slope, error, rcond=None)[0], dtype=np.float64)


def _products(factors: Sequence[float]) -> list[float]:
    """Return the products of the first 0, 1, 2, … factors: 1, f₁, f₁ f₂, …"""
    return list(accumulate(factors, mul, initial=1.0))


def _tail(begin: int, place: int, empty: Sequence[float]) -> tuple[tuple[int, float], ...]:
    """Return which positions of a production may come next: (index of a position, probability that it does so).

    They are the positions after `place`, in order, up to the first symbol that cannot be empty; the probability is that
    of all symbols between being empty, 1 for the next one. () at the last symbol.

    begin       index of the first position of the production in `Rules.positions`
    place       index of the current symbol within the production, from 0
    empty       for each symbol of the production, the probability that it derives the empty string
    """
    found, between = [], 1.0
    for after in range(place + 1, len(empty)):
        found.append((begin + after, between))
        between *= empty[after]
        if between == 0.0:
            break
    return tuple(found)


def _check_size(productions: Sequence[Production], names: Sequence[str]) -> None:
    size = sum(1 + len(one.symbols) for one in productions)
    if size > MOST_RULES or len(names) > MOST_NONTERMINALS:
        raise BackgroundError(
            f"the grammar has {len(names)} rules and {size} symbols in them once it is written out; at most "
            f"{MOST_NONTERMINALS} and {MOST_RULES} are possible: repeat less, or limit the depth less"
        )


class Lengths:
    """The least numbers of letters that the rules of a grammar derive, and that must still follow a parser node.

    `Lengths(rules, terminals).of(node)` is that number, an int; it serves limits on the length of a text. A letter is a
    character or a symbol of the vocabulary, by what the grammar is over.
    """

    def __init__(self, rules: Rules, terminals: Sequence[Sequence[int]]) -> None:
        """Compute the least number of letters of every nonterminal.

        rules       the rules of the grammar
        terminals   at [index of the terminal][state]: least number of letters from a state of its automaton to an end
        """
        self._rules, self._terminals = rules, terminals
        costs = least_costs(
            (left, [s for s in right if s >= 0], sum(self._symbol(s) for s in right if s < 0))
            for left, right in rules.productions
        )
        self._least = self._by_rule(costs)
        self._rest = self._rests()
        # the rules that begin a rule, and the letters that must follow them there
        self._edges = [
            (position.symbol, (position.left,), rest)
            for position, rest in zip(rules.positions, self._rest, strict=True)
            if position.symbol >= 0 and position.enter > 0
        ]
        self._corner = cache(lambda rule: self._by_rule(least_costs(self._edges, [rule])))  # the row corner[rule, ·]
        self._ahead: WeakKeyDictionary[Any, Floats] = WeakKeyDictionary()

    def _symbol(self, symbol: int, q: int = 0) -> float:
        """Return the least number of letters of a symbol, a nonterminal by number or ~t for the terminal of index t.

        Infinite for a nonterminal that derives no string.

        q           for a terminal, the state of its automaton from which letters are counted
        """
        return float(self._least[symbol]) if symbol >= 0 else float(self._terminals[~symbol][q])

    def _by_rule(self, costs: Mapping[int, float]) -> Floats:
        """Return costs by number of a nonterminal as an array, (nonterminals,); infinite where none is given."""
        found: Floats = np.full(len(self._rules.names), np.inf)
        found[list(costs)] = list(costs.values())
        return found

    def _rests(self) -> list[float]:
        rests: list[float] = []
        for _, right in self._rules.productions:
            lengths = [self._symbol(symbol) for symbol in right]
            rests += [*accumulate(lengths[:0:-1], initial=0.0)][::-1][: len(right)]
        return rests

    def of(self, node: Any) -> int:
        """Return the least number of letters that must follow a parser node (`Set`) until a string ends."""
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
            due = self._symbol(position.symbol, q)
            found = min(found, due + self._rest[place] + float(self._ahead_of(origin)[position.left]))
        return found

    def _ahead_of(self, node: Any) -> Floats:
        """Return for each nonterminal that may begin at a parser node the least number of letters after it.

        That is, from where the nonterminal is complete to the end of a string, (nonterminals,); infinite where the node
        does not predict it; node: a `Set`.
        """
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


MOST_ITEMS = 20_000  # at one node
MOST_NODES = 200_000  # cached; when there are more, all are forgotten, and made again when needed
MOST_NUMBERS = 64_000_000  # in the nodes of one grammar, 512 MB: a node has one for each nonterminal and column


Place: TypeAlias = tuple[int, int]  # (position, state of its terminal; 0 before a nonterminal)
Item: TypeAlias = "tuple[Place, Set, float]"  # where, since which node, with which weight


class Set:
    """A node of the parser: an Earley set, that is, the items (productions in progress) that are active after a prefix.

    An item is ((position, state), origin, weight): the index of a position of the grammar's rules, the state of the
    automaton of the terminal there (0 before a nonterminal), and the node at which the production began. Sets with
    equal items are one object.

    grammar     the language that the node belongs to
    number      0 for the root, rising in the order of creation; origins are older
    items       the items
    end         weight of ending here, 0 where no string ends

    `looked_for` and `weights`: the weights of the nonterminals and letters that may come next (`ContextFree.outlook`).
    """

    def __init__(self, grammar: ContextFree, number: int, items: Sequence[Item], end: float) -> None:
        self.number, self.items, self.end = number, tuple(items), end
        self.after: dict[int, Set | None] = {}
        self.shortest: int | None = None
        self.begun: Set | None = None  # the node that stands for all with the same `waiting`, once it was asked for
        self.looked_for, self.weights = grammar.outlook(number, self.items)
        self._positions = grammar.rules.positions

    @cached_property
    def waiting(self) -> dict[int, list[Item]]:
        """A dict from the number of a nonterminal to the items of this node that stand before it.

        Items are productions in progress; these go on once the nonterminal, begun at this node, is complete.
        """
        found: dict[int, list[Item]] = defaultdict(list)
        for item in self.items:
            if (symbol := self._positions[item[0][0]].symbol) >= 0:
                found[symbol].append(item)
        return found

    def __deepcopy__(self, memo: object) -> Set:
        return self  # a value

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a node of a grammar belongs to the grammar at hand; save the prefix instead")


class ContextFree(Language):
    """The language of a context-free grammar whose terminals are regular expressions, read letter by letter (Earley).

    notation    the grammar
    terminals   name of a terminal -> its expression
    columns     the partition of the letters into columns (classes of letters that are read alike)
    weighted    True: letters and end have probabilities at each node; False: 1 for what is allowed, else 0

    A node, an Earley set (`Set`), stands for a prefix that was read. A BackgroundError if the vocabulary can spell no
    string of the language.
    """

    def __init__(
        self, notation: Notation, terminals: Mapping[str, Expression], columns: LetterColumns, *, weighted: bool
    ) -> None:
        self.columns = columns
        automata = {name: TerminalAutomaton.of(one, columns).minimised() for name, one in terminals.items()}
        usable = {name: automaton for name, automaton in automata.items() if not automaton.is_empty}
        self.rules = rules = Rules(notation, list(usable), weighted=weighted)
        self.readings = list(usable.values())  # in the order of `rules.terminals`
        made = [reading.weights(columns, weighted=weighted) for reading in self.readings]
        self.letters, self.stops = [letters for letters, _ in made], [stop.tolist() for _, stop in made]
        self._letter = [letters.max(1, initial=0.0).tolist() for letters in self.letters]  # of each one in a state
        self.lengths = Lengths(rules, [reading.lengths for reading in self.readings])
        self._sets: dict[object, Set] = {}
        self._grown: dict[object, Set] = {}
        self._waiting: dict[object, Set] = {}
        self._outlooks: dict[tuple[Place, ...], tuple[Floats, Floats]] = {}
        self._made = 1
        self._most = max(1, MOST_NUMBERS // (2 * len(rules.names) + columns.count))  # twice: `Lengths` has as many
        self.root = Set(self, 0, [], float(rules.empty[rules.start]))  # never shared: it alone looks for the start

    @cached_property
    def first(self) -> Floats:
        """At [A, column]: weight of a letter of the column as the first letter of a terminal that begins nonterminal A.

        It is summed over the terminals of A's own productions, each the first symbol that is not empty: the
        probability of that place (`Position.enter`), times the weight of the letter in the terminal's first state.
        (nonterminals, columns); a column is a class of letters that are read alike.
        """
        found = np.zeros((len(self.rules.names), self.columns.count))
        for terminal, letters in enumerate(self.letters):
            for _, position in self.rules.entered.get(~terminal, ()):
                found[position.left] += position.enter * letters[0]
        return found

    @cached_property
    def _begun(self) -> list[list[tuple[int, int, int, float]]]:
        """At [column], the terminals that a letter of this class can begin: (position, nonterminal, state, weight).

        The position is an index; the nonterminal is that of the production in which the terminal stands, by number; the
        state is that of the terminal's automaton after the letter; the weight is that of the position
        (`Position.enter`) times that of the letter in the terminal's first state.
        """
        found: list[list[tuple[int, int, int, float]]] = [[] for _ in range(self.columns.count)]
        for terminal, reading in enumerate(self.readings):
            for number, position in self.rules.entered.get(~terminal, ()):
                for column, q in reading.moves[0].items():
                    found[column].append((number, position.left, q, position.enter * self._letter[terminal][0]))
        return found

    def outlook(self, number: int, items: Sequence[Item]) -> tuple[Floats, Floats]:
        """Return the weights of the nonterminals that a node predicts, (nonterminals,), and of letters, (columns,).

        The first is, for each nonterminal, the forward weight with which one may begin at the node; the second that of
        one letter of each column (class of letters read alike) as the next one. With weights, both are relative to the
        scale of the items' weights and not normalised; without weights all are 0 or 1.

        number      number of the node; 0: the root, which predicts the start rule
        items       the items of the node (productions in progress), as in `Set`
        """
        if self.rules.weighted or number == 0:
            return self._outlook(number, items)
        places = tuple(place for place, _, _ in items)
        if places not in self._outlooks:
            self._outlooks[places] = self._outlook(number, items)
        return self._outlooks[places]

    def _outlook(self, number: int, items: Sequence[Item]) -> tuple[Floats, Floats]:
        rules = self.rules
        looked_for: Floats = rules.corners[rules.start].copy() if number == 0 else np.zeros(len(rules.names))
        weights: Floats = np.zeros(self.columns.count)
        for (place, q), origin, c in items:
            position = rules.positions[place]
            forward = c * origin.looked_for[position.left]
            if position.symbol >= 0:
                looked_for += forward * rules.corners[position.symbol]
            else:
                weights += forward * self.letters[~position.symbol][q]
        weights += looked_for @ self.first
        if not rules.weighted:
            np.minimum(looked_for, 1.0, out=looked_for)
            np.minimum(weights, 1.0, out=weights)
        return looked_for, weights

    def summaries(self, trie: SymbolTrie) -> Summaries | None:
        return None if self.rules.weighted else Summaries(self, trie)

    def weights(self, node: Set) -> Floats:
        return node.weights

    def end(self, node: Set) -> float:
        return node.end

    def shortest(self, node: Set) -> int:
        return self.lengths.of(node)

    def after(self, node: Set, column: int) -> Set | None:
        try:
            return node.after[column]
        except KeyError:
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
            found = self._set(growth.found(), growth.end)  # which may forget all that was grown
            if len(self._grown) >= MOST_NODES:
                self._grown.clear()
            self._grown[key] = found
        return self._grown[key]

    def _reads(self, node: Set, column: int) -> list[tuple[int, int, Set, float]]:
        """Return the terminals that can read a letter of a column at a node: (position, next state, origin, weight).

        node        an Earley set: the items (productions in progress) after a prefix
        column      index of a class of letters read alike

        The position is an index; the state is that of the terminal's automaton after the letter; the origin is the node
        at which the terminal's production began; the weight is that of the item times that of the letter.
        """
        found = []
        for (place, q), origin, c in node.items:
            symbol = self.rules.positions[place].symbol
            if symbol < 0 and (after := self.readings[~symbol].moves[q].get(column)) is not None:
                found.append((place, after, origin, c * self._letter[~symbol][q]))
        begun = self._begun_at(node)
        for place, left, q, c in self._begun[column]:
            if node.looked_for[left] > 0:
                found.append((place, q, begun, c))
        return found

    def _begun_at(self, node: Set) -> Set:
        """Return the node that stands, as origin of new productions, for all nodes at which the same items wait.

        A node is an Earley set of items (productions in progress); those wait that stand before a nonterminal. The
        first such node is returned. So the prefixes `{ "a"` and `{"a"` of a JSON text, which differ by an ignored
        blank, lead to one node. With weights, and for the root, it is `node` itself.
        """
        if self.rules.weighted or node.number == 0:
            return node
        if node.begun is None:
            waiting = tuple((place, origin.number) for items in node.waiting.values() for place, origin, _ in items)
            node.begun = self._waiting.setdefault(tuple(sorted(waiting)), node)
        return node.begun

    def _set(self, items: list[Item], end: float) -> Set:
        """Return the node (Earley set) with these items (productions in progress) and this weight of ending.

        With weights, those of the items and of the end are divided by a number such that all letters and the end sum to
        1. A node that equals it is reused. A BackgroundError if there are more than `MOST_ITEMS` items.
        """
        if len(items) > MOST_ITEMS:
            raise BackgroundError(
                f"the grammar is so ambiguous that more than {MOST_ITEMS} items are under way at once; rewrite the "
                "rules that derive the same strings in many ways"
            )
        if not self.rules.weighted:
            return self._shared(items, end, (frozenset(items), end))
        raw = Set(self, self._made, items, end)  # for once, to find out what all letters and the end weigh
        total = float(raw.weights @ self.columns.sizes) + end
        known = frozenset((place, origin, _rounded(c / total)) for place, origin, c in items)
        scaled = [(place, origin, c / total) for place, origin, c in items]
        return self._shared(scaled, end / total, (known, _rounded(end / total)))

    def _shared(self, items: list[Item], end: float, key: object) -> Set:
        if key not in self._sets:
            items.sort(key=lambda item: (item[0], item[1].number))
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
        self._outlooks.clear()


class _Growth:
    """Builder of the next Earley set: it collects items (productions in progress), read or completed, with weights.

    Call `read(…)` for each item whose terminal takes the letter, then `complete()` once; then `found()` is the list of
    items and `end` the weight of ending. Weights of equal items are added; in a grammar without weights all are 1.
    """

    def __init__(self, grammar: ContextFree) -> None:
        self.grammar, self.rules, self.end = grammar, grammar.rules, 0.0
        self._plus: Callable[[float, float], float] = add if grammar.rules.weighted else max
        self._items: dict[tuple[Place, Set], float] = {}
        self._whole: dict[Set, dict[int, float]] = {}  # by origin: the nonterminals that are complete
        self._latest: list[tuple[int, Set]] = []

    def found(self) -> list[Item]:
        return [(place, origin, c) for (place, origin), c in self._items.items()]

    def read(self, place: int, q: int, origin: Set, c: float) -> None:
        """Add an item (production in progress) whose terminal was read up to state q: it may continue, or be complete.

        place       index of the item's position in the rules
        q           state of the automaton of the terminal at this position
        origin      the node at which its production began
        c           weight of the item
        """
        terminal = ~self.rules.positions[place].symbol
        if self.grammar.readings[terminal].moves[q]:
            self._add((place, q), origin, c)
        if (stop := self.grammar.stops[terminal][q]) > 0:
            self._pass(self.rules.positions[place], origin, c * stop)

    def _add(self, place: Place, origin: Set, c: float) -> None:
        self._items[place, origin] = self._plus(self._items.get((place, origin), 0.0), c)

    def _pass(self, position: Position, origin: Set, c: float) -> None:
        """Move an item past the complete symbol at its position: add the next positions, or finish its production.

        The new items have the weight c times the probability that the symbols between are empty (`Position.tail`,
        `Position.done`).

        position    the position of the item (a production in progress)
        origin      the node at which the production began
        c           weight of the item
        """
        for place, between in position.tail:
            self._add((place, 0), origin, c * between)
        if position.done > 0:
            self._finish(position.left, origin, c * position.done)

    def _finish(self, left: int, origin: Set, c: float) -> None:
        if origin not in self._whole:
            self._whole[origin] = {}
            heapq.heappush(self._latest, (-origin.number, origin))
        self._whole[origin][left] = self._plus(self._whole[origin].get(left, 0.0), c)

    def complete(self) -> None:
        """Complete all finished productions (Earley's completer): move on what waits for them, latest origins first.

        Called once, when all items were `read`.
        """
        while self._latest:
            origin = heapq.heappop(self._latest)[1]
            whole: dict[int, float] = {}
            for left, c in self._whole.pop(origin).items():
                for other, factor in self.rules.chain(left):
                    whole[other] = self._plus(whole.get(other, 0.0), c * factor)
            for left, c in whole.items():
                self._completed(left, origin, c)

    def _completed(self, left: int, origin: Set, c: float) -> None:
        if origin.number == 0 and left == self.rules.start:
            self.end = self._plus(self.end, c)
        for (place, _), older, own in origin.waiting.get(left, ()):
            self._pass(self.rules.positions[place], older, own * c)
        for _, position in self.rules.entered.get(left, ()):
            if origin.looked_for[position.left] > 0:
                for place, between in position.tail:
                    self._add((place, 0), origin, c * position.enter * between)


def _rounded(c: float) -> float:
    """Return a weight rounded to 11 significant digits, so that weights equal up to rounding compare equal."""
    return c if c in (0.0, 1.0) else float(f"{c:.10e}")


MOST_TERMINALS = 128  # within one symbol: summaries nest so deep
_NARROW = 64  # nodes of a sweep that are followed one by one: long runs of blanks, say
_PER_SUMMARY = 64  # numbers that would take as much memory as one that says nothing


class Frontier:
    """A sorted set of those nodes of a trie of symbols from which letters can still be read; equal sets are one object.

    nodes       (n,) the numbers of the nodes, ascending, all with children; `bool(frontier)` is whether there are any
    columns     an integer whose bit c is set if a child of one of them is read by column c (a class of letters)
    """

    __slots__ = ("columns", "nodes")

    def __init__(self, nodes: Ints, columns: int) -> None:
        self.nodes, self.columns = nodes, columns  # the columns of all children, as bits

    def __bool__(self) -> bool:
        return len(self.nodes) > 0


Summary: TypeAlias = tuple[Allowed, Frontier]
Whole: TypeAlias = tuple[tuple[int, Frontier], ...]  # nonterminals, and where they are complete
NOTHING: Allowed = frozenset()


class _TerminalTable:
    """The automaton of a terminal of a grammar as arrays, for moves of many states at once.

    automaton   the automaton
    n_columns   number of columns (classes of letters)

    `moves`: (states + 1, columns) next states, -1 where it is stuck; the last row stands for the stuck state -1.
    `stops`: (states + 1,) bool, whether a string may end in a state; `columns`: for each state an integer whose bit c
    is set if it can read column c.
    """

    def __init__(self, automaton: TerminalAutomaton, n_columns: int) -> None:
        self.moves = np.full(
            (len(automaton.moves) + 1, n_columns), -1, dtype=np.int64
        )  # state -1 is none, and stays so
        for q, moves in enumerate(automaton.moves):
            self.moves[q, list(moves)] = list(moves.values())
        self.stops = np.array([*automaton.ends, False], dtype=np.bool_)
        self.moves_of, self.ends = automaton.moves, automaton.ends
        self.columns = [sum(1 << column for column in moves) for moves in automaton.moves]


class Summaries:
    """Finder of all symbols that a grammar without weights allows at a parser node, not symbol by symbol.

    `Summaries(grammar, trie).allowed(node)` is a frozenset of `Ends`, sets of symbol ids, whose union they are. A
    symbol may span several terminals. A summary, cached, is computed for a part of a rule and a set of nodes of the
    trie of all symbols (the frontier): the symbols that end while that part is read from there, and the trie nodes at
    which the part is complete.
    """

    numbers = 0  # that are cached

    def __init__(self, grammar: ContextFree, trie: SymbolTrie) -> None:
        self._rules, self._trie = grammar.rules, trie
        self._readings = [_TerminalTable(one, grammar.columns.count) for one in grammar.readings]
        self._frontiers: dict[bytes, Frontier] = {}
        self._joined = cache(lambda one, other: self._frontier(distinct([one.nodes, other.nodes])))
        self._ends_of: dict[bytes, Allowed] = {}
        self._run_of: dict[tuple[Frontier, int, int], Summary] = {}
        self._rest_of: dict[tuple[Frontier, int, int], Summary] = {}
        self._tail_of: dict[tuple[Frontier, int], Summary] = {}
        self._call_of: dict[tuple[Frontier, int], Summary] = {}
        self._closed_of: dict[tuple[Whole, bytes], tuple[Allowed, Whole]] = {}
        self._begun = cache(self._begins)
        self._nowhere = self._frontier(np.zeros(0, dtype=np.int64))
        self._root = self._frontier(np.zeros(1, dtype=np.int64))

    def allowed(self, node: Set) -> Allowed:
        """Return the sets of symbols (`Ends`) that may follow at a parser node; the end of the text is not considered.

        A symbol may follow if a string continues with all its letters. A TooDeepError if one spans too many terminals.
        """
        if node.number == 0:
            return self._call(self._root, self._rules.start, 0)[0]
        allowed, due, latest = set[Ends](), dict[Set, dict[int, Frontier]](), list[tuple[int, Set]]()

        def add(summary: Summary, left: int, origin: Set) -> None:
            ends, read = summary
            allowed.update(ends)
            if read is not self._nowhere:
                if (own := due.get(origin)) is None:
                    own = due[origin] = {}
                    heapq.heappush(latest, (-origin.number, origin))
                own[left] = self._union(own[left], read) if left in own else read

        positions = self._rules.positions
        for (place, q), origin, _ in node.items:
            add(self._rest(self._root, place, q, 0), positions[place].left, origin)
        while latest:  # as in Earley's completer, the latest begun first
            origin = heapq.heappop(latest)[1]
            ends, whole = self._closed(tuple(due.pop(origin).items()), origin.looked_for.tobytes(), 0)
            allowed |= ends
            for left, frontier in whole:
                for (place, _), older, _ in origin.waiting.get(left, ()):
                    add(self._after(frontier, place, 0), positions[place].left, older)
        return frozenset(allowed)

    def _rest(self, frontier: Frontier, place: int, q: int, depth: int) -> Summary:
        """Return the summary of a production from the symbol at a position to its end.

        A summary is a pair: the symbols that end while it is read, as a frozenset of `Ends`, and the trie nodes at
        which it is complete, as a `Frontier`. Reading begins at the trie nodes of `frontier`.

        place       index of the position
        q           where the symbol is a terminal, the state of its automaton to begin in
        depth       number of calls within each other, which is limited (TooDeepError)
        """
        key = frontier, place, q
        found = self._rest_of.get(key)
        if found is None:
            if depth > MOST_TERMINALS:
                raise TooDeepError
            symbol = self._rules.positions[place].symbol
            ends, read = self._call(frontier, symbol, depth) if symbol >= 0 else self._run(frontier, ~symbol, q)
            more, whole = self._after(read, place, depth) if read else (NOTHING, read)
            found = self._rest_of[key] = ends | more, whole
            self.numbers += _PER_SUMMARY + len(found[0])
        return found

    def _after(self, frontier: Frontier, place: int, depth: int) -> Summary:
        """Return the summary of a production from behind the symbol at a position (index `place`) to its end.

        A summary is a pair: the symbols that end while it is read, as a frozenset of `Ends`, and the trie nodes at
        which it is complete, as a `Frontier`. Reading begins at the trie nodes of `frontier`; where nothing more need
        follow, it is complete at these too. depth: number of nested calls.
        """
        ends, whole = self._tail(frontier, place, depth)
        return ends, self._union(whole, frontier) if self._rules.positions[place].done > 0 else whole

    def _tail(self, frontier: Frontier, place: int, depth: int) -> Summary:
        """Return the summary of what follows the symbol at a position (index `place`) in its production, if not empty.

        A summary is a pair: the symbols that end while it is read, as a frozenset of `Ends`, and the trie nodes at
        which it is complete, as a `Frontier`. Reading begins at the trie nodes of `frontier`. depth: number of nested
        calls.
        """
        key = frontier, place
        found = self._tail_of.get(key)
        if found is None:
            ends, whole = NOTHING, self._nowhere
            for after, _ in self._rules.positions[place].tail:
                more, read = self._rest(frontier, after, 0, depth + 1)
                ends, whole = ends | more, self._union(whole, read)
            found = self._tail_of[key] = ends, whole
        return found

    def _call(self, frontier: Frontier, symbol: int, depth: int) -> Summary:
        """Return the summary of the nonterminal with the number `symbol`, begun at the trie nodes of `frontier`.

        A summary is a pair: the symbols that end while the nonterminal is read, as a frozenset of `Ends`, and the trie
        nodes at which it is complete, as a `Frontier`. depth: number of nested calls.
        """
        key = frontier, symbol
        found = self._call_of.get(key)
        if found is None:
            places = [place for columns, place in self._begun(symbol) if columns & frontier.columns]
            begun, positions = (
                [(place, self._rest(frontier, place, 0, depth)) for place in places],
                self._rules.positions,
            )
            due = tuple((positions[place].left, read) for place, (_, read) in begun if read)
            more, whole = self._closed(due, self._rules.corners[symbol].tobytes(), depth)
            ends = more.union(*(own for _, (own, _) in begun))
            found = self._call_of[key] = ends, dict(whole).get(symbol, self._nowhere)
        return found

    def _begins(self, symbol: int) -> list[tuple[int, int]]:
        """Return (columns, position) for each place of a terminal that can begin the nonterminal `symbol` (a number).

        columns is an integer whose bit c is set if the terminal can begin with a letter of column c (a class of
        letters); position is an index into `Rules.positions`.
        """
        corners, entered = self._rules.corners[symbol], self._rules.entered
        return [
            (reading.columns[0], place)
            for terminal, reading in enumerate(self._readings)
            for place, position in entered.get(~terminal, ())
            if corners[position.left] > 0
        ]

    def _closed(self, due: Whole, looked_for: bytes, depth: int) -> tuple[Allowed, Whole]:
        """Return all that follows from nonterminals being complete: (symbols that end, nonterminals that are complete).

        A complete nonterminal may be the beginning of another one, which is then read on in the trie, and so forth. The
        symbols are those that end while such a one is read; the nonterminals include those of `due`.

        due             pairs (nonterminal, frontier): nonterminals that began at one parser node, by number, and the
                        trie nodes at which each is complete; the second result has the same form
        looked_for      the weights with which this node predicts nonterminals, as the bytes of an array of float64
        depth           number of nested calls
        """
        key = due, looked_for
        found = self._closed_of.get(key)
        if found is None:
            sought, waiting = np.frombuffer(looked_for), list(due)
            ends, whole = NOTHING, defaultdict[int, Frontier](lambda: self._nowhere)
            while waiting:
                left, frontier = waiting.pop()
                for other, _ in self._rules.chain(left):
                    new = self._without(frontier, whole[other])
                    if not new:
                        continue
                    whole[other] = self._union(whole[other], new)
                    for place, position in self._rules.entered.get(other, ()):
                        if sought[position.left] > 0:
                            more, read = self._tail(new, place, depth)  # `chain` knows of those without
                            ends |= more
                            waiting += [(position.left, read)] if read else []
            self.numbers += _PER_SUMMARY + len(ends)
            found = self._closed_of[key] = ends, tuple((left, read) for left, read in whole.items() if read)
        return found

    def _run(self, frontier: Frontier, terminal: int, q: int) -> Summary:
        """Return the summary of the terminal with the index `terminal`, from state q of its automaton on.

        A summary is a pair: the symbols that end while it is read, as a frozenset of `Ends`, and the trie nodes at
        which it is complete, as a `Frontier`. Reading begins at the trie nodes of `frontier`; both are empty if the
        terminal can read nothing there.
        """
        if not frontier.columns & self._readings[terminal].columns[q]:
            return NOTHING, self._nowhere
        key = frontier, terminal, q
        found = self._run_of.get(key)
        if found is None:
            alive, stopped = self._swept(frontier.nodes, self._readings[terminal], q)
            found = self._run_of[key] = self._ends(self._trie.symbols(alive)), self._frontier(stopped)
        return found

    def _swept(self, nodes: Ints, reading: _TerminalTable, q: int) -> tuple[Ints, Ints]:
        """Return the trie nodes below `nodes` that a terminal can read to, and those of them where it may stop, sorted.

        A node is below another if one letter or more lead to it; `nodes` themselves are not returned unless they are
        below one of them.

        reading     the automaton of the terminal
        q           its state at each of `nodes`
        """
        if nodes[0] == 0 and 2 * reading.columns[q].bit_count() > reading.moves.shape[1]:  # most symbols go on
            states = self._trie.states(reading.moves, q)
            return 1 + np.flatnonzero(states[1:] >= 0), 1 + np.flatnonzero(reading.stops[states[1:]])
        trie, states = self._trie, np.full(len(nodes), q)
        alive, stopped = list[Ints](), list[Ints]()
        while len(nodes):
            if len(nodes) <= _NARROW:
                read, nodes, states = trie.narrow(nodes, states, reading.moves_of, _NARROW)
                alive.append(np.array([node for node, _ in read], dtype=np.int64))
                stopped.append(np.array([node for node, state in read if reading.ends[state]], dtype=np.int64))
                continue
            below, of = trie.children(nodes)
            after = reading.moves[states[of], trie.column[below]]
            going = np.flatnonzero(after >= 0)
            nodes, states = below[going], after[going]
            alive.append(nodes)
            stopped.append(nodes[reading.stops[states]])
        return distinct(alive), distinct(stopped)

    def _ends(self, symbols: Ints) -> Allowed:
        if not len(symbols):
            return NOTHING
        key = symbols.tobytes()
        found = self._ends_of.get(key)
        if found is None:
            found = self._ends_of.setdefault(key, frozenset([Ends(symbols, self._trie.n_symbols)]))
            self.numbers += 2 * len(symbols)
        return found

    def _frontier(self, nodes: Ints) -> Frontier:
        nodes = nodes[self._trie.has_children(nodes)]
        key = nodes.tobytes()
        found = self._frontiers.get(key)
        if found is None:
            columns = set(self._trie.column[self._trie.children(nodes)[0]].tolist())
            found = self._frontiers.setdefault(key, Frontier(nodes, sum(1 << column for column in columns)))
            self.numbers += 2 * len(nodes)
        return found

    def _union(self, one: Frontier, other: Frontier) -> Frontier:
        if not one or one is other:
            return other
        if not other:
            return one
        return self._joined(one, other)

    def _without(self, one: Frontier, other: Frontier) -> Frontier:
        """Return the trie nodes that are in `one` and not in `other`."""
        if not one or not other:
            return one
        return (
            self._nowhere if one is other else self._frontier(np.setdiff1d(one.nodes, other.nodes, assume_unique=True))
        )
