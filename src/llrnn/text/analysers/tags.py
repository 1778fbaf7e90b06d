"""What the fields of a dictionary mean, in the names of Universal Dependencies."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from llrnn.text.lexicon import Lexicon

__all__ = ["Tags", "lemma_attribute"]


Fields = frozenset[str]
_NOT_IN_ATTRIBUTES = re.compile(r"[\s,|]")


def lemma_attribute(lemma: str) -> str:
    """`Lemma:` and the lemma; what may not stand in an attribute (white space, commas, bars) becomes `_`."""
    return "Lemma:" + _NOT_IN_ATTRIBUTES.sub("_", lemma)


def _as_written(stem: str, fields: Fields) -> Fields:
    return fields


def _unchanged(fields: Fields) -> Fields:
    return fields


@dataclass(frozen=True, slots=True, eq=False)
class Tags:
    """Fields of a hunspell dictionary -> attributes. A language brings its own, see `text.analysers.french`.

    `meanings` gives a field such as `is:mas` its attributes; a key that ends with `*` stands for every field that
    begins so (the longest such key counts). A field without a meaning adds nothing.
    `joins` names the fields that mark an affix as another word (`dp:` in French: l' + arbre): treebanks hold the two
    apart, so such affixes are not attached.
    `of_stem` may correct the fields of a stem by its spelling, `of_reading` those of one reading (stem and affixes):
    fields do not always mean the same beside others.
    """

    meanings: Mapping[str, Iterable[str]]
    joins: frozenset[str] = frozenset()
    of_stem: Callable[[str, Fields], Fields] = _as_written
    of_reading: Callable[[Fields], Fields] = _unchanged
    _beginnings: dict[str, frozenset[str]] = field(init=False, repr=False)
    _whole: dict[str, frozenset[str]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        checked = Lexicon.from_mapping(self.meanings).entries
        beginnings = {name.removesuffix("*"): known for name, known in checked.items() if name.endswith("*")}
        by_length = dict(sorted(beginnings.items(), key=lambda entry: -len(entry[0])))
        object.__setattr__(self, "_beginnings", by_length)
        object.__setattr__(self, "_whole", dict(checked))

    def attributes(self, fields: Iterable[str]) -> frozenset[str]:
        """The union of what the fields mean."""
        return frozenset().union(*(self.meaning(name) or () for name in self.of_reading(frozenset(fields))))

    def meaning(self, name: str) -> frozenset[str] | None:
        """The attributes of one field, None where the table does not have it."""
        known = self._whole.get(name)
        if known is not None:
            return known
        return next((known for start, known in self._beginnings.items() if name.startswith(start)), None)
