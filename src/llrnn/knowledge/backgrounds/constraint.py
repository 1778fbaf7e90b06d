"""Backgrounds that hold a text to a language: the common half of `Automaton` and `Grammar`.

    b(K, x) = weight of x after the prefix, in a language        0 for what no string of the language goes on with
    b(K, x) = violation                                          instead of 0, in a soft constraint

The end-of-sentence symbol is allowed where a string is whole, and begins the next one. In a soft constraint a symbol
that leaves the language costs the factor `violation`; then b = 1 until the sentence ends.

At a node the answer is a row over V, made once and cached with its class masses. Small vocabularies are answered
row by row; in large ones few allowed symbols are exceptions to nothing, and many are a table of their own.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Self, TypedDict, Unpack

import torch

from llrnn.ground.errors import BackgroundError, CheckpointError, CorpusError
from llrnn.knowledge.backgrounds.base import Background, Combined, Mixture
from llrnn.knowledge.process import Saved
from llrnn.languages.grammars import notation
from llrnn.languages.grammars.automaton import LetterColumns, Node, Over
from llrnn.languages.grammars.context_free import ContextFree
from llrnn.languages.grammars.expressions import (
    Expression,
    atoms_of,
    columns_of,
    from_condition,
    holes_of,
    letter,
    shown,
    words,
)
from llrnn.languages.grammars.finite import Conditional, finite
from llrnn.languages.grammars.rows import BLANK, Row, SymbolReader, SymbolSpellings, letters_of
from llrnn.layer.priors import MINUS_INFINITY, DensePrior, Exceptions, Prior, SparsePrior, Table
from llrnn.text.conditions import values_of
from llrnn.text.readers import read_lines
from llrnn.text.vocabulary import Revision, Vocabulary

_SMALL = 4_096  # symbols: rows of so many are written out
_FEW = 64  # allowed symbols that are listed one by one rather than made a table
_SHOWN = 8  # symbols that a message lists


class At(NamedTuple):
    """The state of a `Constraint` (prior that holds a text to a formal language): what of a sentence was read so far.

    `reader`: a `SymbolReader`, the language over the vocabulary's symbols; `node`: the node of that language's
    automaton or parser which the sentence has reached, None once the sentence has left the language; `left`: then (the
    state before, the id of the symbol by which it left), else None; `symbols`, `letters`: how many symbols were read,
    and how many letters they spell.
    """

    reader: SymbolReader
    node: Node | None
    symbols: int = 0  # read so far ...
    letters: int = 0  # ... and the letters that they spell
    left: tuple[At, int] | None = None


class HeldTo(TypedDict, total=False):
    """A dict of keyword options of all constraints (priors that hold a text to a formal language); all are optional.

    `violation`: b of a symbol that leaves the language, 0 to 1; `longest`: the most letters of a string, None for no
    limit; `spelling`: {character of a symbol: what it stands for}.
    """

    violation: float
    longest: int | None
    spelling: Mapping[str, str] | None


class Constraint(Background[At]):
    """Base class of backgrounds (priors over the next word) that hold a text to a formal language.

    b(K, x) is the weight that the language gives x after the words K of the sentence (1, or a probability in a weighted
    language), and `violation` (0 by default: forbidden) where no string of the language continues with x. EOS is
    allowed where a string is complete. Subclasses, `Automaton` and `Grammar`, implement `_readers()`.

    over        "symbols" or "characters": what a letter of the language is
    violation   b of a symbol that leaves the language, 0 to 1
    longest     the most letters of a string; None: no limit
    spelling    {character of a symbol: what it stands for}, over characters; None: "␣" is a blank
    """

    def __init__(
        self,
        *,
        over: Over = "symbols",
        violation: float = 0.0,
        longest: int | None = None,
        spelling: Mapping[str, str] | None = None,
    ) -> None:
        if over not in ("symbols", "characters"):
            raise BackgroundError(f"a language is over 'symbols' or 'characters', found {over!r}")
        if not 0.0 <= violation <= 1.0:
            raise BackgroundError(f"violation is the factor of what the language forbids, 0 to 1, found {violation}")
        if longest is not None and longest < 0:
            raise BackgroundError(f"longest is a number of letters, 0 or more, found {longest}")
        self.over, self.violation, self.longest = over, float(violation), longest
        self.spelling = {BLANK: " "} if spelling is None else dict(spelling)
        self._as_exceptions = violation > 0.0  # listing keeps the rest constant, as the features of an expert must be
        self._reader_for: _Readers | None = None  # `bind` makes it

    def bind(self, vocabulary: Vocabulary) -> Self:
        bound = super().bind(vocabulary)
        bound._reader_for = None
        bound._reader_for = _Readers(copy.copy(bound))
        return bound

    def _readers(self) -> Callable[[object], SymbolReader]:
        """Return a function condition -> `SymbolReader`, an object that reads the language of that condition.

        A `SymbolReader` gives, at each node of the language, log b of all symbols and the node after a symbol. The
        condition is the input that a text is generated from, or None. `bind` calls this method; subclasses implement
        it.
        """
        raise NotImplementedError

    def _letters(self, vocabulary: Vocabulary) -> list[str]:
        symbols = [symbol for number, symbol in enumerate(vocabulary.symbols) if number != vocabulary.eos]
        return letters_of(symbols, self.over, self.spelling)

    def as_expert(self) -> Self:
        """Return a copy whose `prior` is log `violation` on all symbols, with the allowed symbols' log b listed.

        The contextual feature `Expert` needs this form. The copy is bound if this one is.
        """
        found = copy.copy(self)  # the language is bound already, and need not be compiled again
        found._as_exceptions = True
        return found

    def revised(self, revision: Revision) -> Self:
        """Return the constraint bound to the new vocabulary; a new word is allowed where its spelling is.

        `revision`: a change of the vocabulary, of which only the new vocabulary is used.
        """
        return self.bind(revision.vocabulary)

    def initial(self, condition: object = None) -> At:
        if self._reader_for is None:
            raise self._unbound()
        reader = self._reader_for(condition)
        return At(reader, reader.language.root)

    def advance(self, state: At, symbol: int) -> At:
        reader, node, symbols, letters, _ = state
        if symbol == self.vocabulary.eos:
            return At(reader, reader.language.root)
        if node is None:
            return state
        after = reader.advance(node, symbol)
        if after is None or (self.longest is not None and reader.row(node, letters).log_b[symbol] == MINUS_INFINITY):
            return At(reader, None, symbols + 1, left=(state, symbol))
        return At(reader, after, symbols + 1, letters + reader.length(symbol))

    def allowed(self, state: At) -> list[str]:
        """Return the symbols that keep the sentence in the language at a state, in order of id; [] once it has left it.

        `state`: as `initial` and `advance` return it; "</s>" is among them where a string is complete.

        Example:

            constraint.allowed(constraint.initial())
        """
        row = self._row(state)
        return [] if row is None else [self.vocabulary.symbols[symbol] for symbol in row.allowed.tolist()]

    def prior(self, states: Sequence[At]) -> Prior:
        rows = [self._row(state) for state in states]
        if self._as_exceptions:
            return self._listed(rows)
        if len(self.vocabulary) <= _SMALL:
            nothing = _constant_table(MINUS_INFINITY, len(self.vocabulary)).log_b
            dense = [nothing if row is None else row.log_b for row in rows]
            return DensePrior(torch.stack(dense) if dense else nothing.new_zeros(0, len(nothing)))
        row = rows[0] if len(rows) == 1 else None
        if row is None:
            return self._of_rows(rows)
        if row.prior is None:  # cached with the row: decoding asks for it again and again
            row.prior = self._of_rows(rows) if row.n_allowed <= _FEW else row.table.everywhere()
        return row.prior

    def _row(self, state: At) -> Row | None:
        """Return log b of all V symbols at a state as a `Row`; None if the sentence has left the language.

        A `Row` has `log_b`, a tensor (V,), −∞ where a symbol is forbidden, and `allowed`, the ids of the other symbols.
        """
        return None if state.node is None else state.reader.row(state.node, state.letters)

    def _of_rows(self, rows: Sequence[Row | None]) -> SparsePrior:
        """Return the sparse prior of N positions from the allowed symbols of each.

        rows        for each position, log b of all symbols (a `Row`); None: no symbol is allowed there

        Where at most 64 symbols are allowed they are listed one by one, beside −∞ for all; each distinct other row
        becomes a table of the result. `violation` is not looked at.
        """
        nothing = _constant_table(MINUS_INFINITY, len(self.vocabulary))
        few = [row if row is not None and row.n_allowed <= _FEW else None for row in rows]
        own = [nothing if row is None or row is listed else row.table for row, listed in zip(rows, few, strict=True)]
        place = {table: k for k, table in enumerate(dict.fromkeys(own or [nothing]))}
        shift = torch.full((len(rows), len(place)), MINUS_INFINITY, dtype=torch.float64)
        shift[torch.arange(len(rows)), [place[table] for table in own]] = 0.0
        return SparsePrior(tuple(place), shift, _exceptions(few))

    def _listed(self, rows: Sequence[Row | None]) -> SparsePrior:
        """Return the sparse prior of N positions: log `violation` on all symbols, with the allowed ones listed.

        rows        for each position, log b of all symbols (`Row`); None: the sentence has left the language; log b
                    there is 0 on all symbols if `violation` is above 0, else −∞ on all
        """
        forbidden = math.log(self.violation) if self.violation else MINUS_INFINITY
        shift = [0.0 if row is None and self.violation else forbidden for row in rows]
        one = _constant_table(0.0, len(self.vocabulary))
        return SparsePrior((one,), torch.tensor(shift, dtype=torch.float64).view(-1, 1), _exceptions(rows))

    def _limits(self) -> dict[str, Any]:
        """Return {"violation": …, "longest": …, "spelling": …}, this constraint's options, for `saved`."""
        return {"violation": self.violation, "longest": self.longest, "spelling": self.spelling}

    @property
    def _softness(self) -> str:
        return f", violation={self.violation}" if self.violation else ""

    def objection(self, condition: object, symbols: Sequence[int]) -> str | None:
        """Return a message that says where a sentence leaves the language of this condition; None if it is in it.

        `condition`: the input that the sentence is generated from, or None; `symbols`: the sentence's ids without EOS,
        where an incomplete sentence is objected to at its end. None, too, if `violation` is above 0.
        """
        state = self.initial(condition)
        for symbol in symbols:
            state = self.advance(state, int(symbol))
        row = self._row(state)
        if row is not None and row.log_b[self.vocabulary.eos] == MINUS_INFINITY:
            state = At(state.reader, None, state.symbols + 1, left=(state, self.vocabulary.eos))
        return self.refusal(state)

    def refusal(self, state: At) -> str | None:
        """Return a message with the symbol by which the sentence left the language, and what was allowed there.

        It returns None if the sentence has not left the language at `state`, or if `violation` is above 0.
        """
        if state.left is None or self.violation:
            return None
        before, symbol = state.left
        could = self.allowed(before)
        shown = " ".join(could[:_SHOWN]) + (f" ... ({len(could)} symbols)" if len(could) > _SHOWN else "")
        return (
            f"{self.vocabulary.symbols[symbol]!r} at position {state.symbols} is outside the language of {self!r}, "
            f"which allows there: {shown}"
        )


