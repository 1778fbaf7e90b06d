"""A corpus as ids of a vocabulary, sentence by sentence or as one run, and a summary of what a model has read."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Generic, Literal, TypeVar, get_args

import numpy as np

from llrnn.ground.arrays import Bools, Floats, Ints
from llrnn.ground.errors import ConfigError, TrainingError, UnknownWordError, warn
from llrnn.text.conditions import Act, Before
from llrnn.text.corpus import Corpus
from llrnn.text.readers import Sentence
from llrnn.text.units import Units
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
    for every word of an open vocabulary, the log-probability of the word within its cell (see `text.vocabulary`). `cut`
    says which sentences are pieces of longer ones (see `of_listed`). What cuts a text into batches asks for `lengths`,
    `framed`, `keys_of` and `run`, so that none of it need be in memory (`text.built`).
    """

    sentences: Sequence[Ints]
    conditions: Sequence[object]
    eos: int
    keys: Ints | None = None
    inside: Sequence[Floats] | None = None
    cut: Bools | None = None  # (n, 2): whether words were cut off before each sentence, and behind it

    @classmethod
    def encode(cls, corpus: Corpus, vocabulary: Vocabulary) -> EncodedText:
        """Look every word up; one that the vocabulary has no place for is an error that names the sentence."""
        if isinstance(corpus, Stored):
            return corpus.encoded(vocabulary)
        if vocabulary.units is not None:
            return cls._of_units(corpus, vocabulary, vocabulary.units)
        known = _look_up(corpus, vocabulary)
        pairs = [[known[word] for word in sentence.words] for sentence in corpus]
        sentences = tuple(np.array([symbol for symbol, _ in row], dtype=np.int64) for row in pairs)
        inside = tuple(np.array([log for _, log in row], dtype=np.float64) for row in pairs)
        conditions = tuple(sentence.condition for sentence in corpus)
        return cls(sentences, conditions, vocabulary.eos, None, inside if vocabulary.is_open else None)

    @classmethod
    def _of_units(cls, corpus: Corpus, vocabulary: Vocabulary, units: Units) -> EncodedText:
        """Every word as its units, the last of which has what they leave open."""
        known = {word: vocabulary.ids(units.of(word)) for word in corpus.counts()}
        left = {word: [*[0.0] * (len(ids) - 1), units.log_inside(word)] for word, ids in known.items()}
        sentences = tuple(_joined([known[word] for word in one.words], np.int64) for one in corpus)
        inside = tuple(_joined([left[word] for word in one.words], np.float64) for one in corpus)
        return cls(sentences, tuple(one.condition for one in corpus), vocabulary.eos, None, inside)

    @classmethod
    def to_train_on(cls, corpus: Corpus, vocabulary: Vocabulary) -> EncodedText:
        """The same with keys; the first time that words of `vocabulary.as_new` come, they are shown as their cells.

        Every word was new once. A model that never sees a cell as target would learn that there is nothing to expect.
        """
        if isinstance(corpus, Stored):
            return corpus.encoded(vocabulary, to_train_on=True)
        text = cls.encode(corpus, vocabulary)
        cut = (lambda words: words) if vocabulary.units is None else vocabulary.units.sentence
        keys = np.array([sentence_key(cut(sentence.words)) for sentence in corpus], dtype=np.int64)
        new = sorted(vocabulary.as_new)
        others = dict(zip(vocabulary.ids(new), vocabulary.cells_of(new), strict=True))
        # which string of a cell it was does not depend on the weights: training leaves it out
        return replace(text, sentences=_first_shown_as(text.sentences, others), keys=keys, inside=None)

    @classmethod
    def of_listed(cls, corpus: Corpus, vocabulary: Vocabulary, *, min_words: int = 2) -> EncodedText:
        """To train on another text: cut at the words that the vocabulary has no place for.

            le chat [miaule] sur le mur        gives `</s> le chat` and `sur le mur </s>`

        A piece of a sentence has `min_words` words or more. It is read from a fresh state, and what it begins with is
        not predicted: an end of sentence is learnt only where there was one. Where every word has a place, in an open
        vocabulary or one with an unknown-word symbol, all sentences stay whole.
        """
        words = list(corpus.counts())
        places = dict(zip(words, vocabulary.find(words)[0].tolist(), strict=True))
        pieces, cuts, conditions, keys = [], [], [], []
        for sentence in corpus:
            row = np.array([places[word] for word in sentence.words], dtype=np.int64)
            key = sentence_key(sentence.words)
            for before, behind in pairwise([-1, *np.flatnonzero(row < 0).tolist(), len(row)]):
                cut = before >= 0, behind < len(row)
                if behind - before > min_words or not any(cut):
                    pieces.append(row[before + 1 : behind])
                    cuts.append(cut)
                    conditions.append(sentence.condition)
                    keys.append(key)
        kept = np.array(cuts, dtype=bool).reshape(-1, 2)
        cut_off = kept if kept.any() else None
        return cls(tuple(pieces), tuple(conditions), vocabulary.eos, np.array(keys, dtype=np.int64), None, cut_off)

    def select(self, numbers: Ints) -> EncodedText:
        """Some sentences, in this order."""
        return EncodedText(
            tuple(self.sentences[i] for i in numbers.tolist()),
            tuple(self.conditions[i] for i in numbers.tolist()),
            self.eos,
            self.keys_of(numbers),
            None if self.inside is None else tuple(self.inside[i] for i in numbers.tolist()),
            None if self.cut is None else self.cut[numbers],
        )

    def __add__(self, other: EncodedText) -> EncodedText:
        """Both texts to train on, one behind the other."""
        assert self.keys is not None
        assert other.keys is not None
        cuts = (
            np.zeros((len(text.sentences), 2), dtype=bool) if text.cut is None else text.cut for text in (self, other)
        )
        return EncodedText(
            (*self.sentences, *other.sentences),
            (*self.conditions, *other.conditions),
            self.eos,
            np.concatenate([self.keys, other.keys]),
            None,  # which string of a cell it was: not asked in training
            None if self.cut is None and other.cut is None else np.concatenate(list(cuts)),
        )

    def framed(self, number: int) -> Ints:
        """A sentence between the ends that it has: all but the last symbol are read, all but the first predicted."""
        end = np.array([self.eos], dtype=np.int64)
        before, behind = (False, False) if self.cut is None else self.cut[number]
        return np.concatenate([end[: not before], self.sentences[number], end[: not behind]])

    @property
    def lengths(self) -> Ints:
        """How many targets each sentence has: its words and its end, less what only goes before."""
        whole = np.array([len(sentence) + 1 for sentence in self.sentences], dtype=np.int64)
        return whole if self.cut is None else whole - self.cut.sum(1)

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
        if self.cut is not None and self.cut.any():
            raise TrainingError(
                "texts that are cut at unlisted words cannot be run together: use the batching by sentences"
            )
        boundary = np.array([self.eos], dtype=np.int64)
        return np.concatenate([boundary, *(part for s in self.sentences for part in (s, boundary))])

    def counts(self, n_symbols: int) -> Ints:
        """How often each symbol is a target, ends of sentences included, (V,)."""
        counts = np.zeros(n_symbols, dtype=np.int64)
        for number in range(len(self.sentences)):
            np.add.at(counts, self.framed(number)[1:], 1)
        return counts

    def digest(self) -> str:
        """SHA-256 of all sentences in their order, with their conditions."""
        digest = hashlib.sha256()
        for sentence, condition in zip(self.sentences, self.conditions, strict=True):
            plain = json.dumps(condition, sort_keys=True, default=_plain)
            digest.update(f"{len(sentence)} {len(plain)} {plain}".encode() + sentence.tobytes())
        digest.update(b"" if self.cut is None else self.cut.tobytes())
        return digest.hexdigest()

    def fingerprints(self) -> Ints:
        """A 64-bit number for each distinct whole sentence, sorted: enough to ask whether a sentence was there."""
        numbers = range(len(self.sentences)) if self.cut is None else np.flatnonzero(~self.cut.any(1)).tolist()
        whole = (self.sentences[number] for number in numbers)
        digests = {hashlib.blake2b(sentence.tobytes(), digest_size=8).digest() for sentence in whole}
        return np.sort(np.array([int.from_bytes(d, "little", signed=True) for d in digests], dtype=np.int64))


