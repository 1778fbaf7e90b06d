"""A built corpus as a `Corpus`: what is known of the whole is in its manifest, sentences are made when asked for."""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn, TypeVar, overload

import numpy as np

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import CorpusError
from llrnn.text.corpus import Corpus, Sentence
from llrnn.text.ids import EncodedText, Run, Stored
from llrnn.text.readers import PlainTokens
from llrnn.text.shards.layout import BLOCK, MANIFEST, Manifest, ShardColumn, check_files, read_manifest
from llrnn.text.vocabulary import EOS, Vocabulary

# A built corpus as an `EncodedText`: ids of any vocabulary, looked up where they lie.
#
#     symbol[t] = number[word[t]]          inside[t] = log q[word[t]]
#
# `number` and `log q` have one entry for each word of the corpus, so a built corpus serves every model that has a place
# for its words. In memory are these, the lengths of the sentences once batches of sentences are planned, and a batch.


T = TypeVar("T")
_EMPTY = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Source:
    """The columns of a corpus with what a vocabulary makes of its words."""

    place: str  # for messages
    words: ShardColumn
    ends: ShardColumn
    keys: ShardColumn
    number: Ints  # (words of the corpus,) ids of the vocabulary
    log_inside: Floats  # (words of the corpus,)
    eos: int
    shown_at: Ints = field(default_factory=lambda: _EMPTY)  # sorted places at which another symbol is shown
    shown: Ints = field(default_factory=lambda: _EMPTY)

    def symbols(self, places: Ints) -> Ints:
        """The ids at places of the words, in their shape."""
        found = self.looked_up(self.number, self.words[places])
        if len(self.shown_at):
            near = np.minimum(np.searchsorted(self.shown_at, places), len(self.shown_at) - 1)
            found = np.where(self.shown_at[near] == places, self.shown[near], found)
        return found

    def looked_up(self, table: np.ndarray[Any, np.dtype[Any]], words: Ints) -> np.ndarray[Any, np.dtype[Any]]:
        """Entries of a table by words of the corpus; -1 for those of which the manifest says that there are none."""
        if words.size and (words.min() < 0 or words.max() >= len(table) or (self.number[words] < 0).any()):
            raise CorpusError(
                "only words that corpus.json counts are required, found another: a file was altered after the build; "
                "`llrnn corpus check` says which",
                path=self.place,
            )
        return table[words]

    def bounds(self, sentence: int) -> tuple[int, int]:
        """Where the words of a sentence begin, and where its end stands."""
        start, stop = self.ends[np.array([max(sentence - 1, 0), sentence])].tolist()
        return (0 if sentence == 0 else start), stop - 1

    def words_of(self, sentence: int) -> Ints:
        """The words of a sentence by their numbers in the corpus."""
        return self.words.slice(*self.bounds(sentence))


class _Lazy(Sequence[T]):
    """`count` things, each made when it is asked for; a slice is in memory."""

    def __init__(self, count: int, make: Callable[[int], T]) -> None:
        self._count, self._make = count, make

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(self._count)))
        if not -self._count <= index < self._count:
            raise IndexError(index)
        return self._make(int(index) % self._count)


@dataclass(frozen=True)
class _RunOnDisk:
    source: Source
    with_keys: bool
    with_inside: bool

    def __len__(self) -> int:
        return len(self.source.words) + 1

    def symbols_at(self, places: Ints) -> Ints:
        """Before the first word there is an end of sentence."""
        return np.where(places > 0, self.source.symbols(np.maximum(places - 1, 0)), self.source.eos)

    def keys_at(self, places: Ints) -> Ints | None:
        if not self.with_keys:
            return None
        source = self.source
        return source.keys[source.ends.places(np.maximum(places - 1, 0), source.words.begins)]

    def inside_at(self, places: Ints) -> Floats | None:
        if not self.with_inside:
            return None
        found = self.source.looked_up(self.source.log_inside, self.source.words[np.maximum(places - 1, 0)])
        return np.where(places > 0, found, 0.0)


