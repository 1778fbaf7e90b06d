"""A corpus as ids of a vocabulary, and a summary of the text that a model was trained on."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import TrainingError, UnknownWordError, warn
from llrnn.text.conditions import Act
from llrnn.text.corpus import Corpus
from llrnn.text.vocabulary import Vocabulary

Given = TypeVar("Given")
Made = TypeVar("Made", covariant=True)


def sentence_key(words: Sequence[str]) -> int:
    """A number below 2⁶³ that names a sentence by its words: equal sentences have equal keys, on every machine."""
    digest = hashlib.blake2b("\x1f".join(words).encode("utf8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


_CAPITALS = 0.02  # share of words that only a capital letter keeps out of the vocabulary; names are fewer


class Lazy(Sequence[Made], Generic[Given, Made]):
    """Things that are made when they are asked for, each of what is given for it."""

    def __init__(self, given: Sequence[Given], make: Callable[[Given], Made]) -> None:
        self._given, self._make = given, make

    def __len__(self) -> int:
        return len(self._given)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(self._given[index], self._make)
        return self._made(index)

    def _made(self, index: int) -> Made:
        return self._make(self._given[index])


class Stored(ABC):
    """A corpus that is on disk as numbers already: it makes texts that are read where they lie."""

    @abstractmethod
    def encoded(self, vocabulary: Vocabulary, *, to_train_on: bool = False) -> EncodedText:
        """What `EncodedText.encode` or `EncodedText.to_train_on` is to return."""


@dataclass(frozen=True)
class Run:
    """All sentences run together, EOS, a sentence, EOS, ..., asked by place; answers have the shape of the places."""

    length: int
    symbols_at: Callable[[Ints], Ints]
    keys_at: Callable[[Ints], Ints | None]  # the key of the sentence to which each symbol belongs
    inside_at: Callable[[Ints], Floats | None]  # what is inside each symbol

    def __len__(self) -> int:
        return self.length


@dataclass(frozen=True)
class EncodedText:
    """A corpus as ids: one array for each sentence, without its end, and the conditions.

    `keys` names the sentences of a text to train on, for knowledge that was estimated on the same text. `inside` has,
    for every word of an open vocabulary, the log-probability of the word within its cell (see `text.domain`). What
    cuts a text into batches asks for `lengths`, `sentences[i]`, `keys_of` and `run`, so that none of it need be in
    memory (`text.shards`).
    """

    sentences: Sequence[Ints]
    conditions: Sequence[object]
    eos: int
    keys: Ints | None = None
    inside: Sequence[Floats] | None = None

    @classmethod
    def encode(cls, corpus: Corpus, vocabulary: Vocabulary) -> EncodedText:
        """Look every word up; one that the vocabulary has no place for is an error that names the sentence."""
        if isinstance(corpus, Stored):
            return corpus.encoded(vocabulary)
        known = _look_up(corpus, vocabulary)
        pairs = [[known[word] for word in sentence.words] for sentence in corpus]
        sentences = tuple(np.array([symbol for symbol, _ in row], dtype=np.int64) for row in pairs)
        inside = tuple(np.array([log for _, log in row], dtype=np.float64) for row in pairs)
        conditions = tuple(sentence.condition for sentence in corpus)
        return cls(sentences, conditions, vocabulary.eos, None, inside if vocabulary.is_open else None)

    @classmethod
    def to_train_on(cls, corpus: Corpus, vocabulary: Vocabulary) -> EncodedText:
        """The same with keys; the first time that words of `vocabulary.as_new` come, they are shown as their cells.

        Every word was new once. A model that never sees a cell as target would learn that there is nothing to expect.
        """
        if isinstance(corpus, Stored):
            return corpus.encoded(vocabulary, to_train_on=True)
        text = cls.encode(corpus, vocabulary)
        keys = np.array([sentence_key(sentence.words) for sentence in corpus], dtype=np.int64)
        new = sorted(vocabulary.as_new)
        others = dict(zip(vocabulary.ids(new), vocabulary.cells_of(new), strict=True))
        # which string of a cell it was does not depend on the weights: training leaves it out
        return replace(text, sentences=_first_shown_as(text.sentences, others), keys=keys, inside=None)

    @property
    def lengths(self) -> Ints:
        """How many targets each sentence has: its words and its end."""
        return np.array([len(sentence) + 1 for sentence in self.sentences], dtype=np.int64)

    @property
    def n_targets(self) -> int:
        """Words and ends of sentences."""
        return int(self.lengths.sum())

    def keys_of(self, group: Ints) -> Ints | None:
        """The keys of some sentences."""
        return None if self.keys is None else self.keys[group]

    def run(self) -> Run:
        """All sentences run together."""
        symbols, keys, inside = self.stream(), self.keys, self.inside
        if keys is not None:  # the end of a sentence has its key too
            keys = np.concatenate([keys[:1], np.repeat(keys, self.lengths)])
        end = np.zeros(1)
        logs = None if inside is None else np.concatenate([end, *(part for one in inside for part in (one, end))])
        return Run(
            len(symbols),
            symbols.__getitem__,
            lambda places: None if keys is None else keys[places],
            lambda places: None if logs is None else logs[places],
        )

    def stream(self) -> Ints:
        """All sentences as one text: EOS, a sentence, EOS, a sentence, EOS, ..."""
        if any(condition is not None for condition in self.conditions):
            raise TrainingError("sentences with conditions cannot be run together: use the batching by sentences")
        boundary = np.array([self.eos], dtype=np.int64)
        return np.concatenate([boundary, *(part for s in self.sentences for part in (s, boundary))])

    def counts(self, n_symbols: int) -> Ints:
        """How often each symbol is a target, ends of sentences included, (V,)."""
        counts = np.zeros(n_symbols, dtype=np.int64)
        for sentence in self.sentences:
            np.add.at(counts, sentence, 1)
        counts[self.eos] += len(self.sentences)
        return counts

    def digest(self) -> str:
        """SHA-256 of all sentences in their order, with their conditions."""
        digest = hashlib.sha256()
        for sentence, condition in zip(self.sentences, self.conditions, strict=True):
            plain = json.dumps(condition, sort_keys=True, default=_plain)
            digest.update(f"{len(sentence)} {len(plain)} {plain}".encode() + sentence.tobytes())
        return digest.hexdigest()

    def fingerprints(self) -> Ints:
        """A 64-bit number for each distinct sentence, sorted: enough to ask whether a sentence was there."""
        digests = {hashlib.blake2b(sentence.tobytes(), digest_size=8).digest() for sentence in self.sentences}
        return np.sort(np.array([int.from_bytes(d, "little", signed=True) for d in digests], dtype=np.int64))


def _plain(condition: object) -> str:
    """An act as it is written; another object that is not plain data by its type: its repr may hold an address."""
    return str(condition) if isinstance(condition, Act) else type(condition).__qualname__


def _first_shown_as(sentences: Sequence[Ints], others: dict[int, int]) -> Sequence[Ints]:
    """The first time that some symbols come, others in their place."""
    if not others or not sentences:
        return sentences
    ends = np.cumsum([len(sentence) for sentence in sentences])
    joined = np.concatenate(sentences)
    symbols, first = np.unique(joined, return_index=True)
    for symbol, place in zip(symbols.tolist(), first.tolist(), strict=True):
        joined[place] = others.get(symbol, symbol)
    return tuple(np.split(joined, ends[:-1]))


def _look_up(corpus: Corpus, vocabulary: Vocabulary) -> dict[str, tuple[int, float]]:
    """Every distinct word once: its symbol, and its log-probability within the symbol."""
    places: dict[str, str] = {}  # in the order of the text, so that the first word that is missing is told first
    for sentence in corpus.sentences:
        for word in sentence.words:
            places.setdefault(word, sentence.name)
    try:
        ids, inside = vocabulary.locate(list(places))
    except UnknownWordError as error:
        place = places[error.word]
        raise UnknownWordError(error.word, size=len(vocabulary), place=place, others=error.others) from None
    return dict(zip(places, zip(ids.tolist(), inside.tolist(), strict=True), strict=True))


@dataclass(frozen=True)
class TrainingSummary:
    """What a model has seen in training, for audits: how often each symbol, and which sentences."""

    counts: Ints  # (V,)
    sentences: Ints  # fingerprints, sorted

    @classmethod
    def of(cls, text: EncodedText, n_symbols: int) -> TrainingSummary:
        return cls(text.counts(n_symbols), text.fingerprints())

    def share_of(self, text: EncodedText) -> float:
        """The share of a text's distinct sentences that were seen."""
        asked = text.fingerprints()
        return float(np.isin(asked, self.sentences).mean()) if len(asked) else 0.0


def warn_of_capitals(vocabulary: Vocabulary, corpus: Corpus) -> None:
    """That a text has capital letters, where the model has none."""
    if vocabulary.unknown is None and not vocabulary.is_open:
        return  # such words will be refused, and named
    counts = corpus.counts()
    large = [word for word in counts if word not in vocabulary and word.lower() in vocabulary]
    share = sum(counts[word] for word in large) / max(1, sum(counts.values()))
    if share > _CAPITALS:
        warn(
            f"{corpus.name or 'the text'}: {share:.0%} of the words are in the vocabulary only when they are "
            f"lowercased, such as {large[0]!r}; give --lowercase"
        )
