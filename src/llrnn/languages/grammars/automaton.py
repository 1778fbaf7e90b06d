"""Finite automata as arrays: moves between states by columns, and none of them for nothing.

State 0 is the start, and no move of a compiled expression leads back to it. Strings of both automata are the ways of
pairs of states. An automaton says which strings there are; how probable they are is for grammars to say
(`context_free`).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from heapq import heapify, heappop, heappush
from itertools import count, pairwise
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from llrnn.ground.arrays import Bools, Floats, Ints
from llrnn.ground.errors import BackgroundError
from llrnn.languages.grammars.tries import AllowedSymbols, SymbolTrie
from llrnn.text.automata import DIGIT, KINDS, LOWER, SIGN, SPACE, UPPER, kind

# A language, read letter by letter: the seam between automata or grammars and the background that they make.
#
#     node = root;   node = after(node, column)                       None: no string of the language begins so
#     weight of the next letter x at a node: weights(node)[column(x)],  of the end: end(node)
#
# Boolean languages weigh 1 what keeps the string completable and 0 what does not. Weighted ones say how probable it is,
# with all that can still follow counted in: Σ over letters + end = 1. A letter with weight above 0 is never a dead end.


# Letters: what automata and grammars read one by one, and which of them are told apart.
#
#     over symbols       a letter is a symbol of the vocabulary, and every symbol is one letter
#     over characters    a letter is a character, and a symbol spells some of them
#
# An atom is a set of letters. Letters that the atoms of an automaton or grammar do not tell apart share a column, so
# that a grammar of forty terminals has some forty columns, whatever the vocabulary.

Over = Literal["symbols", "characters"]
UNREAD = -1  # the column of letters that no atom holds
PROPERTIES = {"lower": LOWER, "upper": UPPER, "digit": DIGIT, "space": SPACE, "sign": SIGN}  # as in \p{lower}


class Atom(ABC):
    """A set of letters."""

    @abstractmethod
    def holds(self, letter: str) -> bool:
        """Whether a letter is in the set."""

    def held(self, letters: Sequence[str]) -> Bools:
        """Which letters are in the set, (letters,)."""
        return np.fromiter(map(self.holds, letters), dtype=np.bool_, count=len(letters))


@dataclass(frozen=True)
class Letter(Atom):
    """This letter."""

    text: str

    def holds(self, letter: str) -> bool:
        return letter == self.text

    def __str__(self) -> str:
        return self.text if self.text.isalnum() else f'"{self.text}"'


@dataclass(frozen=True)
class OneOf(Atom):
    """Single characters: of some ranges and categories; or all others."""

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
    """Whether a character is of a class; Python's own `re` says what its categories and flags mean."""
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
    """The letters, sorted into columns by a set of atoms."""

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
        """The columns of the letters that an atom holds; it must not tell apart what shares a column."""
        if isinstance(atom, Letter):
            return (int(self.of_letter[self._place[atom.text]]),) if atom.text in self._place else ()
        if atom not in self._held:
            self._held[atom] = tuple(np.flatnonzero(atom.held(self._examples)).tolist())
        return self._held[atom]

    def column(self, letter: str) -> int:
        """The column of a letter, UNREAD where nobody reads it or there is no such letter."""
        place = self._place.get(letter)
        return UNREAD if place is None else int(self.of_letter[place])

    def example(self, column: int) -> str:
        """The first letter of a column, for messages."""
        return self._examples[column]

    def spelled(self, text: str) -> list[str]:
        """A text as letters: its characters, or its words."""
        return list(text) if self.over == "characters" else text.split()


def _numbered(held: Bools, named: list[int]) -> Ints:
    """A column for each letter: named letters have their own, others share one if the same atoms hold them."""
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
    """What a constraint asks of an automaton or a grammar."""

    columns: LetterColumns
    root: Node  # before any letter

    @abstractmethod
    def weights(self, node: Node) -> Floats:
        """The weight of each letter of a column, (columns,); 0 forbids."""

    @abstractmethod
    def end(self, node: Node) -> float:
        """The weight of ending here."""

    @abstractmethod
    def after(self, node: Node, column: int) -> Node | None:
        """The node after a letter of this column; None if no string of the language goes on so."""

    @abstractmethod
    def shortest(self, node: Node) -> int:
        """How many letters there must be at least until a string can end."""

    def summaries(self, trie: SymbolTrie) -> AllowedSymbols | None:
        """A faster way to all symbols that may follow than letter by letter; None where there is none."""
        return None


