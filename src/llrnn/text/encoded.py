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
    """Return a 63-bit hash of the words of a sentence, in order, equal on every machine; 0 or more."""
    digest = hashlib.blake2b("\x1f".join(words).encode("utf8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


_CAPITALS = 0.02  # share of words that only a capital letter keeps out of the vocabulary; names are fewer


class Lazy(Sequence[Made], Generic[Given, Made]):
    """A read-only sequence whose element i is `make(given[i])`, computed at each access; slices are lazy too.

    `Lazy([1, 2, 3], str)[1]` is "2"; `given`: a sequence, `make`: a function of one element.
    """

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
    """Interface of corpora that are stored on disk as word numbers; `EncodedText.encode` asks them for their text."""

    @abstractmethod
    def encoded(self, vocabulary: Vocabulary, *, to_train_on: bool = False) -> EncodedText:
        """Return the stored text as symbol ids of `vocabulary`, read from disk when needed.

        `to_train_on`: in the form of `EncodedText.to_train_on` rather than `EncodedText.encode`.
        """


@dataclass(frozen=True)
class Run:
    """All sentences of a text as one sequence EOS, a sentence, EOS, …, of `length` symbols, read by position.

    Each function takes an array of positions, 0 to length - 1, and returns an array of its shape: `symbols_at` symbol
    ids, `keys_at` hashes of the sentence that a symbol belongs to (an EOS to the sentence that it ends, the first one
    to the first sentence), `inside_at` log-probabilities of unlisted words given their symbols (0 for listed ones). The
    last two return None where the text has no such values.
    """

    length: int
    symbols_at: Callable[[Ints], Ints]
    keys_at: Callable[[Ints], Ints | None]  # the key of the sentence to which each symbol belongs
    inside_at: Callable[[Ints], Floats | None]  # what is inside each symbol

    def __len__(self) -> int:
        return self.length


@dataclass(frozen=True)
class EncodedText:
    """A corpus as symbol ids: one array for each sentence, without its end, and the conditions.

    sentences   for each sentence an int64 array of the ids of its words
    conditions  for each sentence the input that it is generated from, or None
    eos         the id of EOS, the end of a sentence
    keys        a hash of each sentence of a training text, by which n-grams counted on the text know which fold to
                score it without; None for other texts
    inside      for an open vocabulary, for each sentence an array of log p(word | its symbol), where unlisted words
                share a symbol (a cell); 0 if listed. None for a closed vocabulary, and for training texts
    cut         (sentences, 2) bool: whether a sentence is a piece without its beginning, and without its end (see
                `of_listed`); None: all are whole

    Batching uses `lengths`, `framed`, `keys_of` and `run` only, so that the text need not be in memory (`text.built`).

        text = EncodedText.encode(Corpus.from_file("test.txt"), model.vocabulary)
    """

    sentences: Sequence[Ints]
    conditions: Sequence[object]
    eos: int
    keys: Ints | None = None
    inside: Sequence[Floats] | None = None
    cut: Bools | None = None  # (n, 2): whether words were cut off before each sentence, and behind it

    @classmethod
    def encode(cls, corpus: Corpus, vocabulary: Vocabulary) -> EncodedText:
        """Return a corpus as symbol ids of a vocabulary, one array for each sentence.

        A word that the vocabulary has no symbol for raises an UnknownWordError that names its sentence.

        For example:

            EncodedText.encode(Corpus.from_file("test.txt"), model.vocabulary)
        """
        if isinstance(corpus, Stored):
            return corpus.encoded(vocabulary)
        if vocabulary.units is not None:
            return cls._of_units(corpus, vocabulary, vocabulary.units)
        known = look_up(((sentence.name, sentence.words) for sentence in corpus), vocabulary)
        pairs = [[known[word] for word in sentence.words] for sentence in corpus]
        sentences = tuple(np.array([symbol for symbol, _ in row], dtype=np.int64) for row in pairs)
        inside = tuple(np.array([log for _, log in row], dtype=np.float64) for row in pairs)
        conditions = tuple(sentence.condition for sentence in corpus)
        return cls(sentences, conditions, vocabulary.eos, None, inside if vocabulary.is_open else None)

    @classmethod
    def _of_units(cls, corpus: Corpus, vocabulary: Vocabulary, units: Units) -> EncodedText:
        """Return a corpus as ids of the subword units that `units` cuts its words into, one array for each sentence.

        `inside` of the result has, at the last unit of each word, the log-probability of the word's unlisted
        characters, for which the unit `<other>` stands; 0 elsewhere.

        vocabulary  lists all units of `units`
        """
        known = {word: vocabulary.ids(units.of(word)) for word in corpus.counts()}
        left = {word: [*[0.0] * (len(ids) - 1), units.log_inside(word)] for word, ids in known.items()}
        sentences = tuple(_joined([known[word] for word in one.words], np.int64) for one in corpus)
        inside = tuple(_joined([left[word] for word in one.words], np.float64) for one in corpus)
        return cls(sentences, tuple(one.condition for one in corpus), vocabulary.eos, None, inside)

    @classmethod
    def to_train_on(cls, corpus: Corpus, vocabulary: Vocabulary) -> EncodedText:
        """Return a training corpus as ids, with a hash of each sentence, and with some words shown as unlisted once.

        The first occurrence of each word in `vocabulary.as_new` becomes the symbol of its cell, the set of unlisted
        strings that it would be in. Otherwise the model would never see cells as targets, and learn to give them no
        probability. The result has `keys` and no `inside`.

            EncodedText.to_train_on(train, vocabulary)
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
        """Return a further training text as ids, cut at words that the vocabulary has no symbol for.

            le chat [miaule] sur le mur        gives `</s> le chat` and `sur le mur </s>`

        corpus      the text
        vocabulary  with domains or an unknown-word symbol, every word has a symbol and sentences stay whole
        min_words   pieces with fewer words, `</s>` not counted, are dropped; a sentence that is whole never is

        A piece is read from a fresh state and its first word is not predicted; EOS is predicted only where a sentence
        ends.
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
        """Return the text of the sentences with these indices, in this order; an index may occur several times."""
        return EncodedText(
            tuple(self.sentences[i] for i in numbers.tolist()),
            tuple(self.conditions[i] for i in numbers.tolist()),
            self.eos,
            self.keys_of(numbers),
            None if self.inside is None else tuple(self.inside[i] for i in numbers.tolist()),
            None if self.cut is None else self.cut[numbers],
        )

    def __add__(self, other: EncodedText) -> EncodedText:
        """Return a text of the sentences of two training texts, one after the other.

        Both must be made by `to_train_on` or `of_listed`, so that their sentences have hashes (`keys`).
        """
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
        """Return the ids of the sentence with index `number`, with EOS before and after it.

        Inputs are [:-1], targets [1:]. A piece that was cut off a sentence has no EOS at that end.
        """
        end = np.array([self.eos], dtype=np.int64)
        before, behind = (False, False) if self.cut is None else self.cut[number]
        return np.concatenate([end[: not before], self.sentences[number], end[: not behind]])

    @property
    def lengths(self) -> Ints:
        """The number of symbols to predict in each sentence, (sentences,): its words and EOS.

        It is one less for a cut beginning, whose first word is not predicted, and one less for a cut end, which has no
        EOS.
        """
        whole = np.array([len(sentence) + 1 for sentence in self.sentences], dtype=np.int64)
        return whole if self.cut is None else whole - self.cut.sum(1)

    @property
    def n_targets(self) -> int:
        """The number of symbols to predict in all sentences together: words and ends of sentences (EOS)."""
        return int(self.lengths.sum())

    def keys_of(self, group: Ints) -> Ints | None:
        """Return the hashes of the sentences with the indices `group`; None if the text has no hashes (`keys`)."""
        return None if self.keys is None else self.keys[group]

    def run(self) -> Run:
        """Return all sentences as one sequence EOS, a sentence, EOS, …, that is read by position.

        A TrainingError if sentences have conditions (inputs that they are generated from) or are pieces of sentences.
        """
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
        """Return all sentences as one array of ids: EOS, a sentence, EOS, a sentence, EOS, ...

        A TrainingError if sentences have conditions (inputs that they are generated from) or are pieces of sentences.
        """
        if any(condition is not None for condition in self.conditions):
            raise TrainingError("sentences with conditions cannot be run together: use the batching by sentences")
        if self.cut is not None and self.cut.any():
            raise TrainingError(
                "texts that are cut at unlisted words cannot be run together: use the batching by sentences"
            )
        boundary = np.array([self.eos], dtype=np.int64)
        return np.concatenate([boundary, *(part for s in self.sentences for part in (s, boundary))])

    def counts(self, n_symbols: int) -> Ints:
        """Return how often each of the `n_symbols` symbols is a target, EOS included, (n_symbols,), by id.

        The first word of a piece whose beginning was cut off is no target.
        """
        counts = np.zeros(n_symbols, dtype=np.int64)
        for number in range(len(self.sentences)):
            np.add.at(counts, self.framed(number)[1:], 1)
        return counts

    def digest(self) -> str:
        """Return the SHA-256, as hexadecimal digits, of all sentences in order, with their conditions and cuts.

        Conditions are the inputs that sentences are generated from; cuts say which ends of a sentence are missing.
        """
        digest = hashlib.sha256()
        for sentence, condition in zip(self.sentences, self.conditions, strict=True):
            plain = json.dumps(condition, sort_keys=True, default=_plain)
            digest.update(f"{len(sentence)} {len(plain)} {plain}".encode() + sentence.tobytes())
        digest.update(b"" if self.cut is None else self.cut.tobytes())
        return digest.hexdigest()

    def fingerprints(self) -> Ints:
        """Return the 64-bit hashes of all distinct whole sentences (of their ids), sorted, as signed integers.

        Pieces of sentences that were cut at unlisted words are not among them.
        """
        numbers = range(len(self.sentences)) if self.cut is None else np.flatnonzero(~self.cut.any(1)).tolist()
        whole = (self.sentences[number] for number in numbers)
        digests = {hashlib.blake2b(sentence.tobytes(), digest_size=8).digest() for sentence in whole}
        return np.sort(np.array([int.from_bytes(d, "little", signed=True) for d in digests], dtype=np.int64))


def _plain(condition: object) -> str:
    """Return the text form of an `Act` or a `Before` (conditions of sentences); for other objects their class name.

    It is the `default` of `json.dumps`, which cannot write such objects.
    """
    return str(condition) if isinstance(condition, Act | Before) else type(condition).__qualname__


def _first_shown_as(sentences: Sequence[Ints], others: dict[int, int]) -> Sequence[Ints]:
    """Return the sentences with the first occurrence in the text of each id in `others` replaced by `others[id]`.

    The arrays of `sentences` are not changed.
    """
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


def look_up(texts: Iterable[tuple[str, Iterable[str]]], vocabulary: Vocabulary) -> dict[str, tuple[int, float]]:
    """Return {word: (symbol id, log p(word | symbol))} of all distinct words of some texts.

    The log, in nats, is 0 if the word is listed, or stands for the unknown-word symbol; otherwise the word shares its
    symbol with other unlisted strings.

    texts       (name, words) pairs; the name is that of the sentence, for the message of an UnknownWordError about a
                word that the vocabulary has no symbol for
    """
    places: dict[str, str] = {}  # in the order of the text, so that the first word that is missing is told first
    for name, words in texts:
        for word in words:
            places.setdefault(word, name)
    try:
        ids, inside = vocabulary.locate(list(places))
    except UnknownWordError as error:
        place = places[error.word]
        raise UnknownWordError(error.word, size=len(vocabulary), place=place, others=error.others) from None
    return dict(zip(places, zip(ids.tolist(), inside.tolist(), strict=True), strict=True))


@dataclass(frozen=True)
class TrainingSummary:
    """What a model was trained on, for audits; `TrainingSummary.of(text, n_symbols)` makes it.

    counts      (V,) how often each symbol was a target in the corpus, without further training texts
    sentences   (n,) int64, the sorted 64-bit hashes of all distinct sentences, of further training texts too
    """

    counts: Ints  # (V,), in the corpus; other texts are not counted
    sentences: Ints  # fingerprints, sorted; of the corpus and of other texts

    @classmethod
    def of(cls, text: EncodedText, n_symbols: int) -> TrainingSummary:
        """Return the summary of a training text: counts of its symbols, (n_symbols,), and hashes of its sentences.

        `n_symbols`: the size of the vocabulary.
        """
        return cls(text.counts(n_symbols), text.fingerprints())

    def having_read(self, others: Iterable[EncodedText]) -> TrainingSummary:
        """Return a copy of the summary with the sentence hashes of the texts `others` added; counts stay."""
        found = [self.sentences, *(text.fingerprints() for text in others)]
        return replace(self, sentences=np.unique(np.concatenate(found)))

    def share_of(self, text: EncodedText) -> float:
        """Return the share of the distinct sentences of a text that were in training, 0 to 1; 0 for an empty text."""
        asked = text.fingerprints()
        return float(np.isin(asked, self.sentences).mean()) if len(asked) else 0.0


Oov = Literal["skip", "unk", "error"]  # what becomes of words that a vocabulary does not list


def treat_unknown(corpus: Corpus, vocabulary: Vocabulary, oov: Oov | None) -> tuple[Corpus, Counter[str]]:
    """Return (the corpus as a model can read it, {word: count} of its words that the vocabulary does not list).

    Only "skip" without an unknown-word symbol changes the corpus: such words are removed.

    oov     "error": such words raise an UnknownWordError; "unk": they count as the unknown-word symbol, which must
            exist; "skip": they count in no sum, and are read as that symbol or, without one, not at all; None: "unk"
            if there is such a symbol, else the corpus is returned unchanged

    With an open vocabulary or subword units, every word has a probability: nothing changes and no word is counted, and
    so for a corpus on disk (`BuiltCorpus`), where `oov` must be None. A ConfigError for another `oov`, or "unk" without
    such a symbol.

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
        kept = tuple(_without(sentence, missing) for sentence in corpus)
        return Corpus(kept, corpus.name, corpus.cut_by), missing
    return corpus, missing


def _without(sentence: Sentence, missing: Container[str]) -> Sentence:
    kept = tuple(token for token in sentence.tokens if token.form not in missing)
    return replace(sentence, tokens=kept)


def warn_of_capitals(vocabulary: Vocabulary, corpus: Corpus) -> None:
    """Warn if over 2 % of the words of a text are in the vocabulary only when lowercased; suggests `--lowercase`.

    Words are counted with repetition; the warning is an `LLRNNWarning`.

    Nothing is done for a closed vocabulary without an unknown-word symbol, which refuses such words anyway.
    """
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
