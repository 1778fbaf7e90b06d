"""Languages that differ from condition to condition: what is the same for all is compiled once.

    text = token (" " token)*,   token = one of 3,000 words | a value of the condition

Without weights the dictionary is compiled once, with a hole for what comes from the condition (`holes`). With weights,
or where a hole stands within &, each condition is compiled by itself, which takes as long as all of it anew.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TypeAlias

from llrnn.ground.errors import BackgroundError
from llrnn.languages.grammars import expressions as ex
from llrnn.languages.grammars.base import Language
from llrnn.languages.grammars.expressions import Expression, FromCondition, parts_of
from llrnn.languages.grammars.finite import EmptyLanguageError, Recent, finite
from llrnn.languages.grammars.holes import Filled, Filling, WithHoles
from llrnn.languages.grammars.letters import Columns
from llrnn.languages.grammars.reasons import why_empty
from llrnn.languages.grammars.showing import shown

# languages that are remembered: the conditions of a corpus come again in every epoch, and what is shared is small
MOST_CONDITIONS, MOST_COMPILED = 4_000, 256

_NOTHING_FITS = ex.Choice(())
_Filled: TypeAlias = tuple[Expression, ...]


class Conditional:
    """An expression with parts that come from the condition; every letter must have a column of its own."""

    def __init__(self, expression: Expression, columns: Columns, *, weighted: bool = False) -> None:
        self.expression, self.columns, self.weighted = expression, columns, weighted
        self._holes = tuple(dict.fromkeys(part for part in parts_of(expression) if isinstance(part, FromCondition)))
        self.most_remembered = MOST_COMPILED if self._shared is None else MOST_CONDITIONS
        self._languages = Recent(self._made, self.most_remembered)
        self._fillings = Recent(self._filling, MOST_CONDITIONS)

    def language(self, condition: object) -> Language:
        """The language for a condition; the same object for conditions of which the functions make the same."""
        return self._languages[tuple(_asked(hole, condition) for hole in self._holes)]

    def _made(self, filled: _Filled) -> Language:
        try:
            if self._shared is None:
                return finite(self._substituted(self.expression, filled), self.columns, weighted=self.weighted)
            return Filled(self._shared, tuple(self._fillings[expression] for expression in filled))
        except EmptyLanguageError:
            given = ", ".join("nothing" if part == _NOTHING_FITS else shown(part) for part in filled)
            reason = why_empty(self._substituted(self.expression, filled), self.columns)
            raise EmptyLanguageError(
                f"the language of {shown(self.expression)} holds no string at all for a condition of which is made "
                f"{given}: {reason}"
            ) from None

    def _filling(self, expression: Expression) -> Filling:
        return Filling.of(expression, self.columns)

    @cached_property
    def _shared(self) -> WithHoles | None:
        """What all conditions have in common; nothing where every condition is compiled by itself."""
        sides = [
            side for part in parts_of(self.expression) if isinstance(part, ex.Both) for side in (part.left, part.right)
        ]
        if self.weighted or any(isinstance(part, FromCondition) for side in sides for part in parts_of(side)):
            return None
        return WithHoles(self.expression, self._holes, self.columns)

    def _substituted(self, expression: Expression, filled: _Filled) -> Expression:
        match expression:
            case FromCondition():
                return filled[self._holes.index(expression)]
            case ex.Sequence(parts) | ex.Choice(parts):
                return replace(expression, parts=tuple(self._substituted(part, filled) for part in parts))
            case ex.Repeat(part, _) | ex.Times(part, _, _) | ex.Scaled(part, _):
                return replace(expression, part=self._substituted(part, filled))
            case ex.Both(left, right):
                return ex.Both(self._substituted(left, filled), self._substituted(right, filled))
            case _:
                return expression


def _asked(hole: FromCondition, condition: object) -> Expression:
    found = hole.function(condition)
    if found is None:
        return _NOTHING_FITS
    if not isinstance(found, Expression) or any(isinstance(part, FromCondition) for part in parts_of(found)):
        raise BackgroundError(f"{shown(hole)} must give an expression, or None if nothing fits, found {found!r}")
    return found
