r"""Whether a string matches a regular expression of Python's as a whole, in linear time.

Python's own search goes back and tries again: `(a+)+c` takes 2ⁿ steps for n letters. Here all ways to read the string
are followed at once, as sets of states (Thompson), and what follows a set is remembered. The text is read by Python's
own parser, so that it means what it means there. What is no regular language, or looks around, is refused.
"""

from __future__ import annotations

import re
from functools import lru_cache
from re import _constants, _parser
from typing import Any

from llrnn.ground.errors import BackgroundError

MOST_STATES = 20_000  # of one expression, when all that is repeated is written out
MOST_STEPS = 20_000_000  # from state to state, that one expression takes for all strings together: some seconds
DEEPEST = 100  # groups and repeats within each other
Code = list[tuple[Any, Any]]

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


def parsed(text: str) -> tuple[Code, int, bool]:
    """The codes of Python's parser, the flags, and whether the empty string matches."""
    try:
        found = _parser.parse(text)
        codes = list(found)
        _check_depth(codes, text)
        return codes, int(found.state.flags), found.getwidth()[0] == 0
    except re.error as error:
        column = "" if error.pos is None else f" at column {error.pos + 1}"
        raise BackgroundError(f"the regular expression {text!r} is wrong{column}: {error.msg}") from None
    except (RecursionError, OverflowError):
        raise too_deep(text) from None


def refused(text: str, reason: str) -> BackgroundError:
    shown = text if len(text) <= 60 else text[:57] + "..."
    return BackgroundError(f"the regular expression {shown!r} cannot be used: {reason}")


def too_deep(text: str) -> BackgroundError:
    return refused(text, f"it nests groups and repeats more than {DEEPEST} deep, or repeats too often; nest less")


def _check_depth(codes: Code, text: str) -> None:
    level = [codes]
    for _ in range(DEEPEST + 1):
        level = [inner for codes in level for name, given in codes for inner in _within(str(name), given)]
        if not level:
            return
    raise too_deep(text)


def _within(name: str, given: Any) -> list[Any]:
    """The codes within a code."""
    if name == "BRANCH":
        return list(given[1])
    return [given[-1]] if name in ("SUBPATTERN", "MAX_REPEAT", "MIN_REPEAT") else []


def refused_code(text: str, name: str) -> BackgroundError:
    """What Python can say and a finite automaton cannot."""
    return refused(text, f"it holds {_REFUSED.get(name, name.lower())}")


def members(codes: Code) -> tuple[list[tuple[str, str]], list[str], bool]:
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


def written(name: str, given: Any, flags: int) -> str:
    """One character, as Python writes it."""
    signs = "".join(sign for sign, flag in (("i", re.IGNORECASE), ("a", re.ASCII), ("s", re.DOTALL)) if flags & flag)
    if name == "ANY":
        text = "."
    elif name == "LITERAL":
        text = re.escape(chr(given))
    else:
        ranges, categories, negated = members([("LITERAL", given)] if name == "NOT_LITERAL" else given)
        spans = "".join(f"\\U{ord(first):08x}-\\U{ord(last):08x}" for first, last in ranges)
        text = f"[{'^' * (negated or name == 'NOT_LITERAL')}{spans}{''.join(categories)}]"
    return f"(?{signs}:{text})" if signs else text


class Matcher:
    """One expression: an automaton that may be in many states at once, and the sets of states that were met."""

    def __init__(self, text: str) -> None:
        self.text, self.steps = text, 0
        self._moves: list[list[tuple[re.Pattern[str], int]]] = []
        self._free: list[list[int]] = []
        codes, flags, _ = parsed(text)
        start = self._state()
        self._end = self._sequence(codes, flags, start)
        self._sets = [self._closed([start])]
        self._number = {self._sets[0]: 0}
        self._after: dict[tuple[int, str], int] = {}

    def holds(self, string: str) -> bool:
        """Whether the whole string matches."""
        here = 0
        for character in string:
            after = self._after.get((here, character))
            here = self._step(here, character) if after is None else after
        return self._end in self._sets[here]

    def _step(self, here: int, character: str) -> int:
        moves = [move for state in self._sets[here] for move in self._moves[state]]
        found = self._closed([target for test, target in moves if test.fullmatch(character)])
        self._count(len(moves) + len(found) + 1)
        if found not in self._number:
            self._number[found] = len(self._sets)
            self._sets.append(found)
        self._after[here, character] = self._number[found]
        return self._number[found]

    def _count(self, steps: int) -> None:
        self.steps += steps
        if self.steps > MOST_STEPS:
            raise refused(self.text, f"it takes more than {MOST_STEPS:,} steps to match all symbols; repeat less")

    def _closed(self, states: list[int]) -> frozenset[int]:
        """These, and what is reached from them for nothing."""
        found, stack = set(states), list(states)
        while stack:
            fresh = [state for state in self._free[stack.pop()] if state not in found]
            found.update(fresh)
            stack += fresh
        return frozenset(found)

    def _state(self, *before: int) -> int:
        """A new state, which is reached for nothing from those before."""
        if len(self._moves) >= MOST_STATES:
            raise refused(
                self.text, f"with all repeats written out it has more than {MOST_STATES:,} states; repeat less"
            )
        self._moves.append([])
        self._free.append([])
        for state in before:
            self._free[state].append(len(self._moves) - 1)
        return len(self._moves) - 1

    def _sequence(self, codes: Code, flags: int, start: int) -> int:
        for name, given in codes:
            start = self._one(str(name), given, flags, start)
        return start

    def _one(self, name: str, given: Any, flags: int, start: int) -> int:
        """Read one part from `start` on; the state after it. Nothing is ever added that leads back into `start`."""
        match name:
            case "LITERAL" | "NOT_LITERAL" | "IN" | "ANY":
                end = self._state()
                self._moves[start].append((_character(written(name, given, flags)), end))
                return end
            case "BRANCH":
                return self._state(*[self._sequence(list(branch), flags, start) for branch in given[1]])
            case "SUBPATTERN":
                _, added, removed, codes = given
                return self._sequence(list(codes), (flags | added) & ~removed, start)
            case "MAX_REPEAT" | "MIN_REPEAT":
                least, most, codes = given
                return self._repeated(int(least), most, list(codes), flags, start)
        raise refused_code(self.text, name)

    def _repeated(self, least: int, most: Any, codes: Code, flags: int, start: int) -> int:
        for _ in range(least):
            start = self._sequence(codes, flags, self._state(start))
        if most is _constants.MAXREPEAT:
            loop = self._state(start)
            self._free[self._sequence(codes, flags, loop)].append(loop)
            return loop
        ends = [start]
        for _ in range(int(most) - least):
            ends.append(self._sequence(codes, flags, self._state(ends[-1])))
        return self._state(*ends)


@lru_cache(maxsize=4096)
def _character(regex: str) -> re.Pattern[str]:
    return re.compile(regex)


@lru_cache(maxsize=256)
def matcher(text: str) -> Matcher:
    """The one for an expression; what it has met is remembered with it."""
    return Matcher(text)
