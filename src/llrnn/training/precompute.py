"""What knowledge says of the sentences of a text, asked once: for steps that are recorded (`training.graphs`).

    precomputed(sentence) = (v, S, E, φ_E − φ_rest) at its positions     of its words, and of its fold in cross-fitting

Epochs shuffle sentences, but what n-grams, rules and lists say of each stays the same. To follow n-grams and to list a
thousand words at every position takes longer than the update itself; so the answers are kept where the model is, in a
part of its memory, and a batch is put together from those of its sentences. What found no room is asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from llrnn.knowledge.process import Batch, Precomputed
from llrnn.model.network import LLRNN

_Key = tuple[int | None, bytes]


@dataclass(frozen=True)
class _OfSentence:
    """Values of contextual inputs and features at the T positions of one sentence, as the fields of `Precomputed`.

    Tensors, None where the model has nothing of the sort: `numbers` (T, k): values of contextual inputs; `slopes`
    (T, ·): coefficients of linear contextual features, one feature after the other; `place` and `word` (E,) int32: E
    pairs (position in the sentence, word id) whose feature values differ from those of other words there, by
    `differences` (E, k).
    """

    numbers: Tensor | None  # (T, k)
    slopes: Tensor | None  # (T, ·)
    place: Tensor | None  # (E,) int32: which of the positions
    word: Tensor | None  # (E,) int32
    differences: Tensor | None  # (E, k)

    @property
    def bytes(self) -> int:
        """The size of the sentence's tensors in bytes."""
        return sum(part.nbytes for part in vars(self).values() if part is not None)


class KnowledgeCache:
    """A cache of the values of a model's contextual inputs and features, by sentence, which joins them for batches.

    `limit`: bytes that may be kept; what comes later is computed anew each time. `room`: a function from a batch's
    number of exceptions to the number that they are padded to; exceptions are (position, word) pairs whose feature
    values differ from those of other words there. Batches of one shape are padded to the same number.

        batch = KnowledgeCache(model, 2**30).precompute(batch, rows=72, columns=32)
    """

    def __init__(self, model: LLRNN, limit: int, room: Callable[[int], int] = int) -> None:
        self._model, self._limit, self._room = model, limit, room
        self._answers: dict[_Key, _OfSentence] = {}
        self._most: dict[tuple[int, int], int] = {}  # exceptions, by shape
        self.kept = 0  # bytes

    def precompute(self, batch: Batch, rows: int, columns: int) -> Batch | None:
        """Return the batch padded to `rows` × `columns`, with values of contextual inputs and features precomputed.

        They are in `precomputed` of the result. None where so many words have feature values of their own at a position
        that a list of them would save nothing.
        """
        padded = batch.padded(rows, columns, self._model.vocabulary.eos)
        if any(condition is not None for condition in batch.conditions or ()):  # which knowledge may read
            made = self._model.precompute(padded, lambda n: self._padded_to((rows, columns), n))
            return made if made.precomputed.has_knowledge else None
        keys = _keys(batch)
        missing = [row for row, key in enumerate(keys) if key not in self._answers]
        new = self._asked(padded, missing, batch.mask.sum(1)[missing].tolist()) if missing else []
        if new is None:
            return None
        fresh = {keys[row]: answer for row, answer in zip(missing, new, strict=True)}
        answers = [fresh[key] if key in fresh else self._answers[key] for key in keys]
        more = sum(answer.bytes for answer in fresh.values())
        if self.kept + more <= self._limit:
            self._answers.update(fresh)
            self.kept += more
        return self._joined(padded, answers)

    def _asked(self, padded: Batch, rows: Sequence[int], lengths: Sequence[int]) -> list[_OfSentence] | None:
        """Return the values of contextual inputs and features for some rows of a padded batch, one result a row.

        `rows`: indices of the rows; `lengths`: how many positions of each are not padding. None where so many words
        have feature values of their own at a position that a list of them would save nothing.
        """
        names = None if padded.sentences is None else padded.sentences[rows]
        some = Batch(padded.inputs[rows], padded.targets[rows], padded.mask[rows], sentences=names)
        ahead = self._model.precompute(some).precomputed
        if not ahead.has_knowledge:
            return None
        device, T = self._model.device, padded.inputs.shape[1]
        numbers, slopes = (None if part is None else part.to(device) for part in (ahead.numbers, ahead.slopes))
        lists, own = _by_row(ahead, T, lengths), tuple[Tensor | None, ...]((None, None, None))
        if ahead.exceptions is not None:
            position, word = ahead.exceptions
            own = (position % T).int(), word.int(), ahead.differences
        return [
            _OfSentence(
                None if numbers is None else numbers[row, :length],
                None if slopes is None else slopes[row * T : row * T + length],
                *(None if part is None else part[where] for part in own),
            )
            for row, (length, where) in enumerate(zip(lengths, lists, strict=True))
        ]

    def _joined(self, padded: Batch, answers: Sequence[_OfSentence]) -> Batch:
        (B, T), exceptions, differences = padded.inputs.shape, None, None
        if own := [answer.differences for answer in answers if answer.differences is not None]:
            found = torch.cat(own)
            room = self._padded_to((B, T), len(found)) - len(found)
            place, word = (torch.cat([getattr(answer, name) for answer in answers]) for name in ("place", "word"))
            counts = torch.tensor([len(part) for part in own], device=found.device)
            begins = torch.arange(len(own), device=found.device) * T
            position = place + begins.repeat_interleave(counts, output_size=len(found))
            # the last are padding, at a position that is not there
            exceptions = torch.stack([F.pad(position, (0, room), value=B * T), F.pad(word.long(), (0, room))])
            differences = F.pad(found, (0, 0, 0, room))
        numbers = _side_by_side([answer.numbers for answer in answers], B, T)
        slopes = _side_by_side([answer.slopes for answer in answers], B, T)
        slopes = None if slopes is None else slopes.flatten(0, 1)
        weights, count = padded.precomputed.weights, padded.precomputed.count
        return replace(padded, precomputed=Precomputed(None, numbers, slopes, exceptions, differences, weights, count))

    def _padded_to(self, shape: tuple[int, int], exceptions: int) -> int:
        if exceptions > self._most.get(shape, -1):
            self._most[shape] = self._room(exceptions)
        return self._most[shape]


