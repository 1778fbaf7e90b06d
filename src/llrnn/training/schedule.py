"""What is read in each epoch: the corpus, and other texts before it or mixed into it.

It is a function of (seed, epoch) alone, so that a killed run resumes where it was, bit for bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from llrnn.ground.arrays import Ints
from llrnn.ground.errors import TrainingError
from llrnn.model.scoring import derived_seed
from llrnn.text.conditions import Before
from llrnn.text.encoded import EncodedText
from llrnn.text.others import OtherText, When
from llrnn.text.vocabulary import Vocabulary


class Schedule:
    """A plan that says what a training reads in each epoch: the corpus `own`, with `others` before it or mixed into it.

    The text of an epoch is a function of `seed` and its number alone. `first`: how many epochs read other texts only,
    before the corpus. Raises TrainingError where texts are to be mixed into a built corpus (encoded text on disk). Use:
    `Schedule(own, others, vocabulary, seed).text(epoch)`, an `EncodedText`; epochs count from 0.
    """

    def __init__(self, own: EncodedText, others: Sequence[OtherText], vocabulary: Vocabulary, seed: int) -> None:
        self.own, self.others, self._seed = own, others, seed
        self._texts = [other.encoded(vocabulary) for other in others]
        self.first = max((other.epochs for other in others if other.when == "before"), default=0)  # epochs before `own`
        if own.keys is None and any(other.when == "mixed" for other in others):
            raise TrainingError(
                "when = 'mixed' needs the training text in memory, found a built corpus; give files, or when = 'before'"
            )

    @property
    def texts(self) -> list[EncodedText]:
        """All texts of the training, encoded, whole: the corpus first, then the other texts."""
        return [self.own, *self._texts]

    def text(self, epoch: int) -> EncodedText:
        """Return the text to read in an epoch, counted from 0.

        In the first `self.first` epochs it is what is drawn of other texts that come before the corpus; afterwards it
        is the corpus, followed by what is drawn of texts to be mixed into it.
        """
        if epoch < self.first:
            return reduce(add, self._drawn("before", epoch))
        return reduce(add, self._drawn("mixed", epoch), self._without_half(epoch))

    def _without_half(self, epoch: int) -> EncodedText:
        """Return the corpus; where it is a running text, a random half of its sentences have no words before them.

        So the model learns to read sentences that stand alone too. Which half depends on seed and epoch.
        """
        running = np.array([isinstance(one, Before) for one in self.own.conditions], dtype=bool)
        if not running.any():
            return self.own
        alone = running & (np.random.default_rng(derived_seed(self._seed, epoch, 4)).random(len(running)) < 0.5)
        conditions = [None if drop else one for one, drop in zip(self.own.conditions, alone, strict=True)]
        return replace(self.own, conditions=conditions)

    def _drawn(self, when: When, epoch: int) -> Iterator[EncodedText]:
        """Yield, for each other text that is read at `when` in this epoch, the sentences of it that are drawn.

        How many there are is decided by the text's weight (see `_draw`), which by seed and epoch. `when`: "before" the
        corpus or "mixed" into it; `epoch`: counted from 0.
        """
        for number, (other, text) in enumerate(zip(self.others, self._texts, strict=True)):
            if other.when == when and (when == "mixed" or epoch < other.epochs):
                seed = derived_seed(self._seed, epoch, number, 3)
                yield text.select(_draw(len(text.sentences), other.weight, np.random.default_rng(seed)))

    def described(self) -> list[dict[str, Any]]:
        """Return a JSON-able dict for each other text, in order, for the model's provenance.

        Keys: text (its name), when, weight, epochs, words, pieces, words_cut, sentences_dropped.
        """
        return [other.record(text) for other, text in zip(self.others, self._texts, strict=True)]

    def others_digest(self) -> str | None:
        """Return the SHA-256, in hex, of the other texts and when and how often they are read; None without any."""
        if not self.others:
            return None
        digest = hashlib.sha256()
        for other, text in zip(self.others, self._texts, strict=True):
            digest.update(f"{other.when} {other.weight!r} {other.epochs} {text.digest()}".encode())
        return digest.hexdigest()


def _draw(count: int, weight: float, rng: np.random.Generator) -> Ints:
    """Return the indices, below `count`, of the sentences to read in an epoch: weight · count of them in expectation.

    Each index comes as often as the whole part of `weight` says, then a random choice of them, of which the fractional
    part of `weight` is the share, once more, sorted. One random index where this would be none.
    """
    times, rest = divmod(weight, 1.0)
    drawn = rng.permutation(count)[: int(rest * count + rng.random())]
    found = np.concatenate([np.repeat(np.arange(count), int(times)), np.sort(drawn)])
    return found if len(found) else rng.integers(count, size=1)  # an epoch reads something
