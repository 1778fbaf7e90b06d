"""N-best lists out of a text: a noisy channel that mishears, for studies without a recogniser.

    slots: gap, word, gap, word, ..., gap

    log p(v | word w) = log(1 − s − d)                    v = w, heard right
                      = log s + log q(v | w)              v a word of similar spelling, q ∝ exp(−distance) √count
                      = log d                             nothing: w is not heard
    log p(v | gap)    = log(1 − i), or log i − log |I|    nothing, or one of the short frequent words I

    acoustic(v, slot) = log p(v | slot) + ε,  ε ~ N(0, σ²)          drawn once for each slot and alternative
    score(h)          = Σ_slots acoustic(h_slot, slot)

The noise belongs to the slot, as in a lattice: all hypotheses with the same word in the same place share it, so that
the acoustics alone take the wrong word for likelier at some places and are sure at others. One hypothesis draws each
slot from softmax(acoustic / temperature), what this recogniser believes; the next from p^(1/temperature), another
hearing of what was said, which these acoustics find less likely. The temperature rises until there are n distinct ones.
What was said is not put into the list: it is there if it is drawn, which long sentences often are not. Words without a
letter (punctuation, figures) are always heard right.

Similar means one letter changed, left out or put in, or two where both words have five letters or more. Pairs are found
by deletion (as in SymSpell): words that are so close become equal when each loses at most two letters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
import numpy.typing as npt

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import ConfigError
from llrnn.inference.nbest import Hypothesis, NBest, NBestLists, Words, alignments
from llrnn.text.corpus import Corpus

_LONG = 5  # letters: two of them may differ from here on
_HEATING = 1.5
_ROUNDS = 24  # of heating: then the sentence has no more alternatives

Hashes = npt.NDArray[np.uint64]
Alternatives = list[tuple[str | None, float]]  # what may be heard in a slot, with log p


@dataclass(frozen=True)
class Channel:
    """How much is misheard; the defaults give about one wrong word in five by the acoustic score alone."""

    substitution: float = 0.12
    deletion: float = 0.01
    insertion: float = 0.01
    noise: float = 1.75  # σ
    similar: int = 12  # words that one may be taken for, at most
    inserted: int = 8  # short frequent words that may be heard where none is
    temperature: float = 1.0

    def __post_init__(self) -> None:
        heard = 1.0 - self.substitution - self.deletion
        if not (min(self.substitution, self.deletion, self.insertion, heard) > 0 and self.insertion < 1):
            raise ConfigError(f"substitution, deletion and insertion must be above 0 and leave something, found {self}")
        if not (0 <= self.noise < math.inf and 0 < self.temperature < math.inf):
            raise ConfigError(f"noise must be at least 0, and temperature above 0, found {self}")
        if self.similar < 1 or self.inserted < 1:
            raise ConfigError(f"similar and inserted must be 1 or more, found {self.similar} and {self.inserted}")


class Confusables:
    """Which words of a vocabulary are spelled alike; an index of all ways to leave out one or two letters."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.counts = counts
        self.words = sorted(word for word in counts if _has_letter(word))
        longest = max(map(len, self.words), default=1)
        # A string is hashed as Σ letter · random number of its place, modulo 2^64: whole columns at a time.
        self._places = np.random.default_rng(0).integers(1, 2**63, size=longest + 2, dtype=np.uint64) | np.uint64(1)
        parts = list(self._entries())
        hashes = np.concatenate([np.zeros(0, np.uint64), *(hashed for hashed, _ in parts)])
        owners = np.concatenate([np.zeros(0, np.int64), *(owner for _, owner in parts)])
        order = np.argsort(hashes, kind="stable")
        self._hashes, self._owners = hashes[order], owners[order]
        self._found: dict[tuple[str, int], list[tuple[str, int]]] = {}

    def _entries(self) -> Iterator[tuple[Hashes, Ints]]:
        by_length: dict[int, list[int]] = {}
        for index, word in enumerate(self.words):
            by_length.setdefault(len(word), []).append(index)
        for members in by_length.values():
            owner = np.array(members)
            for hashed in self._variants([self.words[index] for index in members]):
                yield hashed, owner

    def _variants(self, words: list[str]) -> Iterator[Hashes]:
        """Hashes of equally long words: whole, and without one letter or two, in every way."""
        letters = np.array([[ord(letter) for letter in word] for word in words], dtype=np.uint64)
        length = letters.shape[1]
        for gone in range(_differences(length) + 1):
            for dropped in combinations(range(length), gone):
                left = np.delete(letters, dropped, axis=1)
                yield left @ self._places[: left.shape[1]] + np.uint64(left.shape[1])

    def of(self, word: str, at_most: int) -> list[tuple[str, int]]:
        """The words most like this one with their distances: nearest first, then most frequent."""
        if (word, at_most) not in self._found:
            self._found[word, at_most] = self._search(word)[:at_most] if _has_letter(word) else []
        return self._found[word, at_most]

    def _search(self, word: str) -> list[tuple[str, int]]:
        if len(word) > len(self._places):  # more than two letters longer than anything that is listed
            return []
        hashed = np.unique(np.concatenate(list(self._variants([word]))))
        first, last = (np.searchsorted(self._hashes, hashed, side) for side in ("left", "right"))
        owners = np.unique(np.concatenate([self._owners[i:j] for i, j in zip(first, last, strict=True)]))
        candidates = [self.words[index] for index in owners if self.words[index] != word]
        spelled = [ord(letter) for letter in word]
        distances = alignments([(spelled, [ord(letter) for letter in other]) for other in candidates]).sum(1)
        near = [
            (other, int(distance))
            for other, distance in zip(candidates, distances, strict=True)
            if distance <= min(_differences(len(word)), _differences(len(other)))
        ]
        return sorted(near, key=lambda pair: (pair[1], -self.counts[pair[0]], pair[0]))

    def short(self, at_most: int) -> list[str]:
        """The most frequent words of at most three letters."""
        short = [word for word in self.words if len(word) <= 3]
        return sorted(short, key=lambda word: (-self.counts[word], word))[:at_most]


