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
from operator import mul
from typing import Any

from llrnn.errors import BackgroundError, MissingExtraError
from llrnn.languages.matcher import parsed

MOST_ALTERNATIVES = 20_000
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
        Production(str(rule.origin.name), tuple(str(symbol.name) for symbol in rule.expansion), _name(rule))
        for rule in rules
    ]
    _check_reached(definitions, rules, start, place)
    _check_ends(productions, found, start, place)
    _check_terminals(found.values(), place)
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
        _check_alternatives(grammar.rule_defs, place)
        return grammar.compile([start], "*"), grammar.rule_defs
    except (LarkError, re.error) as error:
        reason = " ".join(str(error).split())
        raise BackgroundError(f"{place} is no grammar in lark's notation: {reason}") from None
    except OSError as error:
        raise BackgroundError(f"{place} imports what lark does not have: {error.filename or error}") from None
    except RecursionError:
        raise BackgroundError(f"{place} nests groups within groups too deeply; make rules of them") from None


def _check_alternatives(definitions: Any, place: str) -> None:
    """lark multiplies groups out, so a few lines can stand for more rules than fit into memory."""
    for name, _, tree, _ in definitions:
        if _alternatives(tree) > MOST_ALTERNATIVES:
            raise BackgroundError(
                f"the rule {name!s} of {place} stands for more than {MOST_ALTERNATIVES} alternatives once its groups "
                "are multiplied out; make rules of its groups"
            )


def _alternatives(tree: Any) -> float:
    """How many alternatives a part of a definition stands for."""
    children = [child for child in getattr(tree, "children", []) if hasattr(child, "data")]
    counts = [_alternatives(child) for child in children]
    kind = getattr(tree, "data", "")
    if kind == "expansions":
        return sum(counts)
    if kind == "maybe":
        return 1 + sum(counts)
    if kind == "expr":
        return _repeated(counts[0] if counts else 1, [str(child) for child in tree.children[1:]])
    return reduce(mul, counts, 1.0)


def _repeated(count: float, operator: list[str]) -> float:
    """`?` is one more; `*` and `+` become a rule of their own; `~ 2..5` is written out while that is short."""
    if operator[0] == "?":
        return count + 1
    if operator[0] in "*+":
        return 2.0
    bounds = [int(number) for number in operator[1:]]
    return count ** min(bounds[0], 50) * (bounds[-1] - bounds[0] + 1) if bounds[-1] < 50 else max(count, 2.0)


def _terminal(found: Any) -> Terminal:
    pattern = found.pattern
    if pattern.type == "str" and not pattern.flags:
        return Terminal(str(found.name), str(pattern.value), True)
    text = str(pattern.to_regexp())
    return Terminal(str(found.name), text.replace(*_ESCAPED_STRING), False)


def _name(rule: Any) -> str:
    return str(rule.alias) if rule.alias else f"{rule.origin.name}/{rule.order + 1}"


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
        after = {rule: {s for one in productions if one.rule == rule for s in one.symbols} for rule in endless}
        culprit = next((rule for rule in endless if _leads_back(rule, after)), endless[0])
        what = ", and the language is empty" if start in endless else ": it is useless"
        raise BackgroundError(
            f"the rule {culprit} of {place} derives no string, since each of its alternatives leads back to it{what}"
        )


def _leads_back(rule: str, after: Mapping[str, set[str]]) -> bool:
    found, stack = set[str](), [rule]
    while stack:
        fresh = {name for name in after[stack.pop()] if name in after} - found
        found |= fresh
        stack += fresh
    return rule in found


def productive_rules(productions: Iterable[Production], terminals: Iterable[str]) -> set[str]:
    """The rules that derive a string, if these terminals do."""
    found, waiting, before = set(terminals), list(productions), -1
    while len(found) > before:
        before = len(found)
        found.update(one.rule for one in waiting if all(symbol in found for symbol in one.symbols))
    return found.difference(terminals)


def _check_terminals(terminals: Iterable[Terminal], place: str) -> None:
    for terminal in terminals:
        try:
            empty = not terminal.is_literal and parsed(terminal.text)[2]
        except BackgroundError as error:
            raise BackgroundError(f"the terminal {terminal.name} of {place}: {error}") from None
        if empty or not terminal.text:
            raise BackgroundError(
                f"the terminal {terminal.name} of {place} matches the empty string; make it optional in a rule instead"
            )


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
