"""Features found by name, or by a pattern in which `*` stands for anything.

Names and patterns come from users and from requests, so every answer has its bound: a pattern is looked for from left
to right, part by part, without going back; the leftmost place of a part leaves most for the parts to come.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence

import numpy as np

from llrnn.ground.arrays import Ints
from llrnn.ground.caches import ByteCache
from llrnn.ground.errors import ConfigError, quoted

STAR = "*"
_REMEMBERED = 4 * 2**20  # bytes of names and patterns that were resolved
_COMPARED = 2000  # names that a mistaken one is compared with: each takes some microseconds
_LONGEST_MISTAKE = 100  # characters


class Pattern:
    """What a name must begin with, hold in this order, and end with."""

    def __init__(self, text: str) -> None:
        first, *rest = text.split(STAR)
        self._first, self._middle, self._last = first, tuple(filter(None, rest[:-1])), rest[-1] if rest else None

    def matches(self, name: str) -> bool:
        """At most one search for each part."""
        if self._last is None:
            return name == self._first
        at, end = len(self._first), len(name) - len(self._last)
        if at > end or not (name.startswith(self._first) and name.endswith(self._last)):
            return False
        for part in self._middle:
            at = name.find(part, at, end)
            if at < 0:
                return False
            at += len(part)
        return True


class FeatureNames:
    """The features of a model by their names: which coordinates of a does a name, or a pattern, mean?"""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._place = {name: k for k, name in enumerate(self.names)}
        self._found: ByteCache[str, Ints] = ByteCache(_REMEMBERED, lambda key, rows: sys.getsizeof(key) + rows.nbytes)

    def __len__(self) -> int:
        return len(self.names)

    def is_pattern(self, feature: str) -> bool:
        """Whether all names must be looked through; what some feature is called is that feature, `Word:*` included."""
        return STAR in feature and feature not in self._place

    def rows(self, feature: str) -> Ints:
        """The coordinates that a name or a pattern means, in their order; one that means none is an error."""
        if feature in self._place:
            return np.array([self._place[feature]])
        if STAR in feature:
            found = self._found.get(feature, lambda: self._matching(feature))
            if len(found):
                return found
        what = f"{'matches the pattern' if STAR in feature else 'is named'} {quoted(feature)}"
        raise ConfigError(f"none of the {len(self)} features of this model {what}; {self._advice(feature)}")

    def _matching(self, pattern: str) -> Ints:
        fits = Pattern(pattern).matches
        return np.array([k for k, name in enumerate(self.names) if fits(name)], dtype=np.int64)

    def _advice(self, feature: str) -> str:
        small: dict[str, str] = {}  # capitals are what is mistaken most
        for name in self._candidates(feature):
            small.setdefault(name.lower(), name)
        close = [small[name] for name in difflib.get_close_matches(feature.lower(), small)]
        if close:
            return f"did you mean {' or '.join(map(repr, close))}?"
        return f"names look like {', '.join(map(repr, self.names[:3]))}, and patterns need a `*`"

    def _candidates(self, feature: str) -> list[str]:
        """Some names that a mistaken one may stand for: of many, those of its group."""
        if len(feature) > _LONGEST_MISTAKE:
            return []
        if len(self) <= _COMPARED:
            return list(self.names)
        group = feature.partition(":")[0].lower()
        return [name for name in self.names if name.lower().startswith(group)][:_COMPARED]
