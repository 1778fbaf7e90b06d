"""Expressions as people write them, for messages: short, and cut where they are long."""

from __future__ import annotations

from llrnn.languages.grammars import expressions as ex
from llrnn.languages.grammars.expressions import Expression
from llrnn.languages.grammars.letters import Atom, Letter, Matching

_LONGEST = 60
_DEEPEST = 6


def shown(expression: Expression) -> str:
    """`(big | small)* cat`, as in `symbolic`; for people, not to be read back."""
    text = _text(expression, _DEEPEST)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 4] + " ..."


def _text(expression: Expression, depth: int) -> str:
    if depth == 0:
        return "..."
    match expression:
        case ex.One(atom):
            return _atom(atom)
        case ex.Sequence(parts):
            return _joined(parts, " ", depth) if parts else "()"
        case ex.Choice(parts):
            return f"({_joined(parts, ' | ', depth)})"
        case ex.Repeat(part, again):
            return f"({_text(part, depth - 1)})*" + (f"<{again:g}>" if again != 1.0 else "")
        case ex.Times(part, least, most):
            return f"({_text(part, depth - 1)}){{{least},{most}}}"
        case ex.Scaled(part, factor):
            return f"({_text(part, depth - 1)})<{factor:g}>"
        case ex.Both(left, right):
            return f"({_text(left, depth - 1)} & {_text(right, depth - 1)})"
        case ex.Listed(entries):
            return f"words({', '.join(repr(text) for text, _ in entries[:2])}{', ...' * (len(entries) > 2)})"
        case ex.NGrams(table):
            return f"ngram(order={table.order})"
        case ex.FromCondition(function):
            return f"from_condition({getattr(function, '__name__', '...')})"


def _joined(parts: tuple[Expression, ...], sign: str, depth: int) -> str:
    return sign.join(_text(part, depth - 1) for part in parts[:_LONGEST])


def _atom(atom: Atom) -> str:
    match atom:
        case Letter(text):
            return text if text.isalnum() else f'"{text}"'
        case Matching(regex):
            return f"/{regex}/"
        case _:
            spans = "".join(first if first == last else f"{first}-{last}" for first, last in atom.ranges)
            return f"[{'^' * atom.negated}{spans}{''.join(atom.categories)}]"