# Graphs, in linear time: what reaches each other (Tarjan), what follows from what, and who can be reached at all.


Name = TypeVar("Name", bound=Hashable)


def components(first: Sequence[int], target: Sequence[int]) -> Iterator[list[int]]:
    """States that reach each other, those that reach no other first, without recursion.

    The moves of state q go to `target[first[q] : first[q + 1]]`.
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
    """All that waits from this state on; they lead no one back any more."""
    found = list[int]()
    while not found or found[-1] != state:
        found.append(waiting.pop())
        low[found[-1]] = done
    return found


def least_costs(rules: Iterable[tuple[Name, Sequence[Name], float]], known: Iterable[Name] = ()) -> dict[Name, float]:
    """What follows from what is known for nothing, at its least cost: that of a rule and of all its premises (Knuth).

    A rule is a conclusion, its premises and its cost; each is looked at once, when its last premise is found.
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
    """What is known, and all that follows."""
    return set(least_costs(((conclusion, premises, 0.0) for conclusion, premises in implications), known))


def reachable(step: NDArray[np.bool_]) -> NDArray[np.float64]:
    """1 where a way leads, however short, (n, n): whole rows as bits, joined once for each step."""
    n = len(step)
    source, target = np.nonzero(step)
    first = np.searchsorted(source, np.arange(n + 1)).tolist()
    own = np.packbits(np.eye(n, dtype=np.bool_), axis=1)
    bits = np.zeros_like(own)
    for group in components(first, target.tolist()):
        after = np.concatenate([target[first[state] : first[state + 1]] for state in group])
        bits[group] = np.bitwise_or.reduce(np.concatenate([bits[after], own[group]]), axis=0)
    return np.unpackbits(bits, axis=1, count=n).astype(np.float64)


MOST_STATES = 500_000
MOST_MOVES = 5_000_000  # no more than states × columns, and stored one by one

Moves = list[tuple[int, int]]  # column, target
Arrays = tuple[Ints, Ints, Ints]  # source, column, target
State = TypeVar("State", bound=Hashable)


@dataclass(frozen=True, eq=False)
class FiniteAutomaton:
    """Moves sorted by source, column and target, each once."""

    columns: LetterColumns
    source: Ints  # (moves,)
    column: Ints
    target: Ints
    stops: Bools  # (states,) whether a string may end there

    @property
    def n_states(self) -> int:
        return len(self.stops)

    @property
    def is_empty(self) -> bool:
        """Whether no string at all is in the language; of a trimmed machine."""
        return not bool(self.stops.any())

    @cached_property
    def first(self) -> Ints:
        """Where the moves of each state begin, and the end, (states + 1,)."""
        return np.searchsorted(self.source, np.arange(self.n_states + 1))

    @cached_property
    def by_state(self) -> list[Moves]:
        """The moves of each state as plain numbers, for what goes state by state."""
        moves = list(zip(self.column.tolist(), self.target.tolist(), strict=True))
        return [moves[begin:end] for begin, end in pairwise(self.first.tolist())]

    def trimmed(self) -> FiniteAutomaton:
        """Without the states that no string passes through; the start stays."""
        begun = np.arange(self.n_states) == 0
        useful = _spread(begun, self.source, self.target) & _spread(self.stops, self.target, self.source)
        useful[0] = True
        number = np.cumsum(useful) - 1
        found = self.selected(useful[self.source] & useful[self.target])
        return replace(found, source=number[found.source], target=number[found.target], stops=self.stops[useful])

    def selected(self, keep: Bools) -> FiniteAutomaton:
        """With these moves only."""
        return FiniteAutomaton(self.columns, self.source[keep], self.column[keep], self.target[keep], self.stops)

    @cached_property
    def shortest(self) -> Ints:
        """How many letters there are at least from each state to an end, -1 where there is none, (states,)."""
        return self.lengths(np.ones(len(self.source), dtype=np.int64))

    def lengths(self, step: Ints) -> Ints:
        """Shortest accepted length from each state, where each move takes `step` letters; -1 if none, (states,)."""
        moves = zip(self.source.tolist(), self.target.tolist(), step.tolist(), strict=True)
        known = least_costs(((state, (to,), cost) for state, to, cost in moves), np.flatnonzero(self.stops).tolist())
        return np.array([int(known.get(state, -1)) for state in range(self.n_states)], dtype=np.int64)


