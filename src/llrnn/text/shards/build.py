"""From text files to a built corpus, one line at a time.

    pass 1   count the words of all files, choose those to list           (not where the list is given)
    pass 2   numbers of words into shards, each file with its SHA-256     memory: the words, and a million numbers

All of it happens in the folder `.NAME.building` beside the result, which gets its name when everything is on disk. A
build that is killed leaves that folder; the next one removes it. The bytes depend on the texts and the options alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import BinaryIO

import numpy as np

from llrnn.ground.errors import CorpusError, UnknownWordError
from llrnn.ground.files import StrPath, sync_folder
from llrnn.text.corpus import Format, Words, stream_words
from llrnn.text.ids import sentence_key
from llrnn.text.shards.layout import BLOCK, COLUMNS, Manifest, Shard, write_manifest
from llrnn.text.shards.reading import BuiltCorpus
from llrnn.text.vocabulary import EOS, Vocabulary, by_frequency, with_others

SHARD_WORDS = 50_000_000


@dataclass(frozen=True)
class Listing:
    """Which words are listed: those given, in this order; or of the texts the `top` most frequent, or all."""

    words: Sequence[str] | None = None
    top: int | None = None
    min_count: int = 1
    unknown: str | None = None  # a symbol for all others; without it, one more word is an error

    def __post_init__(self) -> None:
        if self.words is not None and (self.top is not None or self.min_count > 1):
            raise CorpusError("words are either given or chosen by their counts; leave one of the two out")
        if self.unknown == EOS:
            raise CorpusError(f"the symbol for unknown words must not be {EOS}, the end of sentences; name another")
        if (self.top is not None or self.min_count > 1) and self.unknown is None:
            raise CorpusError("a limit leaves words out, and a symbol for them is required: give one, such as <unk>")

    def symbols(self, texts: Iterator[Words]) -> tuple[str, ...]:
        """The words by number; those of texts are most frequent first, as `Vocabulary.from_corpus` has them."""
        if self.words is not None:
            more = [] if self.unknown is None else [self.unknown]
            return Vocabulary(dict.fromkeys([*self.words, *more, EOS]), unknown=self.unknown).words
        counts: Counter[str] = Counter()
        sentences = 0
        for _, words in texts:
            counts.update(words)
            sentences += 1
        frequent = by_frequency({word: count for word, count in counts.items() if count >= self.min_count})[: self.top]
        listed = with_others({word: counts[word] for word in frequent}, self.unknown, counts.total(), sentences)
        return Vocabulary(by_frequency(listed), unknown=self.unknown).words


def build_corpus(
    paths: Sequence[StrPath],
    out: str | PathLike[str],
    *,
    listing: Listing | None = None,
    lowercase: bool = False,
    format: Format = "auto",
    shard_words: int = SHARD_WORDS,
) -> BuiltCorpus:
    """Write the texts as a built corpus into a new folder; all of it or nothing."""
    if not paths:
        raise CorpusError("at least one file is required, found none; name one")
    if shard_words < 1:
        raise CorpusError(f"a shard must hold a word, found room for {shard_words}; give 1 or more")
    out, listing = Path(out), listing or Listing()
    if out.exists():
        raise CorpusError("a new folder is required, but there is something of this name; choose another", path=out)
    try:
        with _being_built(out) as folder:
            symbols = listing.symbols(stream_words(paths, format=format, lowercase=lowercase))
            with contextlib.closing(_Writer(folder, symbols, listing.unknown, shard_words)) as writer:
                for place, words in stream_words(paths, format=format, lowercase=lowercase):
                    writer.add(place, words)
                write_manifest(folder, writer.finished(lowercase))
    except OSError as error:
        raise CorpusError(
            f"the corpus cannot be written: {error.strerror or error}; choose a place with more room or other rights",
            path=out,
        ) from error
    return BuiltCorpus(out)


@contextlib.contextmanager
def _being_built(out: Path) -> Iterator[Path]:
    """An empty folder that gets its name if all goes well, and is removed if not; two cannot build the same."""
    out.parent.mkdir(parents=True, exist_ok=True)
    building, mark = out.parent / f".{out.name}.building", out.parent / f".{out.name}.lock"
    with mark.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a killed process holds none
        except OSError:
            raise CorpusError(
                "another process is building this corpus; wait for it, or name another", path=out
            ) from None
        try:
            shutil.rmtree(building, ignore_errors=True)  # of a build that was killed
            building.mkdir()
            yield building
            os.rename(building, out)
            sync_folder(out.parent)
        finally:
            shutil.rmtree(building, ignore_errors=True)
            mark.unlink(missing_ok=True)


class _Numbers(dict[str, int]):
    """word -> number; that of the symbol for unknown words where there is one."""

    unknown: int | None = None

    def __missing__(self, word: str) -> int:
        if self.unknown is None:
            raise UnknownWordError(word, size=len(self))
        return self.unknown


class _File:
    """A column of one shard, written piece by piece."""

    def __init__(self, path: Path, kind: str) -> None:
        self._file: BinaryIO = path.open("wb")
        self._digest, self._kind = hashlib.sha256(), kind

    def write(self, numbers: array[int]) -> None:
        piece = np.array(numbers, dtype=self._kind).tobytes()
        self._digest.update(piece)
        self._file.write(piece)

    def synced(self) -> str:
        """Its SHA-256, once all of it is on disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._digest.hexdigest()

    def close(self) -> None:
        self._file.close()