@lru_cache(8)
def _constant_table(log_b: float, n_symbols: int) -> Table:
    """Return a table over `n_symbols` symbols with the value `log_b` for all, float64; cached."""
    return Table(torch.full((n_symbols,), log_b, dtype=torch.float64))


def _exceptions(rows: Sequence[Row | None]) -> Exceptions:
    """Return the allowed symbols of N positions with their log b, as `Exceptions` (position, word, log b), (E,) each.

    rows        for each position, log b of all symbols (a `Row`); None: no symbol of that position is listed

    Sorted by position, then by word; a word is the id of a symbol.
    """
    listed = [row for row in rows if row is not None]
    if not listed:
        return Exceptions.none()
    counts = torch.tensor([0 if row is None else len(row.allowed) for row in rows])
    words, log_b = zip(*((row.allowed, row.log_b[row.allowed]) for row in listed), strict=True)
    return Exceptions(torch.repeat_interleave(counts), torch.cat(words), torch.cat(log_b))


def _read_text(path: str | PathLike[str]) -> str:
    try:
        return "\n".join(text for _, text in read_lines(path))
    except CorpusError as error:
        raise BackgroundError(str(error)) from None


def constraints_of(background: Background) -> tuple[Constraint, ...]:
    """Return the constraints that every text must satisfy: the strict ones (violation 0) among a background's factors.

    A background is a prior over the next word. Parts of a mixture are not among them; the result is () if there are
    none.
    """
    if isinstance(background, Constraint):
        return () if background.violation else (background,)
    parts = background.parts if isinstance(background, Combined) and not isinstance(background, Mixture) else ()
    return tuple(constraint for part in parts for constraint in constraints_of(part))


