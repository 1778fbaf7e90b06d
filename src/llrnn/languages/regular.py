r"""Regular expressions of Python's, over characters, as expressions.

    a  \.  \x41      the character                  x|y  (x)  (?:x)  (?P<name>x)         groups, which name nothing here
    .  [a-z]  [^a]   one of these, or not           x*  x+  x?  x{2}  x{2,}  x{2,5}      greedy or not is the same
    \d  \s  \w  \D   as in Python                   (?i) (?s) (?a) (?x)  (?i:x)          flags

The text is read by Python's own parser, so that it means what it means there, of whole strings. What is no regular
language, or looks around, is refused: anchors, look-ahead and -behind, back-references, what does not give back.
"""

from __future__ import annotations

import re
from re import _constants, _parser
from typing import Any

from llrnn.errors import BackgroundError
from llrnn.languages.expressions import MOST_TIMES, Choice, Expression, One, Repeat, Sequence, Times
from llrnn.languages.letters import Atom, Letter, Matching, OneOf

MOST_CHARACTERS = 100_000  # what a text is, when all that is repeated is written out
_Code = list[tuple[Any, Any]]

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
_CATEGORIES = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}


def regular(text: str) -> Expression:
    """The strings that match as a whole."""
    try:
        parsed = _parser.parse(text)
        found, _ = _Translator(text).sequence(list(parsed), parsed.state.flags)
    except re.error as error:
        column = "" if error.pos is None else f" at column {error.pos + 1}"
        raise BackgroundError(f"the regular expression {text!r} is wrong{column}: {error.msg}") from None
    except (RecursionError, OverflowError):
        raise _refused(text, "it nests more deeply, or repeats more often, than Python can say; nest less") from None
    return found


def _refused(text: str, reason: str) -> BackgroundError:
    shown = text if len(text) <= 60 else text[:57] + "..."
    return BackgroundError(f"the regular expression {shown!r} cannot be used: {reason}")


class _Translator:
    """From the parser's codes to expressions, each with its size, so that what is too large is never made."""

    def __init__(self, text: str) -> None:
        self.text = text

    def refuse(self, reason: str) -> BackgroundError:
        return _refused(self.text, reason)

    def sequence(self, codes: _Code, flags: int) -> tuple[Expression, int]:
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
        raise self.refuse(f"it holds {_REFUSED.get(name, name.lower())}")

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
        signs = "".join(sign for sign, flag in (("i", re.IGNORECASE), ("a", re.ASCII)) if flags & flag)
        return Matching(f"(?{signs}:{_written(name, given)})")
    if name == "LITERAL":
        return Letter(chr(given))
    if name == "NOT_LITERAL":
        return OneOf(((chr(given), chr(given)),), (), True)
    ranges, categories, negated = _members(given)
    return OneOf(tuple(ranges), tuple(categories), negated)


def _members(codes: _Code) -> tuple[list[tuple[str, str]], list[str], bool]:
    """The ranges and categories of a class, and whether it is all others that are meant."""
    ranges, categories, negated = list[tuple[str, str]](), list[str](), False
    for code, given in codes:
        match str(code):
            case "NEGATE":
                negated = True
            case "LITERAL":
                ranges.append((chr(given), chr(given)))
            case "RANGE":
                ranges.append((chr(given[0]), chr(given[1])))
            case _:
                categories.append(_CATEGORIES[str(given)])
    return ranges, categories, negated


def _written(name: str, given: Any) -> str:
    """One character as Python writes it."""
    if name == "LITERAL":
        return re.escape(chr(given))
    ranges, categories, negated = _members([("LITERAL", given)] if name == "NOT_LITERAL" else given)
    spans = "".join(f"\\U{ord(first):08x}-\\U{ord(last):08x}" for first, last in ranges)
    return f"[{'^' * (negated or name == 'NOT_LITERAL')}{spans}{''.join(categories)}]"
