"""Words come again: what a running text has brought takes a share of the background.

    b(K, x) = base(K, x) + μ r(K, x)        r(K, x) = n(x) / (N + κ)        N = Σ_x n(x)

n(x) counts the words of the sentence so far, and with fading those before it. With μ = λ / (1 − λ) and κ = 0 it is the
mixture (1 − λ) base + λ n / N, up to a factor; with κ a short text counts for less. Where nothing was read it is the
base itself. The words that came are the exceptions of each position, and `contextual.Again` has features of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress, pairwise
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from llrnn.ground.arrays import Bools, ByteCache, Floats, Ints, runs
from llrnn.ground.errors import BackgroundError
from llrnn.knowledge.backgrounds.base import Background, symbol_mass, with_exceptions
from llrnn.knowledge.process import Batch, PackedStates, Saved, State
from llrnn.layer.priors import Prior
from llrnn.text import conditions
from llrnn.text.corpus import Corpus
from llrnn.text.encoded import EncodedText
from llrnn.text.inflections import Inflections
from llrnn.text.vocabulary import Revision, Vocabulary

RARE = 2  # how often a word was seen, at most, of which other forms are news
_LEAST = 1e-300  # of a mass that is divided by
_MOST_FITTED = 500  # sentences that two numbers are fitted to
AnyArray = NDArray[Any]
_FEW = 150  # symbols of the text before that training reads, for its time
_NEAR = 1000  # words of a stretch of text
_BYTES_OF_TEXTS = 2**28  # what is kept of texts that were read


@dataclass(frozen=True, eq=False)
class TextBefore:
    """The words before a sentence, and how often each symbol counts as seen because of them, n(x) in `Recent`.

    words       an int64 array of their ids, the last one last
    symbols     sorted ids of the symbols that are kept: these words and other forms of them, the `most` of `Recent`
                with the largest gain (see `Recent._counted`)
    n           n(x) of each of `symbols`
    total       N, the sum of n over all symbols, those that are not kept too
    few         indices into `symbols` of the at most 150 with the largest gain, the only ones that training reads
    """

    words: Ints
    symbols: Ints  # sorted
    n: Floats
    total: float  # N: of symbols that are left out, too
    few: Ints  # the places of those that training reads

    def read(self, training: bool) -> tuple[Ints, Floats]:
        """Return (symbol ids, counts n(x)), two arrays: how often each symbol counts as seen in the text before.

        training    True: only the at most 150 symbols with the largest gain (at `few`); False: all that are kept
        """
        return (self.symbols[self.few], self.n[self.few]) if training else (self.symbols, self.n)


_NONE: Ints = np.zeros(0, dtype=np.int64)
_NO_TEXT = TextBefore(_NONE, _NONE, np.zeros(0), 0.0, _NONE)


class Heard(NamedTuple):
    """The state of `Recent` (a prior in which words of the text come again): what was read so far.

    base        the state of the base background
    before      the text before the sentence, a `TextBefore` with its counts
    words       ids of the words of the sentence so far
    last        the id of the symbol read last, -1 if that was no word of the vocabulary, or none was read
    """

    base: State
    before: TextBefore
    words: tuple[int, ...]
    last: int


@dataclass(frozen=True, eq=False)
class RecentPlaces(PackedStates[Heard]):
    """A batch of N states of `Recent`: E (position, word) pairs of words read up to a position, sorted by both.

    prior       the prior of the base background at the N positions
    position, word      (E,) each: a position, and the id of a word that counts as seen there
    n_read      (E,) its count n(x)
    total       (N,) the sum N of counts at each position
    in_sentence (E,) whether the word is in the sentence so far
    is_last     (E,) whether it is the word that was read last
    mu, kappa   μ and κ of `Recent`
    """

    prior: Prior  # of the base
    position: Tensor  # (E,)
    word: Tensor  # (E,)
    n_read: Tensor  # (E,) n of each
    total: Tensor  # (N,)
    in_sentence: Tensor  # (E,) whether the sentence has the word
    is_last: Tensor  # (E,) whether the word came last
    mu: float
    kappa: float

    @cached_property
    def log_base(self) -> Tensor:
        """log of the base background (prior) of each of the E words that were read, at its position, (E,)."""
        return self.prior.at(self.position, self.word)

    @cached_property
    def log_b(self) -> Tensor:
        """log (base + μ n / (N + κ)) of each of the E words that were read, at its position, (E,).

        base is the probability by the base background, n the word's count, N the sum of counts at the position.
        """
        log_rate = (self.mu * self.n_read / (self.total + self.kappa).index_select(0, self.position)).log()
        return torch.logaddexp(self.log_base, log_rate)


def _text_bytes(key: int, text: tuple[object, TextBefore]) -> int:
    return 200 + 8 * (len(text[1].words) + 2 * len(text[1].n))


class Recent(Background[Heard]):
    """A background in which the words of the text so far have a share (a cache): b(K, x) = base(K, x) + μ r(K, x).

        r(K, x) = n(x) / (N + κ)        n(x) = Σ_y f(y) 1[x = y]     y: the words of the sentence, and those before it
                                        n(x) = Σ_y f(y) ((1 − share) 1[x = y] + share · forms(y)[x])  with `inflections`

    base        the background (prior over the next word) that words of the text are added to
    mu, kappa   μ, above 0, and κ, 0 or more; N is the sum of n over all words
    window      how many words before the sentence are looked at; the condition has them, a `Before` or a text
    fading      f = 1 / (1 + d / fading) for the word d places before the sentence; None: 1. In the sentence f = 1
    inflections an `Inflections`, rules for the other forms of a word, forms(y) = {form: share}, used for words y that
                the vocabulary counts twice at most; None: words alone come again
    share       the part of a word's count that goes to its other forms
    most        how many symbols of the text before are kept, those with the largest n(x) · log(1 + n(x) / (N b(x))), b
                the base; in training at most 150

    Only words of the vocabulary come again; `words.with_text_words` adds those of a text. The share of a form that is
    not listed goes to its cell, the set of unlisted strings with one symbol. At an end of sentence its words become a
    part of the text before.

        Recent(Unigram.from_corpus(train), mu=0.4, window=3000, fading=20)
    """

    # once it is bound: stretches of texts, what was made of conditions, and where each word has what it counts for
    _near: ByteCache[tuple[int, int], tuple[object, _Spoken]]
    _texts: ByteCache[int, tuple[object, TextBefore]]
    _start: Ints
    _size: Ints
    _symbols: Ints
    _shares: Floats
    _counts: Ints
    _mass: Floats
    _left_out: Floats  # without one place of each word: what the rest of the text says of it

    def __init__(
        self,
        base: Background,
        *,
        mu: float,
        kappa: float = 0.0,
        window: int = 500,
        fading: float | None = None,
        inflections: Inflections | None = None,
        share: float = 0.3,
        most: int = 2000,
    ) -> None:
        if window < 1 or most < 1 or not 0 < share < 1 or not (fading is None or 0 < fading < math.inf):
            raise BackgroundError(
                "Recent needs a window and a number of words of 1 or more, a share between 0 and 1 and a fading above "
                f"0, or none; found {window}, {most}, {share}, {fading}"
            )
        if not (0 < mu < math.inf and 0 <= kappa < math.inf):
            raise BackgroundError(f"Recent needs mu > 0 and kappa >= 0, found {mu} and {kappa}")
        self.base, self.mu, self.kappa, self.most = base, float(mu), float(kappa), most
        self.text_before, self.fading, self.inflections, self.share = window, fading, inflections, share

    @classmethod
    def fitted(cls, base: Background, corpus: Corpus, vocabulary: Vocabulary, **settings: Any) -> Self:
        """Return the prior, bound to `vocabulary`, with the μ and κ under which a running text is likeliest.

        corpus      sentences with the text before each as condition, as from `Corpus.running`
        settings    keyword arguments of `Recent` other than mu and kappa

        Each sentence counts twice, with the text before it and alone. The likelihood is that of the words by this
        background, normalised, without a network; in it the vocabulary's unigrams take the place of a base that depends
        on the context.

            Recent.fitted(base, train.running(3000), vocabulary, window=3000, fading=20)
        """
        made = cls(base, mu=1.0, **settings).bind(vocabulary)
        mu, kappa = _likeliest(
            *map(np.concatenate, zip(*made._rates(EncodedText.to_train_on(corpus, vocabulary)), strict=True))
        )
        made.mu, made.kappa = mu, kappa
        return made

    def bind(self, vocabulary: Vocabulary) -> Self:
        """Return a copy for one vocabulary, with empty caches; itself if it is bound to it already.

        Cached are the ids and forms of words, and the counts of texts; a text is recognised by the id of its Python
        object.
        """
        if self._vocabulary is vocabulary:
            return self
        bound = super().bind(vocabulary)
        bound.base = self.base.bind(vocabulary)
        bound._near = ByteCache(_BYTES_OF_TEXTS, lambda key, near: sum(own.nbytes for own in near[1]))
        bound._start, bound._size = np.full((2, len(vocabulary)), -1)
        bound._symbols, bound._shares = np.zeros(0, dtype=np.int64), np.zeros(0)
        bound._texts = ByteCache[int, tuple[object, TextBefore]](_BYTES_OF_TEXTS, _text_bytes)
        bound._counts = np.array(vocabulary.counts)
        mass = symbol_mass(bound.base, vocabulary)
        bound._mass = np.maximum(mass / mass.sum(), _LEAST)
        bound._left_out = bound._mass * np.where(bound._counts > 1, 1.0 - 1.0 / np.maximum(bound._counts, 1), 1.0)
        return bound

    def revised(self, revision: Revision) -> Self:
        return self._changed(revision.vocabulary, base=self.base.revised(revision))

    @property
    def reads_conditions(self) -> bool:
        return True

    def initial(self, condition: object = None) -> Heard:
        base = self.base.initial(condition)
        if not isinstance(condition, conditions.Before):  # whatever else it is may change, and have the same id
            words = self._listed(conditions.words_of(condition))[-self.text_before :]
            # half of the sentences in training have no words
            return Heard(base, self._counted(self._spoken_in(words)) if len(words) else _NO_TEXT, (), -1)
        return Heard(base, self._texts.get(id(condition), lambda: (condition, self._read(condition)))[1], (), -1)

    def _read(self, condition: conditions.Before) -> TextBefore:
        # what words count for is looked up once for all sentences that end in one stretch of a text
        text, stop = condition.text, min(condition.stop, len(condition.text))
        number = stop // _NEAR
        first = max(number * _NEAR - self.text_before, 0)
        near = self._near.get(
            (id(text), number), lambda: (text, self._spoken_in(self._listed(text[first : (number + 1) * _NEAR])))
        )
        return self._counted(near[1], max(condition.start, stop - self.text_before) - first, stop - first)

    def _listed(self, words: Sequence[str]) -> Ints:
        """Return the ids of words in the vocabulary, (words,); -1 for those that it does not list."""
        listed = self.vocabulary
        ids = {word: listed.id(word) if word in listed else -1 for word in {*words}}
        return np.array([ids[word] for word in words], dtype=np.int64)

    def _spoken_in(self, ids: Ints) -> _Spoken:
        """Return what the words with these ids count for, each different one once; -1 stands for unlisted words."""
        words, place = np.unique(ids, return_inverse=True)
        listed = words[words >= 0]
        said, shares, sizes = self._says(listed)
        comes = np.bincount(said, minlength=len(self.vocabulary)) > 0
        place = place - (len(words) - len(listed))
        return _Spoken(listed, place, np.flatnonzero(comes), (comes.cumsum() - 1)[said], shares, sizes)

    def _counted(self, text: _Spoken, begin: int = 0, end: int | None = None) -> TextBefore:
        """Return the text before a sentence with its counts n(x), of the `most` symbols that gain most by them.

        text        the words from `begin` to `end` (None: the last) are counted; the word d places before the sentence,
                    unlisted ones not among them, with the weight f(d) of `Recent`

        The gain of a symbol is n(x) · log(1 + n(x) / (N b(x))), b its probability in general. Without words, an empty
        text.
        """
        place = text.place[begin:end]
        place = place[place >= 0]
        if not len(place):
            return _NO_TEXT
        distance = np.arange(len(place), 0, -1)
        f = np.ones(len(place)) if self.fading is None else 1.0 / (1.0 + distance / self.fading)
        of_words = np.bincount(place, f, len(text.words))
        each = np.bincount(text.said, np.repeat(of_words, text.sizes) * text.shares)
        found = np.flatnonzero(each)
        symbols, n = text.symbols[found], each[found].astype(np.float64)
        gain = n * np.log1p(n / (f.sum() * self._mass[symbols]))
        best = _largest(gain, self.most)
        return TextBefore(text.words[place], symbols[best], n[best], float(f.sum()), _largest(gain[best], _FEW))

    def advance(self, state: Heard, symbol: int) -> Heard:
        return self._after(state, [symbol])._replace(base=self.base.advance(state.base, symbol))

    def _after(self, state: Heard, symbols: Sequence[int]) -> Heard:
        """Return the state after some symbol ids, of which only the first may be EOS: their words are appended.

        EOS makes the words before it a part of the text before. The state of the base background is not advanced.
        """
        if symbols[0] == self.vocabulary.eos:
            state = self._ended(state)
        comes = [0 <= symbol < self.vocabulary.n_words and symbol != self.vocabulary.eos for symbol in symbols]
        words = tuple(compress(symbols, comes))
        return Heard(state.base, state.before, state.words + words, symbols[-1] if comes[-1] else -1)

    def _ended(self, state: Heard) -> Heard:
        """Return the state in which the words of the sentence have become a part of the text before.

        The last word is then unknown (`last` −1). The state itself is returned if the sentence has no words.
        """
        if not state.words:
            return state
        words = np.append(state.before.words, state.words)[-self.text_before :]
        return Heard(state.base, self._counted(self._spoken_in(words)), (), -1)

    def _says(self, words: Ints) -> tuple[Ints, Floats, Ints]:
        """Return (symbols, shares, sizes): what each word counts for, its other forms and itself, word by word.

        words       their ids
        symbols     for all words in turn, the ids of these symbols
        shares      the part of the word's count that each of `symbols` gets
        sizes       (words,) how many symbols each word has
        """
        new = np.unique(words[self._start[words] < 0])
        if len(new):
            symbols, shares = zip(*self._spoken(new.tolist()), strict=True)
            sizes, old = np.array([len(own) for own in symbols]), len(self._symbols)
            self._start[new], self._size[new] = old + np.cumsum(sizes) - sizes, sizes
            self._symbols, self._shares = (
                np.concatenate([own, *more]) for own, more in ((self._symbols, symbols), (self._shares, shares))
            )
        sizes = self._size[words]
        places = runs(self._start[words], sizes)
        return self._symbols[places], self._shares[places], sizes

    def _spoken(self, words: Sequence[int]) -> Iterator[tuple[Ints, Floats]]:
        """Yield for each word id two arrays: symbol ids, and the part of the word's count that each gets, with sum 1.

        The ids are those of the word's other forms, or of the cells (sets of unlisted strings) that these are in, and
        the word itself last. Without `inflections`, and for words that the vocabulary counts more than twice, it is the
        word alone.
        """
        rules, counts = self.inflections, self._counts
        forms = [rules.forms(self.vocabulary.symbol(word)) if rules and counts[word] <= RARE else {} for word in words]
        found = self.vocabulary.find([form for own in forms for form in own])[0]
        ends = np.cumsum([len(own) for own in forms])
        for word, own, symbols in zip(words, forms, np.split(found, ends[:-1]), strict=True):
            shares = self.share * np.array([*own.values()])[symbols >= 0]
            yield np.append(symbols[symbols >= 0], word), np.append(shares, 1.0 - shares.sum())

    # positions

    def follow(self, states: Sequence[Heard], batch: Batch) -> tuple[Sequence[Heard], Sequence[Heard]]:
        base, after = self.base.follow([state.base for state in states], batch)
        inputs, mask = batch.inputs.cpu().numpy(), batch.mask.cpu().numpy()
        found, last = list[_ReadPart](), list[Heard]()
        for state, row, counting, own in zip(states, inputs, mask, after, strict=True):
            here, read = state, row[: np.flatnonzero(counting)[-1] + 1 if counting.any() else 0]
            for first, end in pairwise([0, *np.flatnonzero(read == self.vocabulary.eos).tolist(), len(read)]):
                if first < end:
                    begun = self._ended(here) if row[first] == self.vocabulary.eos else here
                    found.append(_ReadPart(begun, row[first:end], counting[first:end]))
                    here = self._after(here, row[first:end].tolist())
            last.append(here._replace(base=own))
        return self._places(base, found, batch.sentences is not None), last

    def places(self, states: Sequence[Heard]) -> RecentPlaces:
        """Return the words that were read up to each of N states, with their counts, as `RecentPlaces`.

        Packed states (`RecentPlaces`) are returned as they are.
        """
        if isinstance(states, RecentPlaces):
            return states
        nothing, here = np.full(1, -1), np.ones(1, dtype=bool)
        made = self._places([state.base for state in states], [_ReadPart(state, nothing, here) for state in states])
        last = torch.tensor([state.last for state in states], dtype=torch.long)
        return replace(made, is_last=made.word == last[made.position])

    def _places(self, base: Sequence[State], parts: Sequence[_ReadPart], training: bool = False) -> RecentPlaces:
        """Return the words that were read up to each position of some sentences, its input included, with their counts.

        base        the states of the base background at the positions that count
        parts       the sentences one after the other
        training    whether only the few most important symbols of the text before are read

        A sentence has a column for each symbol that it or the text before has; a position has a cell for each column.
        """
        lengths, V = np.array([len(part.inputs) for part in parts], dtype=np.int64), len(self.vocabulary)
        sentence, starts = np.repeat(np.arange(len(parts)), lengths), np.cumsum(lengths) - lengths
        inputs = np.concatenate([_NONE, *(part.inputs for part in parts)])
        counting = np.concatenate([_NONE, *(part.counting for part in parts)]).astype(bool)
        comes = (inputs >= 0) & (inputs < self.vocabulary.n_words) & (inputs != self.vocabulary.eos)
        old, before = [part.state.words for part in parts], [part.state.before.read(training) for part in parts]
        words = np.concatenate([_NONE, *(np.array(own, dtype=np.int64) for own in old), inputs[comes]])
        at = np.concatenate([np.repeat(starts, [*map(len, old)]), np.flatnonzero(comes)])
        said, shares, sizes = self._says(words)
        # from which position on, which symbol has what count more, and whether as a word of the sentence
        since = np.concatenate([np.repeat(starts, [len(n) for _, n in before]), np.repeat(at, sizes)])
        symbols = np.concatenate([*(own for own, _ in before), said])
        n = np.concatenate([*(own for _, own in before), shares])
        itself = np.zeros(len(n), dtype=bool)
        itself[len(n) - len(said) + np.cumsum(sizes) - 1] = True
        columns, column = np.unique(sentence[since] * V + symbols, return_inverse=True)
        width = np.bincount(columns // V, minlength=len(parts))
        cells = width[sentence]
        first = np.cumsum(cells) - cells - (np.cumsum(width) - width)[sentence]  # less the number of the column
        later = (starts + lengths)[sentence[since]] - since
        cell = first[runs(since, later)] + np.repeat(column, later)
        counts = np.bincount(cell, np.repeat(n, later), cells.sum()).astype(np.float64)
        own = np.zeros(len(counts), dtype=bool)
        own[cell[np.repeat(itself, later)]] = True
        place = np.repeat(np.arange(len(inputs)), cells)
        kept = np.flatnonzero(counts if counting.all() else counts * counting[place])
        place = place[kept]
        word = (columns % V)[kept - first[place]]
        so_far = np.cumsum(np.bincount(at, minlength=len(inputs)))
        earlier = np.append(0, so_far)[starts]  # words that were read before the sentence
        total = so_far + (np.array([part.state.before.total for part in parts]) - earlier)[sentence]
        position = (np.cumsum(counting) - 1)[place]
        return RecentPlaces(
            int(counting.sum()),
            prior=self.base.prior(base),
            position=torch.from_numpy(position),
            word=torch.from_numpy(word),
            n_read=torch.from_numpy(counts[kept]),
            total=torch.from_numpy(total[counting]),
            in_sentence=torch.from_numpy(own[kept]),
            is_last=torch.from_numpy(word == np.where(comes, inputs, -1)[place]),
            mu=self.mu,
            kappa=self.kappa,
        )

    def prior(self, states: Sequence[Heard]) -> Prior:
        places = self.places(states)
        if not len(places.position):
            return places.prior
        return with_exceptions(places.prior, len(places), places.position, places.word, places.log_b)

    def _rates(self, text: EncodedText) -> Iterator[tuple[Floats, Floats, Floats, Floats]]:
        """Yield for `fitted`, twice for each sentence, four float64 arrays (targets,): b, n, N and Σ n at its targets.

        First they are computed with the text before the sentence, then without it. b: the unigram probability of the
        target, estimated without this occurrence of it; n: its count n(x); N: the sum of the counts of all symbols; Σ
        n: the sum over the symbols that are kept. About 500 sentences of `text` are looked at.
        """
        words = np.unique(np.concatenate(text.sentences))
        self._says(words[(words < self.vocabulary.n_words) & (words != self.vocabulary.eos)])  # faster all at once
        for number in range(0, len(text.sentences), -(-len(text.sentences) // _MOST_FITTED)):
            row = torch.from_numpy(text.framed(number))[None]
            batch = Batch(row[:, :-1], row[:, 1:], torch.ones_like(row[:, 1:], dtype=torch.bool))
            for condition in (text.conditions[number], None):
                places = self.follow([self.initial(condition)], batch)[0]
                assert isinstance(places, RecentPlaces)
                hit, n = (
                    places.word == row[0, 1:][places.position],
                    torch.zeros(2, batch.n_positions, dtype=torch.float64),
                )
                n[0].index_add_(0, places.position[hit], places.n_read[hit])
                n[1].index_add_(0, places.position, places.n_read)
                yield self._left_out[row[0, 1:].numpy()], n[0].numpy(), places.total.numpy(), n[1].numpy()

    def saved(self) -> Saved:
        rules = None if self.inflections is None else self.inflections.rules
        own = {"mu": self.mu, "kappa": self.kappa, "window": self.text_before, "most": self.most}
        fields = {**own, "fading": self.fading, "share": self.share, "rules": rules}
        return Saved("recent", fields, parts=(self.base.saved(),))

    @classmethod
    def restored(cls, base: Background, rules: Mapping[str, Mapping[str, float]] | None = None, **fields: Any) -> Self:
        """Make the background (prior) from what its method `saved` returned: its base, and the fields.

        rules       the rules of `inflections`; None: it has none
        fields      keyword arguments of `Recent`
        """
        return cls(base, inflections=None if rules is None else Inflections(rules), **fields)

    def __repr__(self) -> str:
        fading = "" if self.fading is None else f", fading={self.fading:g}"
        inflected = "" if self.inflections is None else f", {self.share:g} inflected"
        own = f"mu={self.mu:.3g}, kappa={self.kappa:.3g}, window={self.text_before}{fading}{inflected}"
        return f"Recent({self.base!r}, {own})"


class _Spoken(NamedTuple):
    """A stretch of text, and the S symbols that its different words count for: themselves and other forms of them.

    words       sorted ids of the D different words
    place       for each word of the text its place in `words`, negative if it is not listed
    symbols     (S,) sorted ids
    said, shares    for each of `words` in turn, places in `symbols`, and the part of the word's count that each gets
    sizes       (D,) how many symbols each of `words` has
    """

    words: Ints
    place: Ints
    symbols: Ints
    said: Ints
    shares: Floats
    sizes: Ints


class _ReadPart(NamedTuple):
    """A part of a row of text that is read after one text before it: a sentence, or what the row has of it.

    state       before the first of the inputs
    inputs      (T,) symbol ids, -1: nothing is read there
    counting    (T,) False on padding
    """

    state: Heard
    inputs: Ints  # (T,)
    counting: Bools  # (T,)


def _largest(values: Floats, count: int) -> Ints:
    """Return the indices of the `count` largest values, in rising order of index; of all values if there are fewer."""
    if len(values) <= count:
        return np.arange(len(values))
    return np.sort(np.argpartition(values, len(values) - count)[-count:])


def _likeliest(b: Floats, n: Floats, total: Floats, n_all: Floats) -> tuple[float, float]:
    """Return the (μ, κ) that maximise Σ log (b + r n) − log(1 + r Σn) over targets, r = μ / (N + κ), on finer grids.

    b           (targets,) the base probability of each target
    n           (targets,) its count in the text before
    total       (targets,) N, the sum of counts
    n_all       (targets,) Σn, the sum of counts of the symbols that are kept, by which the normaliser grows
    """

    def likelihood(point: tuple[float, float]) -> float:
        rate = math.exp(point[0]) / (total + math.exp(point[1]))
        return float((np.log(b + rate * n) - np.log1p(rate * n_all)).sum())

    best = (-1.0, 2.0)
    for step in (1.0, 0.25, 0.05):
        around = [(best[0] + i * step, best[1] + j * step) for i in range(-4, 5) for j in range(-4, 5)]
        best = max(around, key=likelihood)
    return math.exp(best[0]), math.exp(best[1])