def merged(columns: LetterColumns, moves: Arrays, stops: Bools) -> FiniteAutomaton:
    """A machine from moves in any order, each of which may come several times."""
    order = np.lexsort(moves[::-1])
    source, column, target = (array[order] for array in moves)
    new = np.ones(len(source), dtype=np.bool_)
    new[1:] = (np.diff(source) != 0) | (np.diff(column) != 0) | (np.diff(target) != 0)
    return FiniteAutomaton(columns, source[new], column[new], target[new], stops)


def both(left: FiniteAutomaton, right: FiniteAutomaton) -> FiniteAutomaton:
    """The strings of both; trimmed."""
    by_column: list[dict[int, list[int]]] = [defaultdict(list) for _ in right.by_state]
    for own, moves in zip(by_column, right.by_state, strict=True):
        for column, target in moves:
            own[column].append(target)

    def after(pair: tuple[int, int]) -> Iterator[tuple[int, tuple[int, int]]]:
        theirs = by_column[pair[1]]
        for column, target in left.by_state[pair[0]]:
            for facing in theirs.get(column, ()):
                yield column, (target, facing)

    pairs, found = explored((0, 0), after, lambda n, m: check_size(n, m, "the strings of both sides of &"))
    stops = np.array([left.stops[mine] and right.stops[other] for mine, other in pairs])
    return merged(left.columns, found, stops).trimmed()


def explored(
    start: State, after: Callable[[State], Iterable[tuple[int, State]]], check: Callable[[int, int], None]
) -> tuple[list[State], Arrays]:
    """All states that moves (column, state) lead to from a start, numbered as found; and the moves.

    `check` is told the number of states and of moves so far.
    """
    states, number, moves = [start], {start: 0}, list[tuple[int, int, int]]()
    for here, state in enumerate(states):  # grows while we read it
        for column, reached in after(state):
            if reached not in number:
                number[reached] = len(states)
                states.append(reached)
            moves.append((here, column, number[reached]))
        check(len(states), len(moves))
    places = np.array(moves, dtype=np.int64).reshape(-1, 3).T
    return states, (places[0], places[1], places[2])


def check_size(states: int, moves: int, what: str) -> None:
    """Refuse what has grown too large."""
    if states > MOST_STATES or moves > MOST_MOVES:
        raise BackgroundError(
            f"{what} needs more than {MOST_STATES:,} states or {MOST_MOVES:,} moves (states × columns), the most that "
            f"an automaton may have: {states:,} states and {moves:,} moves so far; repeat less, or list fewer words"
        )


def _spread(begun: Bools, source: Ints, target: Ints) -> Bools:
    """All states that are reached from some, moves going from source to target."""
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


# One way to read a string: sets of states as the states of a new automaton. Every state of a trimmed automaton can be
# completed, and so can every set of them.


Held: TypeAlias = tuple[int, ...]  # states, sorted
START: Held = (0,)


class TooLargeError(BackgroundError):
    """An automaton whose states, if each string is read in one way, are too many to write out."""


def steps(by_state: list[Moves], held: Held) -> dict[int, Held]:
    """The set of states that follows a set by each column."""
    found: dict[int, set[int]] = {}
    for state in held:
        for column, target in by_state[state]:
            found.setdefault(column, set()).add(target)
    return {column: tuple(sorted(reached)) for column, reached in found.items()}


def determinised(
    machine: FiniteAutomaton, *, most_states: int = MOST_STATES, most_moves: int = MOST_MOVES
) -> FiniteAutomaton:
    """The same language, with one move at most by each column from each state; of a trimmed machine."""

    def check(states: int, moves: int) -> None:
        if states > most_states or moves > most_moves:
            raise TooLargeError(
                f"to read every string in one way needs more than {most_states:,} states or {most_moves:,} moves "
                f"(states × columns): {machine.n_states:,} states combine in too many ways; repeat less"
            )

    sets, moves = explored(START, lambda held: steps(machine.by_state, held).items(), check)
    stops = np.array([bool(machine.stops[list(held)].any()) for held in sets])
    return merged(machine.columns, moves, stops)
