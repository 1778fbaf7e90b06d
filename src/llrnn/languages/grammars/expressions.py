"""Expressions: what an automaton is made of, before it knows its vocabulary.

    a + b     one after the other          a | b     either              a & b     strings of both, weights multiplied
    a.repeated(again=0.5)                  any number of times, each for a factor
    a.weighted(0.3)                        every string of a, for a factor
    a.times(2, 5)                          from twice to five times
    words(["new york", "boston"])          a list, perhaps with weights
    ngram(table)                           all strings, as an n-gram model weighs them
    from_condition(function)               what a function makes of the condition, at each text anew

The weight of a string is the sum over all ways to read it, of the product of the factors on the way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from llrnn.ground.errors import BackgroundError
from llrnn.languages.grammars.language import Atom, Letter
from llrnn.languages.ngrams.table import NGramTable, written_out

MOST_TIMES = 1_000  # of a part that is repeated from so often to so often


@dataclass(frozen=True)
class Expression:
    """A set of weighted strings. Parts are in fields: `parts`, a tuple, or one field each."""

    def __add__(self, other: Expression) -> Expression:
        return Concatenation((*_parts(self, Concatenation), *_parts(other, Concatenation)))

    def __or__(self, other: Expression) -> Expression:
        return Alternation((*_parts(self, Alternation), *_parts(other, Alternation)))

    def __and__(self, other: Expression) -> Expression:
        return Both(self, _checked(other))

    def repeated(self, *, again: float = 1.0) -> Expression:
        """Any number of times, none at all included; `again` is the factor of each time."""
        return Repeat(self, again)

    def times(self, least: int, most: int | None = None) -> Expression:
        """From so often to so often; exactly so often if only one number is given."""
        return Times(self, least, least if most is None else most)

    def weighted(self, factor: float) -> Expression:
        """The same strings, for a factor."""
        return WeightedExpression(self, factor)

    def optional(self) -> Expression:
        return Alternation((self, NOTHING))

    @property
    def inner(self) -> tuple[Expression, ...]:
        """The parts that it is made of."""
        given = vars(self)
        return given["parts"] if "parts" in given else tuple(v for v in given.values() if isinstance(v, Expression))

    def mapped(self, function: Callable[[Expression], Expression]) -> Expression:
        """The same expression of other parts."""
        made = iter([function(part) for part in self.inner])
        if isinstance(self, Concatenation | Alternation):
            return type(self)(tuple(made))
        return replace(self, **{name: next(made) for name, v in vars(self).items() if isinstance(v, Expression)})


@dataclass(frozen=True)
class One(Expression):
    """One letter out of those that an atom holds."""

    atom: Atom


@dataclass(frozen=True)
class Concatenation(Expression):
    """One after the other; nothing at all if there are no parts."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Alternation(Expression):
    """Any of them; the weights of a string that several hold are added."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Repeat(Expression):
    """Any number of times."""

    part: Expression
    again: float

    def __post_init__(self) -> None:
        _check_factor(self.again)


@dataclass(frozen=True)
class Times(Expression):
    """From so often to so often. (Optional parts in a row would be read in many ways, each of which counts.)"""

    part: Expression
    least: int
    most: int

    def __post_init__(self) -> None:
        if not 0 <= self.least <= self.most <= MOST_TIMES:
            found = f"found {self.least} and {self.most}"
            raise BackgroundError(f"times takes two numbers, 0 ≤ least ≤ most ≤ {MOST_TIMES}, {found}")


@dataclass(frozen=True)
class WeightedExpression(Expression):
    """For a factor."""

    part: Expression
    factor: float

    def __post_init__(self) -> None:
        _check_factor(self.factor)


@dataclass(frozen=True)
class Both(Expression):
    """The strings of both, with the product of their weights."""

    left: Expression
    right: Expression


@dataclass(frozen=True)
class Listed(Expression):
    """A list of texts with weights; a text is read as its words or its characters, as the automaton does."""

    entries: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class NGrams(Expression):
    """All strings, as an n-gram model over the letters weighs them."""

    table: NGramTable


@dataclass(frozen=True)
class ConditionExpression(Expression):
    """What a function makes of the condition; None if nothing fits."""

    function: Callable[[object], Expression | None]


NOTHING: Expression = Concatenation(())


def letter(text: str) -> Expression:
    """This one letter, a symbol or a character: `letter("the") + (letter("cat") | letter("dog"))`."""
    return One(Letter(text))


def words(texts: Iterable[str] | Mapping[str, float]) -> Expression:
    """Any text of a list, or of a mapping text -> weight: `words({"new york": 2.0, "boston": 1.0})`."""
    entries = texts.items() if isinstance(texts, Mapping) else ((text, 1.0) for text in texts)
    found = tuple(sorted((text, float(weight)) for text, weight in dict(entries).items()))
    for _, weight in found:
        _check_factor(weight)
    if not found:
        raise BackgroundError("a list of words must hold at least one word, found none")
    return Listed(found)


def ngram(table: NGramTable) -> Expression:
    """All strings over the letters that an n-gram model lists: `NGram.from_path(...).table`, `ngrams.estimate(...)`."""
    if not isinstance(table, NGramTable):
        raise BackgroundError(f"ngram takes an NGramTable (NGram.from_path(...).table), found {table!r}")
    return NGrams(written_out(table))


def from_condition(function: Callable[[object], Expression | None]) -> Expression:
    """What a function makes of the condition, at each text anew: `from_condition(lambda condition: words(condition))`.

    `function(condition)` gives an expression, or None if nothing fits.
    """
    if not callable(function):
        raise BackgroundError(f"from_condition takes a function of the condition, found {function!r}")
    return ConditionExpression(function)


def parts_of(expression: Expression) -> Iterator[Expression]:
    """The expression and all that it is made of."""
    stack = [expression]
    while stack:
        yield (found := stack.pop())
        stack += found.inner


def holes_of(expression: Expression) -> tuple[ConditionExpression, ...]:
    """What comes from the condition, each once."""
    return tuple(dict.fromkeys(part for part in parts_of(expression) if isinstance(part, ConditionExpression)))


def _check_factor(value: float) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise BackgroundError(f"a weight must be above 0 and finite, found {value}")


def _checked(found: object) -> Expression:
    if not isinstance(found, Expression):
        raise BackgroundError(f"expressions are combined with expressions, found {found!r}; for a word: letter('word')")
    return found


def _parts(found: object, of: type[Concatenation | Alternation]) -> tuple[Expression, ...]:
    """The parts, so that a + b + c + ... does not nest as deep as it is long."""
    checked = _checked(found)
    return checked.parts if isinstance(checked, of) else (checked,)


LONGEST_SHOWN, DEEPEST_SHOWN = 60, 6


def shown(expression: Expression) -> str:
    """`(big | small)* cat`, as in `symbolic`; for messages, cut where it is long, and not to be read back."""
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
        case NGrams(table):
            return f"ngram(order={table.order})"
        case ConditionExpression(function):
            return f"from_condition({getattr(function, '__name__', '...')})"
    raise TypeError(f"no expression: {expression!r}")
