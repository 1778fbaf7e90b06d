"""Features found by name, or by a pattern in which `*` stands for anything.

Names and patterns come from users and from requests, so every answer has its bound: a pattern is looked for from left
to right, part by part, without going back; the leftmost place of a part leaves most for the parts to come.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence

import numpy as np

from llrnn.caches import ByteCache
from llrnn.domain import Ints
from llrnn.errors import ConfigError

STAR = "*"
_REMEMBERED = 4 * 2**20  # bytes of names and patterns that were resolved
_COMPARED = 2000  # names that a mistaken one is compared with: each takes some microseconds
_LONGEST_MISTAKE = 100  # characters


def matches(pattern: str, name: str) -> bool:
    """Whether a name is spelled as a pattern says; at most one search for each of its parts."""
    first, *rest = pattern.split(STAR)
    if not rest:
        return name == first
    *middle, last = rest
    end = len(name) - len(last)
    at = len(first)
    if at > end or not name.startswith(first) or not name.endswith(last):
        return False
    for part in filter(None, middle):
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
        what = f"matches the pattern {feature!r}" if STAR in feature else f"is named {feature!r}"
        raise ConfigError(f"none of the {len(self)} features of this model {what}; {self._advice(feature)}")

    def _matching(self, pattern: str) -> Ints:
        return np.array([k for k, name in enumerate(self.names) if matches(pattern, name)], dtype=np.int64)

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
