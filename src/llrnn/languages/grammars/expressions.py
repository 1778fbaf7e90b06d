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
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from re import _constants
from typing import Any, NamedTuple, NoReturn, TypeAlias

from llrnn.ground.errors import BackgroundError
from llrnn.languages.grammars.language import Atom, Letter, MatchingLetter, OneOf
from llrnn.languages.grammars.matcher import Code, matcher, members, parsed, refused, refused_code, written
from llrnn.languages.ngrams import NGramTable, written_out

MOST_TIMES = 1_000  # of a part that is repeated from so often to so often


class _Operators:
    """What can be done with any expression."""

    def __add__(self, other: Expression) -> Expression:
        return Concatenation((*_sequence(self), *_sequence(other)))

    def __or__(self, other: Expression) -> Expression:
        return Alternation((*_choice(self), *_choice(other)))

    def __and__(self, other: Expression) -> Expression:
        return Both(_checked(self), _checked(other))

    def repeated(self, *, again: float = 1.0) -> Expression:
        """Any number of times, none at all included; `again` is the factor of each time."""
        return Repeat(_checked(self), _factor(again))

    def times(self, least: int, most: int | None = None) -> Expression:
        """From so often to so often; exactly so often if only one number is given."""
        return Times(_checked(self), *_bounds(least, least if most is None else most))

    def weighted(self, factor: float) -> Expression:
        """The same strings, for a factor."""
        return WeightedExpression(_checked(self), _factor(factor))

    def optional(self) -> Expression:
        return Alternation((_checked(self), NOTHING))


@dataclass(frozen=True)
class One(_Operators):
    """One letter out of those that an atom holds."""

    atom: Atom


@dataclass(frozen=True)
class Concatenation(_Operators):
    """One after the other; nothing at all if there are no parts."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Alternation(_Operators):
    """Any of them; the weights of a string that several hold are added."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Repeat(_Operators):
    """Any number of times."""

    part: Expression
    again: float


@dataclass(frozen=True)
class Times(_Operators):
    """From so often to so often. (Optional parts in a row would be read in many ways, each of which counts.)"""

    part: Expression
    least: int
    most: int


@dataclass(frozen=True)
class WeightedExpression(_Operators):
    """For a factor."""

    part: Expression
    factor: float


@dataclass(frozen=True)
class Both(_Operators):
    """The strings of both, with the product of their weights."""

    left: Expression
    right: Expression


@dataclass(frozen=True)
class Listed(_Operators):
    """A list of texts with weights; a text is read as its words or its characters, as the automaton does."""

    entries: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class NGrams(_Operators):
    """All strings, as an n-gram model over the letters weighs them."""

    table: NGramTable


@dataclass(frozen=True)
class ConditionExpression(_Operators):
    """What a function makes of the condition; None if nothing fits."""

    function: Callable[[object], Expression | None]


Expression: TypeAlias = (
    One
    | Concatenation
    | Alternation
    | Repeat
    | Times
    | WeightedExpression
    | Both
    | Listed
    | NGrams
    | ConditionExpression
)
NOTHING: Expression = Concatenation(())


def letter(text: str) -> Expression:
    """This one letter: a symbol, or a character."""
    return One(Letter(text))


def matching(regex: str) -> Expression:
    """One letter that matches a regular expression of Python's: `matching("[a-z]+")` is any small word."""
    matcher(regex)  # what is wrong, or no regular language, is refused here
    return One(MatchingLetter(regex))


def words(texts: Iterable[str] | Mapping[str, float]) -> Expression:
    """Any text of a list, or of a mapping text -> weight."""
    entries = texts.items() if isinstance(texts, Mapping) else ((text, 1.0) for text in texts)
    found = tuple(sorted((text, _factor(weight)) for text, weight in dict(entries).items()))
    if not found:
        raise BackgroundError("a list of words must hold at least one word, found none")
    return Listed(found)


def ngram(table: NGramTable) -> Expression:
    """All strings over the letters that an n-gram model lists: `NGram.from_path(...).table`, `ngrams.estimate(...)`."""
    if not isinstance(table, NGramTable):
        raise BackgroundError(f"ngram takes an NGramTable (NGram.from_path(...).table), found {table!r}")
    return NGrams(written_out(table))


def from_condition(function: Callable[[object], Expression | None]) -> Expression:
    """Where the condition has a say: `function(condition)` gives an expression, or None if nothing fits."""
    if not callable(function):
        raise BackgroundError(f"from_condition takes a function of the condition, found {function!r}")
    return ConditionExpression(function)


def parts_of(expression: Expression) -> Iterator[Expression]:
    """The expression and all that it is made of."""
    stack = [expression]
    while stack:
        found = stack.pop()
        yield found
        match found:
            case Concatenation(parts) | Alternation(parts):
                stack += parts
            case Repeat(part, _) | WeightedExpression(part, _) | Times(part, _, _):
                stack.append(part)
            case Both(left, right):
                stack += [left, right]
            case One() | Listed() | NGrams() | ConditionExpression():
                pass


def _factor(value: float) -> float:
    if not (value > 0 and math.isfinite(value)):
        raise BackgroundError(f"a weight must be above 0 and finite, found {value}")
    return float(value)


