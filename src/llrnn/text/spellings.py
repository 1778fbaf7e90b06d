"""The words of a large vocabulary as three arrays, of which a page is read when a word of it is asked for.

    text      all words in UTF-8, one after the other
    ends      word i is text[ends[i - 1] : ends[i]]
    order     the ids by rising UTF-8: a word is found by halving, in log₂ |V| looks

A million strings and the dictionary of their ids take seconds to make; this takes none, for a few words. Whoever asks
for many is better served by the dictionary (`Vocabulary` changes over by itself).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from llrnn.ground.errors import VocabularyError

ARRAYS = ("text", "ends", "order")


@dataclass(frozen=True, eq=False)
class Spellings:
    """Distinct words, numbered; their arrays may be mapped from a file."""

    text: npt.NDArray[np.uint8]
    ends: npt.NDArray[np.integer[Any]]  # (V,)
    order: npt.NDArray[np.integer[Any]]  # (V,)

    @classmethod
    def of(cls, words: Sequence[str]) -> Self:
        try:
            coded = [word.encode() for word in words]
        except UnicodeEncodeError as error:
            raise VocabularyError(f"a word cannot be written as UTF-8 ({error}); take it out") from None
        ends = np.cumsum([len(word) for word in coded], dtype=np.int64)
        order = np.array(sorted(range(len(coded)), key=coded.__getitem__), dtype=np.int64)
        return cls(np.frombuffer(b"".join(coded), dtype=np.uint8).copy(), _narrow(ends), _narrow(order))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """What a file holds; that it fits together is checked, and nothing that takes a look at every word."""
        made = cls(*(arrays[name] for name in ARRAYS))
        whole = made.text.ndim == made.ends.ndim == made.order.ndim == 1 and made.text.dtype == np.uint8
        whole = (
            whole and len(made.ends) == len(made.order) and all(a.dtype.kind == "i" for a in (made.ends, made.order))
        )
        if not whole or int(made.ends[-1] if len(made) else 0) != len(made.text):
            raise VocabularyError("the arrays of the words do not fit together")
        return made

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {name: getattr(self, name) for name in ARRAYS}

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, number: int) -> str:
        if not 0 <= number < len(self):
            raise IndexError(f"words are numbered 0 to {len(self) - 1}, found {number}")
        return self._coded(number).decode()

    def __iter__(self) -> Iterator[str]:
        whole, start = self.text.tobytes(), 0
        for end in self.ends.tolist():
            yield whole[start:end].decode()
            start = end

    def find(self, word: object) -> int | None:
        """The number of a word; None for one that is not there."""
        if not isinstance(word, str):
            return None
        coded = word.encode("utf8", "surrogatepass")
        place = bisect_left(self.order, coded, key=self._coded)
        if place < len(self) and self._coded(self.order[place]) == coded:
            return int(self.order[place])
        return None

    def _coded(self, number: Any) -> bytes:
        start = self.ends[number - 1] if number else 0
        return self.text[start : self.ends[number]].tobytes()


def _narrow(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.integer[Any]]:
    return numbers.astype(np.int32) if not len(numbers) or int(numbers.max()) < 2**31 else numbers
