"""Weighted finite automata as arrays: moves between states by columns, and none of them for nothing.

    weight(x_1 ... x_T) = Σ over ways 0 → q_1 → ... → q_T of  w(0, x_1, q_1) ··· w(q_{T-1}, x_T, q_T) · stop(q_T)

The weight of a move by a column is that of each of its letters. State 0 is the start, and no move of a compiled
expression leads back to it. Strings of both automata are the ways of pairs of states, with the product of weights.

`Language`, read letter by letter: the interface between automata or grammars and the priors made of them.

    node = root;   node = after(node, column)                       None: no string of the language begins so
    weight of the next letter x at a node: weights(node)[column(x)],  of the end: end(node)

Boolean languages weigh 1 what keeps the string completable and 0 what does not. Weighted ones say how probable it is,
with all that can still follow counted in: Σ over letters + end = 1. A letter with weight above 0 is never a dead end.

`Atom` and `LetterColumns`: the letters that automata and grammars read, and which of them are distinguished.

    over symbols       a letter is a symbol of the vocabulary, and every symbol is one letter
    over characters    a letter is a character, and a symbol spells some of them

An atom is a set of letters. Letters that the atoms of an automaton or grammar do not tell apart share a column, so
that a grammar of forty terminals has some forty columns, whatever the vocabulary.

`determinised`: sets of states with residual weights are the states of a deterministic automaton (Mohri).

    {q: r(q)}  --x-->  {q': Σ_q r(q)·w(q, x, q') / w}       w = the largest of these sums, the weight of the move

Equal sets are one state; residual weights are compared to twelve decimals of their logarithm. Every state of a trimmed
automaton can be completed, and so can every set of them. Not every weighted automaton has a finite one of this form:
where two ways to read a string drift apart as it grows longer, sets never come again.

`backward`: the sum over all paths from a state to an end, exactly, although there are infinitely many.

    β(q) = stop(q) + Σ_c size(c) · Σ_q' w(q, c, q') · β(q')

States that reach each other form a component; components are solved one by one, those nearest to the end first: one
state without a move to itself is a sum, one with it is divided by 1 − w, more are a linear system y = b + M y.

Every system is scaled by the best single way d from each state: y = e^d·z, z = b·e^-d + e^-d M e^d z. Then all
numbers are at most 1, and z at least 1: nothing underflows, whatever weights are. A z ≥ 0 that solves an irreducible
system with b ≥ 0, b ≠ 0 exists if and only if the spectral radius ρ of M is below 1 (Perron-Frobenius), so that the
solution itself is the check; and z' = z + M z' says how far below, since 1 − ρ ≤ max z / z'.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from heapq import heapify, heappop, heappush
from itertools import count, pairwise
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from llrnn.ground.arrays import Bools, Floats, Ints
from llrnn.ground.errors import BackgroundError
from llrnn.languages.grammars.tries import SymbolTrie
from llrnn.text.automata import DIGIT, KINDS, LOWER, SIGN, SPACE, UPPER, kind

Over = Literal["symbols", "characters"]
UNREAD = -1  # the column of letters that no atom holds
PROPERTIES = {"lower": LOWER, "upper": UPPER, "digit": DIGIT, "space": SPACE, "sign": SIGN}  # as in \p{lower}


class Atom(ABC):
    """A set of letters that an automaton may read in one step; a letter is a character, or a symbol of the vocabulary.

    Which of the two is decided where expressions are compiled. Subclasses define `holds`.
    """

    @abstractmethod
    def holds(self, letter: str) -> bool:
        """Return whether a letter, a character or a symbol of the vocabulary, is in this set of letters."""

    def held(self, letters: Sequence[str]) -> Bools:
        """Return which of the letters are in this set of letters, (letters,), bool."""
        return np.fromiter(map(self.holds, letters), dtype=np.bool_, count=len(letters))


@dataclass(frozen=True)
class Letter(Atom):
    """The set of one letter, `text`: a character, or a symbol of the vocabulary."""

    text: str

    def holds(self, letter: str) -> bool:
        return letter == self.text

    def __str__(self) -> str:
        return self.text if self.text.isalnum() else f'"{self.text}"'


@dataclass(frozen=True)
class OneOf(Atom):
    r"""A character class such as `[a-z\d]`: the characters in some ranges and categories, or all others if negated.

    ranges      (first, last) characters, both included
    categories  as regular expressions write them: `\d`, `\p{lower}`
    negated     True: all characters but these
    flags       "i": case is ignored, "a": categories are those of ASCII
    """

    ranges: tuple[tuple[str, str], ...] = ()
    categories: tuple[str, ...] = ()  # as regular expressions write them: r"\d", r"\p{lower}"
    negated: bool = False
    flags: str = ""  # "i": case is ignored, "a": categories are those of ASCII

    def holds(self, letter: str) -> bool:
        return len(letter) == 1 and _character_class(self.ranges, self.categories, self.flags)(letter) != self.negated

    def __str__(self) -> str:
        spans = "".join(first if first == last else f"{first}-{last}" for first, last in self.ranges)
        return f"[{'^' * self.negated}{spans}{''.join(self.categories)}]"


@lru_cache(maxsize=4096)
def _character_class(
    ranges: tuple[tuple[str, str], ...], categories: tuple[str, ...], flags: str
) -> Callable[[str], bool]:
    """Return a function that says whether a character is in a class of characters; Python's `re` decides.

    Only `\\p{…}` and `\\P{…}` go by the kinds of `text.automata`.

    ranges      (first, last) characters, both included
    categories  such as `\\d`, `\\p{lower}`
    flags       flags of `re` in letters: "i": case is ignored, "a": categories are those of ASCII
    """
    kinds = set[int]()
    for category in categories:
        if category[1] in "pP":
            own = {PROPERTIES[category[3:-1]]}
            kinds |= own if category[1] == "p" else set(range(len(KINDS))) - own
    inner = "".join(f"\\U{ord(first):08x}-\\U{ord(last):08x}" for first, last in ranges)
    inner += "".join(category for category in categories if category[1] not in "pP")
    regex = re.compile(f"(?{flags}:[{inner}])") if inner else None
    return lambda letter: bool((regex and regex.match(letter)) or (kinds and kind(letter) in kinds))


class LetterColumns:
    """A partition of letters into columns: letters that no atom (set of letters) distinguishes share a column.

    letters     all letters: the characters, or the symbols, that can be read
    atoms       the sets of letters that an automaton or grammar mentions; the letter of a `Letter` has a column of its
                own
    over        "symbols" or "characters": what a letter is

    `of_letter`: (letters,) the column of each letter, UNREAD (-1) for letters in no atom; `count`: number of columns;
    `sizes`: (columns,) the number of letters of each column.
    """

    def __init__(self, letters: Sequence[str], atoms: Iterable[Atom], over: Over) -> None:
        self.letters, self.over = tuple(letters), over
        self._place = {letter: place for place, letter in enumerate(self.letters)}
        distinct = list(dict.fromkeys(atoms))
        named = [self._place[atom.text] for atom in distinct if isinstance(atom, Letter) and atom.text in self._place]
        sets = [atom for atom in distinct if not isinstance(atom, Letter)]
        held = np.array([atom.held(self.letters) for atom in sets], dtype=np.bool_).reshape(-1, len(self.letters))
        self.of_letter = _numbered(held, named)  # (letters,)
        self.count = int(self.of_letter.max(initial=UNREAD)) + 1
        self.sizes = np.bincount(self.of_letter[self.of_letter >= 0], minlength=self.count)  # (columns,)
        first = {column: place for place, column in reversed(list(enumerate(self.of_letter.tolist())))}
        self._examples: list[str] = [self.letters[first[column]] for column in range(self.count)]
        self._held = {
            atom: tuple(np.unique(self.of_letter[own]).tolist()) for atom, own in zip(sets, held, strict=True)
        }

    def held(self, atom: Atom) -> tuple[int, ...]:
        """Return the columns (classes of letters that are read alike) of the letters in `atom`, a set of letters.

        They are indices, ascending; () if none of the letters is in it.

        atom        one of those that the partition was made of, or a set that contains each column wholly or not at all
        """
        if isinstance(atom, Letter):
            return (int(self.of_letter[self._place[atom.text]]),) if atom.text in self._place else ()
        if atom not in self._held:
            self._held[atom] = tuple(np.flatnonzero(atom.held(self._examples)).tolist())
        return self._held[atom]

    def column(self, letter: str) -> int:
        """Return the column (class of letters that are read alike) of a letter.

        UNREAD (-1) if no atom (set of letters of the grammar) contains it, or it is none of the letters.
        """
        place = self._place.get(letter)
        return UNREAD if place is None else int(self.of_letter[place])

    def example(self, column: int) -> str:
        """Return the first letter of a column (class of letters that are read alike), for error messages."""
        return self._examples[column]

    def spelled(self, text: str) -> list[str]:
        """Return a text as a list of letters: its characters or, if `self.over` is "symbols", its words at blanks."""
        return list(text) if self.over == "characters" else text.split()


def _numbered(held: Bools, named: list[int]) -> Ints:
    """Return the column of each letter, (letters,): its own if it is named, else one for all letters in the same atoms.

    held        (atoms, letters) which letters are in each atom (set of letters)
    named       indices of the letters that have a column of their own; they come last, in the order of the letters

    Columns are numbered 0, 1, … without gaps; UNREAD (-1) for letters that are in no atom and not named.
    """
    n = held.shape[1]
    shared, of_letter = np.unique(held, axis=1, return_inverse=True)
    key = of_letter.reshape(-1).astype(np.int64) if n else np.zeros(0, dtype=np.int64)
    key[~held.any(0)] = UNREAD
    own = sorted(set(named))
    key[own] = shared.shape[1] + np.arange(len(own))
    read = key >= 0
    columns = np.full(n, UNREAD, dtype=np.int64)
    columns[read] = np.unique(key[read], return_inverse=True)[1].reshape(-1)
    return columns


Node: TypeAlias = Any  # whatever a language makes of a prefix; hashable, and equal ones go on alike


class Language(ABC):
    """Interface of a set of strings, with or without weights, that is read letter by letter: automata and grammars.

    A node stands for a prefix that was read, from which a string can be completed; it is hashable, of a type that the
    subclass chooses, and prefixes with equal continuations may share one. Letters are given by column
    (`LetterColumns`). Without weights, a letter has weight 1 if some string continues with it, else 0, and so has the
    end. With weights, the weights of all letters and of the end at a node are probabilities, with sum 1.

    columns     the partition of the letters into columns
    root        the node before any letter
    """

    columns: LetterColumns
    root: Node  # before any letter

    @abstractmethod
    def weights(self, node: Node) -> Floats:
        """Return the weight of one letter of each column (class of letters read alike) at a node, (columns,).

        node        what was read so far, as `root` and `after` return it

        0 where no string continues with such a letter.
        """

    @abstractmethod
    def end(self, node: Node) -> float:
        """Return the weight of ending at a node (what was read so far, as `root` and `after` return it).

        0 where no string ends.
        """

    @abstractmethod
    def after(self, node: Node, column: int) -> Node | None:
        """Return the node (what was read so far) after one more letter, or None if no string continues so.

        column      the column (class of letters read alike) of the letter
        """

    @abstractmethod
    def shortest(self, node: Node) -> int:
        """Return the least number of letters from a node (what was read so far) to the end of a string; 0 at an end."""

    def summaries(self, trie: SymbolTrie) -> Any:
        """Return an object whose `allowed(node)` finds all symbols of the vocabulary that may follow a prefix at once.

        `allowed` returns a frozenset of `Ends`, sets of symbol ids, whose union are these symbols. Here None, which
        means that symbols have to be tried letter by letter.

        trie        the symbols of the vocabulary, spelled in columns (classes of letters)
        """
        return None


# Graphs, in linear time: what reaches each other (Tarjan), what follows from what, and who can be reached at all.


Name = TypeVar("Name", bound=Hashable)


def components(first: Sequence[int], target: Sequence[int]) -> Iterator[list[int]]:
    """Yield the strongly connected components of a graph, lists of states, those that lead to no other first (Tarjan).

    A component comes after all others that it leads to. The order of states within one is not defined.

    first       n + 1 numbers for n states: the moves of state q go to `target[first[q] : first[q + 1]]`
    target      the states that moves lead to, grouped by the state that they come from
    """
    n = len(first) - 1
    order, low = [-1] * n, [0] * n  # when a state was met, and the earliest that it leads back to; n when it is done
    after, waiting, met = list(first[:n]), list[int](), 0
    for root in range(n):
        if order[root] >= 0:
            continue
        path = [root]
        while path:
            state = path[-1]
            if order[state] < 0:
                order[state] = low[state] = met
                met += 1
                waiting.append(state)
            if after[state] < first[state + 1]:
                reached = target[after[state]]
                after[state] += 1
                if order[reached] < 0:
                    path.append(reached)
                else:
                    low[state] = min(low[state], low[reached])
                continue
            path.pop()
            if path:
                low[path[-1]] = min(low[path[-1]], low[state])
            if low[state] == order[state]:
                yield _taken(waiting, state, low, n)


def _taken(waiting: list[int], state: int, low: list[int], done: int) -> list[int]:
    """Pop the strongly connected component of `state` from the stack `waiting` (Tarjan) and return its states.

    All states from the top of the stack down to `state` are popped and returned, in this order.

    low         at [state], Tarjan's low link; overwritten by `done` for the states that are popped
    """
    found = list[int]()
    while not found or found[-1] != state:
        found.append(waiting.pop())
        low[found[-1]] = done
    return found


def least_costs(rules: Iterable[tuple[Name, Sequence[Name], float]], known: Iterable[Name] = ()) -> dict[Name, float]:
    """Return the least cost of deriving each fact that can be derived (Knuth's generalisation of Dijkstra).

    rules       (conclusion, premises, cost), the cost 0 or more: the conclusion can be derived at the sum of this cost
                and those of all premises, of which there may be none
    known       facts that cost 0

    The result is {fact: cost}; facts that cannot be derived are not among the keys.
    """
    listed, missing, found = list[tuple[Name, Sequence[Name], float]](), list[int](), dict[Name, float]()
    waiting: dict[Name, list[int]] = defaultdict(list)
    ready = [(0.0, number, name) for number, name in enumerate(known)]
    for number, (conclusion, premises, cost) in enumerate(rules):
        listed.append((conclusion, premises, cost))
        missing.append(len(set(premises)))
        for premise in set(premises):
            waiting[premise].append(number)
        if not premises:
            ready.append((cost, len(ready), conclusion))
    heapify(ready)
    later = count(len(ready))  # names need not be comparable
    while ready:
        cost, _, name = heappop(ready)
        if name in found:
            continue
        found[name] = cost
        for number in waiting[name]:
            missing[number] -= 1
            if missing[number] == 0:
                conclusion, premises, own = listed[number]
                heappush(ready, (own + sum(found[premise] for premise in premises), next(later), conclusion))
    return found


def derived(implications: Iterable[tuple[Name, Sequence[Name]]], known: Iterable[Name]) -> set[Name]:
    """Return the known facts and all that follow from them, any hashable objects.

    implications    (conclusion, premises): the conclusion follows if all premises do, or if there are none
    """
    return set(least_costs(((conclusion, premises, 0.0) for conclusion, premises in implications), known))


def reachable(step: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return which states reach which, (n, n), as 0.0 and 1.0: the reflexive transitive closure of `step`.

    step        (n, n) at [s, t]: whether there is a move from s to t; the result has 1.0 where moves, or none, lead
                from s to t
    """
    n = len(step)
    source, target = np.nonzero(step)
    first = np.searchsorted(source, np.arange(n + 1)).tolist()
    own = np.packbits(np.eye(n, dtype=np.bool_), axis=1)
    bits = np.zeros_like(own)
    for group in components(first, target.tolist()):
        after = np.concatenate([target[first[state] : first[state + 1]] for state in group])
        bits[group] = np.bitwise_or.reduce(np.concatenate([bits[after], own[group]]), axis=0)
    return np.unpackbits(bits, axis=1, count=n).astype(np.float64)


NEVER = -math.inf  # log 0
MOST_STATES = 500_000
MOST_MOVES = 5_000_000  # no more than states × columns, and stored one by one

Moves = list[tuple[int, int, float]]  # column, target, log weight
Arrays = tuple[Ints, Ints, Ints, Floats]  # source, column, target, log weight
State = TypeVar("State", bound=Hashable)


@dataclass(frozen=True, eq=False)
class WeightedAutomaton:
    """A weighted finite automaton as parallel arrays of moves, sorted by source, column and target.

    columns     the partition of the letters into columns, classes of letters that are read alike
    source, column, target, log_weight     (moves,) a move from `source` to `target` by each letter of `column`
    log_stop    (states,) log weight of ending in a state, −∞ where no string ends

    State 0 is the start. The weight of a string is the sum over all paths that read it of the product of the weights on
    the path.
    """

    columns: LetterColumns
    source: Ints  # (moves,)
    column: Ints
    target: Ints
    log_weight: Floats
    log_stop: Floats  # (states,) minus infinity where no string ends

    @property
    def n_states(self) -> int:
        """Number of states of the automaton."""
        return len(self.log_stop)

    @property
    def is_empty(self) -> bool:
        """Whether the automaton accepts no string; it must be `trimmed`, since only `log_stop` is looked at."""
        return not bool((self.log_stop > -np.inf).any())

    @cached_property
    def first(self) -> Ints:
        """At [q], the index of the first move of state q in `source` and its like, (states + 1,).

        The last entry is the number of moves, so that the moves of state q are at first[q] to first[q + 1] - 1.
        """
        return np.searchsorted(self.source, np.arange(self.n_states + 1))

    @cached_property
    def by_state(self) -> list[Moves]:
        """At [state], the list of its moves as (column, target state, log weight); a column is a class of letters."""
        moves = list(zip(self.column.tolist(), self.target.tolist(), self.log_weight.tolist(), strict=True))
        first = self.first.tolist()
        return [moves[begin:end] for begin, end in pairwise(first)]

    def trimmed(self) -> WeightedAutomaton:
        """Return the automaton without the states that are on no path from the start to an end; the start stays.

        The others keep their order and are numbered anew from 0; weights of strings do not change.
        """
        begun, ends = np.arange(self.n_states) == 0, self.log_stop > -np.inf
        useful = _spread(begun, self.source, self.target) & _spread(ends, self.target, self.source)
        useful[0] = True
        number = np.cumsum(useful) - 1
        keep = useful[self.source] & useful[self.target]
        source, target = number[self.source[keep]], number[self.target[keep]]
        moves = source, self.column[keep], target, self.log_weight[keep]
        return WeightedAutomaton(self.columns, *moves, self.log_stop[useful])

    @cached_property
    def shortest(self) -> Ints:
        """Least number of letters from each state to the end of a string, (states,); −1 if no string ends."""
        moves = ((state, (to,), 1.0) for state, to in zip(self.source.tolist(), self.target.tolist(), strict=True))
        known = least_costs(moves, np.flatnonzero(self.log_stop > -np.inf).tolist())
        return np.array([int(known.get(state, -1)) for state in range(self.n_states)], dtype=np.int64)


def merged(columns: LetterColumns, moves: Arrays, log_stop: Floats, *, weighted: bool) -> WeightedAutomaton:
    """Return an automaton made of moves in any order; moves with equal source, column and target become one.

    columns     the partition of the letters into columns (classes of letters)
    moves       arrays source, column, target and log weight, (moves,) each
    log_stop    (states,) log weight of ending in each state
    weighted    True: weights of such moves are added; False: the largest is kept, since all are meant to be 1

    No state is removed (see `WeightedAutomaton.trimmed`).
    """
    source, column, target, log_weight = moves
    order = np.lexsort((target, column, source))
    source, column, target, log_weight = source[order], column[order], target[order], log_weight[order]
    new = np.ones(len(source), dtype=np.bool_)
    new[1:] = (np.diff(source) != 0) | (np.diff(column) != 0) | (np.diff(target) != 0)
    first = np.flatnonzero(new)
    if len(first) < len(source):
        add = np.logaddexp if weighted else np.maximum
        log_weight = add.reduceat(log_weight, first)
    return WeightedAutomaton(columns, source[first], column[first], target[first], log_weight, log_stop)


def both(left: WeightedAutomaton, right: WeightedAutomaton) -> WeightedAutomaton:
    """Return the intersection of two automata: the strings that both accept, with their weights multiplied.

    Both are over the same columns (classes of letters). The result is trimmed: every state but perhaps the start is on
    a path to an end. A BackgroundError if it gets more than `MOST_STATES` states or `MOST_MOVES` moves.
    """
    by_column: list[dict[int, list[tuple[int, float]]]] = [defaultdict(list) for _ in right.by_state]
    for own, moves in zip(by_column, right.by_state, strict=True):
        for column, target, log_weight in moves:
            own[column].append((target, log_weight))

    def after(pair: tuple[int, int]) -> Iterator[tuple[int, tuple[int, int], float]]:
        theirs = by_column[pair[1]]
        for column, target, log_weight in left.by_state[pair[0]]:
            for facing, log_other in theirs.get(column, ()):
                yield column, (target, facing), log_weight + log_other

    pairs, found = explored((0, 0), after, lambda n, m: check_size(n, m, "the strings of both sides of &"))
    stops = np.array([left.log_stop[mine] + right.log_stop[other] for mine, other in pairs])
    return merged(left.columns, found, stops, weighted=True).trimmed()


def explored(
    start: State, after: Callable[[State], Iterable[tuple[int, State, float]]], check: Callable[[int, int], None]
) -> tuple[list[State], Arrays]:
    """Return all states reachable from `start`, in the order found, and the moves between them as arrays.

    after       state -> its moves (column, next state, log weight); a column is a class of letters read alike
    check       called with the numbers of states and of moves so far; may raise to stop the search

    The arrays are source, column, target and log weight, (moves,) each, in the order found; source and target are
    indices of the returned states, of which `start` is the first.
    """
    states, number, moves = [start], {start: 0}, list[tuple[int, int, int, float]]()
    for here, state in enumerate(states):  # grows while we read it
        for column, reached, log_weight in after(state):
            if reached not in number:
                number[reached] = len(states)
                states.append(reached)
            moves.append((here, column, number[reached], log_weight))
        check(len(states), len(moves))
    places = np.array([move[:3] for move in moves], dtype=np.int64).reshape(-1, 3).T
    return states, (places[0], places[1], places[2], np.array([move[3] for move in moves], dtype=np.float64))


def check_size(states: int, moves: int, what: str) -> None:
    """Raise a BackgroundError if an automaton has more than `MOST_STATES` states or `MOST_MOVES` moves.

    what        what is being built, for the message
    """
    if states > MOST_STATES or moves > MOST_MOVES:
        raise BackgroundError(
            f"{what} needs more than {MOST_STATES:,} states or {MOST_MOVES:,} moves (states × columns), the most that "
            f"an automaton may have: {states:,} states and {moves:,} moves so far; repeat less, or list fewer words"
        )


def _spread(begun: Bools, source: Ints, target: Ints) -> Bools:
    """Return which states are reachable, (states,), bool, from those where `begun` is True, which are reachable too.

    source, target      (moves,) the states that each move leads from and to
    """
    order = np.argsort(source, kind="stable")
    first = np.searchsorted(source[order], np.arange(len(begun) + 1)).tolist()
    after = target[order].tolist()
    seen, stack = begun.tolist(), np.flatnonzero(begun).tolist()
    while stack:
        state = stack.pop()
        for reached in after[first[state] : first[state + 1]]:
            if not seen[reached]:
                seen[reached] = True
                stack.append(reached)
    return np.array(seen, dtype=np.bool_)


def log_add(left: float, right: float) -> float:
    """Return log(exp(left) + exp(right)) without overflow; either may be −∞."""
    high, low = (left, right) if left >= right else (right, left)
    return high if low == NEVER else high + math.log1p(math.exp(low - high))


DECIMALS = 12
Held: TypeAlias = tuple[tuple[int, float], ...]  # states and their log weights in hand, sorted; the largest is 0
START: Held = ((0, 0.0),)


class TooLargeError(BackgroundError):
    """Raised where a determinised automaton would have too many states or moves."""


def steps(by_state: list[Moves], held: Held, *, weighted: bool) -> dict[int, tuple[float, Held]]:
    """Return the successors of a weighted set of states of an automaton: column -> (log weight of the move, next set).

    In the next set, a state q' has Σ_q weight(q) · weight(q → q'), divided by the largest of these sums, which is the
    weight of the move.

    by_state    for each state, its moves (column, target, log weight); a column is a class of letters
    held        the set: a tuple of (state, log weight), sorted, the largest log weight being 0
    weighted    False: all weights are 1 and are not added
    """
    found: dict[int, dict[int, float]] = {}
    for state, in_hand in held:
        for column, target, log_weight in by_state[state]:
            sums, log = found.setdefault(column, {}), in_hand + log_weight
            sums[target] = log if target not in sums else log_add(sums[target], log) if weighted else 0.0
    return {column: _with_largest_one(sums) for column, sums in found.items()}


def _with_largest_one(sums: dict[int, float]) -> tuple[float, Held]:
    if len(sums) == 1:
        ((state, log),) = sums.items()
        return log, ((state, 0.0),)
    most = max(sums.values())
    return most, tuple(sorted((state, round(log - most, DECIMALS)) for state, log in sums.items()))


def stop_of(machine: WeightedAutomaton, held: Held, *, weighted: bool) -> float:
    """Return the log weight of ending in a weighted set of states of an automaton; −∞ if no string ends there.

    It is log Σ_q weight(q) · weight of ending in q, over the states q of the set.

    held        the set: a tuple of (state, log weight), sorted
    weighted    False: the largest product instead of the sum; where all weights are 1, the result is 0 or −∞
    """
    log_stop = [in_hand + float(machine.log_stop[state]) for state, in_hand in held]
    return float(np.logaddexp.reduce(log_stop)) if weighted else max(log_stop)


def determinised(
    machine: WeightedAutomaton, *, weighted: bool = True, most_states: int = MOST_STATES, most_moves: int = MOST_MOVES
) -> WeightedAutomaton:
    """Return a deterministic automaton equivalent to a trimmed one (subset construction with residual weights, Mohri).

    In each state at most one move reads a letter; every string has the weight that it has in `machine`.

    machine     without states that are on no path from the start to an end (`trimmed`)
    weighted    False: weights must all be 1 (log weight 0), and are so in the result

    A TooLargeError if it needs more than `most_states` states or `most_moves` moves; with weights, there may be no
    finite one.
    """

    def check(states: int, moves: int) -> None:
        if states > most_states or moves > most_moves:
            raise TooLargeError(
                f"to read every string in one way needs more than {most_states:,} states or {most_moves:,} moves "
                f"(states × columns): {machine.n_states:,} states combine in too many ways"
                + (", or with weights that drift apart as strings grow longer; weighted=False" if weighted else "")
            )

    def after(held: Held) -> Iterator[tuple[int, Held, float]]:
        for column, (log_weight, reached) in steps(machine.by_state, held, weighted=weighted).items():
            yield column, reached, log_weight

    sets, moves = explored(START, after, check)
    stops = np.array([stop_of(machine, held, weighted=weighted) for held in sets])
    return merged(machine.columns, moves, stops, weighted=weighted)


MOST_DENSE = 2_000  # states of a component that is solved by elimination; larger ones are iterated
TOLERANCE = 1e-12  # 1 - ρ must be more
CLOSE = 1e-9  # by so much of z each equation may be off that is iterated
MOST_ITERATIONS = 300
_NOTHING_LEFT = 1e-14  # of what a series is summed over


class InfiniteMassError(BackgroundError):
    """Raised where the weights of all strings of an automaton have no finite sum."""

    def __init__(self, which: str = "") -> None:
        super().__init__(
            f"the weights of all strings have no finite sum: {which or 'what is repeated must lose weight each time'}; "
            "give a factor below 1 (again=0.5), or weighted=False"
        )


def backward(machine: WeightedAutomaton) -> Floats:
    """Return log β of every state of a trimmed automaton, (states,): log of the total weight of all strings from it.

    A move by a column (class of letters) counts once for each of its letters. Trimmed: every state is on a path to an
    end. An InfiniteMassError if a sum is not finite.
    """
    with np.errstate(divide="ignore"):
        log_weight = machine.log_weight + np.log(machine.columns.sizes)[machine.column]
    moves = machine.source, np.zeros_like(machine.column), machine.target, log_weight  # whatever the letter
    whole = merged(machine.columns, moves, machine.log_stop, weighted=True)
    first, target, log_weight = whole.first.tolist(), whole.target, whole.log_weight
    beta: Floats = machine.log_stop.copy()
    for states in components(first, target.tolist()):
        if len(states) == 1:
            begin, end = first[states[0]], first[states[0] + 1]
            beta[states[0]] = _single(states[0], beta, target[begin:end], log_weight[begin:end])
        else:
            _solve(np.array(states), first, target, log_weight, beta)
    return beta


def _single(state: int, beta: Floats, target: Ints, log_weight: Floats) -> float:
    own = target == state
    total = float(np.logaddexp.reduce(np.append((log_weight + beta[target])[~own], beta[state])))
    if not own.any():
        return total
    loop = np.exp(float(log_weight[own][0]))
    if loop >= 1.0 - TOLERANCE:
        raise InfiniteMassError
    return float(total - np.log1p(-loop))


def _solve(states: Ints, first: list[int], target: Ints, log_weight: Floats, beta: Floats) -> None:
    """Compute log β (log of the summed weight of all strings from a state) of a strongly connected component.

    It is written to `beta`, in place, at the states of the component.

    states              the states of the component
    first, target, log_weight   the moves of the automaton: those of state q are at first[q] to first[q + 1] - 1
    beta                (states,) log β, ready for states after the component; inside it, the log weight of ending

    An InfiniteMassError if a sum is not finite.
    """
    counts = np.array([first[state + 1] - first[state] for state in states.tolist()])
    at = np.concatenate([np.arange(first[state], first[state + 1]) for state in states.tolist()])
    source = np.repeat(np.arange(len(states)), counts)
    place = np.full(len(beta), -1)
    place[states] = np.arange(len(states))
    inner = place[target[at]] >= 0
    log_b = beta[states].copy()
    np.logaddexp.at(log_b, source[~inner], (log_weight[at] + beta[target[at]])[~inner])
    beta[states] = _solved(log_b, source[inner], place[target[at]][inner], log_weight[at][inner])


def _solved(log_b: Floats, source: Ints, target: Ints, log_m: Floats) -> Floats:
    best = _best(log_b, source, target, log_m)
    b, m = np.exp(log_b - best), np.exp(log_m + best[target] - best[source])
    solve = _elimination(source, target, m, len(b)) if len(b) <= MOST_DENSE else _iteration(source, target, m, len(b))
    z = solve(b)
    further = solve(z / z.max()) * z.max()
    if not (z / further).max() > TOLERANCE:
        raise InfiniteMassError
    found: Floats = best + np.log(z)
    return found


def _best(log_b: Floats, source: Ints, target: Ints, log_m: Floats) -> Floats:
    """Return the log weight of the best single path from each of n states of a component out of it, (n,).

    A path has any number of moves within the component, then leaves it: its log weight is the sum over these moves plus
    `log_b` of the state where it leaves.

    log_b       (n,) log weight of leaving the component, or ending, from each state
    source, target, log_m   the moves within the component, with log weights, sorted by source

    An InfiniteMassError if a cycle has a weight above 1.
    """
    first = np.searchsorted(source, np.arange(len(log_b)))  # every state of a component has a move within it
    best = log_b
    for _ in range(len(log_b) + 1):
        better = np.maximum(log_b, np.maximum.reduceat(log_m + best[target], first))
        if not (better > best + TOLERANCE).any():
            return better
        best = better
    raise InfiniteMassError  # a circle that gains weight


def _elimination(source: Ints, target: Ints, m: Floats, n: int) -> Callable[[Floats], Floats]:
    system = np.eye(n)
    system[source, target] -= m

    def solve(b: Floats) -> Floats:
        try:
            return _positive(np.asarray(np.linalg.solve(system, b), dtype=np.float64))
        except np.linalg.LinAlgError:
            raise InfiniteMassError from None

    return solve


def _iteration(source: Ints, target: Ints, m: Floats, n: int) -> Callable[[Floats], Floats]:
    """Return a function b -> z, (n,) -> (n,), that solves z = b + M z by GMRES.

    source, target, m   the entries M[source, target] = m of the n × n matrix

    The function raises an InfiniteMassError if it does not converge, or if an entry of z is not above 0.
    """

    def times(z: Floats) -> Floats:
        return np.bincount(source, m * z[target], minlength=n).astype(np.float64, copy=False)

    def solve(b: Floats) -> Floats:
        found = b + times(np.maximum(series(times, b, InfiniteMassError(), MOST_ITERATIONS), b))
        z = b + times(found)
        if not (np.abs(z - found) <= CLOSE * z).all():
            raise InfiniteMassError
        return _positive(z)

    return solve


def series(step: Callable[[Floats], Floats], b: Floats, error: Exception, most: int = 2000) -> Floats:
    """Return the solution x of x = b + M x, (n,), by GMRES to rounding error: the sum b + M b + M² b + ….

    step        multiplies a vector by the n × n matrix M, (n,) -> (n,)
    b           (n,)
    error       the exception that is raised if `most` iterations do not suffice
    """
    size = float(np.linalg.norm(b))
    if size == 0.0:
        return b
    basis, H = np.empty((32, len(b))), np.zeros((33, 32))
    basis[0] = b / size
    for n in range(1, most + 1):
        known = basis[:n]
        new = known[-1] - step(known[-1])
        for _ in range(2):  # twice is enough
            parts = known @ new
            new -= parts @ known
            H[:n, n - 1] += parts
        H[n, n - 1] = left = np.linalg.norm(new)
        right = np.zeros(n + 1)
        right[0] = size
        y = np.linalg.lstsq(H[: n + 1, :n], right, rcond=None)[0]
        if np.linalg.norm(H[: n + 1, :n] @ y - right) < _NOTHING_LEFT * size or left < _NOTHING_LEFT:
            return np.asarray(y @ known)
        if n == len(basis):
            basis, H = np.concatenate([basis, np.empty_like(basis)]), np.pad(H, (0, n))
        basis[n] = new / left
    raise error


def _positive(z: Floats) -> Floats:
    if not (np.isfinite(z).all() and (z > 0).all()):
        raise InfiniteMassError
    return z
