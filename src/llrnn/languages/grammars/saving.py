"""Expressions as plain data, for model folders: lists and numbers, and the arrays of n-gram models beside them.

restored(*described(expression)) == expression             but for n-gram models, which are equal in what they say
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from llrnn.ground.errors import BackgroundError, CheckpointError, LLRNNError
from llrnn.languages.grammars import expressions as ex
from llrnn.languages.grammars.expressions import Expression, parts_of
from llrnn.languages.grammars.letters import Atom, Letter, Matching, OneOf
from llrnn.languages.ngrams.store import described as table_described
from llrnn.languages.ngrams.store import table_from

_Tensors = dict[str, Tensor]


def can_be_saved(expression: Expression) -> bool:
    """Whether it is data through and through: functions of the condition are not."""
    return not any(isinstance(part, ex.FromCondition) for part in parts_of(expression))


def described(expression: Expression) -> tuple[list[Any], _Tensors]:
    """What JSON can say, and tensors by name."""
    tensors: _Tensors = {}
    return _plain(expression, tensors), tensors


def _plain(expression: Expression, tensors: _Tensors) -> list[Any]:
    match expression:
        case ex.One(atom):
            return ["one", *_atom(atom)]
        case ex.Sequence(parts):
            return ["sequence", *(_plain(part, tensors) for part in parts)]
        case ex.Choice(parts):
            return ["choice", *(_plain(part, tensors) for part in parts)]
        case ex.Repeat(part, again):
            return ["repeat", _plain(part, tensors), again]
        case ex.Times(part, least, most):
            return ["times", _plain(part, tensors), least, most]
        case ex.Scaled(part, factor):
            return ["scaled", _plain(part, tensors), factor]
        case ex.Both(left, right):
            return ["both", _plain(left, tensors), _plain(right, tensors)]
        case ex.Listed(entries):
            return ["listed", *([text, weight] for text, weight in entries)]
        case ex.NGrams(table):
            plain, arrays = table_described(table)
            number = sum(name.endswith("context.0") for name in tensors)
            tensors.update((f"ngram{number}.{name}", array) for name, array in arrays.items())
            return ["ngrams", number, plain]
        case ex.FromCondition():
            raise BackgroundError("a function of the condition cannot be saved; give the background again at loading")


def _atom(atom: Atom) -> list[Any]:
    match atom:
        case Letter(text):
            return ["letter", text]
        case Matching(regex):
            return ["matching", regex]
        case OneOf(ranges, categories, negated):
            return ["one of", [list(span) for span in ranges], list(categories), negated]


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
            return ex.One(_restored_atom(given))
        case "sequence":
            return ex.Sequence(tuple(_expression(part, tensors) for part in given))
        case "choice":
            return ex.Choice(tuple(_expression(part, tensors) for part in given))
        case "repeat":
            return _expression(given[0], tensors).repeated(again=given[1])
        case "times":
            return _expression(given[0], tensors).times(given[1], given[2])
        case "scaled":
            return _expression(given[0], tensors).weighted(given[1])
        case "both":
            return _expression(given[0], tensors) & _expression(given[1], tensors)
        case "listed":
            return ex.words(dict(given))
        case "ngrams":
            own = {
                name.partition(".")[2]: array for name, array in tensors.items() if name.startswith(f"ngram{given[0]}.")
            }
            return ex.ngram(table_from(given[1], own))
    raise ValueError(f"unknown kind of expression {kind!r}")


def _restored_atom(given: list[Any]) -> Atom:
    match given:
        case ["letter", str(text)]:
            return Letter(text)
        case ["matching", str(regex)]:
            return Matching(regex)
        case ["one of", list(ranges), list(categories), bool(negated)]:
            return OneOf(tuple((first, last) for first, last in ranges), tuple(categories), negated)
    raise ValueError(f"unknown kind of letters {given!r}")
