"""Features that name the word itself, or what a lexicon says of it."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain, groupby

from llrnn.ground.errors import FeatureError, LexiconError
from llrnn.knowledge.features.base import Features, commonest
from llrnn.text.vocabulary import EOS, Vocabulary


class Identity(Features):
    """Which word it is, for the `top` most frequent (all of them by default); one feature for all the others.

    Of an open vocabulary, a string that is not listed is named by its cell where all words are named. The words in
    `without` (names, say) are among the others however frequent they are: what is learnt of them holds for new ones.
    """

    def __init__(self, top: int | None = None, *, without: Collection[str] = ()) -> None:
        if top is not None and top < 0:
            raise FeatureError(f"Identity(top=M) needs M of 0 or more, found {top}")
        self._top, self._without = top, frozenset(without)
        self._listed: frozenset[str] = frozenset()

    def fitted(self, vocabulary: Vocabulary) -> Features:
        return self._fitted(vocabulary, _listed=frozenset(vocabulary.words[: self._top]))

    def __call__(self, symbol: str) -> Mapping[str, float]:
        known = self._vocabulary if self._top is None else self._require_fitted()
        if symbol in self._without:
            return {self._other: 1.0}
        if known is None or symbol in self._listed:
            return {f"Word:{symbol}": 1.0}
        return {self._other if self._top is not None else f"Word:{known.symbols[known.id(symbol)]}": 1.0}

    @property
    def _other(self) -> str:
        return "NotAmong:named" if self._top is None else f"NotAmong:{self._top}"

    def __repr__(self) -> str:
        given = [] if self._top is None else [f"top={self._top}"]
        return f"Identity({', '.join(given + [f'without {len(self._without)} words'] * bool(self._without))})"


class Attributes(Features):
    """What a lexicon says of the word: `POS:NOUN`, `Gender:Fem`, ...; the boundary of sentences has its own."""

    BOUNDARY = "Boundary"

    def __init__(self, lexicon: Callable[[str], Iterable[str]]) -> None:
        self._lexicon = lexicon

    def __call__(self, symbol: str) -> Mapping[str, float]:
        if symbol == EOS:
            return {self.BOUNDARY: 1.0}
        return dict.fromkeys(sorted(self._lexicon(symbol)), 1.0)

    def declared(self) -> tuple[str, ...]:
        return self._asked("attributes")

    def deviations(self) -> Iterable[str]:
        return self._asked("forms")

    def _asked(self, method: str) -> tuple[str, ...]:
        asked = getattr(self._lexicon, method, None)
        try:
            return tuple(asked()) if callable(asked) else ()
        except LexiconError:  # a lexicon with functions in it cannot list what it knows
            return ()

    def __repr__(self) -> str:
        return f"Attributes({self._lexicon!r})"


class CellAttributes(Features):
    """What the string itself shows, as the domains of the vocabulary see it: the attributes of its cell.

    Listed words that look like those of a cell have the same features as the cell, and so teach the model about words
    that nobody listed. Those have one feature more, `New:spelling` or whatever domain they are from: where new words
    are to be expected is worth knowing too.
    """

    def __init__(self) -> None:
        self._listed: dict[str, tuple[str, ...]] = {}

    def fitted(self, vocabulary: Vocabulary) -> Features:
        if not vocabulary.is_open:
            raise FeatureError(
                "CellAttributes needs a vocabulary with domains, found none; give one, or take Suffixes and Shape"
            )
        known = [*vocabulary.words, *chain.from_iterable(vocabulary.witnesses.values())]  # all at once: that is cheaper
        return self._fitted(vocabulary, _listed=dict(zip(known, _shown(vocabulary, known), strict=True)))

    def __call__(self, symbol: str) -> Mapping[str, float]:
        vocabulary = self._require_fitted()
        if symbol == EOS:
            return {}
        found = self._listed.get(symbol)
        return dict.fromkeys(found if found is not None else _shown(vocabulary, [symbol])[0], 1.0)


def _shown(vocabulary: Vocabulary, words: Sequence[str]) -> list[tuple[str, ...]]:
    """The attributes of the cells that words are in, or would be if they were not listed, (n,)."""
    found: list[tuple[str, ...]] = [()] * len(words)
    for i, number in enumerate(vocabulary.in_domains(words)[0].tolist()):
        if number >= 0:
            cell = vocabulary.cells[number]
            found[i] = cell.attributes if words[i] in vocabulary else (*cell.attributes, f"New:{cell.source}")
    return found


# Features that the spelling shows: beginnings, endings, shape, and what kind of number it is.


class CommonAffixes(Features):
    """The beginnings or endings of 1 to `longest` characters that enough types share."""

    def __init__(self, longest: int = 3, *, min_count: int = 2, top: int | None = None) -> None:
        if longest < 1:
            raise FeatureError(f"{type(self).__name__} needs a longest length of 1 or more, found {longest}")
        self._longest, self._min_count, self._top = longest, min_count, top
        self._known: frozenset[str] = frozenset()

    @abstractmethod
    def _affix(self, symbol: str, length: int) -> str:
        """The beginning or the ending of this length."""

    def _affixes(self, symbol: str) -> list[str]:
        """Proper affixes only: the whole word is Identity's business."""
        if symbol == EOS:
            return []
        return [self._affix(symbol, length) for length in range(1, min(self._longest, len(symbol) - 1) + 1)]

    def fitted(self, vocabulary: Vocabulary) -> Features:
        affixes = (affix for symbol in vocabulary.words for affix in self._affixes(symbol))
        return self._fitted(vocabulary, _known=commonest(affixes, self._min_count, self._top))

    def __call__(self, symbol: str) -> Mapping[str, float]:
        self._require_fitted()
        return {f"{type(self).__name__[:-2]}:{affix}": 1.0 for affix in self._affixes(symbol) if affix in self._known}

    def __repr__(self) -> str:
        top = "" if self._top is None else f", top={self._top}"
        return f"{type(self).__name__}({self._longest}, min_count={self._min_count}{top})"


class Prefixes(CommonAffixes):
    """`Prefix:re` and the like: the beginnings that at least `min_count` types share."""

    def _affix(self, symbol: str, length: int) -> str:
        return symbol[:length]


class Suffixes(CommonAffixes):
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
