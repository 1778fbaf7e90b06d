"""Context-free grammars as lark writes them, read into plain rules.

    start: expr
    expr: expr "+" term -> sum  |  term              // left recursion, empty rules and ambiguity are fine
    term: "(" expr ")"  |  NUMBER
    NUMBER: /[0-9]+/
    %ignore " "

A terminal is a set of strings, and a text is in the language if it can be cut into terminals somehow: there is no lexer
that would have to choose (priorities of terminals mean nothing here). Alternatives are called by their alias, `sum`, or
by rule and number, `expr/2`; by these names weights are given. The reading itself is done by lark (extra: grammar).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate
from typing import Any, NamedTuple

from llrnn.ground.errors import BackgroundError, MissingExtraError
from llrnn.languages.grammars.automaton import components, derived

MOST_ALTERNATIVES = 20_000  # of a rule
MOST_RULES = 50_000  # symbols in all alternatives of all rules
MOST_TEMPLATES = 1_000  # rules that templates become
_LONGEST_NAME = 1_000  # of such a rule
_WRITTEN_OUT, _FACTOR = 50, 5  # lark writes out fewer repeats than this, and makes rules of so many parts of more
# lark's own definition looks behind itself, which only a search from left to right can do
_ESCAPED_STRING = '".*?(?<!\\\\)(\\\\\\\\)*?"', r'"(?:[^"\\\n]|\\[^\n])*"'


@dataclass(frozen=True)
class Terminal:
    """A set of strings: one string, or those that match a regular expression of Python's."""

    name: str
    text: str
    is_literal: bool


@dataclass(frozen=True)
class Production:
    """One alternative of a rule."""

    rule: str
    symbols: tuple[str, ...]  # names of rules and of terminals
    name: str
    weight: float = 1.0


@dataclass(frozen=True)
class Notation:
    """A grammar as it was written."""

    start: str
    terminals: Mapping[str, Terminal]
    productions: tuple[Production, ...]


def read_grammar(
    text: str, *, start: str = "start", weights: Mapping[str, float] | None = None, place: str = "the grammar"
) -> Notation:
    """The rules of a grammar; refused with the rule where one is undefined, useless, or without end."""
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
    """What lark makes of it: terminals, rules, ignored terminals; and the definitions as they were written."""
    try:
        from lark.exceptions import LarkError
        from lark.load_grammar import load_grammar
    except ImportError:
        raise MissingExtraError("lark", "grammar") from None
    try:
        grammar, _ = load_grammar(text, place, [], False)  # type: ignore[no-untyped-call]
        names = [str(name) for name, *_ in grammar.rule_defs]
        if start not in names:
            raise BackgroundError(f"{place} has no rule {start!r} to start from, only {', '.join(names)}")
        _check_size(grammar.rule_defs, place)
        _check_templates(grammar.rule_defs, place)
        return grammar.compile([start], "*"), grammar.rule_defs
    except (LarkError, re.error) as error:
        reason = " ".join(str(error).split())
        raise BackgroundError(f"{place} is no grammar in lark's notation: {reason}") from None
    except OSError as error:
        raise BackgroundError(f"{place} imports what lark does not have: {error.filename or error}") from None
    except (RecursionError, ValueError):  # of numbers with thousands of digits
        raise BackgroundError(f"{place} nests groups too deeply, or repeats too often; make rules of them") from None


def _check_size(definitions: Any, place: str) -> None:
    """lark multiplies groups out, so a few lines can stand for more rules than fit into memory."""
    for name, _, tree, _ in definitions:
        size = _size(tree)
        if size.alternatives > MOST_ALTERNATIVES or size.whole > MOST_RULES:
            raise BackgroundError(
                f"the rule {name!s} of {place} stands for more than {MOST_ALTERNATIVES} alternatives, or {MOST_RULES} "
                "symbols in them, once its groups and repeats are multiplied out; make rules of its groups"
            )


