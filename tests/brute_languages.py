"""What expressions mean, written on the tree: whether a string is held, by all ways to cut it. No automata."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from llrnn.languages.grammars import expressions as ex
from llrnn.languages.grammars.expressions import Expression


class Naive:
    """Whether strings are held, by the definition, remembered by part and string."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, str], bool] = {}

    def __call__(self, part: Expression, text: str) -> bool:
        key = (id(part), text)
        if key not in self.known:
            self.known[key] = self.holds(part, text)
        return self.known[key]

    def holds(self, part: Expression, text: str) -> bool:
        match part:
            case ex.One(atom):
                return len(text) == 1 and atom.holds(text)
            case ex.Concatenation(parts):
                return self.in_a_row(parts, text)
            case ex.Alternation(parts):
                return any(self(one, text) for one in parts)
            case ex.Repeat(inner):
                cuts = range(1, len(text) + 1)
                return not text or any(self(inner, text[:cut]) and self(part, text[cut:]) for cut in cuts)
            case ex.Times(inner, least, most):
                return any(self.in_a_row((inner,) * times, text) for times in range(least, most + 1))
            case ex.Both(left, right):
                return self(left, text) and self(right, text)
            case ex.Listed(entries):
                return text in entries
        raise AssertionError(part)

    def in_a_row(self, parts: tuple[Expression, ...], text: str) -> bool:
        if not parts:
            return text == ""
        return any(self(parts[0], text[:cut]) and self.in_a_row(parts[1:], text[cut:]) for cut in range(len(text) + 1))


def strings(letters: str, longest: int) -> Iterator[str]:
    """All strings of so many letters or fewer, shortest first."""
    for length in range(longest + 1):
        yield from map("".join, itertools.product(letters, repeat=length))
