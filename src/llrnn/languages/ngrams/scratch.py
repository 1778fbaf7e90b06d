"""Arrays that grow at their end: in memory, or on disk in files without a name, gone when the process is.

Files are only ever appended to, never written through a map: a full disk is then an error and not a
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

from llrnn.ground.arrays import Floats
from llrnn.ground.errors import BackgroundError


class Scratch:
    """A folder for temporary files, and how much of it was in use at most; without a folder, arrays are in memory."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.used = self.most = 0

    def array(self, dtype: type[np.generic]) -> GrowingArray:
        """A new empty array."""
        if self.folder is None:
            return GrowingArray(np.dtype(dtype))
        try:
            file = cast(BinaryIO, tempfile.TemporaryFile(dir=self.folder, prefix=".llrnn-ngram-"))  # noqa: SIM115
        except OSError as error:
            raise self.refused(error) from error
        return DiskArray(self, file, np.dtype(dtype))

    def zeros(self, count: int) -> Floats:
        """So many zeros, to read; with a folder they take no memory."""
        return np.zeros(count) if self.folder is None else np.broadcast_to(0.0, (count,))

    def refused(self, error: OSError) -> BackgroundError:
        """What the system said, and what to do."""
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        state = (
            f"the disk is full ({self.used / 1e6:,.0f} MB of temporary files were written)" if full else error.strerror
        )
        return BackgroundError(f"{self.folder}: {state}; free some room, or name another folder: --temporary")


class GrowingArray:
    """An array that grows at its end, in memory."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype, self._array = dtype, np.zeros(0, dtype=dtype)

    def __len__(self) -> int:
        return len(self._array)

    def append(self, piece: NDArray[Any]) -> None:
        own = piece.astype(self.dtype, copy=False)
        self._array = np.concatenate([self._array, own]) if len(self._array) else own

    def view(self) -> NDArray[Any]:
        """All of it, to read."""
        return self._array

    def drop(self) -> None:
        """Give the room back; views end with it."""
        self._array = np.zeros(0, dtype=self.dtype)


class DiskArray(GrowingArray):
    """An array that grows at its end, on disk."""

    def __init__(self, scratch: Scratch, file: BinaryIO, dtype: np.dtype[Any]) -> None:
        self.dtype, self._scratch, self._file, self._length = dtype, scratch, file, 0

    def __del__(self) -> None:
        self._file.close()  # views stay, and with them what is on disk

    def __len__(self) -> int:
        return self._length

    def append(self, piece: NDArray[Any]) -> None:
        left = memoryview(np.ascontiguousarray(piece, dtype=self.dtype).data).cast("B")
        try:
            while left:
                left = left[os.write(self._file.fileno(), left) :]
        except OSError as error:
            raise self._scratch.refused(error) from error
        self._length += len(piece)
        self._scratch.used += len(piece) * self.dtype.itemsize
        self._scratch.most = max(self._scratch.most, self._scratch.used)

    def view(self) -> NDArray[Any]:
        if not self._length:
            return np.zeros(0, dtype=self.dtype)
        return np.memmap(self._file, dtype=self.dtype, mode="r", shape=(self._length,))

    def drop(self) -> None:
        self._file.close()
        self._scratch.used -= self._length * self.dtype.itemsize
