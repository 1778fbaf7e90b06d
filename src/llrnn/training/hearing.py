"""What knowledge says of the sentences of a text, asked once: for steps that are recorded (`training.updates`).

    heard(sentence) = (v, S, E, φ_E − φ_rest) at its positions          of its words, and of its fold in cross-fitting

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

from llrnn.knowledge.process import Batch
from llrnn.model.network import LLRNN

_Key = tuple[int | None, bytes]


@dataclass(frozen=True)
class _OfSentence:
    """What was heard at the T positions of a sentence: see `Batch`."""

    numbers: Tensor | None  # (T, k)
    slopes: Tensor | None  # (T, ·)
    place: Tensor | None  # (E,) int32: which of the positions
    word: Tensor | None  # (E,) int32
    gained: Tensor | None  # (E, k)

    @property
    def bytes(self) -> int:
        """Without what was filled up around it, a ninth or so."""
        return sum(part.nbytes for part in vars(self).values() if part is not None)


class Hearing:
    """Batches of whole sentences with what a model's contextual inputs and features say of them (`LLRNN.heard`).

    `limit`: bytes that may be kept; `room`: from a number of exceptions to that which they are filled up to. Batches of
    one shape are filled up to the most that one of them needed, so that they stay one shape.

        batch = Hearing(model, 2**30).heard(batch, rows=72, columns=32)
    """

    def __init__(self, model: LLRNN, limit: int, room: Callable[[int], int] = int) -> None:
        self._model, self._limit, self._room = model, limit, room
        self._answers: dict[_Key, _OfSentence] = {}
        self._most: dict[tuple[int, int], int] = {}  # exceptions, by shape
        self.kept = 0  # bytes

    def heard(self, batch: Batch, rows: int, columns: int) -> Batch | None:
        """The batch filled up to a shape, and heard; None where knowledge speaks of too many words."""
        filled = batch.filled(rows, columns, self._model.vocabulary.eos)
        if any(condition is not None for condition in batch.conditions or ()):  # which knowledge may read
            heard = self._model.heard(filled, lambda n: self._filled_to((rows, columns), n))
            return heard if heard.is_heard else None
        keys = _keys(batch)
        missing = [row for row, key in enumerate(keys) if key not in self._answers]
        new = self._asked(filled, missing, batch.mask.sum(1)[missing].tolist()) if missing else []
        if new is None:
            return None
        fresh = {keys[row]: answer for row, answer in zip(missing, new, strict=True)}
        answers = [fresh[key] if key in fresh else self._answers[key] for key in keys]
        more = sum(answer.bytes for answer in fresh.values())
        if self.kept + more <= self._limit:
            self._answers.update(fresh)
            self.kept += more
        return self._joined(filled, answers)

    def _asked(self, filled: Batch, rows: Sequence[int], lengths: Sequence[int]) -> list[_OfSentence] | None:
        """What knowledge says of some rows, at so many positions of each."""
        names = None if filled.sentences is None else filled.sentences[rows]
        some = Batch(filled.inputs[rows], filled.targets[rows], filled.mask[rows], sentences=names)
        heard = self._model.heard(some)
        if not heard.is_heard:
            return None
        device, T = self._model.device, filled.inputs.shape[1]
        numbers, slopes = (None if part is None else part.to(device) for part in (heard.numbers, heard.slopes))
        lists, own = _by_row(heard, lengths), tuple[Tensor | None, ...]((None, None, None))
        if heard.exceptional is not None:
            position, word = heard.exceptional
            own = (position % T).int(), word.int(), heard.gained
        return [
            _OfSentence(
                None if numbers is None else numbers[row, :length],
                None if slopes is None else slopes[row * T : row * T + length],
                *(None if part is None else part[where] for part in own),
            )
            for row, (length, where) in enumerate(zip(lengths, lists, strict=True))
        ]

    def _joined(self, filled: Batch, answers: Sequence[_OfSentence]) -> Batch:
        (B, T), exceptional, gained = filled.inputs.shape, None, None
        if own := [answer.gained for answer in answers if answer.gained is not None]:
            gains = torch.cat(own)
            room = self._filled_to((B, T), len(gains)) - len(gains)
            place, word = (torch.cat([getattr(answer, name) for answer in answers]) for name in ("place", "word"))
            counts = torch.tensor([len(part) for part in own], device=gains.device)
            begins = torch.arange(len(own), device=gains.device) * T
            position = place + begins.repeat_interleave(counts, output_size=len(gains))
            # the last fill up, at a position that is not there
            exceptional = torch.stack([F.pad(position, (0, room), value=B * T), F.pad(word.long(), (0, room))])
            gained = F.pad(gains, (0, 0, 0, room))
        numbers = _side_by_side([answer.numbers for answer in answers], B, T)
        slopes = _side_by_side([answer.slopes for answer in answers], B, T)
        slopes = None if slopes is None else slopes.flatten(0, 1)
        return replace(filled, numbers=numbers, slopes=slopes, exceptional=exceptional, gained=gained)

    def _filled_to(self, shape: tuple[int, int], exceptions: int) -> int:
        if exceptions > self._most.get(shape, -1):
            self._most[shape] = self._room(exceptions)
        return self._most[shape]


def _keys(batch: Batch) -> list[_Key]:
    """The words of each row, and its name, which says what cross-fitted knowledge leaves out."""
    names = [None] * len(batch.inputs) if batch.sentences is None else batch.sentences[:, 0].tolist()
    lengths, rows = batch.mask.sum(1).tolist(), batch.inputs.numpy()
    return [(name, row[:n].tobytes()) for name, n, row in zip(names, lengths, rows, strict=True)]


def _by_row(heard: Batch, lengths: Sequence[int]) -> list[slice]:
    """Where the exceptions of each row stand, at positions that count."""
    if heard.exceptional is None:
        return [slice(0)] * len(lengths)
    T, position = heard.inputs.shape[1], heard.exceptional[0]
    bounds = torch.tensor([(row * T, row * T + length) for row, length in enumerate(lengths)], device=position.device)
    return [slice(*pair) for pair in torch.searchsorted(position, bounds).tolist()]


def _side_by_side(parts: Sequence[Tensor | None], B: int, T: int) -> Tensor | None:
    """(t_i, k) for each of some rows -> (B, T, k), with 0 where there is nothing."""
    there = [part for part in parts if part is not None]
    if not there:
        return None
    padded = pad_sequence(there, batch_first=True)
    return F.pad(padded, (0, 0, 0, T - padded.shape[1], 0, B - len(there)))
