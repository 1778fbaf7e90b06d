"""Features that name the word itself, or what a lexicon says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from llrnn.errors import FeatureError, LexiconError
from llrnn.features.base import Features
from llrnn.vocabulary import EOS, Vocabulary


class Identity(Features):
    """Which word it is, for the `top` most frequent (all of them by default); one feature for all the others."""

    def __init__(self, top: int | None = None) -> None:
        if top is not None and top < 0:
            raise FeatureError(f"Identity(top=M) needs M of 0 or more, found {top}")
        self._top = top
        self._listed: frozenset[str] | None = None

    def fitted(self, vocabulary: Vocabulary) -> Features:
        fitted = Identity(self._top)
        fitted._listed = frozenset(vocabulary.symbols[: self._top])
        return fitted

    def __call__(self, symbol: str) -> Mapping[str, float]:
        if self._listed is None and self._top is not None:
            raise FeatureError("Identity(top=M) must be fitted to a vocabulary before it is used")
        if self._listed is None or symbol in self._listed:
            return {f"Word:{symbol}": 1.0}
        return {f"NotAmong:{self._top}": 1.0}

    def __repr__(self) -> str:
        return "Identity()" if self._top is None else f"Identity(top={self._top})"


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

    def __repr__(self) -> str:
        return f"Attributes({self._lexicon!r})"
