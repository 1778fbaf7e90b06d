"""A context-free grammar as background: b(K, x) = 0 where x could not be completed to a string of the grammar.

    Grammar("start: \"(\" start \")\" start | ")                          what is allowed, 1 or 0
    Grammar(text, weights={"sum": 0.2, "expr/2": 0.8})                    p(x | prefix): how probable a grammar finds it
    Expert(Grammar(text, violation=0.01), name="syntax")                  advice, as far as the network takes it

The notation is lark's (extra: grammar; see `languages.grammars.notation`). Over symbols a terminal is one symbol of the
vocabulary: a string in quotes is that symbol, a regular expression any symbol that matches it. Over characters symbols
spell strings, and terminals are strings, cut in any way that fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Self

from llrnn.ground.errors import BackgroundError
from llrnn.ground.files import read_file
from llrnn.knowledge.backgrounds.constraint import Constraint
from llrnn.knowledge.process import Saved
from llrnn.languages.grammars.context_free import ContextFree
from llrnn.languages.grammars.depth import limited
from llrnn.languages.grammars.letters import Columns, Over
from llrnn.languages.grammars.machine import atoms_of
from llrnn.languages.grammars.notation import read_grammar
from llrnn.languages.grammars.readings import expressions_of, readings_of
from llrnn.languages.grammars.rows import Reader, Spelled, letters_of
from llrnn.languages.grammars.rules import Rules
from llrnn.text.vocabulary import Vocabulary


class Grammar(Constraint):
    """A grammar; with `weights` of its alternatives (by alias, or rule/number), a proper distribution."""

    def __init__(
        self,
        text: str,
        *,
        over: Over = "symbols",
        start: str = "start",
        weights: Mapping[str, float] | None = None,
        violation: float = 0.0,
        longest: int | None = None,
        deepest: int | None = None,
        spelling: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> None:
        """`longest`: letters of a string; `deepest`: levels of rules within rules, see `languages.grammars.depth`.

        `spelling`: characters of symbols that stand for others, over characters; "␣" is a blank by default.
        """
        super().__init__(over=over, violation=violation, longest=longest, spelling=spelling)
        self._text, self._start, self._deepest = text, start, deepest
        self._weights = None if weights is None else dict(weights)
        self._name = name
        place = "the grammar" if name is None else name
        notation = read_grammar(text, start=start, weights=weights, place=place)
        self._notation = notation if deepest is None else limited(notation, deepest)
        self._expressions = expressions_of(self._notation.terminals, over)
        self._bound: Reader | None = None

    @classmethod
    def from_file(cls, path: str | PathLike[str], **settings: Any) -> Self:
        """A grammar from a text file, with the settings of `Grammar`."""
        try:
            text = read_file(path).decode("utf8")
        except (OSError, UnicodeDecodeError) as error:
            raise BackgroundError(f"{path}: a grammar in UTF-8 is required ({error})") from None
        return cls(text, **{"name": Path(path).name, **settings})

    def bind(self, vocabulary: Vocabulary) -> Self:
        bound = super().bind(vocabulary)
        symbols = [symbol for number, symbol in enumerate(vocabulary.symbols) if number != vocabulary.eos]
        letters = letters_of(symbols, self.over, self.spelling)
        atoms = [atom for one in self._expressions.values() for atom in atoms_of(one, self.over)]
        columns = Columns(letters, atoms, self.over)
        weighted = self._weights is not None
        readings = readings_of(self._expressions, columns, weighted=weighted)
        rules = Rules(self._notation, list(readings), weighted=weighted)
        language = ContextFree(rules, list(readings.values()), columns)
        spelled = Spelled(vocabulary.symbols, vocabulary.eos, columns, self.spelling)
        bound._bound = Reader(language, spelled, self.longest)
        return bound

    def _reader(self, condition: object) -> Reader:
        if self._bound is None:
            raise BackgroundError(f"{self!r} must be bound to a vocabulary before it is used: .bind(vocabulary)")
        return self._bound

    def saved(self) -> Saved:
        fields = {
            "text": self._text,
            "over": self.over,
            "start": self._start,
            "weights": self._weights,
            "violation": self.violation,
            "longest": self.longest,
            "deepest": self._deepest,
            "spelling": self.spelling,
            "name": self._name,
        }
        return Saved("grammar", fields)

    def __repr__(self) -> str:
        soft = f", violation={self.violation}" if self.violation else ""
        return f"Grammar({self._name or f'{len(self._notation.productions)} alternatives'}{soft})"