def _plain(condition: object) -> str:
    """An act, or a text, as it is written; another object by its type: its repr may hold an address."""
    return str(condition) if isinstance(condition, Act | Before) else type(condition).__qualname__


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


def _joined(rows: Sequence[Sequence[float]], dtype: type[Any]) -> Any:
    return np.array([one for row in rows for one in row], dtype=dtype)


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

    counts: Ints  # (V,), in the corpus; other texts are not counted
    sentences: Ints  # fingerprints, sorted; of the corpus and of other texts

    @classmethod
    def of(cls, text: EncodedText, n_symbols: int) -> TrainingSummary:
        return cls(text.counts(n_symbols), text.fingerprints())

    def having_read(self, others: Iterable[EncodedText]) -> TrainingSummary:
        """The same after other texts: their sentences were seen too."""
        found = [self.sentences, *(text.fingerprints() for text in others)]
        return replace(self, sentences=np.unique(np.concatenate(found)))

    def share_of(self, text: EncodedText) -> float:
        """The share of a text's distinct sentences that were seen."""
        asked = text.fingerprints()
        return float(np.isin(asked, self.sentences).mean()) if len(asked) else 0.0


Oov = Literal["skip", "unk", "error"]  # what becomes of words that a vocabulary does not list


def treat_unknown(corpus: Corpus, vocabulary: Vocabulary, oov: Oov | None) -> tuple[Corpus, Counter[str]]:
    """A text as a model is to read it, and the words that its vocabulary does not list, with their counts.

    `oov`: `error` refuses such words; `unk` needs a symbol for them, which they count as; `skip` leaves them out of all
    sums: they are read as that symbol, or, where there is none, not at all. None: `unk` where there is a symbol.

        text, missing = treat_unknown(corpus, model.vocabulary, "skip")
    """
    if oov not in (None, *get_args(Oov)):
        raise ConfigError(f"--oov is skip, unk or error, found {oov!r}; choose one")
    if isinstance(corpus, Stored):
        if oov is not None:
            raise ConfigError(f"{corpus.name}: a built corpus was settled when it was built; leave --oov out")
        return corpus, Counter()
    if vocabulary.is_open or vocabulary.units is not None:
        return corpus, Counter()  # every word has its own probability
    counts = corpus.counts()
    missing = Counter({word: n for word, n in counts.items() if word not in vocabulary})
    if not missing:
        return corpus, missing
    if oov == "unk" and vocabulary.unknown is None:
        raise ConfigError(
            f"--oov unk: the model has no symbol for the {len(missing):,} words of the text that it does not list, "
            f"such as {next(iter(missing))!r}; --oov skip leaves them out"
        )
    if oov == "error":
        first, *others = missing
        place = next(one.name for one in corpus if first in one.words)
        raise UnknownWordError(first, size=len(vocabulary), place=place, others=others)
    if oov == "skip" and vocabulary.unknown is None:
        return Corpus(tuple(_without(sentence, missing) for sentence in corpus), corpus.name), missing
    return corpus, missing


def _without(sentence: Sentence, missing: Container[str]) -> Sentence:
    kept = tuple(token for token in sentence.tokens if token.form not in missing)
    return replace(sentence, tokens=kept)


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