def _keys(batch: Batch) -> list[_Key]:
    """Return for each row of a batch what its values are cached by: (number of its sentence, bytes of its word ids).

    The number is None where the batch does not say it; it matters for n-grams that are counted without the sentence's
    fold.
    """
    names = [None] * len(batch.inputs) if batch.sentences is None else batch.sentences[:, 0].tolist()
    lengths, rows = batch.mask.sum(1).tolist(), batch.inputs.numpy()
    return [(name, row[:n].tobytes()) for name, n, row in zip(names, lengths, rows, strict=True)]


def _by_row(ahead: Precomputed, T: int, lengths: Sequence[int]) -> list[slice]:
    """Return for each row of T positions the slice of its entries in `ahead.exceptions`, without those of padding.

    These entries are (position, word) pairs, sorted by position, whose feature values differ from those of other words
    there; `lengths`: positions of each row that are not padding. Empty slices where there are none.
    """
    if ahead.exceptions is None:
        return [slice(0)] * len(lengths)
    position = ahead.exceptions[0]
    bounds = torch.tensor([(row * T, row * T + length) for row, length in enumerate(lengths)], device=position.device)
    return [slice(*pair) for pair in torch.searchsorted(position, bounds).tolist()]


def _side_by_side(parts: Sequence[Tensor | None], B: int, T: int) -> Tensor | None:
    """Stack tensors (t_i, k), one for each row, into (B, T, k), padded with 0; None where all of them are None.

    Either all or none are None. Rows beyond the given ones are 0; no t_i may be above T.
    """
    there = [part for part in parts if part is not None]
    if not there:
        return None
    padded = pad_sequence(there, batch_first=True)
    return F.pad(padded, (0, 0, 0, T - padded.shape[1], 0, B - len(there)))
