"""Expressions: what an automaton is made of, before it knows its vocabulary.

    a + b     one after the other          a | b     either              a & b     strings of both, weights multiplied
    a.repeated(again=0.5)                  any number of times, each for a factor
    a.weighted(0.3)                        every string of a, for a factor
    a.times(2, 5)                          from twice to five times
    words(["new york", "boston"])          a list, perhaps with weights
    from_condition(function)               what a function makes of the condition, at each text anew

The weight of a string is the sum over all ways to read it, of the product of the factors on the way.

`compiled`: expressions become automata over the columns of a vocabulary (Glushkov's construction, with weights).

    a part is its first moves, its stops and e, the weight of nothing; moves that were made are never changed again

    a | b     first_a, first_b             stop_a, stop_b           e_a + e_b
    a b       first_a, e_a·first_b         e_b·stop_a, stop_b       e_a·e_b           and moves stop_a·first_b
    a*        f·first_a                    c·stop_a                 c                 and moves stop_a·f·first_a
              c = 1 / (1 − again·e_a) is the geometric series of nothing, f = again·c

No move is ever for nothing, so every weight is exact. Without weights the same holds with 1 + 1 = 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from llrnn.ground.errors import BackgroundError
from llrnn.languages.grammars.automaton import (
    NEVER,
    Atom,
    InfiniteMassError,
    Letter,
    LetterColumns,
    Over,
    WeightedAutomaton,
    both,
    check_size,
    log_add,
    merged,
)

MOST_TIMES = 1_000  # of a part that is repeated from so often to so often


@dataclass(frozen=True)
class Expression:
    """A weighted set of strings of letters (symbols or characters), as a regular expression that is not yet compiled.

    What a letter is, and which letters there are, is decided when it is compiled for a vocabulary; weights are 1 unless
    they are given.

    Combine expressions with `a + b` (concatenation), `a | b` (union, weights added) and `a & b` (intersection, weights
    multiplied), and with the methods `repeated`, `times`, `weighted` and `optional`. Subclasses keep their parts in
    fields: `parts`, a tuple, or one field each.

        letter("the") + (letter("big") | letter("small")).repeated(again=0.5) + letter("cat")
    """

    def __add__(self, other: Expression) -> Expression:
        return Concatenation((*_parts(self, Concatenation), *_parts(other, Concatenation)))

    def __or__(self, other: Expression) -> Expression:
        return Alternation((*_parts(self, Alternation), *_parts(other, Alternation)))

    def __and__(self, other: Expression) -> Expression:
        return Both(self, _checked(other))

    def repeated(self, *, again: float = 1.0) -> Expression:
        """Return the Kleene star: this expression zero or more times, with a factor of `again` for each time.

        A BackgroundError unless `again` is above 0. With weights, it must be small enough for the sum over all strings
        to be finite, which is checked when the expression is compiled.

            letter("very").repeated(again=0.5) + letter("good")
        """
        return Repeat(self, again)

    def times(self, least: int, most: int | None = None) -> Expression:
        """Return this expression repeated from `least` to `most` times, or exactly `least` times if `most` is None.

        A BackgroundError unless 0 ≤ least ≤ most ≤ 1,000.

        The number of repeats adds no weight of its own; a string that several numbers give has the sum of its weights.

            regular("[0-9]").times(2, 4)
        """
        return Times(self, least, least if most is None else most)

    def weighted(self, factor: float) -> Expression:
        """Return this expression with the weight of every string multiplied by `factor`.

        A BackgroundError unless `factor` is above 0 and finite.

        For example, weights of alternatives:

            letter("cat").weighted(0.7) | letter("dog").weighted(0.3)
        """
        return WeightedExpression(self, factor)

    def optional(self) -> Expression:
        """Return this expression or the empty string (weight 1).

        For example:

            letter("very").optional() + letter("good")
        """
        return Alternation((self, NOTHING))

    @property
    def inner(self) -> tuple[Expression, ...]:
        """The direct sub-expressions of this expression, in order; () if it has none."""
        given = vars(self)
        return given["parts"] if "parts" in given else tuple(v for v in given.values() if isinstance(v, Expression))

    def mapped(self, function: Callable[[Expression], Expression]) -> Expression:
        """Return a copy of the expression with every direct sub-expression e replaced by `function(e)`."""
        made = iter([function(part) for part in self.inner])
        if isinstance(self, Concatenation | Alternation):
            return type(self)(tuple(made))
        return replace(self, **{name: next(made) for name, v in vars(self).items() if isinstance(v, Expression)})


@dataclass(frozen=True)
class One(Expression):
    """The strings of a single letter that is in the set `atom`."""

    atom: Atom


@dataclass(frozen=True)
class Concatenation(Expression):
    """The strings that are made of one string of each of `parts` in turn; the empty string if there are no parts."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Alternation(Expression):
    """The strings of any of the parts (union); weights of a string that is in several parts are added."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Repeat(Expression):
    """The strings made of `part` zero or more times (Kleene star), with a factor of `again` for each time."""

    part: Expression
    again: float

    def __post_init__(self) -> None:
        _check_factor(self.again)


@dataclass(frozen=True)
class Times(Expression):
    """The strings made of `part` repeated from `least` to `most` times (at most 1,000).

    A string that several numbers of repeats give has the sum of their weights.
    """

    part: Expression
    least: int
    most: int

    def __post_init__(self) -> None:
        if not 0 <= self.least <= self.most <= MOST_TIMES:
            found = f"found {self.least} and {self.most}"
            raise BackgroundError(f"times takes two numbers, 0 ≤ least ≤ most ≤ {MOST_TIMES}, {found}")


@dataclass(frozen=True)
class WeightedExpression(Expression):
    """The strings of `part`, with all weights multiplied by `factor`, which is above 0."""

    part: Expression
    factor: float

    def __post_init__(self) -> None:
        _check_factor(self.factor)


@dataclass(frozen=True)
class Both(Expression):
    """The strings that both `left` and `right` contain (intersection), with the product of their weights."""

    left: Expression
    right: Expression


@dataclass(frozen=True)
class Listed(Expression):
    """The strings of a list of (text, weight); texts are split into words, or characters, when it is compiled.

    Which of the two depends on whether the automaton reads symbols or characters.
    """

    entries: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class ConditionExpression(Expression):
    """An expression that `function` computes from the condition of a text (the input that it is generated from).

    function    condition -> an expression, or None if the condition allows nothing here
    """

    function: Callable[[object], Expression | None]


NOTHING: Expression = Concatenation(())


def letter(text: str) -> Expression:
    """Return the expression of a single letter: a symbol or a character, by what the automaton is compiled over.

    For example, two sentences:

        letter("the") + (letter("cat") | letter("dog"))
    """
    return One(Letter(text))


def words(texts: Iterable[str] | Mapping[str, float]) -> Expression:
    """Return the expression of any of a list of texts, or of a mapping text -> weight (above 0); a list has weights 1.

    A text is a sequence of symbols separated by blanks, or of characters, by how the expression is compiled. A
    BackgroundError if there is no text.

        words({"new york": 2.0, "boston": 1.0})
    """
    entries = texts.items() if isinstance(texts, Mapping) else ((text, 1.0) for text in texts)
    found = tuple(sorted((text, float(weight)) for text, weight in dict(entries).items()))
    for _, weight in found:
        _check_factor(weight)
    if not found:
        raise BackgroundError("a list of words must hold at least one word, found none")
    return Listed(found)


def from_condition(function: Callable[[object], Expression | None]) -> Expression:
    """Return an expression that is computed from the condition of each text (the input that a text is generated from).

    `function(condition)` returns an expression, or None if nothing is allowed.

        from_condition(lambda condition: words(condition["names"]))
    """
    if not callable(function):
        raise BackgroundError(f"from_condition takes a function of the condition, found {function!r}")
    return ConditionExpression(function)


def parts_of(expression: Expression) -> Iterator[Expression]:
    """Yield an expression and all its sub-expressions, at every depth, the expression first.

    Each comes before its own sub-expressions, of which the last comes first.
    """
    stack = [expression]
    while stack:
        yield (found := stack.pop())
        stack += found.inner


def holes_of(expression: Expression) -> tuple[ConditionExpression, ...]:
    """Return the sub-expressions that are computed from the condition (the input) of a text, each once; () for none.

    They are in a fixed order, that of `parts_of`.
    """
    return tuple(dict.fromkeys(part for part in parts_of(expression) if isinstance(part, ConditionExpression)))


def _check_factor(value: float) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise BackgroundError(f"a weight must be above 0 and finite, found {value}")


def _checked(found: object) -> Expression:
    if not isinstance(found, Expression):
        raise BackgroundError(f"expressions are combined with expressions, found {found!r}; for a word: letter('word')")
    return found


def _parts(found: object, of: type[Concatenation | Alternation]) -> tuple[Expression, ...]:
    """Return the parts of `found` if it is of the class `of`, else (found,), so that a + b + c is not nested.

    of          Concatenation or Alternation

    A BackgroundError if `found` is no expression.
    """
    checked = _checked(found)
    return checked.parts if isinstance(checked, of) else (checked,)


LONGEST_SHOWN, DEEPEST_SHOWN = 60, 6


def shown(expression: Expression) -> str:
    """Return an expression as text for messages, such as `(big | small)* cat`, of 60 characters at most.

    A longer text is cut to 56 and " ..."; what is nested too deep is written "...".
    """
    text = _text(expression, DEEPEST_SHOWN)
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 4] + " ..."


def _text(expression: Expression, depth: int) -> str:
    if depth == 0:
        return "..."
    match expression:
        case One(atom):
            return str(atom)
        case Concatenation(parts):
            return " ".join(_text(part, depth - 1) for part in parts[:LONGEST_SHOWN]) or "()"
        case Alternation(parts):
            return f"({' | '.join(_text(part, depth - 1) for part in parts[:LONGEST_SHOWN])})"
        case Repeat(part, again):
            return f"({_text(part, depth - 1)})*" + (f"<{again:g}>" if again != 1.0 else "")
        case Times(part, least, most):
            return f"({_text(part, depth - 1)}){{{least},{most}}}"
        case WeightedExpression(part, factor):
            return f"({_text(part, depth - 1)})<{factor:g}>"
        case Both(left, right):
            return f"({_text(left, depth - 1)} & {_text(right, depth - 1)})"
        case Listed(entries):
            return f"words({', '.join(repr(text) for text, _ in entries[:2])}{', ...' * (len(entries) > 2)})"
        case ConditionExpression(function):
            return f"from_condition({getattr(function, '__name__', '...')})"
    raise TypeError(f"no expression: {expression!r}")


_BEFORE = -1  # the state before the first move of a part
_Move: TypeAlias = tuple[tuple[int, ...], int, float]  # columns, target, log weight


def atoms_of(expression: Expression, over: Over) -> list[Atom]:
    """Return the sets of letters that an expression mentions, each once, in a fixed order (that of `parts_of`).

    Every letter of a list of words (`Listed`) is a set by itself.

    over        whether letters are "symbols" or "characters", by which lists of words are split
    """
    found: dict[Atom, None] = {}
    for part in parts_of(expression):
        match part:
            case One(atom):
                found[atom] = None
            case Listed(entries):
                letters = (letter for text, _ in entries for letter in (text if over == "characters" else text.split()))
                found.update((Letter(letter), None) for letter in dict.fromkeys(letters))
            case _:
                pass
    return list(found)


def columns_of(expression: Expression, letters: Sequence[str], over: Over) -> LetterColumns:
    """Return the partition of `letters` into columns: letters that the expression does not distinguish share one.

    letters     all letters that an automaton may read: symbols of the vocabulary, or characters
    over        which of the two: "symbols" or "characters"

    If the expression has parts that are computed from a condition (the input of a text), every letter has a column of
    its own.
    """
    if holes_of(expression):
        return LetterColumns(letters, [Letter(letter) for letter in letters], over)
    return LetterColumns(letters, atoms_of(expression, over), over)


def compiled(
    expression: Expression, columns: LetterColumns, *, weighted: bool = True, holes: Sequence[ConditionExpression] = ()
) -> WeightedAutomaton:
    """Compile an expression to a trimmed automaton without empty moves (Glushkov's construction).

    The automaton is trimmed: every state but perhaps the start is on a path from the start to an end. It accepts
    nothing (`is_empty`) where no string of the expression can be written with the letters of `columns`.

    columns     the partition of the letters, made of the same expression (`columns_of`)
    weighted    False: weights are ignored, every string of the language has weight 1
    holes       sub-expressions that a condition (input of a text) fills in; the i-th is read as a letter of column
                columns.count + i

    A BackgroundError if it becomes too large, or a part comes from the condition and is not in `holes`; an
    InfiniteMassError if a part that may be empty is repeated with a factor of 1 or more each time.
    """
    builder = _Builder(columns, weighted, {hole: columns.count + number for number, hole in enumerate(holes)})
    try:
        return builder.machine(builder.part(expression))
    except RecursionError:
        raise BackgroundError("an expression may be nested some hundred times, found more: nest less") from None


@dataclass
class _Fragment:
    """The automaton of a sub-expression under construction; its states belong to a `_Builder`.

    first       its first moves: (columns that are read, target state, log weight); columns are classes of letters
    stops       final state -> log weight of ending there
    empty       log weight of the empty string, −∞ if it is not accepted
    """

    first: list[_Move] = field(default_factory=list)
    stops: dict[int, float] = field(default_factory=dict)
    empty: float = NEVER


class _Builder:
    """Builder of an automaton from an expression: it holds all moves so far, and fragments refer to its states.

        builder = _Builder(columns, weighted, holes); automaton = builder.machine(builder.part(expression))

    columns     the partition of the letters into columns (classes of letters read alike)
    weighted    False: all weights are taken as 1
    holes       sub-expression that a condition (input of a text) fills in -> the column that is read in its place

    States are numbered from 0 while it builds; `machine` puts the start state before them, as state 0.
    """

    def __init__(self, columns: LetterColumns, weighted: bool, holes: dict[ConditionExpression, int]) -> None:
        self.columns, self.weighted, self.holes = columns, weighted, holes
        self.n_states, self.n_moves = 0, 0
        self.moves: list[tuple[int, tuple[int, ...], int, float]] = []

    def log(self, factor: float) -> float:
        return math.log(factor) if self.weighted else 0.0

    def plus(self, left: float, right: float) -> float:
        return log_add(left, right) if self.weighted else max(left, right)

    def state(self) -> int:
        self.n_states += 1
        return self.n_states - 1

    def move(self, source: int, columns: tuple[int, ...], target: int, log_weight: float) -> None:
        self.n_moves += len(columns)
        check_size(self.n_states, self.n_moves, "this expression")
        self.moves.append((source, columns, target, log_weight))

    def part(self, expression: Expression) -> _Fragment:
        match expression:
            case One(atom):
                return self.one(self.held(atom))
            case Concatenation(parts):
                return self.sequence([self.part(part) for part in parts])
            case Alternation(parts):
                return self.choice([self.part(part) for part in parts])
            case Repeat(part, again):
                return self.repeated(self.part(part), self.log(again), expression)
            case Times(part, least, most):
                return self.times(part, least, most)
            case WeightedExpression(part, factor):
                whole, log_factor = self.part(part), self.log(factor)
                return _Fragment(_scaled(whole.first, log_factor), whole.stops, whole.empty + log_factor)
            case Both(left, right):
                return self.adopted(both(self.apart(left), self.apart(right)))
            case Listed(entries):
                return self.listed(entries)
            case ConditionExpression():
                if expression not in self.holes:
                    raise BackgroundError(
                        "what comes from the condition is known when a condition is: Conditional compiles it"
                    )
                return self.one((self.holes[expression],))
        raise TypeError(f"no expression: {expression!r}")

    def held(self, atom: Atom) -> tuple[int, ...]:
        columns = self.columns.held(atom)
        if isinstance(atom, Letter) and any(self.columns.sizes[column] != 1 for column in columns):
            raise BackgroundError(
                f"{atom.text!r} must have a column of its own, found one that it shares; "
                "make the columns of the same expression: columns_of(expression, letters, over)"
            )
        return columns

    def one(self, columns: tuple[int, ...]) -> _Fragment:
        after = self.state()
        return _Fragment([(columns, after, 0.0)] if columns else [], {after: 0.0})

    def choice(self, parts: Iterable[_Fragment]) -> _Fragment:
        whole = _Fragment()
        for part in parts:
            whole.first += part.first
            whole.stops |= part.stops
            whole.empty = self.plus(whole.empty, part.empty)
        return whole

    def sequence(self, parts: Sequence[_Fragment]) -> _Fragment:
        """Return the fragment (unfinished automaton) of the concatenation of `parts`, in order; () is the empty string.

        The moves between parts are added to the builder, so that a part must not be used again.
        """
        whole = _Fragment(empty=0.0)
        for part in reversed(parts):
            whole = self.joined(part, whole)
        return whole

    def joined(self, part: _Fragment, rest: _Fragment) -> _Fragment:
        self.attach(part.stops, rest.first)
        first = part.first + _scaled(rest.first, part.empty)
        stops = rest.stops | {state: log + rest.empty for state, log in part.stops.items() if rest.empty > NEVER}
        return _Fragment(first, stops, part.empty + rest.empty)

    def attach(self, stops: dict[int, float], first: Sequence[_Move]) -> None:
        for state, log_stop in stops.items():
            for columns, target, log_weight in first:
                self.move(state, columns, target, log_stop + log_weight)

    def repeated(self, part: _Fragment, log_again: float, expression: Expression) -> _Fragment:
        nothing = log_again + part.empty
        if self.weighted and nothing >= 0.0:
            raise InfiniteMassError(
                f"{shown(expression)} may repeat nothing for ever, with a factor of {math.exp(nothing):.6g} each time"
            )
        log_c = -math.log1p(-math.exp(nothing)) if self.weighted else 0.0
        first = _scaled(part.first, log_again + log_c)
        self.attach(part.stops, first)
        return _Fragment(first, {state: log + log_c for state, log in part.stops.items()}, log_c)

    def times(self, expression: Expression, least: int, most: int) -> _Fragment:
        """Return the fragment (unfinished automaton) of `expression` repeated from `least` to `most` times.

        Both are included; a string that several numbers of repeats give has the sum of its weights.
        """
        whole = _Fragment(empty=0.0)
        for time in range(most, 0, -1):
            whole = self.joined(self.part(expression), whole)
            if time > least:
                whole.empty = self.plus(whole.empty, 0.0)
        return whole

    def listed(self, entries: Sequence[tuple[str, float]]) -> _Fragment:
        """Return the fragment (unfinished automaton) of a list of (text, weight): a trie with one final state.

        Texts with a letter that `self.columns` does not have are left out; repeated texts have the sum of their
        weights.
        """
        end, whole, below = self.state(), _Fragment(), dict[tuple[int, int], int]()
        whole.stops[end] = 0.0
        spelled = [self.columns.spelled(text) for text, _ in entries]
        held = {letter: self.held(Letter(letter)) for letter in {letter for text in spelled for letter in text}}
        for text, (_, weight) in zip(spelled, entries, strict=True):
            letters = [held[letter] for letter in text]
            if not all(letters):  # a letter that is none here: no string over these letters is this text
                continue
            if not letters:
                whole.empty = self.plus(whole.empty, self.log(weight))
                continue
            node = _BEFORE
            for columns in letters[:-1]:
                key = (node, columns[0])
                if key not in below:
                    below[key] = self.state()
                    self.begin(whole, node, columns, below[key], 0.0)
                node = below[key]
            self.begin(whole, node, letters[-1], end, self.log(weight))
        return whole

    def begin(self, part: _Fragment, source: int, columns: tuple[int, ...], target: int, log_weight: float) -> None:
        """Add a move from the state `source` to `target`; if `source` is -1, make it a first move of `part` instead.

        columns     the columns (classes of letters) that the move reads
        log_weight  of the move
        """
        if source == _BEFORE:
            part.first.append((columns, target, log_weight))
        else:
            self.move(source, columns, target, log_weight)

    def apart(self, expression: Expression) -> WeightedAutomaton:
        own = _Builder(self.columns, self.weighted, self.holes)
        return own.machine(own.part(expression))

    def adopted(self, machine: WeightedAutomaton) -> _Fragment:
        """Copy a compiled automaton into this builder and return it as a fragment (unfinished automaton).

        The moves of its start state become the fragment's first moves.
        """
        offset = self.n_states - 1
        self.n_states += machine.n_states - 1
        part = _Fragment(empty=float(machine.log_stop[0]))
        for source, moves in enumerate(machine.by_state):
            for column, target, log_weight in moves:
                self.begin(part, source + offset if source else _BEFORE, (column,), target + offset, log_weight)
        stops = np.flatnonzero(machine.log_stop[1:] > NEVER) + 1
        part.stops = {int(state) + offset: float(machine.log_stop[state]) for state in stops}
        return part

    def machine(self, part: _Fragment) -> WeightedAutomaton:
        """Return the trimmed automaton of all moves so far, whose start (state 0) has the first moves of `part`.

        Trimmed: without states that are on no path from the start to an end.
        """
        for columns, target, log_weight in part.first:
            self.move(_BEFORE, columns, target, log_weight)
        many = np.array([len(columns) for _, columns, _, _ in self.moves], dtype=np.int64)
        column = np.fromiter((c for _, columns, _, _ in self.moves for c in columns), np.int64, int(many.sum()))
        source = np.array([move[0] + 1 for move in self.moves], dtype=np.int64).repeat(many)
        after = np.array([move[2] + 1 for move in self.moves], dtype=np.int64).repeat(many)
        logs = np.array([move[3] for move in self.moves], dtype=np.float64).repeat(many)
        log_stop = np.full(self.n_states + 1, NEVER)
        log_stop[0] = part.empty
        log_stop[[state + 1 for state in part.stops]] = list(part.stops.values())
        return merged(self.columns, (source, column, after, logs), log_stop, weighted=self.weighted).trimmed()


def _scaled(moves: Sequence[_Move], log_factor: float) -> list[_Move]:
    if log_factor == NEVER:
        return []
    return [(columns, target, log_weight + log_factor) for columns, target, log_weight in moves]