class _Readers:
    """A callable condition (input of a text) -> `SymbolReader` of a bound constraint, the reader of its language.

    It is pickled as the constraint, without its caches. Use: `readers(condition)`, with None for a text without a
    condition. A `SymbolReader` gives, at each node of the language, log b of all symbols and the node after a symbol.
    """

    def __init__(self, constraint: Constraint) -> None:
        self._constraint, self._of = constraint, constraint._readers()

    def __call__(self, condition: object) -> SymbolReader:
        return self._of(condition)

    def __deepcopy__(self, memo: object) -> _Readers:
        return self  # a value: what it caches follows from what it is

    def __reduce__(self) -> tuple[type[_Readers], tuple[Constraint]]:
        return _Readers, (self._constraint,)


class Automaton(Constraint):
    """A prior over the next word that holds a text to a regular language: b(K, x) = 0 where no string of it begins K x.

        Automaton("the ( big | small )*<0.5> cat")                                  over symbols, a factor 0.5 each time
        Automaton(r"[0-9]{4}(, [0-9]{4})*", over="characters", weighted=False)      over the characters that they spell
        Automaton(words(dictionary).repeated(again=0.5), over="characters")         any expression of `llrnn.languages`

    expression  an expression of `languages.grammars`, or a text: read by `symbolic`, or over characters by `regular`;
                a part `from_condition(function)` depends on the condition, the input that the text is generated from
    over        "symbols" or "characters": what a letter of the language is
    weighted    True: b(K, x) = p(x | prefix) by the weights of the expression; False: 1 for what is allowed
    violation   b of a symbol that leaves the language, 0 to 1; above 0, b is 1 after it until the sentence ends
    longest     the most letters of a string; None: no limit
    spelling    {character of a symbol: what it stands for}, over characters; by default "␣" is a blank
    """

    def __init__(
        self, expression: Expression | str, *, over: Over = "symbols", weighted: bool = True, **held: Unpack[HeldTo]
    ) -> None:
        super().__init__(over=over, **held)
        if isinstance(expression, str):
            expression = notation.symbolic(expression) if over == "symbols" else notation.regular(expression)
        if not isinstance(expression, Expression):
            raise BackgroundError(f"an automaton is made of an expression or a text, found {expression!r}")
        self.expression, self.weighted = expression, weighted

    def _readers(self) -> Callable[[object], SymbolReader]:
        columns = columns_of(self.expression, self._letters(self.vocabulary), self.over)
        spelled = SymbolSpellings(self.vocabulary.symbols, self.vocabulary.eos, columns, self.spelling)
        if holes_of(self.expression):
            languages = Conditional(self.expression, columns, weighted=self.weighted)
            reader_of = lru_cache(languages.most_cached)(lambda one: SymbolReader(one, spelled, self.longest))
            return lambda condition: reader_of(languages.language(condition))
        reader = SymbolReader(finite(self.expression, columns, weighted=self.weighted), spelled, self.longest)
        return lambda condition: reader

    def saved(self) -> Saved:
        if holes_of(self.expression):  # functions cannot be saved
            return super().saved()
        plain = notation.described(self.expression)
        return Saved("automaton", {"expression": plain, "over": self.over, "weighted": self.weighted, **self._limits()})

    @classmethod
    def restored(cls, saved: Saved) -> Automaton:
        """Make the automaton from what its method `saved` returned, as `llrnn.load` does."""
        fields = dict(saved.fields)
        return cls(notation.restored(fields.pop("expression")), **fields)

    def __repr__(self) -> str:
        return f"Automaton({shown(self.expression)}{'' if self.weighted else ', weighted=False'}{self._softness})"


