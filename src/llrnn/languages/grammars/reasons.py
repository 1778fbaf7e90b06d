"""Why an expression is refused: which part of it holds no string, and which has infinite mass."""

from __future__ import annotations

from llrnn.ground.errors import BackgroundError
from llrnn.languages.grammars import expressions as ex
from llrnn.languages.grammars.backward import InfiniteMassError, backward
from llrnn.languages.grammars.expressions import Expression, parts_of
from llrnn.languages.grammars.letters import Columns
from llrnn.languages.grammars.machine import compiled
from llrnn.languages.grammars.showing import shown


def why_empty(expression: Expression, columns: Columns) -> str:
    """The innermost part that is to blame for an empty language."""
    match expression:
        case ex.One():
            return f"{shown(expression)} is none of the {len(columns.letters)} {_letters(columns)}"
        case ex.Listed(entries):
            return _why_unspelled(entries[0][0], columns)
        case ex.Sequence(parts):
            return next(why_empty(part, columns) for part in parts if _is_empty(part, columns))
        case ex.Choice(parts):
            return why_empty(parts[0], columns) if parts else "there is nothing to choose from"
        case ex.Times(part, _, _) | ex.Scaled(part, _) | ex.Repeat(part, _):
            return why_empty(part, columns)
        case ex.Both(left, right):
            return _why_disjoint(left, right, columns)
        case ex.NGrams():
            return f"{shown(expression)} lists none of the {len(columns.letters)} {_letters(columns)}"
        case ex.FromCondition():
            return "nothing in the condition fits"


def _why_unspelled(text: str, columns: Columns) -> str:
    other = next(letter for letter in columns.spelled(text) if columns.column(letter) < 0)
    one = "symbol" if columns.over == "symbols" else "character of a symbol"
    return f"a list of words of which the vocabulary spells none: {text!r} holds {other!r}, which is no {one}"


def _why_disjoint(left: Expression, right: Expression, columns: Columns) -> str:
    for side in (left, right):
        if _is_empty(side, columns):
            return why_empty(side, columns)
    return f"the two sides of & share no string: {shown(left)} and {shown(right)}"


def _is_empty(part: Expression, columns: Columns) -> bool:
    return compiled(part, columns, weighted=False).is_empty


def _letters(columns: Columns) -> str:
    return "symbols of the vocabulary" if columns.over == "symbols" else "characters of the vocabulary"


def what_is_infinite(expression: Expression, columns: Columns) -> str:
    """A message that names the smallest repeated part which has no finite sum by itself."""
    repeats = [part for part in parts_of(expression) if isinstance(part, ex.Repeat)]
    which = next((f"{shown(part)} " for part in reversed(repeats) if _is_infinite(part, columns)), "")
    return (
        f"the weights of all strings must have a finite sum, but what is repeated {which and f'in {which}'}does not "
        "lose weight: the factors of all letters that it holds add up to 1 or more; give a smaller one (again=0.5, "
        "*<0.5>), or weighted=False, which only says what is allowed"
    )


def _is_infinite(part: Expression, columns: Columns) -> bool:
    try:
        backward(compiled(part, columns))
    except InfiniteMassError:
        return True
    except BackgroundError:
        return False
    return False
