"""Arrays in annotations, the largest float32, and a cache bounded in bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
LARGEST_FLOAT32 = 3.4028234663852886e38  # models compute in float32 unless they are told otherwise


def runs(starts: Ints, widths: Ints) -> Ints:
    """Concatenate integer ranges: `starts` (n,), `widths` (n,) -> (Σ widths,).

    Range i is starts[i], starts[i] + 1, …, starts[i] + widths[i] − 1; runs([5, 0], [2, 3]) is [5, 6, 0, 1, 2].
    """
    ends = np.cumsum(widths)
    return np.repeat(starts - ends + widths, widths) + np.arange(widths.sum())


Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class ByteCache(Generic[Key, Value]):
    """A least-recently-used cache bounded in bytes; `size_of(key, value)` returns the size of an entry in bytes.

    When the entries exceed `most_bytes` together, those least recently used are removed. A value that alone is larger
    than the cache is not kept: `get` makes it anew each time. Threads may share a cache: two that ask for a missing key
    at once may both make its value.

        ByteCache(2**20, lambda key, value: value.nbytes).get("key", make)
    """

    def __init__(self, most_bytes: int, size_of: Callable[[Key, Value], int]) -> None:
        self.most_bytes, self._size_of = most_bytes, size_of
        self.bytes = 0
        self._entries: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """Return the cached value of `key`; where there is none, call `make()`, keep its result and return it.

        A result that alone is larger than the cache is returned, but not kept.
        """
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                return self._entries[key][0]
        value = make()
        size = self._size_of(key, value)
        if size > self.most_bytes:
            return value
        with self._lock:
            self.bytes += size - self._entries.pop(key, (value, 0))[1]
            self._entries[key] = value, size
            while self.bytes > self.most_bytes:
                self.bytes -= self._entries.popitem(last=False)[1][1]
        return value

    def clear(self) -> None:
        """Remove all entries, so that the next `get` of any key calls `make`."""
        with self._lock:
            self._entries.clear()
            self.bytes = 0

    def __reduce__(self) -> tuple[type[ByteCache[Key, Value]], tuple[int, Callable[[Key, Value], int]]]:
        """Return what copy and pickle make the copy from: an empty cache with the same limit and `size_of`.

        Locks cannot be copied, and values can be made again.
        """
        return type(self), (self.most_bytes, self._size_of)