class _Writer:
    """Sentences into shards."""

    def __init__(self, folder: Path, symbols: tuple[str, ...], unknown: str | None, shard_words: int) -> None:
        self._folder, self._symbols, self._unknown, self._shard_words = folder, symbols, unknown, shard_words
        self._numbers = _Numbers(zip(symbols, range(len(symbols)), strict=True))
        self._numbers.unknown = None if unknown is None else self._numbers[unknown]
        self._eos = self._numbers[EOS]
        self._counts = np.zeros(len(symbols), dtype=np.int64)
        self._pending = {"words": array("i"), "ends": array("q"), "keys": array("q")}
        self._shards: list[Shard] = []
        self._files: dict[str, _File] = {}
        self._total = self._begun = self._sentences = self._sentences_before = self._characters = 0

    def add(self, place: str, words: list[str]) -> None:
        if EOS in words:
            raise CorpusError(f"{place}: {EOS} marks ends of sentences, which lines do already; remove or rename it")
        numbers = self._pending["words"]
        try:
            numbers.extend(map(self._numbers.__getitem__, words))
        except UnknownWordError as error:
            raise UnknownWordError(error.word, size=len(self._symbols), place=place) from None
        numbers.append(self._eos)
        self._total += len(words) + 1
        self._characters += sum(map(len, words)) + len(words)
        self._sentences += 1
        self._pending["ends"].append(self._total)
        self._pending["keys"].append(sentence_key(words))
        if self._total - self._begun >= self._shard_words:
            self._end_shard()
        elif len(numbers) >= BLOCK:
            self._flush()

    def _flush(self) -> None:
        self._counts += np.bincount(np.array(self._pending["words"]), minlength=len(self._symbols))
        for column, kind in COLUMNS.items():
            if column not in self._files:
                self._files[column] = _File(self._folder / f"{len(self._shards):05}.{column}", kind)
            self._files[column].write(self._pending[column])
            del self._pending[column][:]

    def _end_shard(self) -> None:
        self._flush()
        digests = {column: file.synced() for column, file in self._files.items()}
        self.close()
        sentences, words = self._sentences - self._sentences_before, self._total - self._begun
        self._shards.append(Shard(f"{len(self._shards):05}", sentences, words, digests))
        self._files, self._begun, self._sentences_before = {}, self._total, self._sentences

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def finished(self, lowercase: bool) -> Manifest:
        if self._total > self._begun:
            self._end_shard()
        return Manifest(
            words=self._symbols,
            counts=tuple(self._counts.tolist()),
            unknown=self._unknown,
            lowercase=lowercase,
            sentences=self._sentences,
            tokens=self._total - self._sentences,
            characters=self._characters,
            shards=tuple(self._shards),
        )
