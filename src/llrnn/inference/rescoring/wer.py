"""Word errors by Levenshtein's distance, many pairs of sentences at once.

    d[i, j] = min( d[i-1, j] + 1,  d[i, j-1] + 1,  d[i-1, j-1] + [r_i ≠ h_j] )        WER = (S + D + I) / words

Row i is made for all pairs in one go: its minimum over insertions, min_{k≤j} (t_k + j − k), is a running minimum of
t_j − j. Of the alignments with the fewest errors the one with the fewest substitutions is counted (it has most words
right): an error costs `_ERROR`, a substitution one more, and the length of both sentences then tells D and I.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from llrnn.ground.arrays import Ints
from llrnn.ground.errors import CorpusError
from llrnn.inference.rescoring.nbest import NBest, References, Words, check_references

__all__ = ["Errors", "alignments", "errors_of", "errors_of_lists", "oracle"]

_ERROR = 1 << 20  # more than any number of substitutions
_CELLS = 1 << 15  # of a row for all pairs of a block: what fits into the cache

Symbols = Sequence[int]


@dataclass(frozen=True, slots=True)
class Errors:
    """How hypotheses differ from their references of `words` words; errors of several utterances add up."""

    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0
    words: int = 0

    def __add__(self, other: Errors) -> Errors:
        return Errors(
            self.substitutions + other.substitutions,
            self.deletions + other.deletions,
            self.insertions + other.insertions,
            self.words + other.words,
        )

    @property
    def total(self) -> int:
        return self.substitutions + self.deletions + self.insertions

    @property
    def rate(self) -> float:
        """Errors for each word of the references; more than 1 where too much was inserted."""
        if not self.words:
            raise CorpusError("an error rate needs a reference with a word, found none; give what was said")
        return self.total / self.words


def alignments(pairs: Sequence[tuple[Symbols, Symbols]]) -> Ints:
    """Substitutions, deletions and insertions of each pair (reference, hypothesis) of numbers at least 0, (P, 3)."""
    found = np.zeros((len(pairs), 3), dtype=np.int64)
    by_length: dict[int, list[int]] = {}
    for index, (reference, _) in enumerate(pairs):
        by_length.setdefault(len(reference), []).append(index)
    for group in by_length.values():
        group.sort(key=lambda index: len(pairs[index][1]))
        for block in _blocks(group, [len(pairs[index][1]) for index in group]):
            found[block] = _aligned([pairs[index] for index in block])
    return found


def _blocks(group: Sequence[int], lengths: Sequence[int]) -> Iterable[list[int]]:
    """Runs of pairs whose rows have about _CELLS cells; lengths rise, so that little is padded."""
    start = 0
    for stop in range(1, len(group) + 1):
        if stop == len(group) or (stop + 1 - start) * (lengths[stop] + 1) > _CELLS:
            yield list(group[start:stop])
            start = stop


def _aligned(pairs: Sequence[tuple[Symbols, Symbols]]) -> Ints:
    """The same for pairs whose references are equally long."""
    lengths = np.array([len(hypothesis) for _, hypothesis in pairs])
    references = np.array([reference for reference, _ in pairs], dtype=np.int64)
    hypotheses = np.full((len(pairs), int(lengths.max())), -1, dtype=np.int64)  # -1 is no symbol
    for row, (_, hypothesis) in zip(hypotheses, pairs, strict=True):
        row[: len(hypothesis)] = hypothesis
    cost = _last_row(references, hypotheses)[np.arange(len(pairs)), lengths]
    errors, substitutions = cost // _ERROR, cost % _ERROR
    surplus = lengths - references.shape[1]  # insertions minus deletions
    insertions = (errors - substitutions + surplus) // 2
    return np.stack([substitutions, insertions - surplus, insertions], 1)


def _last_row(references: Ints, hypotheses: Ints) -> Ints:
    """d[R, ·] of each pair, (P, R) and (P, H) -> (P, H + 1)."""
    steps = np.arange(hypotheses.shape[1] + 1) * _ERROR
    row = np.broadcast_to(steps, (len(hypotheses), len(steps))).copy()
    for symbol in references.T:
        reached = row + _ERROR
        differs = (hypotheses != symbol[:, None]) * (_ERROR + 1)
        np.minimum(reached[:, 1:], row[:, :-1] + differs, out=reached[:, 1:])
        reached -= steps
        np.minimum.accumulate(reached, axis=1, out=reached)
        row = np.add(reached, steps, out=row)
    return row


def _counted(pairs: Sequence[tuple[Words, Words]]) -> list[Errors]:
    ids: dict[str, int] = {}
    numbered = [
        tuple([ids.setdefault(word, len(ids)) for word in sentence] for sentence in (reference, hypothesis))
        for reference, hypothesis in pairs
    ]
    found = alignments([(reference, hypothesis) for reference, hypothesis in numbered]).tolist()
    return [Errors(s, d, i, len(reference)) for (s, d, i), (reference, _) in zip(found, pairs, strict=True)]


def errors_of(reference: Sequence[str], hypothesis: Sequence[str]) -> Errors:
    """The errors of one hypothesis."""
    return _counted([(tuple(reference), tuple(hypothesis))])[0]


def errors_of_lists(lists: Iterable[NBest], references: References) -> list[list[Errors]]:
    """The errors of every hypothesis of every list."""
    entries = list(lists)
    check_references(entries, references)
    pairs = [(references[entry.utterance], h.words) for entry in entries for h in entry.hypotheses]
    found = iter(_counted(pairs))
    return [[next(found) for _ in entry.hypotheses] for entry in entries]


def oracle(errors: Iterable[Iterable[Errors]]) -> Errors:
    """The errors of whoever knows what was said and chooses the best hypothesis of each list."""
    return sum((min(own, key=lambda one: one.total) for own in errors), Errors())