def _has_letter(word: str) -> bool:
    return any(character.isalpha() for character in word)


def _differences(length: int) -> int:
    return 1 if length < _LONG else 2


def confuse(
    corpus: Corpus,
    confusables: Confusables,
    *,
    n: int = 50,
    channel: Channel | None = None,
    seed: int = 0,
    name: str = "utt",
) -> tuple[NBestLists, dict[str, Words]]:
    """Lists of n distinct hypotheses with the score `am`, best first, and the references; all decided by the seed.

    A sentence with fewer alternatives than n, such as one without words, has a shorter list.
    """
    if n < 1:
        raise ConfigError(f"lists need at least 1 hypothesis, found n = {n}")
    maker = _NoisyChannel(channel or Channel(), confusables, n)
    lists, references = [], {}
    for index, sentence in enumerate(corpus):
        utterance = f"{name}{index:06d}"
        rng = np.random.default_rng([seed, index])  # a list does not depend on those before it
        lists.append(NBest(utterance, maker.hypotheses(sentence.words, rng)))
        references[utterance] = sentence.words
    return NBestLists(("am",), tuple(lists)), references


@dataclass(frozen=True)
class _NoisyChannel:
    channel: Channel
    confusables: Confusables
    n: int

    @cached_property
    def gap(self) -> Alternatives:
        """What may be heard between words."""
        words = self.confusables.short(self.channel.inserted)
        rare = math.log(self.channel.insertion) - math.log(max(len(words), 1))
        return [(None, math.log(1 - self.channel.insertion)), *((word, rare) for word in words)]

    def slots(self, words: Words) -> list[Alternatives]:
        return [self.gap, *(slot for word in words for slot in (self.heard(word), self.gap))]

    def heard(self, word: str) -> Alternatives:
        """What may be heard for a word, with log p."""
        if not _has_letter(word):
            return [(word, 0.0)]
        channel = self.channel
        similar = self.confusables.of(word, channel.similar)
        taken = [math.exp(-distance) * math.sqrt(1 + self.confusables.counts[other]) for other, distance in similar]
        wrong: Alternatives = [
            (other, math.log(channel.substitution * share / sum(taken)))
            for (other, _), share in zip(similar, taken, strict=True)
        ]
        right = 1 - channel.deletion - (channel.substitution if similar else 0.0)
        return [(word, math.log(right)), *wrong, (None, math.log(channel.deletion))]

    def hypotheses(self, words: Words, rng: np.random.Generator) -> tuple[Hypothesis, ...]:
        slots = self.slots(words)
        log_p = np.full((len(slots), max(map(len, slots))), -np.inf)
        for row, slot in zip(log_p, slots, strict=True):
            row[: len(slot)] = [own for _, own in slot]
        acoustic = log_p + self.channel.noise * rng.normal(size=log_p.shape)
        found: dict[Words, float] = {}
        temperature = self.channel.temperature
        for _ in range(_ROUNDS):
            choices = _drawn(np.stack([acoustic, log_p]) / temperature, self.n, rng)
            scores = acoustic[np.arange(len(slots)), choices].sum(1)
            for choice, score in zip(choices.tolist(), scores.tolist(), strict=True):
                heard = tuple(word for slot, i in zip(slots, choice, strict=True) if (word := slot[i][0]) is not None)
                if heard in found or len(found) < self.n:
                    found[heard] = max(score, found.get(heard, -math.inf))  # one text, two ways: the better one
            if len(found) == self.n:
                break
            temperature *= _HEATING
        return tuple(Hypothesis(heard, (score,)) for heard, score in sorted(found.items(), key=lambda pair: -pair[1]))


def _drawn(logits: Floats, count: int, rng: np.random.Generator) -> Ints:
    """`count` draws from each of K distributions over the A alternatives of S slots, (K, S, A) -> (count · K, S)."""
    p = np.exp(logits - logits.max(-1, keepdims=True))
    below = np.cumsum(p, axis=-1)
    drawn = rng.random((count, *below.shape[:2], 1)) * below[..., -1:]
    # a draw is less than the whole mass, to which padding adds nothing: it never falls there
    choices: Ints = (drawn >= below).sum(-1)
    return choices.reshape(-1, below.shape[1])
