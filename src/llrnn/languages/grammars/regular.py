r"""Regular expressions of Python's, over characters, as expressions.

    a  \.  \x41      the character                  x|y  (x)  (?:x)  (?P<name>x)         groups, which name nothing here
    .  [a-z]  [^a]   one of these, or not           x*  x+  x?  x{2}  x{2,}  x{2,5}      greedy or not is the same
    \d  \s  \w  \D   as in Python                   (?i) (?s) (?a) (?x)  (?i:x)          flags

The text is read by Python's own parser, so that it means what it means there, of whole strings. What is no regular
language, or looks around, is refused: anchors, look-ahead and -behind, back-references, what does not give back.
"""

from __future__ import annotations

import re
from re import _constants
from typing import Any

from llrnn.ground.errors import BackgroundError
from llrnn.languages.grammars.expressions import MOST_TIMES, Choice, Expression, One, Repeat, Sequence, Times
from llrnn.languages.grammars.letters import Atom, Letter, Matching, OneOf
from llrnn.languages.grammars.matcher import Code, members, parsed, refused, refused_code, written

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
        return (parts[0][0] if len(parts) == 1 else Sequence(tuple(part for part, _ in parts))), size

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
                return Choice(tuple(part for part, _ in parts)), sum(size for _, size in parts)
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
        return (Sequence((Times(part, least, least), again)) if least else again), size * (least + 1)


def _atom(name: str, given: Any, flags: int) -> Atom:
    """What one character may be. Flags that change what classes hold are left to Python, character by character."""
    if name == "ANY":
        return OneOf((), (), True) if flags & re.DOTALL else OneOf((("\n", "\n"),), (), True)
    if flags & (re.IGNORECASE | re.ASCII):
        return Matching(written(name, given, flags & ~re.DOTALL))
    if name == "LITERAL":
        return Letter(chr(given))
    if name == "NOT_LITERAL":
        return OneOf(((chr(given), chr(given)),), (), True)
    ranges, categories, negated = members(given)
    return OneOf(tuple(ranges), tuple(categories), negated)
