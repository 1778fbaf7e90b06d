"""A finite automaton as background: b(K, x) = 0 where x could not be completed to a string of a regular language.

    Automaton("the ( big | small )*<0.5> cat")                            over symbols, see `languages.symbolic`
    Automaton(r"[0-9]{4}(, [0-9]{4})*", over="characters", weighted=False)   as Python writes it, symbols spell strings
    Automaton(words(dictionary) & ngram(table), over="characters")        any expression of `languages.grammars`

With weights b(K, x) = p(x | prefix), where all that can still follow is counted in: a proper distribution over the
strings of the language. Without, b is 1 for what is allowed. `from_condition(function)` lets the condition have a say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from llrnn.ground.errors import BackgroundError
from llrnn.knowledge.backgrounds.constraint import Constraint
from llrnn.knowledge.process import Saved
from llrnn.languages.grammars.base import Language
from llrnn.languages.grammars.conditional import Conditional
from llrnn.languages.grammars.expressions import Expression, FromCondition, parts_of
from llrnn.languages.grammars.finite import Recent, finite
from llrnn.languages.grammars.letters import Over
from llrnn.languages.grammars.machine import columns_of
from llrnn.languages.grammars.regular import regular
from llrnn.languages.grammars.rows import Reader, Spelled, letters_of
from llrnn.languages.grammars.saving import can_be_saved, described, restored
from llrnn.languages.grammars.showing import shown
from llrnn.languages.grammars.symbolic import symbolic
from llrnn.text.vocabulary import Vocabulary


class Automaton(Constraint):
    """An expression as a background; a text is read by `symbolic`, or over characters by `regular`."""

    def __init__(
        self,
        expression: Expression | str,
        *,
        over: Over = "symbols",
        weighted: bool = True,
        violation: float = 0.0,
        longest: int | None = None,
        spelling: Mapping[str, str] | None = None,
    ) -> None:
        """`weighted`: probabilities rather than 1 and 0; `longest`: letters of a string.

        `spelling`: characters of symbols that stand for others, over characters; "␣" is a blank by default.
        """
        super().__init__(over=over, violation=violation, longest=longest, spelling=spelling)
        if isinstance(expression, str):
            expression = symbolic(expression) if over == "symbols" else regular(expression)
        if not isinstance(expression, Expression):
            raise BackgroundError(f"an automaton is made of an expression or a text, found {expression!r}")
        self.expression, self.weighted = expression, weighted
        self._readers: Recent[Language, Reader] | None = None
        self._languages: Conditional | Language | None = None

    def bind(self, vocabulary: Vocabulary) -> Self:
        bound = super().bind(vocabulary)
        symbols = [symbol for number, symbol in enumerate(vocabulary.symbols) if number != vocabulary.eos]
        columns = columns_of(self.expression, letters_of(symbols, self.over, self.spelling), self.over)
        spelled = Spelled(vocabulary.symbols, vocabulary.eos, columns, self.spelling)
        if any(isinstance(part, FromCondition) for part in parts_of(self.expression)):
            bound._languages = Conditional(self.expression, columns, weighted=self.weighted)
        else:
            bound._languages = finite(self.expression, columns, weighted=self.weighted)
        most = bound._languages.most_remembered if isinstance(bound._languages, Conditional) else 1
        bound._readers = Recent(lambda language: Reader(language, spelled, self.longest), most)
        return bound

    def _reader(self, condition: object) -> Reader:
        if self._readers is None or self._languages is None:
            raise BackgroundError(f"{self!r} must be bound to a vocabulary before it is used: .bind(vocabulary)")
        if isinstance(self._languages, Conditional):
            return self._readers[self._languages.language(condition)]
        return self._readers[self._languages]

    def saved(self) -> Saved:
        if not can_be_saved(self.expression):
            return super().saved()
        plain, tensors = described(self.expression)
        fields = {
            "expression": plain,
            "over": self.over,
            "weighted": self.weighted,
            "violation": self.violation,
            "longest": self.longest,
            "spelling": self.spelling,
        }
        return Saved("automaton", fields, tensors)

    @classmethod
    def restored(cls, saved: Saved) -> Automaton:
        """The inverse of `saved`."""
        fields = dict(saved.fields)
        return cls(restored(fields.pop("expression"), saved.tensors), **fields)

    def __repr__(self) -> str:
        soft = f", violation={self.violation}" if self.violation else ""
        return f"Automaton({shown(self.expression)}{'' if self.weighted else ', weighted=False'}{soft})"