class Grammar(Constraint):
    """A prior over the next word that holds a text to a context-free grammar: b(K, x) = 0 if no string begins with K x.

        Grammar('start: "(" start ")" start |')                           what is allowed, 1 or 0
        Grammar(text, weights={"sum": 0.2, "expr/2": 0.8})                p(x | prefix): how probable a grammar finds it
        Expert(Grammar(text, violation=0.01), name="syntax")              advice, as far as the network takes it

    text        the grammar in lark's notation (extra: grammar; see `languages.grammars.notation`)
    over        "symbols": a terminal is one symbol, in quotes, or any that matches a regular expression; "characters":
                symbols spell strings, and terminals are strings, cut in any way that fits
    start       the rule to start from
    weights     {alternative: weight above 0}, an alternative by its alias or as rule/number from 1, all others having
                weight 1; then b = p(x | prefix), where weights are normalised to a distribution over strings. None: b
                is 1 or 0
    name        what messages call the grammar
    violation   b of a symbol that leaves the language, 0 to 1; above 0, b is 1 after it until the sentence ends
    longest     the most letters (symbols or characters) of a string; None: no limit
    spelling    {character of a symbol: what it stands for}, over characters; by default "␣" is a blank
    """

    def __init__(
        self,
        text: str,
        *,
        over: Over = "symbols",
        start: str = "start",
        weights: Mapping[str, float] | None = None,
        name: str | None = None,
        **held: Unpack[HeldTo],
    ) -> None:
        super().__init__(over=over, **held)
        self._text, self._start = text, start
        self._weights = None if weights is None else dict(weights)
        self._name = name
        place = "the grammar" if name is None else name
        self._notation = notation.read_grammar(text, start=start, weights=weights, place=place)
        terminals = self._notation.terminals
        self._expressions = {name: _terminal_expression(terminal, over, place) for name, terminal in terminals.items()}

    @classmethod
    def from_file(cls, path: str | PathLike[str], **settings: Any) -> Self:
        """Return the grammar in a text file; `settings`: keyword arguments of `Grammar`. It is named after the file.

        Raises a BackgroundError if the file cannot be read or is no grammar.

        Example:

            Grammar.from_file("query.lark", over="characters")
        """
        return cls(_read_text(path), **{"name": Path(path).name, **settings})

    def bind(self, vocabulary: Vocabulary) -> Self:
        try:
            return super().bind(vocabulary)
        except BackgroundError as error:
            raise BackgroundError(str(error) if self._name is None else f"{self._name}: {error}") from None

    def _readers(self) -> Callable[[object], SymbolReader]:
        atoms = [atom for one in self._expressions.values() for atom in atoms_of(one, self.over)]
        columns = LetterColumns(self._letters(self.vocabulary), atoms, self.over)
        language = ContextFree(self._notation, self._expressions, columns, weighted=self._weights is not None)
        spelled = SymbolSpellings(self.vocabulary.symbols, self.vocabulary.eos, columns, self.spelling)
        reader = SymbolReader(language, spelled, self.longest)
        return lambda condition: reader

    @property
    def state_key(self) -> object:
        """A hashable key, equal for grammars whose states are equal: same text and options, bound to one vocabulary.

        `violation` and `name` may differ. A model computes the states of equal keys once.
        """
        return Grammar, id(self.vocabulary), self._settings_key

    @cached_property  # asked at every step
    def _settings_key(self) -> str:
        fields = self.saved().fields
        return repr([fields[name] for name in sorted(fields.keys() - {"violation", "name"})])

    def saved(self) -> Saved:
        own = {"text": self._text, "over": self.over, "start": self._start, "weights": self._weights}
        return Saved("grammar", {**own, "name": self._name, **self._limits()})

    @classmethod
    def restored(cls, saved: Saved) -> Grammar:
        """Make the grammar from what its method `saved` returned; a CheckpointError for an option llrnn has dropped."""
        fields = dict(saved.fields)
        if fields.pop("deepest", None) is not None:
            raise CheckpointError("this llrnn has no grammar with deepest= any more; train with longest= instead")
        return cls(**fields)

    def __repr__(self) -> str:
        return f"Grammar({self._name or f'{len(self._notation.productions)} alternatives'}{self._softness})"


