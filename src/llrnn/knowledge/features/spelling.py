"""Features that the spelling shows: beginnings, endings, shape, and what kind of number it is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import groupby

from llrnn.ground.errors import FeatureError
from llrnn.knowledge.features.base import Features
from llrnn.text.vocabulary import EOS, Vocabulary


class Affixes(Features):
    """The beginnings or endings of 1 to `longest` characters that enough types share."""

    def __init__(self, longest: int = 3, *, min_count: int = 2, top: int | None = None) -> None:
        if longest < 1:
            raise FeatureError(f"{type(self).__name__} needs a longest length of 1 or more, found {longest}")
        self._longest, self._min_count, self._top = longest, min_count, top
        self._known: frozenset[str] | None = None

    def _affix(self, symbol: str, length: int) -> str:
        raise NotImplementedError

    def _affixes(self, symbol: str) -> list[str]:
        """Proper affixes only: the whole word is Identity's business."""
        if symbol == EOS:
            return []
        return [self._affix(symbol, length) for length in range(1, min(self._longest, len(symbol) - 1) + 1)]

    def fitted(self, vocabulary: Vocabulary) -> Features:
        counts = Counter(affix for symbol in vocabulary.words for affix in self._affixes(symbol))
        ranked = sorted(counts, key=lambda affix: (-counts[affix], affix))[: self._top]
        fitted = type(self)(self._longest, min_count=self._min_count, top=self._top)
        fitted._known = frozenset(affix for affix in ranked if counts[affix] >= self._min_count)
        return fitted

    def __call__(self, symbol: str) -> Mapping[str, float]:
        if self._known is None:
            raise FeatureError(f"{type(self).__name__} must be fitted to a vocabulary before they are used")
        return {f"{type(self).__name__[:-2]}:{affix}": 1.0 for affix in self._affixes(symbol) if affix in self._known}

    def __repr__(self) -> str:
        top = "" if self._top is None else f", top={self._top}"
        return f"{type(self).__name__}({self._longest}, min_count={self._min_count}{top})"


class Prefixes(Affixes):
    """`Prefix:re` and the like: the beginnings that at least `min_count` types share."""

    def _affix(self, symbol: str, length: int) -> str:
        return symbol[:length]


class Suffixes(Affixes):
    """`Suffix:ment` and the like: the endings that at least `min_count` types share."""

    def _affix(self, symbol: str, length: int) -> str:
        return symbol[-length:]


def _kind(character: str) -> str:
    if character.isdigit():
        return "9"
    if character.isalpha():
        return "A" if character.isupper() else "a"
    return character


class Shape(Features):
    """`Shape:Aa-9`: capitals, small letters and digits, runs shortened to one; any other sign as itself."""

    def __call__(self, symbol: str) -> Mapping[str, float]:
        if symbol == EOS:
            return {}
        return {"Shape:" + "".join(kind for kind, _ in groupby(symbol, key=_kind)): 1.0}


class Numeric(Features):
    """`Number`; `SmallNumber`, falling from 1 at zero to 0 at `small`; `Year` for what reads like one (paper §3)."""

    _NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)*%?")

    def __init__(self, *, small: float = 100.0, years: Iterable[int] = range(1000, 2100)) -> None:
        if not small > 0:
            raise FeatureError(f"Numeric(small=...) must be above 0, found {small}")
        self._small = small
        self._years = frozenset(str(year) for year in years)

    def __call__(self, symbol: str) -> Mapping[str, float]:
        if not self._NUMBER.fullmatch(symbol):
            return {}
        smallness = 1.0 - abs(_value(symbol)) / self._small
        return (
            {"Number": 1.0}
            | ({"SmallNumber": smallness} if smallness > 0 else {})
            | ({"Year": 1.0} if symbol in self._years else {})
        )

    def __repr__(self) -> str:
        return f"Numeric(small={self._small:g})"


def _value(number: str) -> float:
    """What a number says: a single separator before one or two digits is decimal, any other groups thousands."""
    digits = number.rstrip("%")
    parts = re.split(r"[.,]", digits)
    if len(parts) == 2 and len(parts[1]) != 3:
        return float(f"{parts[0]}.{parts[1]}")
    return float("".join(parts))
