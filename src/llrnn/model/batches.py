"""From a corpus to batches: sentences, continuous text, fixed windows, or the windows that slide along the text.

Which batch comes when is a function of (seed, epoch, position) alone, so that a killed run resumes where it was, bit
for bit. Every target is predicted exactly once in an epoch, ends of sentences included.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Generic, TypeVar, overload

import numpy as np
import torch
from torch import Tensor

from llrnn.ground.arrays import Ints
from llrnn.knowledge.sequences import Batch
from llrnn.text.ids import EncodedText, Run


class Batching(ABC):
    """A way to cut a text into batches."""

    carries_state = False  # whether a batch goes on where the one before it ended

    @abstractmethod
    def plan(self, text: EncodedText, *, seed: int | None = None, epoch: int = 0) -> Sequence[Batch]:
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


Given = TypeVar("Given")


class Lazy(Sequence[Batch], Generic[Given]):
    """Batches that are made when they are asked for."""

    def __init__(self, groups: Sequence[Given], make: Callable[[Given], Batch]) -> None:
        self._groups, self._make = groups, make

    def __len__(self) -> int:
        return len(self._groups)

    @overload
    def __getitem__(self, index: int) -> Batch: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Batch]: ...
    def __getitem__(self, index: int | slice) -> Batch | Sequence[Batch]:
        if isinstance(index, slice):
            return type(self)(self._groups[index], self._make)
        return self._asked_for(index)

    def _asked_for(self, index: int) -> Batch:
        return self._make(self._groups[index])


class Prefetched(Lazy[Batch]):
    """Batches asked for in their order: the next one is made and prepared by a thread while this one is worked on."""

    def __init__(self, plan: Sequence[Batch], prepare: Callable[[Batch], Batch]) -> None:
        super().__init__(plan, prepare)
        self._thread = ThreadPoolExecutor(1)
        self._next: tuple[int, Future[Batch]] | None = None

    def _asked_for(self, index: int) -> Batch:
        place, coming = self._next or (None, None)
        make = super()._asked_for
        batch = coming.result() if coming is not None and place == index else make(index)
        if index + 1 < len(self):
            self._next = index + 1, self._thread.submit(make, index + 1)
        return batch


def _pieces(run: Run, index: Ints) -> Batch:
    """Inputs at `index` and targets one further; what lies behind the end of the text does not count."""
    last = len(run) - 1
    here, further = np.minimum(index, last), np.minimum(index + 1, last)
    inputs, targets = torch.from_numpy(run.symbols_at(here)), torch.from_numpy(run.symbols_at(further))
    keys, inside = (
        None if found is None else torch.from_numpy(found) for found in (run.keys_at(further), run.inside_at(further))
    )
    return Batch(inputs, targets, torch.from_numpy(index < last), None, keys, inside)


class _Maker(ABC):
    @abstractmethod
    def batch(self, group: Ints) -> Batch:
        """The batch of the sentences or windows with these numbers."""


@dataclass(frozen=True)
class Sentences(Batching):
    """Whole sentences of similar length together, up to `words` positions in a batch."""

    words: int = 1024

    def plan(self, text: EncodedText, *, seed: int | None = None, epoch: int = 0) -> Sequence[Batch]:
        lengths = text.lengths
        order = _shuffled(len(lengths), seed, epoch)
        order = order[np.argsort(lengths[order], kind="stable")]
        groups = self._groups(order, lengths)
        turn = _shuffled(len(groups), None if seed is None else derived_seed(seed, 1), epoch)
        return Lazy([groups[i] for i in turn], _SentenceMaker(text).batch)

    def _groups(self, order: Ints, lengths: Ints) -> list[Ints]:
        ordered = lengths[order]
        groups: list[Ints] = []
        start = 0
        while start < len(order):
            stop = self._stop(ordered, start)
            groups.append(order[start:stop])
            start = stop
        return groups

    def _stop(self, ordered: Ints, start: int) -> int:
        """Where a batch ends: its number of sentences times the length of the last, the longest, is within bounds."""
        further = range(start + 1, min(len(ordered), start + self.words))
        return start + 1 + bisect_right(further, self.words, key=lambda last: (last + 1 - start) * int(ordered[last]))


@dataclass(frozen=True)
class _SentenceMaker(_Maker):
    text: EncodedText

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
        keys = self.text.keys_of(group)
        sentences = None if keys is None else torch.from_numpy(keys)[:, None].expand(-1, T)
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

    def plan(self, text: EncodedText, *, seed: int | None = None, epoch: int = 0) -> Sequence[Batch]:
        stream = text.run()
        rows = min(self.rows, len(stream) - 1)
        columns = -(-(len(stream) - 1) // rows)
        starts = np.arange(0, columns, self.length)
        return Lazy(
            [starts[i : i + 1] for i in range(len(starts))], _StripMaker(stream, rows, columns, self.length).batch
        )


@dataclass(frozen=True)
class _StripMaker(_Maker):
    stream: Run
    rows: int
    columns: int
    length: int

    def batch(self, group: Ints) -> Batch:
        columns = np.arange(group[0], min(group[0] + self.length, self.columns))
        index = np.arange(self.rows)[:, None] * self.columns + columns  # (rows, length)
        return _pieces(self.stream, index)


@dataclass(frozen=True)
class Windows(Batching):
    """The text cut into windows of `length` words, each read from a fresh state, `rows` in a batch."""

    length: int = 8
    rows: int = 128

    def plan(self, text: EncodedText, *, seed: int | None = None, epoch: int = 0) -> Sequence[Batch]:
        stream = text.run()
        order = _shuffled(-(-(len(stream) - 1) // self.length), seed, epoch)
        groups = [order[start : start + self.rows] for start in range(0, len(order), self.rows)]
        return Lazy(groups, _WindowMaker(stream, self.length).batch)


@dataclass(frozen=True)
class _WindowMaker(_Maker):
    stream: Run
    length: int

    def batch(self, group: Ints) -> Batch:
        return _pieces(self.stream, group[:, None] * self.length + np.arange(self.length))


@dataclass(frozen=True)
class Sliding(Batching):
    """The paper's protocol (§5): every word is predicted from the `length` words before it, from a fresh state."""

    length: int = 8
    rows: int = 512

    def plan(self, text: EncodedText, *, seed: int | None = None, epoch: int = 0) -> Sequence[Batch]:
        stream = text.run()
        order = _shuffled(len(stream) - 1, seed, epoch)
        groups = [order[start : start + self.rows] for start in range(0, len(order), self.rows)]
        return Lazy(groups, _SlidingMaker(stream, self.length).batch)


