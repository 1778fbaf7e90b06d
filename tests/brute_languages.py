"""What expressions mean, written on the tree: the weight of a string, by all ways to cut it. No automata."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from llrnn.languages.grammars import expressions as ex
from llrnn.languages.grammars.expressions import Expression


class Naive:
    """Weights of strings (or, without weights, 1 and 0) by the definition, remembered by part and string."""

    def __init__(self, weighted: bool) -> None:
        self.weighted = weighted
        self.known: dict[tuple[int, str], float] = {}

    def __call__(self, part: Expression, text: str) -> float:
        key = (id(part), text)
        if key not in self.known:
            value = self.weight(part, text)
            self.known[key] = value if self.weighted else float(value > 0)
        return self.known[key]

    def weight(self, part: Expression, text: str) -> float:
        match part:
            case ex.One(atom):
                return float(len(text) == 1 and atom.holds(text))
            case ex.Concatenation(parts):
                return self.in_a_row(parts, text)
            case ex.Alternation(parts):
                return sum(self(one, text) for one in parts)
            case ex.Repeat(inner, again):
                return self.repeated(part, inner, again, text)
            case ex.Times(inner, least, most):
                return sum(self.in_a_row((inner,) * times, text) for times in range(least, most + 1))
            case ex.WeightedExpression(inner, factor):
                return factor * self(inner, text)
            case ex.Both(left, right):
                return self(left, text) * self(right, text)
            case ex.Listed(entries):
                return sum(weight for own, weight in entries if own == text)
        raise AssertionError(part)

    def in_a_row(self, parts: tuple[Expression, ...], text: str) -> float:
        if not parts:
            return float(text == "")
        return sum(self(parts[0], text[:cut]) * self.in_a_row(parts[1:], text[cut:]) for cut in range(len(text) + 1))

    def repeated(self, whole: Expression, inner: Expression, again: float, text: str) -> float:
        """S(x) = [x = ""] + again · Σ F(u) S(v) over x = uv; the term with u = "" is taken to the other side."""
        rest = sum(again * self(inner, text[:cut]) * self(whole, text[cut:]) for cut in range(1, len(text) + 1))
        if not self.weighted:
            return rest + float(text == "")
        return (rest + float(text == "")) / (1.0 - again * self(inner, ""))


def strings(letters: str, longest: int) -> Iterator[str]:
    """All strings of so many letters or fewer, shortest first."""
    for length in range(longest + 1):
        yield from map("".join, itertools.product(letters, repeat=length))