def _bounds(least: int, most: int) -> tuple[int, int]:
    if not 0 <= least <= most <= MOST_TIMES:
        raise BackgroundError(f"times takes two numbers, 0 ≤ least ≤ most ≤ {MOST_TIMES}, found {least} and {most}")
    return least, most


def _sequence(found: object) -> tuple[Expression, ...]:
    """The parts of a sequence, so that a + b + c + ... does not nest as deep as it is long."""
    checked = _checked(found)
    return checked.parts if isinstance(checked, Concatenation) else (checked,)


def _choice(found: object) -> tuple[Expression, ...]:
    checked = _checked(found)
    return checked.parts if isinstance(checked, Alternation) else (checked,)


def _checked(found: object) -> Expression:
    if not isinstance(found, Expression):
        raise BackgroundError(f"expressions are combined with expressions, found {found!r}; for a word: letter('word')")
    return found


# Regular expressions of Python's, over characters, as expressions.
#
#   a  \.  \x41    the character                x|y  (x)  (?:x)  (?P<name>x)         groups, which name nothing here
#     .  [a-z]  [^a]   one of these, or not           x*  x+  x?  x{2}  x{2,}  x{2,5}      greedy or not is the same
#     \d  \s  \w  \D   as in Python                   (?i) (?s) (?a) (?x)  (?i:x)          flags
#
# The text is read by Python's own parser, so that it means what it means there, of whole strings. What is no regular
# language, or looks around, is refused: anchors, look-ahead and -behind, back-references, what does not give back.


MOST_CHARACTERS = 100_000  # what a text is, when all that is repeated is written out


def regular(text: str) -> Expression:
    """The strings that match as a whole."""
    codes, flags, _ = parsed(text)
    return _Translator(text).sequence(codes, flags)[0]


class _Translator:
    """From the parser's codes to expressions, each with its size, so that what is too large is never made."""

    def __init__(self, text: str) -> None:
        self.text = text

    def refuse(self, reason: str) -> BackgroundError:
        return refused(self.text, reason)

    def sequence(self, codes: Code, flags: int) -> tuple[Expression, int]:
        parts = [self.one(str(name), given, flags) for name, given in codes]
        size = sum(size for _, size in parts)
        self.check(size)
        return (parts[0][0] if len(parts) == 1 else Concatenation(tuple(part for part, _ in parts))), size

    def check(self, size: int) -> None:
        if size > MOST_CHARACTERS:
            raise self.refuse(
                f"with all repeats written out it has more than {MOST_CHARACTERS:,} characters; repeat or nest less"
            )

    def one(self, name: str, given: Any, flags: int) -> tuple[Expression, int]:
        match name:
            case "LITERAL" | "NOT_LITERAL" | "IN" | "ANY":
                return One(_atom(name, given, flags)), 1
            case "BRANCH":
                parts = [self.sequence(list(branch), flags) for branch in given[1]]
                return Alternation(tuple(part for part, _ in parts)), sum(size for _, size in parts)
            case "SUBPATTERN":
                _, added, removed, codes = given
                return self.sequence(list(codes), (flags | added) & ~removed)
            case "MAX_REPEAT" | "MIN_REPEAT":
                least, most, codes = given
                return self.repeated(*self.sequence(list(codes), flags), int(least), most)
        raise refused_code(self.text, name)

    def repeated(self, part: Expression, size: int, least: int, most: Any) -> tuple[Expression, int]:
        endless = most is _constants.MAXREPEAT
        written = least if endless else int(most)
        if written > MOST_TIMES:
            raise self.refuse(f"{{{least},{most}}} repeats more than {MOST_TIMES:,} times")
        if not endless:
            return Times(part, least, written), size * written
        again = Repeat(part, 1.0)
        return (Concatenation((Times(part, least, least), again)) if least else again), size * (least + 1)


def _atom(name: str, given: Any, flags: int) -> Atom:
    """What one character may be. Flags that change what classes hold are left to Python, character by character."""
    if name == "ANY":
        return OneOf((), (), True) if flags & re.DOTALL else OneOf((("\n", "\n"),), (), True)
    if flags & (re.IGNORECASE | re.ASCII):
        return MatchingLetter(written(name, given, flags & ~re.DOTALL))
    if name == "LITERAL":
        return Letter(chr(given))
    if name == "NOT_LITERAL":
        return OneOf(((chr(given), chr(given)),), (), True)
    ranges, categories, negated = members(given)
    return OneOf(tuple(ranges), tuple(categories), negated)


# Regular expressions over symbols, which stand between blanks.
#
# the ( big | small )* /[a-z]+/ cat
#
# word  "("  "C++"    a symbol; in quotes where it holds one of ( ) | * + ? or begins with " or /    (\" \\ in quotes)
# /[0-9]+/              one symbol that matches a regular expression of Python's as a whole              (\/ within)
# x y   x | y   ( x )   one after the other, either, a group; ( ) is nothing
# x*  x+  x?            any number of times, once or more, once or not
# x <0.3>               for a factor
# x*<0.5>  x+<0.5>      each time, or each further time, for a factor; x?<0.5>: for a factor if it is there


