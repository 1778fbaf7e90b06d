"""Features that name the word itself, or what a lexicon says of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain

from llrnn.ground.errors import FeatureError, LexiconError
from llrnn.knowledge.features.base import Features
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
        self._listed: frozenset[str] | None = None
        self._vocabulary: Vocabulary | None = None

    def fitted(self, vocabulary: Vocabulary) -> Features:
        fitted = Identity(self._top, without=self._without)
        fitted._listed = frozenset(vocabulary.words[: self._top])
        fitted._vocabulary = vocabulary
        return fitted

    def __call__(self, symbol: str) -> Mapping[str, float]:
        if self._listed is None and self._top is not None:
            raise FeatureError("Identity(top=M) must be fitted to a vocabulary before it is used")
        if symbol in self._without:
            return {self._other: 1.0}
        if self._listed is None or symbol in self._listed:
            return {f"Word:{symbol}": 1.0}
        if self._top is None and self._vocabulary is not None:
            return {f"Word:{self._vocabulary.symbols[self._vocabulary.id(symbol)]}": 1.0}
        return {self._other: 1.0}

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
        attributes = getattr(self._lexicon, "attributes", None)
        try:
            return tuple(attributes()) if callable(attributes) else ()
        except LexiconError:  # a lexicon with functions in it cannot list what it knows
            return ()

    def deviations(self) -> Iterable[str]:
        forms = getattr(self._lexicon, "forms", None)
        try:
            return tuple(forms()) if callable(forms) else ()
        except LexiconError:  # a lexicon with functions in it cannot list what it knows
            return ()

    def __repr__(self) -> str:
        return f"Attributes({self._lexicon!r})"


class Shown(Features):
    """What the string itself shows, as the domains of the vocabulary see it: the attributes of its cell.

    Listed words that look like those of a cell have the same features as the cell, and so teach the model about words
    that nobody listed. Those have one feature more, `New:spelling` or whatever domain they are from: where new words
    are to be expected is worth knowing too.
    """

    def __init__(self) -> None:
        self._vocabulary: Vocabulary | None = None
        self._listed: dict[str, tuple[str, ...]] = {}

    def fitted(self, vocabulary: Vocabulary) -> Features:
        if not vocabulary.is_open:
            raise FeatureError(
                "Shown needs a vocabulary with domains, found none; give one, or take Suffixes and Shape"
            )
        fitted = Shown()
        fitted._vocabulary = vocabulary
        known = [*vocabulary.words, *chain.from_iterable(vocabulary.witnesses.values())]  # all at once: that is cheaper
        fitted._listed = dict(zip(known, _shown(vocabulary, known), strict=True))
        return fitted

    def __call__(self, symbol: str) -> Mapping[str, float]:
        if self._vocabulary is None:
            raise FeatureError("Shown must be fitted to a vocabulary before it is used")
        if symbol == EOS:
            return {}
        found = self._listed.get(symbol)
        return dict.fromkeys(found if found is not None else _shown(self._vocabulary, [symbol])[0], 1.0)


def _shown(vocabulary: Vocabulary, words: Sequence[str]) -> list[tuple[str, ...]]:
    """The attributes of the cells that words are in, or would be if they were not listed, (n,)."""
    found: list[tuple[str, ...]] = [()] * len(words)
    for i, number in enumerate(vocabulary.in_domains(words)[0].tolist()):
        if number >= 0:
            cell = vocabulary.cells[number]
            found[i] = cell.attributes if words[i] in vocabulary else (*cell.attributes, f"New:{cell.source}")
    return found
