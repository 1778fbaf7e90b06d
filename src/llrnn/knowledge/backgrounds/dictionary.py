"""Texts that are spelled: dictionary words, and what the condition speaks of, with blanks between them.

    text = token (blank token)*            token = a word of the dictionary | a value of the condition, as a whole

    Dictionary(["is", "in", "the", "area", "of"])          over characters; b = 1 for what is allowed, 0 for all else
    Dictionary(listed, slots=["name", "phone"])            values of these slots only

A name that is in no dictionary can be written where the condition has it, and nowhere else; so can one that nobody has
ever seen. The dictionary is compiled once, for all conditions (`languages.conditional`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, Self

from llrnn.ground.errors import BackgroundError
from llrnn.ground.files import read_file
from llrnn.knowledge.backgrounds.automaton import Automaton
from llrnn.knowledge.process import Saved
from llrnn.languages.grammars.expressions import Expression, from_condition, letter, words
from llrnn.text.conditions import values_of
from llrnn.text.revision import Revision


@dataclass(frozen=True)
class ValuesOf:
    """The values of a condition as a list of texts; of some slots only, if any are named."""

    slots: frozenset[str] | None = None

    def __call__(self, condition: object) -> Expression | None:
        found = [value for value in values_of(condition) if self.slots is None or value.slot in self.slots]
        return words({" ".join(value.words) for value in found}) if found else None


class Dictionary(Automaton):
    """A Boolean automaton over characters: words of a list, and values of the condition."""

    def __init__(
        self,
        listed: Iterable[str],
        *,
        slots: Collection[str] | None = None,
        violation: float = 0.0,
        longest: int | None = None,
        spelling: Mapping[str, str] | None = None,
    ) -> None:
        """`longest`: characters of a text; `spelling`: characters that stand for others, "␣" for a blank by default."""
        if isinstance(listed, str) or isinstance(slots, str):
            raise BackgroundError(f"Dictionary takes a list of words and a list of slots, found {listed!r}, {slots!r}")
        self.listed = tuple(sorted(set(listed)))
        self.slots = None if slots is None else frozenset(slots)
        strange = next((word for word in self.listed if word.split() != [word]), None)
        if strange is not None:
            raise BackgroundError(f"a word of a dictionary has no blank and is not empty, found {strange!r}")
        token = words(self.listed) | from_condition(ValuesOf(self.slots))
        text = token + (letter(" ") + token).repeated()
        super().__init__(
            text, over="characters", weighted=False, violation=violation, longest=longest, spelling=spelling
        )

    @classmethod
    def from_file(cls, path: str | PathLike[str], **settings: Any) -> Self:
        """A dictionary from a text file, words between white space, with the settings of `Dictionary`."""
        try:
            text = read_file(path).decode("utf8")
        except (OSError, UnicodeDecodeError) as error:
            raise BackgroundError(f"{path}: a list of words in UTF-8 is required ({error})") from None
        return cls(text.split(), **settings)

    def revised(self, revision: Revision) -> Self:
        raise BackgroundError(f"words need not be added to {self!r}: those of the condition can be spelled")

    def saved(self) -> Saved:
        fields = {
            "listed": list(self.listed),
            "slots": None if self.slots is None else sorted(self.slots),
            "violation": self.violation,
            "longest": self.longest,
            "spelling": self.spelling,
        }
        return Saved("dictionary", fields)

    def __repr__(self) -> str:
        soft = f", violation={self.violation}" if self.violation else ""
        return f"Dictionary({len(self.listed)} words{soft})"