@dataclass(frozen=True)
class _SlidingMaker(_Maker):
    stream: Run
    length: int

    def batch(self, group: Ints) -> Batch:
        """Inputs end at the numbers of the group; before the text begins there are only ends of sentences."""
        index = group[:, None] + np.arange(1 - self.length, 1)
        whole = _pieces(self.stream, np.maximum(index, 0))
        last = torch.zeros_like(whole.mask)
        last[:, -1] = True
        return replace(whole, mask=last)


# Positions of a batch with the same past, found by their words: what is the same everywhere is computed once.
#
#     elle │ dort │ .            3 rows of 4 positions; those of "elle" and "elle dort" stand in two rows, and the
#     elle │ dort │ bien         start in all three: 8 distinct pasts
#     il   │ dort │ .
#
# Without dropout the state h and all knowledge are functions of the condition and the words before, so log Z and the
# scores at such positions are equal. Rows are sorted by their words; a position is a new past if its row differs from
# the row above in some word so far. Only equal words count, never equal numbers.


@dataclass(frozen=True, eq=False)
class Pasts:
    """The U distinct pasts of the N positions of a batch that count."""

    mask: Tensor  # (B, T) bool: one position of each, the first; U in all
    at: Tensor  # (N,) which of these each position is like, 0..U-1

    @property
    def repeated(self) -> int:
        """N − U."""
        return len(self.at) - int(self.mask.sum())


def distinct_pasts(batch: Batch) -> Pasts:
    """For rows that start afresh; rows whose conditions cannot be compared by hash share nothing."""
    inputs, counts = batch.inputs.cpu().numpy(), batch.mask.cpu().numpy()
    B, T = inputs.shape
    rows = np.concatenate([_numbered(batch.conditions, B)[:, None], inputs], 1)
    order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    new = np.ones(rows.shape, dtype=bool)
    new[1:] = np.logical_or.accumulate(ordered[1:] != ordered[:-1], 1)
    first = np.maximum.accumulate(np.where(new, np.arange(B)[:, None], 0), 0)[:, 1:]  # the row where this past is new
    past = np.empty((B, T), dtype=np.int64)
    past[order] = first * T + np.arange(T)
    _, where, which = np.unique(past[counts], return_index=True, return_inverse=True)
    rank = np.empty_like(where)
    rank[np.argsort(where)] = np.arange(len(where))
    mask = np.zeros(B * T, dtype=bool)
    mask[np.flatnonzero(counts)[where]] = True
    device = batch.inputs.device
    return Pasts(torch.from_numpy(mask.reshape(B, T)).to(device), torch.from_numpy(rank[which]).to(device))


def _numbered(conditions: Sequence[object] | None, n_rows: int) -> Ints:
    """A number for each row, the same where conditions are equal."""
    if conditions is None:
        return np.zeros(n_rows, dtype=np.int64)
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(_key(condition, row), row) for row, condition in enumerate(conditions)])


def _key(condition: object, row: int) -> object:
    try:
        hash(condition)
    except TypeError:
        return ("row", row)
    return (type(condition), condition)
