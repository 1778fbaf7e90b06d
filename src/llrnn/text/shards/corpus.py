"""A built corpus as a `Corpus`: what is known of the whole is in its manifest, sentences are made when asked for."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import NoReturn, overload

import numpy as np

from llrnn.ground.arrays import Ints
from llrnn.ground.errors import CorpusError
from llrnn.text.corpus import Corpus, Sentence
from llrnn.text.corpus.text import PlainTokens
from llrnn.text.ids import Stored, Text
from llrnn.text.shards.columns import Column
from llrnn.text.shards.layout import MANIFEST, Manifest, check_files, read_manifest
from llrnn.text.shards.text import BuiltText, Source
from llrnn.text.vocabulary import EOS, Vocabulary


def is_built(path: str | PathLike[str]) -> bool:
    """Whether this is the folder of a built corpus."""
    return (Path(path) / MANIFEST).is_file()


class _Sentences(Sequence[Sentence]):
    """Words from their numbers. A slice is in memory."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest
        self.plain = Source(
            str(folder),
            Column(folder, manifest, "words"),
            Column(folder, manifest, "ends"),
            Column(folder, manifest, "keys"),
            np.arange(len(manifest.words)),
            np.zeros(len(manifest.words)),
            manifest.words.index(EOS),
        )
        self._tokens = PlainTokens()

    def __len__(self) -> int:
        return self.manifest.sentences

    @overload
    def __getitem__(self, index: int) -> Sentence: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Sentence, ...]: ...
    def __getitem__(self, index: int | slice) -> Sentence | tuple[Sentence, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        number = index % len(self)
        start, stop = self.plain.bounds(number)
        numbers = self.plain.looked_up(self.plain.number, self.plain.words.slice(start, stop))
        words = (self.manifest.words[word] for word in numbers.tolist())
        return Sentence(tuple([self._tokens[word] for word in words]), name=f"{self.folder}: sentence {number + 1}")


@dataclass(frozen=True, repr=False)
class BuiltCorpus(Corpus, Stored):
    """The corpus in a folder that `llrnn corpus build` made; see `text.shards.layout` for what is in it."""

    def __init__(self, folder: str | PathLike[str]) -> None:
        folder = Path(folder)
        object.__setattr__(self, "sentences", _Sentences(folder, read_manifest(folder)))
        object.__setattr__(self, "name", str(folder))

    @property
    def manifest(self) -> Manifest:
        return self._on_disk.manifest

    @property
    def folder(self) -> Path:
        return self._on_disk.folder

    @property
    def _on_disk(self) -> _Sentences:
        assert isinstance(self.sentences, _Sentences)
        return self.sentences

    def __len__(self) -> int:
        return self.manifest.sentences

    def __iter__(self) -> Iterator[Sentence]:
        return iter(self.sentences)

    def __add__(self, other: Corpus) -> NoReturn:
        raise CorpusError("a built corpus cannot be run together with another text; build both as one", path=self.name)

    __radd__ = __add__

    @property
    def tokens(self) -> int:
        return self.manifest.tokens

    @property
    def characters(self) -> int:
        return self.manifest.characters

    @property
    def conditions(self) -> Sequence[object]:
        """None: a built corpus keeps words only."""
        return ()

    @property
    def unknown(self) -> str | None:
        """The symbol that stands for the words that were not listed."""
        return self.manifest.unknown

    @property
    def vocabulary(self) -> Vocabulary:
        """Its words by number, with their counts."""
        return Vocabulary(self.manifest.words, counts=self.manifest.counts, unknown=self.manifest.unknown)

    def counts(self) -> Counter[str]:
        pairs = zip(self.manifest.words, self.manifest.counts, strict=True)
        return Counter({word: count for word, count in pairs if count and word != EOS})

    def lowercased(self) -> Corpus:
        if not self.manifest.lowercase:
            raise CorpusError("built as its words were written; build it again with --lowercase", path=self.folder)
        return self

    def check(self) -> int:
        """Compare every file with its SHA-256; the number of bytes that were read."""
        return check_files(self.folder, self.manifest)

    def stream(self) -> Ints:
        """EOS, sentence, EOS, ..., EOS by the numbers of `manifest.words`, in memory."""
        return BuiltText.of(self._on_disk.plain, "").stream()

    def run_blocks(self) -> Iterator[Ints]:
        """The same in pieces, without the first EOS."""
        return self._on_disk.plain.words.blocks()

    def encoded(self, vocabulary: Vocabulary) -> BuiltText:
        """A text of the ids of any vocabulary that has a place for all words."""
        return BuiltText.of(self._source(vocabulary), self._identity(), is_open=vocabulary.is_open)

    def encoded_to_train_on(self, vocabulary: Vocabulary) -> Text:
        """With keys; words of `vocabulary.as_new` are first shown as their cells."""
        source = self._source(vocabulary)
        new = sorted(vocabulary.as_new)
        others = dict(zip(vocabulary.ids(new), vocabulary.cells_of(new).tolist(), strict=True))
        return BuiltText.of(_first_shown_as(source, others), self._identity(), with_keys=True)

    def _source(self, vocabulary: Vocabulary) -> Source:
        words, unknown = self.manifest.words, self.manifest.unknown
        asked = [word for word, count in zip(words, self.manifest.counts, strict=True) if count]
        if unknown in asked and unknown not in vocabulary:
            raise CorpusError(
                f"words outside a list were replaced by {unknown!r} when this corpus was built, but the vocabulary "
                "does not list it; build the corpus with all its words, or with the words of the model (--vocabulary)",
                path=self.folder,
            )
        ids, inside = vocabulary.locate(asked, place=str(self.folder))
        number, log_inside = np.full(len(words), -1), np.zeros(len(words))
        there = np.flatnonzero(self.manifest.counts)
        number[there], log_inside[there] = ids, inside
        return replace(self._on_disk.plain, number=number, log_inside=log_inside, eos=vocabulary.eos)

    def _identity(self) -> str:
        files = (digest for shard in self.manifest.shards for digest in shard.sha256.values())
        return hashlib.sha256(" ".join(files).encode()).hexdigest()


def _first_shown_as(source: Source, others: dict[int, int]) -> Source:
    """The first time that some symbols come, others in their place: one pass, until all were found."""
    wanted = np.zeros(int(source.number.max(initial=0)) + 1, dtype=bool)
    wanted[[symbol for symbol in others if symbol < len(wanted)]] = True
    wanted &= np.isin(np.arange(len(wanted)), source.number)
    at: dict[int, int] = {}
    begin = 0
    for block in source.words.blocks():
        if not wanted.any():
            break
        symbols = source.looked_up(source.number, block)
        places = np.flatnonzero(wanted[symbols])
        found, first = np.unique(symbols[places], return_index=True)
        at |= dict(zip((places[first] + begin).tolist(), (others[symbol] for symbol in found.tolist()), strict=True))
        wanted[found] = False
        begin += len(block)
    shown_at = np.array(sorted(at), dtype=np.int64)
    return replace(source, shown_at=shown_at, shown=np.array([at[p] for p in shown_at.tolist()], dtype=np.int64))