def _terminal_expression(terminal: notation.Terminal, over: Over, place: str) -> Expression:
    """Return the expression (of a formal language) that a terminal of a grammar matches.

    over        "symbols": the terminal matches one symbol of the vocabulary; "characters": a string of characters
    place       the name of the grammar, for errors

    Raises a BackgroundError if the terminal matches the empty string or cannot be parsed.
    """
    try:
        if not terminal.text or (not terminal.is_literal and notation.parsed(terminal.text)[2]):
            raise BackgroundError("it matches the empty string; make it optional in a rule instead")
        if terminal.is_literal:
            return letter(terminal.text) if over == "symbols" else words([terminal.text])
        return notation.matching(terminal.text) if over == "symbols" else notation.regular(terminal.text)
    except BackgroundError as error:
        raise BackgroundError(f"the terminal {terminal.name} of {place} cannot be read: {error}") from None


@dataclass(frozen=True)
class ValuesOf:
    """A function from a condition to an expression (of a formal language) that matches any one of its slot values.

    Use: `ValuesOf(slots)(condition)`. The condition is the input that a text is generated from. A value is matched
    character by character, its words joined by blanks; None is returned if the condition has no such value. `slots`:
    only values of these slots count; None: of all.
    """

    slots: frozenset[str] | None = None

    def __call__(self, condition: object) -> Expression | None:
        found = [value for value in values_of(condition) if self.slots is None or value.slot in self.slots]
        return words({" ".join(value.words) for value in found}) if found else None