class _Size(NamedTuple):
    """How many alternatives a part of a definition stands for, the symbols in all of them, and in rules beside it."""

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
    """`?` is one more; `*` and `+` become a rule of their own; `~ 2..5` is written out while that is short."""
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
    """The symbols of the rules that lark makes of many repeats: one for each factor, and one for what is optional."""
    from lark.utils import small_factors

    found, target = 0.0, part
    for factor, more in small_factors(count, _FACTOR):
        found += sum(target.times(n).whole + 1 for n in range(factor + 1))
        found += sum(target.times(factor).then(part.times(n)).whole for n in range(more + 1))
        target = _Size(1, 1)
    return found


def _check_templates(definitions: Any, place: str) -> None:
    """lark makes a rule of every use of a template with other arguments; in `f{x}: f{f{x}}` there is no last one."""
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
    """An argument of a template, as text; `given` are those of the template within which it stands."""
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
    """A rule that only ever leads to itself derives no string."""
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
    """The rules that derive a string, if these terminals do."""
    known = set(terminals)
    return derived(((one.rule, one.symbols) for one in productions), known) - known


def _weighted(productions: list[Production], weights: Mapping[str, float], place: str) -> list[Production]:
    """With their weights; alternatives of one name share it, and those without one have weight 1."""
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
    """Ignored terminals may stand before every terminal, and at the end."""
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


# A grammar whose rules nest at most so deep: every recursive rule in as many copies as there may be levels.
#
#     A@d → X@d Y@d-1 …        for A → X Y …, where A leads back to itself through Y
#
# The first symbol of a production is no deeper than the production, so that lists, which are left-recursive, may be
# long; any other symbol that leads back to the rule is one level deeper. What cannot end within its levels is left out,
# so that the limit never leads into a dead end.


def limited(notation: Notation, deepest: int) -> Notation:
    """The same grammar without strings that need more than `deepest` levels."""
    if deepest < 0:
        raise BackgroundError(f"deepest is a number of levels, 0 or more, found {deepest}")
    if sum(1 + len(one.symbols) for one in notation.productions) * (deepest + 1) > MOST_RULES:
        raise BackgroundError(f"deepest={deepest} makes more than {MOST_RULES} symbols of rules; limit the depth more")
    group = _groups(notation)
    productions = [
        copy for one in notation.productions for depth in range(deepest + 1) if (copy := _copied(one, depth, group))
    ]
    start = _at(notation.start, deepest)
    if start not in productive_rules(productions, notation.terminals):
        raise BackgroundError(f"the language is empty: every string nests deeper than deepest={deepest}; allow more")
    return Notation(start, notation.terminals, tuple(productions))


def _at(rule: str, depth: int) -> str:
    return f"{rule}@{depth}"


def _copied(one: Production, depth: int, group: dict[str, int]) -> Production | None:
    """A production with so many levels left; None where it needs more."""
    symbols = []
    for place, symbol in enumerate(one.symbols):
        if symbol not in group:
            symbols.append(symbol)  # a terminal
            continue
        left = depth - 1 if place > 0 and group[symbol] == group[one.rule] else depth
        if left < 0:
            return None
        symbols.append(_at(symbol, left))
    return replace(one, rule=_at(one.rule, depth), symbols=tuple(symbols))


def _groups(notation: Notation) -> dict[str, int]:
    """Rules that lead to each other have the same number."""
    rules = {name: number for number, name in enumerate(dict.fromkeys(one.rule for one in notation.productions))}
    after: list[list[int]] = [[] for _ in rules]
    for one in notation.productions:
        after[rules[one.rule]] += [rules[symbol] for symbol in one.symbols if symbol in rules]
    first = [0, *accumulate(map(len, after))]
    names, groups = list(rules), components(first, [target for row in after for target in row])
    return {names[rule]: number for number, group in enumerate(groups) for rule in group}
