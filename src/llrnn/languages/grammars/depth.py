"""A grammar whose rules nest at most so deep: every recursive rule in as many copies as there may be levels.

    A@d → X@d Y@d-1 …        for A → X Y …, where A leads back to itself through Y

The first symbol of a production is no deeper than the production, so that lists, which are left-recursive, may be long;
any other symbol that leads back to the rule is one level deeper. What cannot end within its levels is left out, so that
the limit never leads into a dead end.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from llrnn.ground.errors import BackgroundError
from llrnn.languages.grammars.notation import MOST_RULES, Notation, Production, productive_rules


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
    after: dict[str, set[str]] = defaultdict(set)
    for one in notation.productions:
        after[one.rule].update(symbol for symbol in one.symbols if symbol not in notation.terminals)
    reach = {rule: _reached(rule, after) for rule in after}
    number: dict[str, int] = {}
    for rule in after:
        number.setdefault(rule, len(number))
        for other in reach[rule]:
            if rule in reach[other]:
                number.setdefault(other, number[rule])
    return number


def _reached(rule: str, after: dict[str, set[str]]) -> set[str]:
    found, stack = set[str](), [rule]
    while stack:
        fresh = after[stack.pop()] - found
        found |= fresh
        stack += fresh
    return found
