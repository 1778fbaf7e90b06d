"""Expressions as plain data, for model folders: lists and numbers, and the arrays of n-gram models beside them.

restored(*described(expression)) == expression             but for n-gram models, which are equal in what they say
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from llrnn.ground.errors import BackgroundError, CheckpointError, LLRNNError
from llrnn.languages.grammars import expressions as ex
from llrnn.languages.grammars.expressions import Expression, parts_of
from llrnn.languages.grammars.language import Atom, Letter, OneOf
from llrnn.languages.grammars.patterns import MatchingLetter
from llrnn.languages.ngrams import store

_NAMES = {
    ex.Concatenation: "sequence",
    ex.Alternation: "choice",
    ex.Repeat: "repeat",
    ex.Times: "times",
    ex.WeightedExpression: "scaled",
    ex.Both: "both",
}
_MADE: dict[str, Callable[..., Expression]] = {
    "sequence": lambda *parts: ex.Concatenation(parts),
    "choice": lambda *parts: ex.Alternation(parts),
    "repeat": lambda part, again: part.repeated(again=again),
    "times": lambda part, least, most: part.times(least, most),
    "scaled": lambda part, factor: part.weighted(factor),
    "both": lambda left, right: left & right,
}


def can_be_saved(expression: Expression) -> bool:
    """Whether it is data through and through: functions of the condition are not."""
    return not any(isinstance(part, ex.ConditionExpression) for part in parts_of(expression))


def described(expression: Expression) -> tuple[list[Any], dict[str, Tensor]]:
    """What JSON can say, and tensors by name."""
    tensors: dict[str, Tensor] = {}
    return _plain(expression, tensors), tensors


def _plain(expression: Expression, tensors: dict[str, Tensor]) -> list[Any]:
    match expression:
        case ex.One(atom):
            return ["one", *_plain_atom(atom)]
        case ex.Listed(entries):
            return ["listed", *map(list, entries)]
        case ex.NGrams(table):
            plain, arrays = store.described(table)
            number = sum(name.endswith("context.0") for name in tensors)
            tensors.update((f"ngram{number}.{name}", array) for name, array in arrays.items())
            return ["ngrams", number, plain]
        case ex.ConditionExpression():
            raise BackgroundError("a function of the condition cannot be saved; give the background again at loading")
        case ex.Concatenation(parts) | ex.Alternation(parts):
            given = parts
        case _:
            given = tuple(vars(expression).values())
    return [_NAMES[type(expression)], *(_plain(g, tensors) if isinstance(g, Expression) else g for g in given)]


def _plain_atom(atom: Atom) -> list[Any]:
    match atom:
        case Letter(text):
            return ["letter", text]
        case MatchingLetter(regex):
            return ["matching", regex]
        case OneOf(ranges, categories, negated, flags):
            return ["one of", [list(span) for span in ranges], list(categories), negated, flags]
    raise TypeError(f"no letters: {atom!r}")


def restored(plain: list[Any], tensors: Mapping[str, Tensor]) -> Expression:
    """The inverse of `described`."""
    try:
        return _expression(plain, tensors)
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"a saved expression cannot be read ({error!r}); save it again") from error
    except LLRNNError as error:
        raise CheckpointError(f"a saved expression cannot be read: {error}") from error


def _expression(plain: list[Any], tensors: Mapping[str, Tensor]) -> Expression:
    kind, *given = plain
    match kind:
        case "one":
            return ex.One(_atom(given))
        case "listed":
            return ex.words(dict(given))
        case "ngrams":
            prefix = f"ngram{given[0]}."
            own = {name.removeprefix(prefix): array for name, array in tensors.items() if name.startswith(prefix)}
            return ex.ngram(store.table_from(given[1], own))
        case "sequence" | "choice" | "both":
            return _MADE[kind](*(_expression(part, tensors) for part in given))
    return _MADE[kind](_expression(given[0], tensors), *given[1:])


def _atom(given: list[Any]) -> Atom:
    match given:
        case ["letter", str(text)]:
            return Letter(text)
        case ["matching", str(regex)]:
            return MatchingLetter(regex)
        case ["one of", list(ranges), list(categories), bool(negated), *flags]:
            return OneOf(tuple((first, last) for first, last in ranges), tuple(categories), negated, *flags)
    raise ValueError(f"unknown kind of letters {given!r}")
