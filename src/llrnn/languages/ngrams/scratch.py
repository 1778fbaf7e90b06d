"""Arrays on disk that nobody else sees: files without a name, gone when the process is, whatever ends it.

They are only ever appended to or overwritten by writing, never through a map: a full disk is then an error and not a
signal. Reading is by maps, whose pages the system takes back when memory is short.
"""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from llrnn.ground.errors import BackgroundError


class Scratch:
    """A folder for temporary files, and how much of it was in use at most."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.used = self.most = 0

    def column(self, kind: type[np.generic]) -> Column:
        """A new empty array."""
        try:
            file = cast(BinaryIO, tempfile.TemporaryFile(dir=self.folder, prefix=".llrnn-ngram-"))  # noqa: SIM115
        except OSError as error:
            raise self.refused(error) from error
        return Column(self, file, np.dtype(kind))

    def refused(self, error: OSError) -> BackgroundError:
        """What the system said, and what to do."""
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        state = (
            f"the disk is full ({self.used / 1e6:,.0f} MB of temporary files were written)" if full else error.strerror
        )
        return BackgroundError(f"{self.folder}: {state}; free some room, or name another folder: --temporary")


class Column:
    """An array that grows at its end."""

    def __init__(self, scratch: Scratch, file: BinaryIO, kind: np.dtype[Any]) -> None:
        self._scratch, self._file, self.kind, self._length = scratch, file, kind, 0

    def __del__(self) -> None:
        self._file.close()  # views stay, and with them what is on disk

    def __len__(self) -> int:
        return self._length

    def append(self, piece: NDArray[Any]) -> None:
        self.put(self._length, piece)

    def put(self, place: int, piece: NDArray[Any]) -> None:
        """Write at a place, at the end or before it."""
        left = memoryview(np.ascontiguousarray(piece, dtype=self.kind).data).cast("B")
        at = place * self.kind.itemsize
        try:
            while left:
                written = os.pwrite(self._file.fileno(), left, at)
                left, at = left[written:], at + written
        except OSError as error:
            raise self._scratch.refused(error) from error
        grown = max(place + len(piece) - self._length, 0)
        self._length += grown
        self._scratch.used += grown * self.kind.itemsize
        self._scratch.most = max(self._scratch.most, self._scratch.used)

    def view(self) -> NDArray[Any]:
        """All of it, to read."""
        if not self._length:
            return np.zeros(0, dtype=self.kind)
        return np.memmap(self._file, dtype=self.kind, mode="r", shape=(self._length,))

    def drop(self) -> None:
        """Give the disk back; views end with it."""
        self._file.close()
        self._scratch.used -= self._length * self.kind.itemsize
