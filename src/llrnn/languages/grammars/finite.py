"""Automata as languages: states, or sets of states, with the probabilities of what comes next.

    weighted      p(x | q) = w(q, x, q')·β(q') / β(q)        p(end | q) = stop(q) / β(q)        Σ_x p + p(end) = 1
    otherwise     1 for what some string goes on with, 0 for all else

`Finite` is determinised lazily: a node is a set of states, and what follows it is computed when it is asked for, since
the deterministic automaton may be too large, or infinite.

`Filled`: an automaton with holes, and what a condition inserts there.

What comes from the condition is a hole, which the automaton that all conditions share reads as if it were one letter.
For a condition the holes are filled with small automata of their own, and a node is a set of places: states of the
shared automaton, and states within a hole together with where the shared one goes on behind it.

    (d)       --x-->  (d')                         and whoever is at d before a hole h is also at the start of h
    (h, d, s) --x-->  (h, d, s')                   and whoever is at an end of h is also at d

`Conditional`: a language for each condition, of which the common part is compiled once.

    text = token (" " token)*,   token = one of 3,000 words | a value of the condition

Without weights the dictionary is compiled once, with a hole for what comes from the condition (`holes`). With
weights, or where a hole stands within &, each condition is compiled by itself, which takes as long as all of it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np

from llrnn.ground.arrays import Floats
from llrnn.ground.errors import BackgroundError
from llrnn.languages.grammars import expressions as ex
from llrnn.languages.grammars.automaton import (
    START,
    UNREAD,
    Held,
    InfiniteMassError,
    Language,
    LetterColumns,
    WeightedAutomaton,
    backward,
    determinised,
    least_costs,
    steps,
    stop_of,
)
from llrnn.languages.grammars.expressions import ConditionExpression, Expression, compiled, parts_of, shown

_NUMBERS_KEPT = 2_000_000  # of rows that were asked for lately
_LEAST = 1e-300  # what is possible stays possible, however improbable


class EmptyLanguageError(BackgroundError):
    """Raised where an expression, or what is left of it for a condition (input of a text), contains no string."""


class Finite(Language):
    """The language of a trimmed weighted automaton, determinised lazily; a node is a set of states with weights.

    machine     the automaton, without states that are on no path to an end
    weighted    True: `weights` and `end` are probabilities with sum 1 at each node, over all letters and the end;
                False: 1 for what is allowed, else 0

    An InfiniteMassError if the weights of all strings have no finite sum.
    """

    root = START

    def __init__(self, machine: WeightedAutomaton, *, weighted: bool = True) -> None:
        self.columns, self.machine, self.weighted = machine.columns, machine, weighted
        self._beta = backward(machine) if weighted else np.zeros(machine.n_states)
        self._steps = lru_cache(1 + _NUMBERS_KEPT // (4 * max(1, machine.columns.count)))(self._made)

    def _made(self, held: Held) -> tuple[Floats, float, dict[int, tuple[float, Held]]]:
        """Return what follows a node (a weighted set of states): (letter weights, weight of the end, next nodes).

        Letter weights are (columns,), each that of one letter of a column (class of letters), as `weights` returns
        them; the weight of the end is as `end` returns it. Next nodes are a dict column -> (log weight of the move in
        the automaton, node), without columns that no string continues with.
        """
        found = steps(self.machine.by_state, held, weighted=self.weighted)
        row, log_end = np.zeros(self.columns.count), stop_of(self.machine, held, weighted=self.weighted)
        log_row = np.array([log + self._ahead(after) for log, after in found.values()])
        if self.weighted:
            log_sizes = np.log(self.columns.sizes[list(found)])
            total = np.logaddexp.reduce(np.append(log_row + log_sizes, log_end))
            log_row, log_end = log_row - total, log_end - total
        row[list(found)] = np.maximum(np.exp(log_row), _LEAST)
        row.flags.writeable = False
        return row, float(np.exp(log_end)), found

    def _ahead(self, held: Held) -> float:
        """Return the log of the total weight of all strings from a node; 0 if the language has no weights.

        A node is a tuple of (state, log weight): log Σ_q weight(q) · β(q), with β the total weight from state q.
        """
        if not self.weighted:
            return 0.0
        return float(np.logaddexp.reduce([in_hand + self._beta[state] for state, in_hand in held]))

    def weights(self, node: Held) -> Floats:
        return self._steps(node)[0]

    def end(self, node: Held) -> float:
        return self._steps(node)[1]

    def after(self, node: Held, column: int) -> Held | None:
        found = self._steps(node)[2].get(column)
        return None if found is None else found[1]

    def shortest(self, node: Held) -> int:
        return min(int(self.machine.shortest[state]) for state, _ in node)


def finite(expression: Expression, columns: LetterColumns, *, weighted: bool = True) -> Language:
    """Compile an expression, without parts from a condition, to a language that is read letter by letter.

    columns     the partition of the letters into columns (classes of letters read alike), from `columns_of`
    weighted    True: letters and end have probabilities after each prefix; False: 1 for what is allowed, else 0

    An EmptyLanguageError if it has no string; a BackgroundError if weights have no finite sum.
    """
    machine = compiled(expression, columns, weighted=weighted)
    if machine.is_empty:
        raise EmptyLanguageError(
            f"the language of {shown(expression)} holds no string at all: {why_empty(expression, columns)}"
        )
    try:
        return Finite(machine, weighted=weighted)
    except InfiniteMassError:
        raise BackgroundError(what_is_infinite(expression, columns)) from None


# Why an expression is refused: which part of it holds no string, and which has infinite mass.


def why_empty(expression: Expression, columns: LetterColumns) -> str:
    """Return a message that names the innermost sub-expression because of which an empty language has no string.

    expression  one whose language is empty
    columns     the partition of the letters that it was compiled for
    """
    guilty = next((part for part in expression.inner if compiled(part, columns, weighted=False).is_empty), None)
    if guilty is not None:
        return why_empty(guilty, columns)
    match expression:
        case ex.One():
            one = "symbols" if columns.over == "symbols" else "characters"
            return f"{shown(expression)} is none of the {len(columns.letters)} {one} of the vocabulary"
        case ex.Listed(entries):
            text = entries[0][0]
            other = next(letter for letter in columns.spelled(text) if columns.column(letter) < 0)
            one = "symbol" if columns.over == "symbols" else "character of a symbol"
            return f"a list of words of which the vocabulary spells none: {text!r} holds {other!r}, which is no {one}"
        case ex.Alternation():
            return "there is nothing to choose from"
        case ex.Both(left, right):
            return f"the two sides of & share no string: {shown(left)} and {shown(right)}"
    return "nothing in the condition fits"


def what_is_infinite(expression: Expression, columns: LetterColumns) -> str:
    """Return a message that names the smallest repeated sub-expression whose strings have no finite sum of weights.

    It is written as in a pattern; where no repeated one is found, the message names none. Called when the sum is known
    to be infinite.

    columns     the partition of the letters that `expression` was compiled for
    """
    repeats = [part for part in parts_of(expression) if isinstance(part, ex.Repeat)]
    which = next((f"{shown(part)} " for part in reversed(repeats) if _is_infinite(part, columns)), "")
    return (
        f"the weights of all strings must have a finite sum, but what is repeated {which and f'in {which}'}does not "
        "lose weight: the factors of all letters that it holds add up to 1 or more; give a smaller one (again=0.5, "
        "*<0.5>), or weighted=False, which only says what is allowed"
    )


def _is_infinite(part: Expression, columns: LetterColumns) -> bool:
    try:
        backward(compiled(part, columns))
    except InfiniteMassError:
        return True
    except BackgroundError:
        return False
    return False


MOST_STEPS = 20_000  # of one condition, from node to node, that are cached
_MOST_FILLINGS = 64  # ways in which holes are open or closed, or long, that are cached
_NUMBERS_OF_CONDITION = 100_000  # in the rows of one condition

_Place: TypeAlias = tuple[int, int, int]  # hole (-1: none), state of the shared automaton, and that within the hole
_Places: TypeAlias = frozenset[_Place]


@dataclass(frozen=True, eq=False)
class TerminalAutomaton:
    """A deterministic automaton without weights as dictionaries: a terminal of a grammar, or a part of an expression.

    moves       at [state]: column (class of letters) -> next state; state 0 is the start
    ends        at [state]: whether a string may end there
    """

    moves: list[dict[int, int]]  # column -> state, for each state; state 0 is the start
    ends: list[bool]

    @classmethod
    def of(
        cls, expression: Expression, columns: LetterColumns, holes: Sequence[ConditionExpression] = ()
    ) -> TerminalAutomaton:
        """Compile an expression to a deterministic automaton over columns (classes of letters); weights are ignored.

        It need not be the smallest one (`minimised`). A BackgroundError if it becomes too large.

        columns     the partition of the letters into columns
        holes       sub-expressions that a condition (input of a text) fills in; the i-th is read as a letter of column
                    columns.count + i
        """
        if isinstance(expression, ex.Listed) and (columns.sizes == 1).all():
            return cls._listed(expression.entries, columns)
        whole = determinised(compiled(expression, columns, weighted=False, holes=holes), weighted=False)
        moves = [{column: target for column, target, _ in own} for own in whole.by_state]
        return cls(moves, (whole.log_stop > -np.inf).tolist())

    @classmethod
    def _listed(cls, entries: Sequence[tuple[str, float]], columns: LetterColumns) -> TerminalAutomaton:
        made = cls([{}], [False])
        for text, _ in entries:
            read = [columns.column(letter) for letter in columns.spelled(text)]
            if UNREAD in read:
                continue
            state = 0
            for column in read:
                if column not in made.moves[state]:
                    made.moves[state][column] = len(made.moves)
                    made.moves.append({})
                    made.ends.append(False)
                state = made.moves[state][column]
            made.ends[state] = True
        return made

    @property
    def is_empty(self) -> bool:
        """Whether the automaton accepts no string."""
        return not any(self.ends)

    @cached_property
    def lengths(self) -> list[int]:
        """At [state], the least number of letters from the state to the end of a string; −1 if there is none."""
        return self._lengths_with(0, ())

    @cached_property
    def lengths_with(self) -> Callable[[int, tuple[int, ...]], list[int]]:
        """A cached function (first, taken) -> list of the least number of letters from each state to an end.

        −1 where no end is reached. A move by the column (class of letters) first + i counts as taken[i] letters; −1
        there: it cannot be made. All other moves count as one letter.
        """
        return lru_cache(_MOST_FILLINGS)(self._lengths_with)

    def _lengths_with(self, first: int, taken: tuple[int, ...]) -> list[int]:
        letters = dict(enumerate(taken, first))
        made = ((state, to, letters.get(column, 1)) for state, go in enumerate(self.moves) for column, to in go.items())
        moves = ((state, (to,), count) for state, to, count in made if count >= 0)
        known = least_costs(moves, [state for state, end in enumerate(self.ends) if end])
        return [int(known.get(state, -1)) for state in range(len(self.moves))]

    def minimised(self) -> TerminalAutomaton:
        """Return the smallest automaton that accepts the same strings and never merges its start (Moore's algorithm).

        The start stays state 0, also where another state accepts the same strings as the start.
        """
        found, n = _renumbered([(state == 0, length) for state, length in enumerate(self.lengths)]), 0
        while max(found, default=-1) >= n:
            n = max(found) + 1
            steps = [tuple(sorted((column, found[to]) for column, to in go.items())) for go in self.moves]
            found = _renumbered(list(zip(found, steps, strict=True)))
        first = {number: state for state, number in reversed(list(enumerate(found)))}
        moves = [{column: found[to] for column, to in self.moves[first[k]].items()} for k in range(n)]
        return TerminalAutomaton(moves, [self.ends[first[k]] for k in range(n)])

    def weights(self, columns: LetterColumns, *, weighted: bool) -> tuple[Floats, Floats]:
        """Return the weights of letters, (states, columns), and of stopping, (states,), in each state.

        columns     the partition of the letters into columns (classes of letters); a weight is that of one letter of a
                    column
        weighted    False: 1 for what is possible, else 0; True: in each state all possible letters, and stopping, are
                    equally probable
        """
        letters, stop = np.zeros((len(self.ends), columns.count)), np.array(self.ends, dtype=np.float64)
        for state, after in enumerate(self.moves):
            letters[state, list(after)] = 1.0
        total = letters @ columns.sizes + stop if weighted else np.ones(len(stop))
        return letters / total[:, None], stop / total


def _renumbered(keys: Sequence[Hashable]) -> list[int]:
    """Return an integer for each key, equal for equal keys, in order of first appearance: 0, 1, …."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]


class Filled(Language):
    """The language of an expression for one condition (input of a text): its shared automaton with the holes filled in.

    shared      the automaton of the expression, which reads each part from the condition (a hole) as one letter
    columns     the partition of the letters into columns
    fillings    for each hole, the automaton of what the condition puts there; hole i is read by `shared` as the column
                columns.count + i

    It has no weights: 1 for what is allowed, else 0. An EmptyLanguageError if no string is left.
    """

    def __init__(
        self, shared: TerminalAutomaton, columns: LetterColumns, fillings: tuple[TerminalAutomaton, ...]
    ) -> None:
        self.columns, self._shared, self._fillings = columns, shared, fillings
        self._moves, self._ends = shared.moves, shared.ends
        self._open = tuple(not filling.is_empty for filling in fillings)
        self._ahead = shared.lengths_with(columns.count, tuple(1 if one else -1 for one in self._open))  # -1: dead end
        self._after = lru_cache(MOST_STEPS)(lambda node, column: self._closed(self._moved(node, column)))
        self._rows = lru_cache(1 + _NUMBERS_OF_CONDITION // max(1, columns.count))(self._row)
        self.root = self._closed([(-1, 0, 0)])
        if self.root is None:
            raise EmptyLanguageError("no string at all")

    def _closed(self, places: Iterable[_Place]) -> _Places | None:
        """Return these places and all that are reached from them by entering or leaving a hole, as a frozenset.

        A hole is a part of the expression that the condition (input of a text) fills in. A place is (hole or -1, state
        of the shared automaton, state within the hole). Places from which no string can be completed are dropped; None
        if none remains.
        """
        found, stack = set[_Place](), list(places)
        while stack:
            place = stack.pop()
            if place not in found and self._ahead[place[1]] >= 0:
                found.add(place)
                stack += self._free(place)
        return frozenset(found) or None

    def _free(self, place: _Place) -> list[_Place]:
        """Return the places that are reached from a place without reading a letter: into a hole, or out of its end.

        A place is (hole or -1, state of the shared automaton, state within the hole); a hole is a part of the
        expression that the condition (input of a text) fills in. Inside a hole, the state of the shared automaton is
        the one behind it. [] if there are none.
        """
        hole, state, within = place
        if hole >= 0:
            return [(-1, state, 0)] if self._fillings[hole].ends[within] else []
        behind = (self._moves[state].get(self.columns.count + h) for h in range(len(self._open)))
        return [(h, lead, 0) for h, lead in enumerate(behind) if lead is not None and self._open[h]]

    def after(self, node: _Places, column: int) -> _Places | None:
        return self._after(node, column)

    def _moved(self, node: _Places, column: int) -> list[_Place]:
        found = list[_Place]()
        for hole, state, within in node:
            moves = self._fillings[hole].moves[within] if hole >= 0 else self._moves[state]
            if (target := moves.get(column)) is not None:
                found.append((hole, state, target) if hole >= 0 else (-1, target, 0))
        return found

    def weights(self, node: _Places) -> Floats:
        return self._rows(node)

    def _row(self, node: _Places) -> Floats:
        row = np.zeros(self.columns.count)
        for hole, state, within in node:
            if hole >= 0:
                row[list(self._fillings[hole].moves[within])] = 1.0
            else:
                moves = self._moves[state].items()
                row[[column for column, to in moves if column < len(row) and self._ahead[to] >= 0]] = 1.0
        row.flags.writeable = False
        return row

    def end(self, node: _Places) -> float:
        return float(any(hole < 0 and self._ends[state] for hole, state, _ in node))

    @cached_property
    def _lengths(self) -> list[int]:
        return self._shared.lengths_with(self.columns.count, tuple(filling.lengths[0] for filling in self._fillings))

    def shortest(self, node: _Places) -> int:
        return min(
            self._lengths[state] + (self._fillings[hole].lengths[within] if hole >= 0 else 0)
            for hole, state, within in node
        )


# languages that are cached: the conditions of a corpus come again in every epoch, and what is shared is small
MOST_CONDITIONS, MOST_COMPILED = 4_000, 256

_NOTHING_FITS = ex.Alternation(())
_Filled: TypeAlias = tuple[Expression, ...]


class Conditional:
    """An expression of which parts are computed from a condition (input of a text): a `Language` for each condition.

    expression  with parts made by `from_condition`
    columns     the partition of the letters into columns (classes of letters), from `columns_of`: here every letter
                has a column of its own
    weighted    True: letters and end have probabilities; False: 1 for what is allowed, else 0

    What does not depend on the condition is compiled once where that is possible.
    """

    def __init__(self, expression: Expression, columns: LetterColumns, *, weighted: bool = False) -> None:
        self.expression, self.columns, self.weighted = expression, columns, weighted
        self._holes = ex.holes_of(expression)
        self.most_cached = MOST_COMPILED if self._shared is None else MOST_CONDITIONS
        self._languages = lru_cache(self.most_cached)(self._made)
        self._filling = lru_cache(MOST_CONDITIONS)(lambda one: TerminalAutomaton.of(one, columns))

    def language(self, condition: object) -> Language:
        """Return the language of the expression for a condition, the input that a text is generated from.

        The condition is passed to the functions of the expression (`from_condition`), and may be any object that they
        accept. Languages are cached: conditions that give equal parts share one. An EmptyLanguageError if no string
        fits; a BackgroundError if a function returns neither an expression nor None.
        """
        return self._languages(tuple(_asked(hole, condition) for hole in self._holes))

    def _made(self, filled: _Filled) -> Language:
        try:
            if self._shared is None:
                return finite(self._substituted(self.expression, filled), self.columns, weighted=self.weighted)
            return Filled(self._shared, self.columns, tuple(map(self._filling, filled)))
        except EmptyLanguageError:
            given = ", ".join("nothing" if part == _NOTHING_FITS else shown(part) for part in filled)
            reason = why_empty(self._substituted(self.expression, filled), self.columns)
            raise EmptyLanguageError(
                f"the language of {shown(self.expression)} holds no string at all for a condition of which is made "
                f"{given}: {reason}"
            ) from None

    @cached_property
    def _shared(self) -> TerminalAutomaton | None:
        """The automaton that all conditions (inputs) share, with a letter for each part that comes from the condition.

        None if the expression must be compiled anew for each condition: with weights, or such parts in an intersection.
        """
        if self.weighted or any(ex.holes_of(part) for part in parts_of(self.expression) if isinstance(part, ex.Both)):
            return None
        return TerminalAutomaton.of(self.expression, self.columns, self._holes)

    def _substituted(self, expression: Expression, filled: _Filled) -> Expression:
        if isinstance(expression, ConditionExpression):
            return filled[self._holes.index(expression)]
        return expression.mapped(lambda part: self._substituted(part, filled))


def _asked(hole: ConditionExpression, condition: object) -> Expression:
    found = hole.function(condition)
    if found is None:
        return _NOTHING_FITS
    if not isinstance(found, Expression) or ex.holes_of(found):
        raise BackgroundError(f"{shown(hole)} must give an expression, or None if nothing fits, found {found!r}")
    return found
