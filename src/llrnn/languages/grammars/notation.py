r"""Context-free grammars as lark writes them, and regular expressions as Python writes them, read into plain rules.

    start: expr
    expr: expr "+" term -> sum  |  term              // left recursion, empty rules and ambiguity are fine
    term: "(" expr ")"  |  NUMBER
    NUMBER: /[0-9]+/
    %ignore " "

A terminal is a set of strings, and a text is in the language if it can be cut into terminals somehow: there is no lexer
that would have to choose (priorities of terminals mean nothing here). Alternatives are called by their alias, `sum`, or
by rule and number, `expr/2`; by these names weights are given. The reading itself is done by lark (extra: grammar).

Expressions as texts (Python's regular expressions over characters, expressions over symbols) and as plain data.

    a  \.  \x41    the character                x|y  (x)  (?:x)  (?P<name>x)         groups, which name nothing here
    .  [a-z]  [^a]   one of these, or not       x*  x+  x?  x{2}  x{2,}  x{2,5}      greedy or not is the same
    \d  \s  \w  \D   as in Python               (?i) (?s) (?a) (?x)  (?i:x)          flags
    \p{lower} \p{upper} \p{digit} \p{space} \p{sign}  \P{lower}          what kind of character it is, or is not

There is one syntax and one engine: a text is read by Python's own parser, so that it means what it means there, of
whole strings, and becomes an expression, which `automaton` makes an automaton of. Kinds are those of
`text.automata`: `\p{lower}` holds letters without case too. What is no regular language, or looks around, is refused.

    regular(text)      an expression over characters
    matching(text)     one symbol that matches as a whole
    pattern(text)      a DFA over all of Unicode, for domains
    symbolic(text)     an expression over symbols
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, reduce
from re import _constants, _parser
from typing import Any, NamedTuple, NoReturn

import numpy as np

from llrnn.ground.arrays import Bools
from llrnn.ground.errors import BackgroundError, CheckpointError, DomainError, LLRNNError, MissingExtraError
from llrnn.languages.grammars import expressions as ex
from llrnn.languages.grammars.automaton import (
    PROPERTIES,
    START,
    UNREAD,
    Atom,
    Held,
    Letter,
    LetterColumns,
    OneOf,
    TooLargeError,
    derived,
    determinised,
    steps,
)
from llrnn.languages.grammars.expressions import (
    MOST_TIMES,
    NOTHING,
    Alternation,
    Concatenation,
    ConditionExpression,
    Expression,
    One,
    Repeat,
    Times,
    atoms_of,
    compiled,
    letter,
)
from llrnn.text.automata import DFA, anything, examples, permitted

MOST_ALTERNATIVES = 20_000  # of a rule
MOST_RULES = 50_000  # symbols in all alternatives of all rules
MOST_TEMPLATES = 1_000  # rules that templates become
_LONGEST_NAME = 1_000  # of such a rule
_WRITTEN_OUT, _FACTOR = 50, 5  # lark writes out fewer repeats than this, and makes rules of so many parts of more
# lark's own definition looks behind itself, which only a search from left to right can do
_ESCAPED_STRING = '".*?(?<!\\\\)(\\\\\\\\)*?"', r'"(?:[^"\\\n]|\\[^\n])*"'


@dataclass(frozen=True)
class Terminal:
    """A terminal of a grammar: one string, or all strings that match a regular expression.

    name        its name in the grammar
    text        the string, or the regular expression in Python's syntax
    is_literal  True: `text` is the string itself
    """

    name: str
    text: str
    is_literal: bool


@dataclass(frozen=True)
class Production:
    """One alternative of a rule of a grammar.

    rule        name of the rule
    symbols     names of the rules and terminals that the alternative consists of, in order
    name        name of the alternative: the alias, or rule and number, from 1, such as `expr/2`
    weight      weight relative to the other alternatives of the rule, above 0; 1 by default
    """

    rule: str
    symbols: tuple[str, ...]  # names of rules and of terminals
    name: str
    weight: float = 1.0


@dataclass(frozen=True)
class Notation:
    """A parsed context-free grammar.

    start       name of the start rule
    terminals   name -> terminal
    productions all alternatives of all rules, those of a rule in order
    """

    start: str
    terminals: Mapping[str, Terminal]
    productions: tuple[Production, ...]


def read_grammar(
    text: str, *, start: str = "start", weights: Mapping[str, float] | None = None, place: str = "the grammar"
) -> Notation:
    """Parse a context-free grammar in lark's EBNF syntax; needs the extra `grammar` (lark).

    text        the rules
    start       the name of the start rule
    weights     name of an alternative (`rule/1` for the first one, or its alias) -> weight above 0, relative to the
                others of the rule; 1 for all others
    place       what to call the grammar in errors

    A rule that is not defined, that the start rule never leads to, or that derives no string, is a BackgroundError that
    names it.

        read_grammar('start: "a" start "b" | "ab"', weights={"start/1": 0.5})
    """
    compiled, definitions = _compiled(text, start, place)
    terminals, rules, ignored = compiled
    found = {one.name: _terminal(one) for one in terminals}
    productions = [
        Production(
            str(rule.origin.name),
            tuple(str(symbol.name) for symbol in rule.expansion),
            str(rule.alias or f"{rule.origin.name}/{rule.order + 1}"),
        )
        for rule in rules
    ]
    _check_reached(definitions, rules, start, place)
    _check_ends(productions, found, start, place)
    weighted = _weighted(productions, weights or {}, place)
    return _with_ignored(Notation(start, found, tuple(weighted)), list(map(str, ignored)))


def _compiled(text: str, start: str, place: str) -> tuple[Any, Any]:
    """Return ((terminals, rules, ignored terminals) as lark compiles them, the rule definitions as lark parses them).

    text        the grammar
    start       name of the start rule
    place       what to call the grammar in errors

    A text that is no grammar, or has no rule `start`, is a BackgroundError.
    """
    try:
        from lark.exceptions import LarkError
        from lark.load_grammar import load_grammar
    except ImportError:
        raise MissingExtraError("lark", "grammar") from None
    try:
        grammar, _ = load_grammar(text, place, [], False)  # type: ignore[no-untyped-call]
        names = [str(name) for name, *_ in grammar.rule_defs]
        if start not in names:
            found = ", ".join(_shown(name) for name in names[:5]) + ", ..." * (len(names) > 5)
            raise BackgroundError(
                f"{place} has no rule {start!r} to start from, {f'only {found}' if found else 'nor any'}"
            )
        _check_size(grammar.rule_defs, place)
        _check_templates(grammar.rule_defs, place)
        return grammar.compile([start], "*"), grammar.rule_defs
    except (LarkError, re.error) as error:
        reason = _shown(" ".join(str(error).split()), 500)
        raise BackgroundError(f"{place} is no grammar in lark's notation: {reason}") from None
    except OSError as error:
        raise BackgroundError(f"{place} imports what lark does not have: {error.filename or error}") from None
    except (RecursionError, ValueError):  # of numbers with thousands of digits
        raise BackgroundError(f"{place} nests groups too deeply, or repeats too often; make rules of them") from None


def _check_size(definitions: Any, place: str) -> None:
    """Raise a BackgroundError if lark would expand a rule to too many alternatives or symbols.

    The limits are `MOST_ALTERNATIVES` alternatives, and `MOST_RULES` for the sum of alternatives and symbols (`_Size`).

    definitions lark's rule definitions: (name, parameters, tree, options)
    place       what to call the grammar in the error
    """
    for name, _, tree, _ in definitions:
        size = _size(tree)
        if size.alternatives > MOST_ALTERNATIVES or size.whole > MOST_RULES:
            raise BackgroundError(
                f"the rule {name!s} of {place} stands for more than {MOST_ALTERNATIVES} alternatives, or {MOST_RULES} "
                "symbols in them, once its groups and repeats are multiplied out; make rules of its groups"
            )


class _Size(NamedTuple):
    """Size of a part of a rule once lark has expanded it, as floats, which may be huge.

    alternatives    number of its alternatives
    symbols         number of symbols in all of them
    beside          number of symbols in the auxiliary rules that it needs

    `a.then(b)` is the size of a concatenation, `a.or_else(b)` of a choice, `a.times(3)` of three in a row; `whole` is
    the sum of the three numbers.
    """

    alternatives: float
    symbols: float
    beside: float = 0.0

    @property
    def whole(self) -> float:
        return self.alternatives + self.symbols + self.beside

    def then(self, other: _Size) -> _Size:
        symbols = self.symbols * other.alternatives + other.symbols * self.alternatives
        return _Size(self.alternatives * other.alternatives, symbols, self.beside + other.beside)

    def or_else(self, other: _Size) -> _Size:
        return _Size(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def times(self, count: int) -> _Size:
        return reduce(_Size.then, [self._replace(beside=0.0)] * count, _Size(1, 0, self.beside))


def _size(tree: Any) -> _Size:
    kind = getattr(tree, "data", "")
    if kind in ("value", "template_usage", "literal", "range"):
        return _Size(1, 1)
    parts = [_size(child) for child in getattr(tree, "children", []) if hasattr(child, "data")]
    if kind == "expansions":
        return reduce(_Size.or_else, parts, _Size(0, 0))
    whole = reduce(_Size.then, parts, _Size(1, 0))
    if kind == "maybe":
        return whole.or_else(_Size(1, 0))
    return _repeated(whole, [str(child) for child in tree.children[1:]]) if kind == "expr" else whole


def _repeated(part: _Size, operator: list[str]) -> _Size:
    """Return the size of a repeated part of a rule once lark has expanded it.

    part        size of the part
    operator    the operator and its numbers: ["?"], ["*"], ["+"], or ["~", "2", "5"] for `~ 2..5`

    `*` and `+`, and repeats of 50 times or more, become auxiliary rules; shorter ones are written out.
    """
    if operator[0] == "?":
        return part.or_else(_Size(1, 0))
    if operator[0] in "*+":
        return _Size(2, 1, 2 * part.whole + part.alternatives)  # the part, and the part behind such a rule
    least, most = int(operator[1]), int(operator[-1])
    if most < _WRITTEN_OUT:
        return reduce(_Size.or_else, (part.times(count) for count in range(least, most + 1)), _Size(0, 0))
    alone, more = part._replace(beside=0.0), most - least
    beside = part.beside + _in_rules(alone, least) + (_in_rules(alone, more + 1) if more else 0.0)
    return _Size(1, 1 + (more > 0), beside)


def _in_rules(part: _Size, count: int) -> float:
    """Return the number of symbols in the auxiliary rules that lark makes of `count` repeats of a part of a rule.

    part        size of the part
    """
    from lark.utils import small_factors

    found, target = 0.0, part
    for factor, more in small_factors(count, _FACTOR):
        found += sum(target.times(n).whole + 1 for n in range(factor + 1))
        found += sum(target.times(factor).then(part.times(n)).whole for n in range(more + 1))
        target = _Size(1, 1)
    return found


def _check_templates(definitions: Any, place: str) -> None:
    """Raise a BackgroundError if a template calls itself with ever new arguments, such as `f{x}: f{f{x}}`.

    That is, if templates would become more than `MOST_TEMPLATES` rules, or one of a name over 1,000 characters.

    definitions lark's rule definitions: (name, parameters, tree, options)
    place       what to call the grammar in the error
    """
    templates = {str(name): ([str(one) for one in given], tree) for name, given, tree, _ in definitions if given}
    made, waiting = set[str](), [(tree, dict[str, str]()) for _, given, tree, _ in definitions if not given]
    while waiting:
        tree, given = waiting.pop()
        for use in tree.find_data("template_usage"):
            arguments = [_argument(child, given) for child in use.children[1:]]
            name = str(use.children[0].name)
            key = f"{name}{{{','.join(arguments)}}}"
            if key in made or name not in templates:
                continue
            made.add(key)
            if len(made) > MOST_TEMPLATES or len(key) > _LONGEST_NAME:
                raise BackgroundError(
                    f"the template {name} of {place} is used with ever new arguments, more than {MOST_TEMPLATES} times "
                    f"or in a name of more than {_LONGEST_NAME} characters; use templates within themselves less"
                )
            names, body = templates[name]
            waiting.append((body, dict(zip(names, arguments, strict=False))))


def _argument(tree: Any, given: Mapping[str, str]) -> str:
    """Return an argument of a template call in a grammar as text, such as `f{a,b}`.

    tree        lark's tree of the argument
    given       name -> value of the arguments of the surrounding template, which are substituted
    """
    if not hasattr(tree, "data"):
        name = str(getattr(tree, "name", tree))
        return given.get(name, name)
    inner = [_argument(child, given) for child in tree.children]
    return f"{inner[0]}{{{','.join(inner[1:])}}}" if tree.data == "template_usage" else ",".join(inner)


def _terminal(found: Any) -> Terminal:
    pattern = found.pattern
    if pattern.type == "str" and not pattern.flags:
        return Terminal(str(found.name), str(pattern.value), True)
    text = str(pattern.to_regexp())
    return Terminal(str(found.name), text.replace(*_ESCAPED_STRING), False)


def _check_reached(definitions: Any, rules: Iterable[Any], start: str, place: str) -> None:
    used = {str(rule.origin.name) for rule in rules} | {str(rule.options.template_source) for rule in rules}
    useless = [str(name) for name, _, _, _ in definitions if str(name) not in used]
    if useless:
        raise BackgroundError(f"the rule {useless[0]} of {place} is useless: {start!r} never leads to it; remove it")


def _check_ends(productions: list[Production], terminals: Mapping[str, Terminal], start: str, place: str) -> None:
    """Raise a BackgroundError if a rule derives no finite string, such as one that always leads to itself.

    terminals   name -> terminal; each is taken to have a string
    start       name of the start rule: if it is the one, the message says that the language is empty
    place       what to call the grammar in the error
    """
    productive = productive_rules(productions, terminals)
    endless = list(dict.fromkeys(one.rule for one in productions if one.rule not in productive))
    if endless:
        steps = [(symbol, (one.rule,)) for one in productions for symbol in one.symbols]
        after = {rule: [symbol for symbol, (left,) in steps if left == rule] for rule in endless}
        culprit = next((rule for rule in endless if rule in derived(steps, after[rule])), endless[0])
        what = ", and the language is empty" if start in endless else ": it is useless"
        raise BackgroundError(
            f"the rule {culprit} of {place} derives no string, since each of its alternatives leads back to it{what}"
        )


def productive_rules(productions: Iterable[Production], terminals: Iterable[str]) -> set[str]:
    """Return the names of the rules of a grammar that derive at least one string.

    A rule does if all symbols of one of its productions do; one without symbols derives the empty string.

    terminals   names of the terminals that have a string
    """
    known = set(terminals)
    return derived(((one.rule, one.symbols) for one in productions), known) - known


def _weighted(productions: list[Production], weights: Mapping[str, float], place: str) -> list[Production]:
    """Return the productions with the given weights; all others have weight 1.

    weights     name of an alternative -> weight, which alternatives of the same name share equally
    place       what to call the grammar in errors

    A name that no production has, and a weight that is not above 0, is a BackgroundError.
    """
    names = [one.name for one in productions]
    for name, weight in weights.items():
        if name not in names:
            known = ", ".join(dict.fromkeys(names))
            raise BackgroundError(f"weights name {name!r}, but the alternatives of {place} are called {known}")
        if not (weight > 0 and math.isfinite(weight)):
            raise BackgroundError(f"the weight of {name!r} must be above 0 and finite, found {weight}")
    return [
        replace(one, weight=weights[one.name] / names.count(one.name)) if one.name in weights else one
        for one in productions
    ]


def _with_ignored(notation: Notation, ignored: list[str]) -> Notation:
    """Return the grammar with the terminals named in `ignored` allowed, any number of times, before every terminal.

    They are allowed at the end of a string too. For this there are two rules more, `%whole`, the new start, and
    `%ignored`. The grammar itself is returned if `ignored` is empty.
    """
    if not ignored:
        return notation
    gap, whole, terminals = "%ignored", "%whole", notation.terminals

    def spread(symbols: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(found for symbol in symbols for found in ((gap, symbol) if symbol in terminals else (symbol,)))

    productions = [
        Production(whole, (notation.start, gap), whole),
        *(replace(one, symbols=spread(one.symbols)) for one in notation.productions),
        Production(gap, (), gap),
        *(Production(gap, (gap, name), gap) for name in ignored),
    ]
    return Notation(whole, terminals, tuple(productions))


MOST_CHARACTERS = 100_000  # of a regular expression, when all that is repeated is written out
MOST_STEPS = 20_000_000  # from state to state, that one expression takes for all strings together: some seconds
MOST_STATES = 10_000  # of the pattern of a domain
LONGEST_RANGE = 512  # characters that the pattern of a domain tells apart one by one
DEEPEST = 100  # groups and repeats within each other
_Codes = list[tuple[Any, Any]]  # of Python's parser

_REFUSED = {
    "AT": "an anchor (^, $, \\b): the expression speaks of whole strings, so leave it out",
    "ASSERT": "a look-ahead or look-behind; use & of expressions",
    "ASSERT_NOT": "a negative look-ahead or look-behind",
    "GROUPREF": "a back-reference, which is no regular language",
    "GROUPREF_IGNORE": "a back-reference, which is no regular language",
    "GROUPREF_EXISTS": "a condition on a group",
    "ATOMIC_GROUP": "an atomic group, which does not give back",
    "POSSESSIVE_REPEAT": "a possessive repeat, which does not give back",
}
_CATEGORIES = {f"CATEGORY_{name}": rf"\{name[0].lower()}" for name in ("DIGIT", "SPACE", "WORD")}
_CATEGORIES |= {f"CATEGORY_NOT_{name}": rf"\{name[0]}" for name in ("DIGIT", "SPACE", "WORD")}
# Python's parser does not know \p{lower}: it reads a character in its place that Unicode keeps free for such uses
_PROPERTIES = [f"\\{sign}{{{name}}}" for sign in "pP" for name in PROPERTIES]
_STAND_IN = {name: chr(0xFDD0 + number) for number, name in enumerate(_PROPERTIES)}
_STANDS_FOR = {character: name for name, character in _STAND_IN.items()}


# in domains digits and spaces go by kind too, which does not change with the version of Python
_BY_KIND = _STAND_IN | {
    rf"\{own}": _STAND_IN[rf"\{sign}{{{name}}}"]
    for own, sign, name in (("d", "p", "digit"), ("D", "P", "digit"), ("s", "p", "space"), ("S", "P", "space"))
}
_PIECES = re.compile(r"\\[pP]\{\w*\}|\\.|.", re.DOTALL)


def regular(text: str) -> Expression:
    r"""Return the expression, over characters, of all strings that match a regular expression as a whole.

    A fault, and what is no regular language, is a BackgroundError.

    Python's syntax without anchors, look-around, back-references and possessive repeats; also `\p{lower}` and the like.

        regular(r"[0-9]+(,[0-9]+)*")
    """
    return _expression(text, _STAND_IN)


_WRITTEN_LONG = f"with all repeats written out it has more than {MOST_CHARACTERS:,}"


def _expression(text: str, stand_ins: Mapping[str, str]) -> Expression:
    codes, flags, _ = parsed(text, stand_ins)
    expression = _concatenation(codes, flags, text)
    if _length(expression) > MOST_CHARACTERS:
        raise _refused(text, f"{_WRITTEN_LONG} characters; repeat or nest less")
    return expression


def parsed(text: str, stand_ins: Mapping[str, str] = _STAND_IN) -> tuple[_Codes, int, bool]:
    r"""Parse a regular expression with Python's own parser; return (parse tree, flags, whether "" may match).

    stand_ins   escape such as `\p{lower}` -> a character that replaces it, since Python does not know it

    The tree is a list of (code, value) pairs as in `re._parser`; flags are those of `re`, as bits. A faulty expression
    is a BackgroundError.
    """
    pieces = [(found.start(), stand_ins.get(found[0], found[0])) for found in _PIECES.finditer(text)]
    try:
        found = _parser.parse("".join(piece for _, piece in pieces))
        return list(found), int(found.state.flags), found.getwidth()[0] == 0
    except re.error as error:
        places = [at + n for at, piece in pieces for n in range(len(piece))]
        column = "" if error.pos is None else f" at column {[*places, len(text)][error.pos] + 1}"
        raise BackgroundError(f"the regular expression {_shown(text)!r} is wrong{column}: {error.msg}") from None
    except (RecursionError, OverflowError):
        raise _too_deep(text) from None


def _refused(text: str, reason: str) -> BackgroundError:
    return BackgroundError(f"the regular expression {_shown(text)!r} cannot be used: {reason}")


def _shown(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def _too_deep(text: str) -> BackgroundError:
    return _refused(text, f"it nests groups and repeats more than {DEEPEST} deep, or repeats too often; nest less")


def _concatenation(codes: _Codes, flags: int, text: str, depth: int = 0) -> Expression:
    if depth > DEEPEST:
        raise _too_deep(text)
    parts = [_one(str(name), given, flags, text, depth + 1) for name, given in codes]
    return parts[0] if len(parts) == 1 else Concatenation(tuple(parts))


def _one(name: str, given: Any, flags: int, text: str, depth: int) -> Expression:
    match name:
        case "LITERAL" | "NOT_LITERAL" | "IN" | "ANY":
            return One(_atom(name, given, flags))
        case "BRANCH":
            return Alternation(tuple(_concatenation(list(branch), flags, text, depth) for branch in given[1]))
        case "SUBPATTERN":
            _, added, removed, codes = given
            return _concatenation(list(codes), (flags | added) & ~removed, text, depth)
        case "MAX_REPEAT" | "MIN_REPEAT":
            least, most, codes = given
            return _power(_concatenation(list(codes), flags, text, depth), int(least), most, text)
    raise _refused(text, f"it holds {_REFUSED.get(name, name.lower())}")


def _power(part: Expression, least: int, most: Any, text: str) -> Expression:
    is_endless = most is _constants.MAXREPEAT
    if (least if is_endless else int(most)) > MOST_TIMES:
        raise _refused(text, f"{{{least},{most}}} repeats more than {MOST_TIMES:,} times")
    if not is_endless:
        return Times(part, least, int(most))
    again = Repeat(part, 1.0)
    return Concatenation((Times(part, least, least), again)) if least else again


def _atom(name: str, given: Any, flags: int) -> Atom:
    """Return the set of characters that one element of Python's parse tree of a regular expression matches.

    name        the code of the element: "LITERAL", "NOT_LITERAL", "IN" or "ANY"
    given       its value: a code point, for IN a list of (code, value) pairs, for ANY None
    flags       flags of `re` as bits; IGNORECASE, ASCII and DOTALL matter
    """
    if name == "ANY":
        return OneOf(() if flags & re.DOTALL else (("\n", "\n"),), (), True)
    codes = [("LITERAL", given)] if name in ("LITERAL", "NOT_LITERAL") else given
    ranges, categories, negated = list[tuple[str, str]](), list[str](), name == "NOT_LITERAL"
    for code, value in codes:
        match str(code):
            case "NEGATE":
                negated = True
            case "LITERAL" if chr(value) in _STANDS_FOR:
                categories.append(_STANDS_FOR[chr(value)])
            case "LITERAL":
                ranges.append((chr(value), chr(value)))
            case "RANGE":
                ranges.append((chr(value[0]), chr(value[1])))
            case _:
                categories.append(_CATEGORIES[str(value)])
    signs = "".join(sign for sign, flag in (("i", re.IGNORECASE), ("a", re.ASCII)) if flags & flag)
    if name == "LITERAL" and ranges and not signs:
        return Letter(ranges[0][0])
    return OneOf(tuple(ranges), tuple(categories), negated, signs)


def _length(expression: Expression, known: dict[int, int] | None = None) -> int:
    """Return the number of letters of an expression with all repeats written out, at least 1.

    Parts of a concatenation or alternation are added; a `Times` counts `most` times its part, a `Repeat` once, and a
    letter, an intersection, a list or a part from the condition as 1.

    known       id() of a sub-expression -> result, a cache that is filled in; None: an empty one
    """
    known = {} if known is None else known
    if id(expression) not in known:
        known[id(expression)] = _length_of_parts(expression, known)
    return known[id(expression)]


def _length_of_parts(expression: Expression, known: dict[int, int]) -> int:
    match expression:
        case Concatenation(parts) | Alternation(parts):
            return max(1, sum(_length(part, known) for part in parts))
        case Repeat(part, _) | ex.WeightedExpression(part, _):
            return _length(part, known)
        case Times(part, _, most):
            return max(1, _length(part, known) * most)
    return 1


# One symbol that matches: all ways to read it are followed at once, so that the time is linear, where Python's own
# search goes back and tries again ((a+)+c takes it 2ⁿ steps for n letters).


@dataclass(frozen=True)
class MatchingLetter(Atom):
    """The set of letters (symbols of the vocabulary) that match the regular expression `regex` as a whole.

    Its syntax is that of `regular`.
    """

    regex: str

    def holds(self, letter: str) -> bool:
        return Matcher(self.regex, letter).holds(letter)

    def held(self, letters: Sequence[str]) -> Bools:
        matcher = Matcher(self.regex, "".join(letters))
        return np.fromiter(map(matcher.holds, letters), dtype=np.bool_, count=len(letters))

    def __str__(self) -> str:
        return f"/{self.regex}/"


def matching(regex: str) -> Expression:
    """Return the expression of one symbol of the vocabulary that matches a regular expression as a whole.

    Its syntax is that of `regular`; a fault is a BackgroundError.

    For example, any one word of lowercase letters:

        matching("[a-z]+")
    """
    regular(regex)  # what is wrong, or no regular language, is refused here
    return One(MatchingLetter(regex))


class Matcher:
    """A matcher of whole strings against a regular expression, in linear time: a DFA that is built as it is needed.

        Matcher("[a-c]+", "abcd").holds("abba")         # True

    regex       the regular expression, in the syntax of `regular`
    characters  a string of all characters that may occur in the strings

    A BackgroundError once building the DFA has looked at more than `MOST_STEPS` moves, for all strings together.
    """

    def __init__(self, regex: str, characters: str) -> None:
        expression = regular(regex)
        columns = LetterColumns(sorted(set(characters)), atoms_of(expression, "characters"), "characters")
        self.regex, self.steps = regex, 0
        self._machine = compiled(expression, columns, weighted=False)
        self._column = {character: columns.column(character) for character in columns.letters}
        self._after = cache(self._made)

    def holds(self, string: str) -> bool:
        """Return whether the whole string matches the regular expression of this matcher.

        A KeyError for a character that was not among its `characters`; a BackgroundError once too many steps were
        taken.
        """
        held = START
        for character in string:
            held = self._after(held).get(self._column[character], ())
            if not held:
                return False
        return any(self._machine.log_stop[state] > -np.inf for state, _ in held)

    def _made(self, held: Held) -> dict[int, Held]:
        """Return a dict column (class of characters) -> next set of states, after the set `held`.

        Columns that lead nowhere are not among the keys.

        held        a set of states of the automaton, as a sorted tuple of (state, 0.0); next sets have this form too

        A BackgroundError once more than `MOST_STEPS` moves were looked at in all calls.
        """
        by_state = self._machine.by_state
        self.steps += 1 + sum(1 + len(by_state[state]) for state, _ in held)
        if self.steps > MOST_STEPS:
            raise _refused(self.regex, f"it takes more than {MOST_STEPS:,} steps to match all symbols; repeat less")
        return {column: own for column, (_, own) in steps(by_state, held, weighted=False).items()}


# Patterns of domains: the same expressions as DFAs, in which characters that are not named move by their kind.


def pattern(text: str) -> DFA:
    r"""Compile a regular expression to a DFA: label 0 for strings that match as a whole, -1 for others.

    It is meant for the cells of `Regular` domains. A fault, or more than 10,000 states, is a DomainError.

    Strings that cannot be symbols (`check_string`: empty, line breaks, outer blanks) never match. `\d` and `\s` mean
    `\p{digit}` and `\p{space}`; flags such as `(?i)` and `\w` are refused.

        pattern(r"\p{upper}\p{lower}*").label("Rome") == 0
    """
    try:
        return _dfa(_expression(text, _BY_KIND), text).minimised().both(anything())
    except TooLargeError:
        raise DomainError(
            f"the pattern {text!r} needs more than {MOST_STATES} states; repeat less, or nest less"
        ) from None
    except BackgroundError as error:
        raise DomainError(str(error)) from None


def _dfa(expression: Expression, text: str) -> DFA:
    atoms = atoms_of(expression, "characters")
    characters = tuple(sorted({character for atom in atoms for character in _characters(atom, text)}))
    letters = examples(characters)
    columns = LetterColumns([character for character in letters if character is not None], atoms, "characters")
    machine = compiled(expression, columns, weighted=False)
    if machine.n_states > MOST_STATES:
        raise TooLargeError
    machine = determinised(machine, weighted=False, most_states=MOST_STATES)
    n = machine.n_states  # there is one state more, for strings that cannot match any more
    moves = np.full((n + 1, columns.count + 1), n)
    moves[machine.source, machine.column] = machine.target
    column = [UNREAD if character is None else columns.column(character) for character in letters]
    return DFA(characters, moves[:, column], np.append(np.where(machine.log_stop > -np.inf, 0, -1), -1))


def _characters(atom: Atom, text: str) -> list[str]:
    r"""Return the characters that a part of a regular expression names, those of its ranges included.

    atom        a letter, or a set such as `[a-z0-9]`; categories such as `\p{L}` in a set name no single characters
    text        the whole regular expression, for errors

    Raises a BackgroundError for flags and `\w`, which are not supported here, for ranges of more than 512 characters,
    and for a line break, which no string may hold.
    """
    if isinstance(atom, Letter):
        if not permitted(atom.text):
            raise _refused(text, f"no string holds {atom.text!r} (line breaks and surrogates are never permitted)")
        return [atom.text]
    assert isinstance(atom, OneOf)
    if atom.flags or any(category[1] not in "pP" for category in atom.categories):
        raise _refused(
            text, r"in a domain (?i), (?a), \w and \W mean nothing; write [\p{lower}\p{upper}\d] or the like"
        )
    spans = [range(ord(first), ord(last) + 1) for first, last in atom.ranges]
    if any(len(span) > LONGEST_RANGE for span in spans):
        raise _refused(
            text, rf"a range has at most {LONGEST_RANGE} characters in a domain; kinds (\p{{lower}}) hold more"
        )
    return [chr(code) for span in spans for code in span if permitted(chr(code))]


# Expressions over symbols.


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
    r"""Parse a regular expression over symbols (words): `symbolic("the ( big | small )* /[a-z]+/ cat")`.

    Return an expression; a fault is a BackgroundError that names its column.

    Symbols are separated by blanks.

        word  "("  "C++"      a symbol; in quotes where it holds one of ( ) | * + ? or begins with " or /
        /[0-9]+/              one symbol that matches a regular expression as a whole
        x y   x | y   ( x )   concatenation, union, a group; ( ) is the empty string
        x*  x+  x?            zero or more times, once or more, zero times or once
        x <0.3>               weight of x multiplied by 0.3
        x*<0.5>  x+<0.5>      a factor for each time, or each further time; x?<0.5>: a factor if it is there

    In quotes \" and \\ stand for the signs themselves, and so does \/ between slashes.
    """
    parser = _SymbolicParser(text)
    if parser.next.kind == "end":
        parser.refuse('found nothing; write symbols, such as  the ( big | small )* cat,  or ( ) for "nothing"')
    found = parser.choice()
    if parser.next.kind != "end":
        parser.refuse("this ')' closes no group; for the symbol write \")\"")
    try:
        if _length(found) > MOST_CHARACTERS:
            parser.refuse(f"{_WRITTEN_LONG} symbols; repeat or nest less")
    except RecursionError:
        parser.refuse("it may be nested some hundred times, found more; nest less")
    return found


class _SymbolicParser:
    """A recursive-descent parser of one text in the notation of `symbolic` (regular expressions over symbols).

    `_SymbolicParser(text)` cuts the text into `tokens`; `choice()` parses from the token `next` on, up to the end or a
    closing bracket, which is not consumed, and returns an `Expression`. A fault is a BackgroundError that names its
    column.
    """

    def __init__(self, text: str) -> None:
        self.text, self.place, self.depth = text, 0, 0
        self.tokens = [*self.read(), _Token("end", "", len(text))]

    def refuse(self, reason: str, at: int | None = None) -> NoReturn:
        column = (self.next.at if at is None else at) + 1
        raise BackgroundError(f"the expression {_shown(self.text, 200)!r} is wrong at column {column}: {reason}")

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
        """Consume and return the next token if it is one of `signs`, such as "(" or "*"; else return "".

        At the end, "" too. A sign in quotes is a symbol and not consumed.
        """
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
        self.place += 1
        if token.kind == "weight" or (token.kind == "sign" and token.text != "("):
            what = f"this {token.text} to repeat" if token.kind == "sign" else f"{token.text} to weigh"
            self.refuse(f'there is nothing before {what}; for the symbol write "{token.text}"', token.at)
        if token.kind == "sign":
            return self.group(token.at)
        if token.kind == "regex":
            regex = token.text[1:-1].replace("\\/", "/")
            try:
                return matching(regex)
            except BackgroundError as error:
                self.refuse(f"/{_shown(regex)}/ is no regular expression of one symbol: {error}", token.at)
        if token.text == '""':
            self.refuse("a symbol has one character or more; for nothing write ( )", token.at)
        if token.kind == "word":
            return letter(token.text)
        return letter(re.sub(r"\\(.)", r"\1", token.text[1:-1], flags=re.DOTALL))

    def group(self, at: int) -> Expression:
        self.depth += 1
        if self.depth > DEEPEST:
            self.refuse(f"more than {DEEPEST} groups within each other", at)
        found = self.choice()
        if not self.takes(")"):
            self.refuse("this '(' is not closed; for the symbol write \"(\"", at)
        self.depth -= 1
        return found


# Expressions as plain data, for model folders: lists, strings and numbers.
#
# restored(described(expression)) == expression

_CLASSES: dict[str, Callable[..., Any]] = {
    "sequence": Concatenation,
    "choice": Alternation,
    "repeat": Repeat,
    "times": Times,
    "scaled": ex.WeightedExpression,
    "both": ex.Both,
    "letter": Letter,
    "matching": MatchingLetter,
    "one of": OneOf,
}
_NAMES = {made: name for name, made in _CLASSES.items()}


def described(expression: Expression) -> list[Any]:
    """Return an expression as nested JSON-compatible lists, from which `restored` makes it again.

    Each list is a name of the kind of expression, then its parts and numbers. A part that is computed from a condition
    (input of a text) is a BackgroundError.
    """
    match expression:
        case One(atom):
            return ["one", _NAMES[type(atom)], *vars(atom).values()]
        case ex.Listed(entries):
            return ["listed", *entries]
        case ConditionExpression():
            raise BackgroundError("a function of the condition cannot be saved; give the background again at loading")
    others = [value for name, value in vars(expression).items() if name in ("again", "least", "most", "factor")]
    return [_NAMES[type(expression)], *map(described, expression.inner), *others]


def restored(plain: list[Any]) -> Expression:
    """Make an expression from the nested lists that `described` returned; anything else is a CheckpointError."""
    try:
        return _from_plain(plain)
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"a saved expression cannot be read ({error!r}); save it again") from error
    except LLRNNError as error:
        raise CheckpointError(f"a saved expression cannot be read: {error}") from error


def _from_plain(plain: list[Any]) -> Expression:
    kind, *given = plain
    match kind:
        case "one":
            return One(_CLASSES[given[0]](*map(_as_tuples, given[1:])))
        case "listed":
            return ex.words(dict(given))
        case "ngrams":
            raise CheckpointError("this llrnn has no n-grams in expressions any more; give NGram(...) * Automaton(...)")
    values = [_from_plain(part) if isinstance(part, list) else part for part in given]
    found: Expression = _CLASSES[kind](tuple(values)) if kind in ("sequence", "choice") else _CLASSES[kind](*values)
    return found


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value