DEEPEST = 100  # groups within groups
_WEIGHT = r"<\s*[-+0-9.][-+0-9.eE]*\s*>"
_TOKENS = re.compile(
    rf"""(?P<blank>\s+)
    | (?P<sign>[()|*+?])
    | (?P<weight>{_WEIGHT})
    | (?P<quoted>"(?:[^"\\]|\\.)*")
    | (?P<regex>/(?:[^/\\]|\\.)*/)
    | (?P<word>[^\s()|*+?"/](?:(?!{_WEIGHT})[^\s()|*+?])*)""",
    re.VERBOSE | re.DOTALL,
)


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def symbolic(text: str) -> Expression:
    """The sequences of symbols that an expression describes."""
    parser = _Parser(text)
    if parser.next.kind == "end":
        parser.refuse('found nothing; write symbols, such as  the ( big | small )* cat,  or ( ) for "nothing"')
    found = parser.choice()
    if parser.next.kind != "end":
        parser.refuse("this ')' closes no group; for the symbol write \")\"")
    return found


class _Parser:
    """Recursive descent over tokens."""

    def __init__(self, text: str) -> None:
        self.text, self.place, self.depth = text, 0, 0
        self.tokens = [*self.read(), _Token("end", "", len(text))]

    def refuse(self, reason: str, at: int | None = None) -> NoReturn:
        column = (self.next.at if at is None else at) + 1
        raise BackgroundError(f"the expression {self.text!r} is wrong at column {column}: {reason}")

    def read(self) -> list[_Token]:
        found, at = list[_Token](), 0
        while at < len(self.text):
            match = _TOKENS.match(self.text, at)
            if match is None:
                self.refuse(f"this {self.text[at]} is not closed; for the sign itself write quotes around it", at)
            if match.lastgroup != "blank":
                found.append(_Token(str(match.lastgroup), match[0], at))
            at = match.end()
        return found

    @property
    def next(self) -> _Token:
        return self.tokens[self.place]

    def takes(self, *signs: str) -> str:
        """The next token, taken, if it is one of these signs; otherwise nothing."""
        if self.next.kind != "sign" or self.next.text not in signs:
            return ""
        self.place += 1
        return self.tokens[self.place - 1].text

    def choice(self) -> Expression:
        parts = [self.sequence()]
        while self.takes("|"):
            parts.append(self.sequence())
        return parts[0] if len(parts) == 1 else Alternation(tuple(parts))

    def sequence(self) -> Expression:
        parts = list[Expression]()
        while self.next.kind != "end" and not (self.next.kind == "sign" and self.next.text in "|)"):
            parts.append(self.item())
        return parts[0] if len(parts) == 1 else Concatenation(tuple(parts))

    def item(self) -> Expression:
        found = self.base()
        while True:
            if sign := self.takes("*", "+", "?"):
                found = self.repeated(found, sign)
            elif self.next.kind == "weight":
                found = found.weighted(self.weight())
            else:
                return found

    def repeated(self, part: Expression, sign: str) -> Expression:
        factor = self.weight() if self.next.kind == "weight" else 1.0
        if sign == "?":
            return Alternation((part if factor == 1.0 else part.weighted(factor), NOTHING))
        again = part.repeated(again=factor)
        return again if sign == "*" else Concatenation((part, again))

    def weight(self) -> float:
        token = self.next
        try:
            value = float(token.text[1:-1])
        except ValueError:
            self.refuse(f"{token.text} is no number")
        if not 0.0 < value < float("inf"):
            self.refuse(f"a weight must be above 0 and finite, found {token.text}")
        self.place += 1
        return value

    def base(self) -> Expression:
        token = self.next
        if token.kind == "sign":
            if token.text == "(":
                return self.group()
            self.refuse(f'there is nothing before this {token.text} to repeat; for the symbol write "{token.text}"')
        if token.kind == "weight":
            self.refuse(f'there is nothing before {token.text} to weigh; for the symbol write "{token.text}"')
        self.place += 1
        if token.kind == "regex":
            return self.matching(token)
        return letter(token.text if token.kind == "word" else self.unquoted(token))

    def group(self) -> Expression:
        at, self.place, self.depth = self.next.at, self.place + 1, self.depth + 1
        if self.depth > DEEPEST:
            self.refuse(f"more than {DEEPEST} groups within each other", at)
        found = self.choice()
        if not self.takes(")"):
            self.refuse("this '(' is not closed; for the symbol write \"(\"", at)
        self.depth -= 1
        return found

    def matching(self, token: _Token) -> Expression:
        regex = token.text[1:-1].replace("\\/", "/")
        try:
            re.compile(regex)
        except re.error as error:
            self.refuse(f"/{regex}/ is no regular expression: {error}", token.at)
        return matching(regex)

    def unquoted(self, token: _Token) -> str:
        symbol = re.sub(r"\\(.)", r"\1", token.text[1:-1], flags=re.DOTALL)
        if not symbol:
            self.refuse("a symbol has one character or more; for nothing write ( )", token.at)
        return symbol
