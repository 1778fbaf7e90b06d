"""A built corpus as a `Text`: ids of any vocabulary, looked up where they lie.

    symbol[t] = number[word[t]]          inside[t] = log q[word[t]]

`number` and `log q` have one entry for each word of the corpus, so a built corpus serves every model that has a place
for its words. In memory are these, the lengths of the sentences once batches of sentences are planned, and a batch.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import CorpusError
from llrnn.text.ids import Run, Text
from llrnn.text.shards.columns import BLOCK, Column

_EMPTY = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Source:
    """The columns of a corpus with what a vocabulary makes of its words."""

    place: str  # for messages
    words: Column
    ends: Column
    keys: Column
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


class _Sentences(Sequence[Any]):
    """One array for each sentence, made when it is asked for."""

    def __init__(self, source: Source, table: np.ndarray[Any, np.dtype[Any]] | None = None) -> None:
        self._source, self._table = source, table

    def __len__(self) -> int:
        return len(self._source.ends)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        start, stop = self._source.bounds(int(index) % len(self))
        if self._table is not None:
            return self._source.looked_up(self._table, self._source.words.slice(start, stop))
        return self._source.symbols(np.arange(start, stop))


class _Nothing(Sequence[None]):
    """The conditions of sentences that have none."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> None: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[None]: ...
    def __getitem__(self, index: int | slice) -> Sequence[None] | None:
        if isinstance(index, slice):
            return _Nothing(len(range(*index.indices(self._count))))
        if not -self._count <= index < self._count:
            raise IndexError(index)
        return None


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
class BuiltText(Text):
    """A text whose numbers stay on disk."""

    source: Source = field(kw_only=True)
    identity: str = field(kw_only=True)  # the SHA-256 of all that the corpus holds
    with_keys: bool = field(default=False, kw_only=True)

    @classmethod
    def of(cls, source: Source, identity: str, *, with_keys: bool = False, is_open: bool = False) -> BuiltText:
        inside = _Sentences(source, source.log_inside) if is_open else None
        sentences, nothing = _Sentences(source), _Nothing(len(source.ends))
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