@dataclass(frozen=True)
class BuiltText(EncodedText):
    """A text whose numbers stay on disk."""

    source: Source = field(kw_only=True)
    identity: str = field(kw_only=True)  # the SHA-256 of all that the corpus holds
    with_keys: bool = field(default=False, kw_only=True)

    @classmethod
    def of(cls, source: Source, identity: str, *, with_keys: bool = False, is_open: bool = False) -> BuiltText:
        count = len(source.ends)
        inside = _Lazy(count, lambda i: source.looked_up(source.log_inside, source.words_of(i))) if is_open else None
        sentences = _Lazy(count, lambda i: source.symbols(np.arange(*source.bounds(i))))
        nothing = _Lazy(count, lambda i: None)
        return cls(sentences, nothing, source.eos, None, inside, source=source, identity=identity, with_keys=with_keys)

    @property
    def lengths(self) -> Ints:
        """Eight bytes for each sentence: what planning batches of sentences needs."""
        found = np.empty(len(self.source.ends), dtype=np.int64)
        done, before = 0, 0
        for ends in self.source.ends.blocks():
            found[done : done + len(ends)] = np.diff(ends, prepend=before)
            done, before = done + len(ends), int(ends[-1])
        return found

    @property
    def n_targets(self) -> int:
        return len(self.source.words)

    def keys_of(self, group: Ints) -> Ints | None:
        return self.source.keys[group] if self.with_keys else None

    def run(self) -> Run:
        return _RunOnDisk(self.source, self.with_keys, self.inside is not None)

    def stream(self) -> Ints:
        """All of it in memory, eight bytes a word: for what cannot do without."""
        return self.run().symbols_at(np.arange(len(self.source.words) + 1))

    def counts(self, n_symbols: int) -> Ints:
        counts = np.zeros(n_symbols, dtype=np.int64)
        for places in _blocks(len(self.source.words)):
            counts += np.bincount(self.source.symbols(places), minlength=n_symbols)
        return counts

    def digest(self) -> str:
        """Of the corpus and of the numbers that its words have, not of every sentence."""
        digest = hashlib.sha256(self.identity.encode())
        for part in (self.source.number, self.source.shown_at, self.source.shown):
            digest.update(f"{len(part)} ".encode() + part.tobytes())
        return digest.hexdigest()

    def fingerprints(self) -> Ints:
        """As for a text in memory; the distinct ones are kept, eight bytes each."""
        found, new = _EMPTY, array("q")
        for sentence in self._one_by_one():
            new.append(int.from_bytes(hashlib.blake2b(sentence, digest_size=8).digest(), "little", signed=True))
            if len(new) >= BLOCK + len(found) // 2:  # merged once there are many, not at every block
                found, new = np.union1d(found, np.frombuffer(new, dtype=np.int64)), array("q")
        return np.union1d(found, np.array(new, dtype=np.int64))

    def _one_by_one(self) -> Iterator[memoryview]:
        """The bytes of every sentence without its end, from one pass over the words."""
        source, first, begin = self.source, 0, 0
        while first < len(source.ends):
            far = np.array([min(begin + BLOCK, len(source.words) - 1)])
            last = max(first + 1, int(source.ends.places(far, source.words.begins)[0]))
            ends = source.ends.slice(first, last)
            symbols = source.symbols(np.arange(begin, int(ends[-1])))
            view, cuts = memoryview(symbols.tobytes()), ((ends - begin) * symbols.itemsize).tolist()
            for start, stop in zip([0, *cuts[:-1]], cuts, strict=True):
                yield view[start : stop - symbols.itemsize]
            first, begin = last, int(ends[-1])


def _blocks(count: int) -> Iterator[Ints]:
    return (np.arange(start, min(start + BLOCK, count)) for start in range(0, count, BLOCK))


def is_built(path: str | PathLike[str]) -> bool:
    """Whether this is the folder of a built corpus."""
    return (Path(path) / MANIFEST).is_file()


class _CorpusSentences(_Lazy[Sentence]):
    """Words from their numbers."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        super().__init__(manifest.sentences, self._sentence)
        self.folder, self.manifest = folder, manifest
        words, ends, keys = (ShardColumn(folder, manifest, name) for name in ("words", "ends", "keys"))
        n = len(manifest.words)
        self.plain = Source(str(folder), words, ends, keys, np.arange(n), np.zeros(n), manifest.words.index(EOS))
        self._tokens = PlainTokens()

    def _sentence(self, number: int) -> Sentence:
        numbers = self.plain.looked_up(self.plain.number, self.plain.words_of(number))
        words = (self.manifest.words[word] for word in numbers.tolist())
        return Sentence(tuple([self._tokens[word] for word in words]), name=f"{self.folder}: sentence {number + 1}")


@dataclass(frozen=True, repr=False)
class BuiltCorpus(Corpus, Stored):
    """The corpus in a folder that `llrnn corpus build` made; see `text.shards.layout` for what is in it."""

    def __init__(self, folder: str | PathLike[str]) -> None:
        folder = Path(folder)
        object.__setattr__(self, "sentences", _CorpusSentences(folder, read_manifest(folder)))
        object.__setattr__(self, "name", str(folder))

    @property
    def manifest(self) -> Manifest:
        return self._on_disk.manifest

    @property
    def folder(self) -> Path:
        return self._on_disk.folder

    @property
    def _on_disk(self) -> _CorpusSentences:
        assert isinstance(self.sentences, _CorpusSentences)
        return self.sentences

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

    def encoded_to_train_on(self, vocabulary: Vocabulary) -> EncodedText:
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
