"""From a corpus to batches: sentences, continuous text, fixed windows, or the windows that slide along the text.

Which batch comes when is a function of (seed, epoch, position) alone, so that a killed run resumes where it was, bit
for bit. Every target is predicted exactly once in an epoch, ends of sentences included.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np
import torch

from llrnn.domain import Floats
from llrnn.features.matrix import Ints
from llrnn.model import Batch
from llrnn.text import Text


class Batching(ABC):
    """A way to cut a text into batches."""

    carries_state = False  # whether a batch goes on where the one before it ended

    @abstractmethod
    def plan(self, text: Text, *, seed: int | None = None, epoch: int = 0) -> Sequence[Batch]:
        """The batches of an epoch; in the order of the text where no seed is given."""


def derived_seed(*parts: int) -> int:
    """One seed from several numbers, the same on every machine and in every Python."""
    digest = hashlib.sha256("/".join(str(part) for part in parts).encode()).digest()
    return int.from_bytes(digest[:7], "big")


def _shuffled(count: int, seed: int | None, epoch: int) -> Ints:
    order = np.arange(count)
    if seed is not None:
        np.random.default_rng(derived_seed(seed, epoch)).shuffle(order)
    return order


class _Lazy(Sequence[Batch]):
    """Batches that are made when they are asked for."""

    def __init__(self, groups: Sequence[Ints], make: _Maker) -> None:
        self._groups, self._make = groups, make

    def __len__(self) -> int:
        return len(self._groups)

    @overload
    def __getitem__(self, index: int) -> Batch: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Batch]: ...
    def __getitem__(self, index: int | slice) -> Batch | Sequence[Batch]:
        if isinstance(index, slice):
            return _Lazy(self._groups[index], self._make)
        return self._make.batch(self._groups[index])


@dataclass(frozen=True)
class _Stream:
    """All sentences run together, the key of the sentence of each symbol, and what is inside it."""

    symbols: Ints
    keys: Ints | None
    inside: Floats | None

    @classmethod
    def of(cls, text: Text) -> _Stream:
        return cls(text.stream(), text.stream_keys(), text.stream_inside())

    def __len__(self) -> int:
        return len(self.symbols)

    def pieces(self, index: Ints) -> Batch:
        """Inputs at `index` and targets one further; what lies behind the end of the stream does not count."""
        last = len(self) - 1
        here, further = np.minimum(index, last), np.minimum(index + 1, last)
        inputs, targets = torch.from_numpy(self.symbols[here]), torch.from_numpy(self.symbols[further])
        sentences = None if self.keys is None else torch.from_numpy(self.keys[further])
        inside = None if self.inside is None else torch.from_numpy(self.inside[further])
        return Batch(inputs, targets, torch.from_numpy(index < last), None, sentences, inside)


class _Maker(ABC):
    @abstractmethod
    def batch(self, group: Ints) -> Batch:
        """The batch of the sentences or windows with these numbers."""


@dataclass(frozen=True)
class Sentences(Batching):
    """Whole sentences of similar length together, up to `words` positions in a batch."""

    words: int = 1024

    def plan(self, text: Text, *, seed: int | None = None, epoch: int = 0) -> Sequence[Batch]:
        lengths = np.array([len(sentence) + 1 for sentence in text.sentences])
        order = _shuffled(len(lengths), seed, epoch)
        order = order[np.argsort(lengths[order], kind="stable")]
        groups = self._groups(order, lengths)
        turn = _shuffled(len(groups), None if seed is None else derived_seed(seed, 1), epoch)
        return _Lazy([groups[i] for i in turn], _SentenceMaker(text))

    def _groups(self, order: Ints, lengths: Ints) -> list[Ints]:
        groups: list[Ints] = []
        start = 0
        for stop in range(1, len(order) + 1):
            full = stop == len(order) or (stop + 1 - start) * lengths[order[stop]] > self.words
            if full:
                groups.append(order[start:stop])
                start = stop
        return groups


@dataclass(frozen=True)
class _SentenceMaker(_Maker):
    text: Text

    def batch(self, group: Ints) -> Batch:
        rows = [self.text.sentences[i] for i in group]
        T = max(len(row) for row in rows) + 1
        both = np.full((len(rows), T + 1), self.text.eos, dtype=np.int64)
        mask = np.zeros((len(rows), T), dtype=bool)
        for b, row in enumerate(rows):
            both[b, 1 : len(row) + 1] = row
            mask[b, : len(row) + 1] = True
        symbols = torch.from_numpy(both)
        conditions = [self.text.conditions[i] for i in group]
        keys = self.text.keys
        sentences = None if keys is None else torch.from_numpy(keys[group])[:, None].expand(-1, T)
        return Batch(
            symbols[:, :-1], symbols[:, 1:], torch.from_numpy(mask), conditions, sentences, self._inside(group, T)
        )

    def _inside(self, group: Ints, T: int) -> torch.Tensor | None:
        if self.text.inside is None:
            return None
        inside = np.zeros((len(group), T))
        for b, i in enumerate(group.tolist()):
            inside[b, : len(self.text.inside[i])] = self.text.inside[i]
        return torch.from_numpy(inside)


@dataclass(frozen=True)
class Continuous(Batching):
    """The text cut into `rows` long strips, read side by side `length` words at a time; the state is carried on."""

    rows: int = 32
    length: int = 32
    carries_state = True

    def plan(self, text: Text, *, seed: int | None = None, epoch: int = 0) -> Sequence[Batch]:
        stream = _Stream.of(text)
        rows = min(self.rows, len(stream) - 1)
        columns = -(-(len(stream) - 1) // rows)
        starts = np.arange(0, columns, self.length)
        return _Lazy([starts[i : i + 1] for i in range(len(starts))], _StripMaker(stream, rows, columns, self.length))


@dataclass(frozen=True)
class _StripMaker(_Maker):
    stream: _Stream
    rows: int
    columns: int
    length: int

    def batch(self, group: Ints) -> Batch:
        columns = np.arange(group[0], min(group[0] + self.length, self.columns))
        index = np.arange(self.rows)[:, None] * self.columns + columns  # (rows, length)
        return self.stream.pieces(index)


@dataclass(frozen=True)
class Windows(Batching):
    """The text cut into windows of `length` words, each read from a fresh state, `rows` in a batch."""

    length: int = 8
    rows: int = 128

    def plan(self, text: Text, *, seed: int | None = None, epoch: int = 0) -> Sequence[Batch]:
        stream = _Stream.of(text)
        order = _shuffled(-(-(len(stream) - 1) // self.length), seed, epoch)
        groups = [order[start : start + self.rows] for start in range(0, len(order), self.rows)]
        return _Lazy(groups, _WindowMaker(stream, self.length))


@dataclass(frozen=True)
class _WindowMaker(_Maker):
    stream: _Stream
    length: int

    def batch(self, group: Ints) -> Batch:
        return self.stream.pieces(group[:, None] * self.length + np.arange(self.length))


@dataclass(frozen=True)
class Sliding(Batching):
    """The paper's protocol (§5): every word is predicted from the `length` words before it, from a fresh state."""

    length: int = 8
    rows: int = 512

    def plan(self, text: Text, *, seed: int | None = None, epoch: int = 0) -> Sequence[Batch]:
        stream = _Stream.of(text)
        order = _shuffled(len(stream) - 1, seed, epoch)
        groups = [order[start : start + self.rows] for start in range(0, len(order), self.rows)]
        return _Lazy(groups, _SlidingMaker(stream, self.length))


@dataclass(frozen=True)
class _SlidingMaker(_Maker):
    stream: _Stream
    length: int

    def batch(self, group: Ints) -> Batch:
        """Inputs end at the numbers of the group; before the text begins there are only ends of sentences."""
        index = group[:, None] + np.arange(1 - self.length, 1)
        whole = self.stream.pieces(np.maximum(index, 0))
        last = torch.zeros_like(whole.mask)
        last[:, -1] = True
        return replace(whole, mask=last)
