"""The listed symbols V, frozen: symbol ↔ id, with how often each was seen.

One symbol, `EOS`, marks the boundary of sentences: it is predicted at the end of a sentence and fed at the start of the
next, so that V is the same on the way in and on the way out. There is no UNK unless one is asked for by name.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from llrnn.corpus import Corpus
from llrnn.errors import UnknownWordError, VocabularyError

EOS = "</s>"


class Vocabulary:
    """Symbols in the order of their ids, most frequent first when made from a corpus."""

    def __init__(
        self, symbols: Iterable[str], *, counts: Sequence[int] | None = None, unknown: str | None = None
    ) -> None:
        self.symbols: tuple[str, ...] = tuple(symbols)
        self.counts: tuple[int, ...] = (0,) * len(self.symbols) if counts is None else tuple(counts)
        self.unknown = unknown
        self._ids = {symbol: index for index, symbol in enumerate(self.symbols)}
        self._check()
        self.eos: int = self._ids[EOS]

    def _check(self) -> None:
        if len(self._ids) != len(self.symbols):
            repeated = next(symbol for symbol, n in Counter(self.symbols).items() if n > 1)
            raise VocabularyError(f"symbols must be distinct, but {repeated!r} is listed more than once")
        for symbol in self.symbols:
            if not isinstance(symbol, str) or symbol.strip() != symbol or len(symbol.splitlines()) != 1:
                raise VocabularyError(
                    f"a symbol must be a non-empty text on one line, without white space around it, found {symbol!r}"
                )
        if EOS not in self._ids:
            raise VocabularyError(f"the vocabulary must list the end-of-sentence symbol {EOS!r}")
        if self.unknown is not None and self.unknown not in self._ids:
            raise VocabularyError(f"the symbol for unknown words, {self.unknown!r}, must be listed itself")
        if len(self.counts) != len(self.symbols):
            raise VocabularyError(
                f"there must be one count for each of the {len(self.symbols)} symbols, found {len(self.counts)}"
            )

    @classmethod
    def from_corpus(cls, *corpora: Corpus, top: int | None = None, unknown: str | None = None) -> Vocabulary:
        """All types of the corpora, or the `top` most frequent; `unknown` names a symbol for all others."""
        counts: Counter[str] = Counter()
        for corpus in corpora:
            counts.update(corpus.counts())
            if EOS in counts:
                raise VocabularyError(
                    f"the corpus {corpus.name!r} holds {EOS!r} as a word, but that symbol marks ends of sentences: "
                    "remove or rename it"
                )
        sentences = sum(len(corpus) for corpus in corpora)
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        listed = dict(ranked if top is None else ranked[:top])
        if unknown is not None:
            listed[unknown] = listed.get(unknown, 0) + sum(counts.values()) - sum(listed.values())
        listed[EOS] = sentences
        symbols = sorted(listed, key=lambda symbol: (-listed[symbol], symbol))
        return cls(symbols, counts=[listed[symbol] for symbol in symbols], unknown=unknown)

    def __len__(self) -> int:
        return len(self.symbols)

    def __iter__(self) -> Iterator[str]:
        return iter(self.symbols)

    def __contains__(self, symbol: object) -> bool:
        return symbol in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.symbols == other.symbols and self.unknown == other.unknown

    def __hash__(self) -> int:
        return hash((self.symbols, self.unknown))

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} symbols)"

    def id(self, symbol: str, *, place: str = "") -> int:
        """The id of a symbol; `place` says in the error where the symbol was found."""
        found = self._ids.get(symbol)
        if found is None:
            if self.unknown is None:
                raise UnknownWordError(symbol, size=len(self), place=place)
            return self._ids[self.unknown]
        return found

    def ids(self, symbols: Iterable[str], *, place: str = "") -> list[int]:
        return [self.id(symbol, place=place) for symbol in symbols]

    def digest(self) -> str:
        """SHA-256 of the symbols in order: two models with the same digest share ids."""
        return hashlib.sha256("\n".join(self.symbols).encode()).hexdigest()
