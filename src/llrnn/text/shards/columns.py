"""One array over many files: a column of a built corpus, opened shard by shard when a number of it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llrnn.ground.arrays import Ints
from llrnn.text.shards.layout import COLUMNS, Manifest, check_file, check_size

BLOCK = 1 << 20  # numbers that a pass over the whole looks at together
_CHEAP = 1 << 26  # bytes: smaller files are compared with their SHA-256 when they are opened, larger ones only in size


class Column:
    """`column[places]` for an array of places, `column.slice(start, stop)`, `column.blocks()`; all int64."""

    def __init__(self, folder: Path, manifest: Manifest, name: str) -> None:
        self._folder, self._shards, self._name = folder, manifest.shards, name
        self.begins = np.cumsum([0, *(shard.length(name) for shard in manifest.shards)])  # of each shard, and the end
        self._open: dict[int, NDArray[Any]] = {}

    def __len__(self) -> int:
        return int(self.begins[-1])

    def __getitem__(self, places: Ints) -> Ints:
        """The numbers at some places, in the shape of the places."""
        flat = places.reshape(-1)
        found = np.empty(len(flat), dtype=np.int64)
        which = np.searchsorted(self.begins, flat, side="right") - 1
        for shard in np.unique(which).tolist():
            here = which == shard
            found[here] = self._shard(shard)[flat[here] - self.begins[shard]]
        return found.reshape(places.shape)

    def slice(self, start: int, stop: int) -> Ints:
        """The numbers from one place up to another."""
        first, last = np.searchsorted(self.begins, [start, max(stop - 1, start)], side="right") - 1
        parts = [self._shard(k)[max(start - self.begins[k], 0) : stop - self.begins[k]] for k in range(first, last + 1)]
        return parts[0].astype(np.int64) if len(parts) == 1 else np.concatenate(parts).astype(np.int64)

    def places(self, numbers: Ints, shard_begins: Ints) -> Ints:
        """How many numbers of this sorted column are at most each of some; those of shard k are above its begin."""
        flat = numbers.reshape(-1)
        found = np.empty(len(flat), dtype=np.int64)
        which = np.searchsorted(shard_begins, flat, side="right") - 1
        for shard in np.unique(which).tolist():
            here = which == shard
            found[here] = np.searchsorted(self._shard(shard), flat[here], side="right") + self.begins[shard]
        return found.reshape(numbers.shape)

    def blocks(self) -> Iterator[Ints]:
        """All of it, one piece after another."""
        for start in range(0, len(self), BLOCK):
            yield self.slice(start, min(start + BLOCK, len(self)))

    def _shard(self, number: int) -> NDArray[Any]:
        if number not in self._open:
            self._open[number] = self._opened(number)
        return self._open[number]

    def _opened(self, number: int) -> NDArray[Any]:
        shard, kind = self._shards[number], COLUMNS[self._name]
        path, length = shard.file(self._folder, self._name), shard.length(self._name)
        size = length * int(kind[-1])
        if size <= _CHEAP:
            check_file(path, size, shard.sha256[self._name])
        else:
            check_size(path, size)
        return np.memmap(path, dtype=kind, mode="r", shape=(length,))
