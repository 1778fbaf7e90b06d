"""A corpus as numbers, and what a model remembers of the text that it was trained on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llrnn.corpus import Corpus
from llrnn.errors import TrainingError
from llrnn.features.matrix import Ints
from llrnn.vocabulary import Vocabulary


def sentence_key(words: Sequence[str]) -> int:
    """A number below 2⁶³ that names a sentence by its words: equal sentences have equal keys, on every machine."""
    digest = hashlib.blake2b("\x1f".join(words).encode("utf8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


@dataclass(frozen=True)
class Text:
    """A corpus as ids: one array for each sentence, without its end, and the conditions.

    `keys` names the sentences of a text to train on, for knowledge that was estimated on the same text.
    """

    sentences: tuple[Ints, ...]
    conditions: tuple[object, ...]
    eos: int
    keys: Ints | None = None

    @classmethod
    def encode(cls, corpus: Corpus, vocabulary: Vocabulary, *, keyed: bool = False) -> Text:
        """Look every word up; one that the vocabulary does not list is an error that names the sentence."""
        sentences = tuple(
            np.array(vocabulary.ids(sentence.words, place=sentence.name), dtype=np.int64) for sentence in corpus
        )
        keys = np.array([sentence_key(sentence.words) for sentence in corpus], dtype=np.int64) if keyed else None
        return cls(sentences, tuple(sentence.condition for sentence in corpus), vocabulary.eos, keys)

    @property
    def n_targets(self) -> int:
        """Words and ends of sentences."""
        return sum(len(sentence) + 1 for sentence in self.sentences)

    def stream(self) -> Ints:
        """All sentences as one text: EOS, a sentence, EOS, a sentence, EOS, ..."""
        if any(condition is not None for condition in self.conditions):
            raise TrainingError("sentences with conditions cannot be run together: use the batching by sentences")
        boundary = np.array([self.eos], dtype=np.int64)
        return np.concatenate([boundary, *(part for s in self.sentences for part in (s, boundary))])

    def stream_keys(self) -> Ints | None:
        """The key of the sentence to which each symbol of the stream belongs, its end included."""
        if self.keys is None:
            return None
        lengths = [len(sentence) + 1 for sentence in self.sentences]
        return np.concatenate([self.keys[:1], np.repeat(self.keys, lengths)])

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
            # an object that is not plain data counts by its type: its repr may hold an address in memory
            plain = json.dumps(condition, sort_keys=True, default=lambda other: type(other).__qualname__)
            digest.update(f"{len(sentence)} {len(plain)} {plain}".encode() + sentence.tobytes())
        return digest.hexdigest()

    def fingerprints(self) -> Ints:
        """A 64-bit number for each distinct sentence, sorted: enough to ask whether a sentence was there."""
        digests = {hashlib.blake2b(sentence.tobytes(), digest_size=8).digest() for sentence in self.sentences}
        return np.sort(np.array([int.from_bytes(d, "little", signed=True) for d in digests], dtype=np.int64))


@dataclass(frozen=True)
class Seen:
    """What a model has seen in training, for audits: how often each symbol, and which sentences."""

    counts: Ints  # (V,)
    sentences: Ints  # fingerprints, sorted

    @classmethod
    def of(cls, text: Text, n_symbols: int) -> Seen:
        return cls(text.counts(n_symbols), text.fingerprints())

    def share_of(self, text: Text) -> float:
        """The share of a text's distinct sentences that were seen."""
        asked = text.fingerprints()
        return float(np.isin(asked, self.sentences).mean()) if len(asked) else 0.0