class Dictionary(Automaton):
    """A prior over the next symbol: texts must be spelled as dictionary words and values of the condition.

        text = token (blank token)*            token = a word of the dictionary | a value of the condition, as a whole

        Dictionary(["is", "in", "the", "area", "of"])          b = 1 for what is allowed, 0 for all else
        Dictionary(listed, slots=["name", "phone"])            values of these slots only

    The condition is the input that the text is generated from. A name that is in no dictionary can be written only
    where the condition has it. The dictionary is compiled once for all conditions.

    listed      the words
    slots       the slots of the condition whose values may be written; None: all of them
    violation, longest, spelling: as explained in `Automaton`; `longest` is a number of characters
    """

    def __init__(self, listed: Iterable[str], *, slots: Collection[str] | None = None, **held: Unpack[HeldTo]) -> None:
        if isinstance(listed, str) or isinstance(slots, str):
            raise BackgroundError(f"Dictionary takes a list of words and a list of slots, found {listed!r}, {slots!r}")
        self.listed = tuple(sorted(set(listed)))
        self.slots = None if slots is None else frozenset(slots)
        strange = next((word for word in self.listed if word.split() != [word]), None)
        if strange is not None:
            raise BackgroundError(f"a word of a dictionary has no blank and is not empty, found {strange!r}")
        token = words(self.listed) | from_condition(ValuesOf(self.slots))
        text = token + (letter(" ") + token).repeated()
        super().__init__(text, over="characters", weighted=False, **held)

    @classmethod
    def from_file(cls, path: str | PathLike[str], **settings: Any) -> Self:
        """Return a `Dictionary` of the words of a text file, split at white space.

        `settings`: keyword arguments of `Dictionary`. Raises a BackgroundError if the file cannot be read.
        """
        return cls(_read_text(path).split(), **settings)

    def revised(self, revision: Revision) -> Self:
        raise BackgroundError(f"words need not be added to {self!r}: those of the condition can be spelled")

    def saved(self) -> Saved:
        slots = None if self.slots is None else sorted(self.slots)
        return Saved("dictionary", {"listed": list(self.listed), "slots": slots, **self._limits()})

    def __repr__(self) -> str:
        return f"Dictionary({len(self.listed)} words{self._softness})"
