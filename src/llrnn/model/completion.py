"""Typing: the best next words that begin with the letters typed so far, exactly.

    p(x | K) = p(c | K) q(x) / Q'(c)                         of a string of a cell; of a listed word it is the layer's
    p(x | K, u…) = p(x | K) / Σ_{y begins with u} p(y | K)   given that the word begins with the letters u

Listed words that begin with u are neighbours in the sorted vocabulary. Of the strings of domains the best come first
(`Domain.ranked`), until none can be better than the words that are found. The sum over all strings of a domain that
begin with u is in closed form (`Domain.log_mass_of`), and is made when it is asked for: no order depends on it.

Where words of the text come again (`backgrounds.Recent`), those of a `Before` and of the sentence are listed.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count, islice
from typing import Any, overload

import numpy as np
import torch

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import ConfigError
from llrnn.ground.rendering import Renderable, Sheet, TextTable
from llrnn.knowledge.process import ModelState
from llrnn.layer.distribution import Distribution
from llrnn.model.controllers import evaluating
from llrnn.model.decode import read_prefix
from llrnn.model.network import LLRNN
from llrnn.model.words import add_from_conditions
from llrnn.text.conditions import Before
from llrnn.text.units import OTHER, Units
from llrnn.text.vocabulary import log_mass_without

_LONGEST_WORD = 100  # units
_START = 8  # signs at most before the first word of a sentence
_FIRST = 16  # the best symbols of a context that are looked at first
Step = Callable[[ModelState, Sequence[int]], tuple[Distribution, ModelState]]


@dataclass(frozen=True)
class Completion:
    """A proposed word, `word`, which begins with the letters typed so far, and its log p given the words before.

    `log_p`: that number, in nats; `p`: exp(log_p), from 0 to 1; `cell`: for a string outside the vocabulary, the name
    of the set of strings that it belongs to, such as 4-digit numbers (they share one symbol); None for listed words.

        complete(model, "la reine est", "gr")[0].p
    """

    word: str
    log_p: float  # log p(x | K)
    find_cell: Callable[[], str | None] = field(default=lambda: None, repr=False, compare=False)

    @property
    def p(self) -> float:
        return math.exp(self.log_p)

    @cached_property
    def cell(self) -> str | None:
        """The name of the set of strings that an unlisted word belongs to, such as 4-digit numbers; None if listed.

        All strings of such a set (a cell) share one symbol of the vocabulary. Computed on first access.
        """
        return self.find_cell()

    def as_dict(self) -> dict[str, Any]:
        """Return {"word": …, "log_p": …, "p": …, "cell": …}, the completion as a dict for JSON.

        "cell" is the name of the set of strings that an unlisted word belongs to, None for a listed one.
        """
        return {"word": self.word, "log_p": self.log_p, "p": self.p, "cell": self.cell}

    def __str__(self) -> str:
        return self.word


class NextWords:
    """The distribution of the next word after a prefix, with a search for the best words that begin with given letters.

    Candidates are the words of the vocabulary and the strings of its domains (infinite sets with probabilities, such as
    numbers or spellings). Use: `NextWords(model, p).best_listed("gr", 5)`. `p`: the model's distribution of the next
    symbol, at one position, after the prefix; the constructor raises ZeroMassError where no word is possible.
    """

    def __init__(self, model: LLRNN, p: Distribution) -> None:
        self.vocabulary, self.p = model.vocabulary, p.require_mass()
        self.case = model.tokeniser if model.reads_lowercase else None  # what writes its lowercase words with capitals
        self.piece = model.piece if model.tokeniser.has_blanks else None  # what its tokens add to a text
        self.before = model.before

    @cached_property
    def _static(self) -> tuple[Ints, Floats, Floats] | None:
        """Arrays (class, score, log_b) that give log p of any symbol, or None where the prior is not one table.

        `class` (V,): the class of each symbol (symbols with equal features share one); `score` (G,): the score a·φ of
        each class less the log-normaliser; `log_b` (V,): the prior of each symbol. Then log p(x) = score[class[x]] +
        log_b[x]. None too where the feature weights of `p` were changed or tempered.
        """
        mass = self.p.static_mass
        if mass is None or self.p.changes_weights:
            return None
        klass, scores = self.p.classes.class_of.cpu().numpy(), self.p.scores[0].double().cpu().numpy()
        log_p, best = self._first[0]
        log_b = mass.log_b.double().cpu().numpy()
        return klass, scores + (log_p - scores[klass[best]] - log_b[best]), log_b

    @cached_property
    def _first(self) -> list[tuple[float, int]]:
        """The 16 most probable symbols as pairs (log p, symbol id), best first."""
        return self._top(_FIRST)

    def _top(self, k: int) -> list[tuple[float, int]]:
        log_p, symbols = (part[0].tolist() for part in self.p.top(min(k, len(self.vocabulary))))
        return [*zip(log_p, symbols, strict=True)]

    def log_p(self, symbols: Ints) -> Floats:
        """Return log p of the symbols with these ids as the next one, (n,) -> (n,) float64, in nats."""
        if self._static is not None:
            klass, scores, log_b = self._static
            return np.asarray(scores[klass[symbols]] + log_b[symbols])
        word = torch.from_numpy(symbols).to(self.p.h.device)
        return np.asarray(self.p.log_prob(word, torch.zeros_like(word)).double().cpu().numpy())

    @cached_property
    def by_domain(self) -> list[Floats]:
        """For each domain an array over its cells: log p(x) − log q(x), which all unlisted strings x of a cell share.

        A domain is an infinite set of strings with probabilities q, such as numbers; its cells are the subsets that
        share one symbol. The entry is log p(cell | K) minus the log of Σ q over the cell's unlisted strings; −∞ where
        that sum is 0. Domains and cells are in the order of `vocabulary.domains` and their `cells`; [] without domains.
        """
        sizes = [len(domain.cells) for domain in self.vocabulary.domains]
        if not sizes:
            return []
        left, cells = self.vocabulary.log_left, np.arange(self.vocabulary.n_words, len(self.vocabulary))
        weight = np.where(left > -np.inf, self.log_p(cells) - np.where(left > -np.inf, left, 0.0), -np.inf)
        return np.split(weight, np.cumsum(sizes)[:-1])

    def cell_of(self, text: str) -> str | None:
        """Return the name of the cell of a string: a set of strings that share one symbol, such as all 4-digit numbers.

        `text`: an unlisted string of some domain. None where symbols are no words (`NextUnits`).
        """
        return self.vocabulary.symbol(self.vocabulary.id(text))

    def best_listed(self, letters: str, k: int) -> list[tuple[float, str]]:
        """Return (log p, word) of the k best vocabulary words that begin with `letters`, in no particular order.

        "" for any word. More than k where words tie with the last; impossible words, the end of the sentence and the
        unknown-word symbol are left out.
        """
        if not letters:
            return self._best_of_all(k)
        symbols = self.vocabulary.beginning_with(letters)
        log_p = self.log_p(symbols)
        at = np.arange(len(log_p))
        if len(log_p) > k:
            at = np.flatnonzero(log_p >= np.partition(log_p, len(log_p) - k)[-k])
        return [(float(log_p[i]), self.vocabulary.symbol(int(symbols[i]))) for i in at.tolist() if log_p[i] > -np.inf]

    def _best_of_all(self, k: int) -> list[tuple[float, str]]:
        """Return (log p, word) of the k most probable vocabulary words, best first; impossible ones are left out.

        The end of the sentence and the unknown-word symbol are left out, too.
        """
        vocabulary, pairs = self.vocabulary, self._first
        none = {vocabulary.eos} | ({vocabulary.id(vocabulary.unknown)} if vocabulary.unknown else set())
        while True:
            found = [(log, one) for log, one in pairs if one < vocabulary.n_words and one not in none]
            if len(found) >= k or len(pairs) == len(vocabulary):
                return [(log, vocabulary.symbol(one)) for log, one in found[:k] if log > -math.inf]
            pairs = self._top(4 * len(pairs))

    def best_strings(
        self, letters: str, k: int, found: Iterable[float] = (), known: Container[str] = ()
    ) -> Iterator[tuple[float, str]]:
        """Yield (log p, string) of unlisted strings that begin with `letters` and may be among the k best words.

        Best first within each domain (infinite set of strings, such as numbers). `found`: log p of words found already:
        a string is yielded only while fewer than k of these and of the strings yielded before have a higher log p;
        `known`: strings to leave out.
        """
        best = heapq.nlargest(k, found)[::-1]  # a heap: the worst of the k best comes first
        for domain, weight in zip(self.vocabulary.domains, self.by_domain, strict=True):
            if not (weight > -np.inf).any():
                continue
            for log, text in domain.ranked(letters, weight, best[0] if len(best) == k else -np.inf):
                if len(best) == k and log < best[0]:
                    break
                if text not in self.vocabulary and text not in known:
                    yield log, text
                    (heapq.heappush if len(best) < k else heapq.heappushpop)(best, log)

    def log_mass(self, letters: str) -> float:
        """Return log p(the next word begins with `letters` | K), summed over all words and strings; −∞ if none does.

        The end of the sentence and the unknown-word symbol are no words. K is the text before.
        """
        symbols = self.vocabulary.beginning_with(letters)
        parts, words = [self.log_p(symbols)], [self.vocabulary.symbol(symbol) for symbol in symbols.tolist()]
        for domain, weight in zip(self.vocabulary.domains, self.by_domain, strict=True):
            left = log_mass_without(domain.log_mass_of(letters), *domain.locate(words))
            parts.append(weight + left)
        every = np.concatenate(parts)
        return float(np.logaddexp.reduce(every)) if len(every) else -math.inf


class NextUnits(NextWords):
    """The distribution of the next word for a model whose symbols are parts of words: characters or byte pairs.

        p(x | K) = Π p(unit | K, units before it)        over the units of word x and the unit that ends a word

    Words are found by best-first search, which works since p falls with every unit. A word with a character that the
    model does not list is proposed only where that character was typed. Of the ways to spell a word by units only the
    one that the tokenisation uses counts. Its methods are those of `NextWords`; all words come from `best_strings`, and
    `best_listed` returns [].
    """

    def __init__(
        self, model: LLRNN, p: Distribution, state: ModelState, units: Units, step: Step | None = None
    ) -> None:
        """Take the distribution `p` of the first unit after a prefix, and the model's `state` there.

        `units`: how words are cut into units; `step`: a function (state, [symbol id]) -> (distribution, state) that is
        called in place of `model.step`, for example to count steps; None: `model.step` itself.
        """
        super().__init__(model, p)
        self._step, self._state, self._units = step or model.step, state, units

    def cell_of(self, text: str) -> str | None:
        return None

    def best_listed(self, letters: str, k: int) -> list[tuple[float, str]]:
        return []

    def best_strings(
        self, letters: str, k: int, found: Iterable[float] = (), known: Container[str] = ()
    ) -> Iterator[tuple[float, str]]:
        return islice(self._ranked(letters), k)

    def _ranked(self, letters: str) -> Iterator[tuple[float, str]]:
        """Yield (log p, word) of all words that begin with `letters`, by falling log p: best-first search.

        Log p includes the unit that ends the word. Words of more than 100 units and impossible words are left out.
        """
        order, waiting = count(), list[tuple[float, int, _Place, int]]()

        def wait(place: _Place, rank: int) -> None:
            if rank < len(place.candidates):
                heapq.heappush(waiting, (-(place.log + place.candidates[rank][0]), next(order), place, rank))

        wait(_Place(0.0, "", (), self._candidates(letters, "", self.p), self._state), 0)
        while waiting:
            negative, _, place, rank = heapq.heappop(waiting)
            log, (_, symbol, piece) = -negative, place.candidates[rank]
            if log == -math.inf:
                return
            wait(place, rank + 1)
            text, path = place.text + piece, (*place.path, symbol)
            if text.endswith("\n"):
                if self.vocabulary.symbols_of([text[:-1]]) == [*path]:
                    yield log, text[:-1]
            elif len(path) < _LONGEST_WORD:
                p, state = self._step(place.state, [symbol])
                wait(_Place(log, text, path, self._candidates(letters, text, p), state), 0)

    def _candidates(self, letters: str, text: str, p: Distribution) -> list[tuple[float, int, str]]:
        """Return (log p, symbol id, text) of the units that may follow `text` in a word beginning with `letters`.

        A list, best first. The text in a result is that of the unit alone. `p`: the distribution of the next unit, at
        one position. The unit for a line end ends the word, and cannot come first.
        """
        found, rest, log_p = list[tuple[float, int, str]](), letters[len(text) :], p.log_probs()[0].double().tolist()
        for symbol, piece in enumerate(self._pieces):
            if piece is None:  # any character that is not listed: the one that was typed
                if rest and rest[0] not in self._units.listed and self.vocabulary.symbol(symbol) == OTHER:
                    found.append((log_p[symbol] + self._units.log_inside(rest[0]), symbol, rest[0]))
            elif piece.startswith(rest) or rest.startswith(piece):
                found.append((log_p[symbol], symbol, piece))
        return sorted((one for one in found if text or one[2] != "\n"), key=lambda one: -one[0])

    @cached_property
    def _pieces(self) -> list[str | None]:
        return [self._units.text_of(self.vocabulary.symbol(symbol)) for symbol in range(len(self.vocabulary))]

    def log_mass(self, letters: str) -> float:
        """Return log p(the next word begins with `letters` | K), K the text before.

        It is the log of the sum of p over all unit sequences that spell `letters`, or more, with their last unit and
        not before. −∞ if there are none.
        """
        found, waiting = list[float](), [(0.0, "", self.p, self._state)]
        while waiting:
            before, text, p, state = waiting.pop()
            for log, symbol, piece in self._candidates(letters, text, p):
                if len((text + piece).rstrip("\n")) >= len(letters):
                    found.append(before + log)
                elif log > -math.inf:
                    waiting.append((before + log, text + piece, *self._step(state, [symbol])))
        return float(np.logaddexp.reduce(found)) if found else -math.inf


@dataclass(frozen=True)
class _Place:
    """A node of the search for words over units: the units so far, and what may follow.

    `log`: summed log p of the units since the beginning of the word; `text`: their letters; `path`: their ids;
    `candidates`: (log p, id, text) of each possible next unit, best first; `state`: the model's `ModelState` after
    them.
    """

    log: float
    text: str
    path: tuple[int, ...]
    candidates: list[tuple[float, int, str]]
    state: ModelState


class Completions(Sequence[Completion], Renderable):
    """The most probable words for the letters typed, best first: a sequence of `Completion`; prints as a table.

    `best` is their tuple; `log_mass` the log-probability that the next word begins with the letters; `share(one)` is
    p(x | K, x begins with the letters) of a `Completion`, K the text before. `after`: the distribution of the next
    word; `prefix`: the words before; `k`: how many words at most; `without`: words to leave out.

        [one.word for one in complete(model, "la reine est", "gr")]
    """

    def __init__(
        self, after: NextWords, prefix: Sequence[str], letters: str, k: int, without: Collection[str] = ()
    ) -> None:
        self.prefix, self.letters, self._after = tuple(prefix), letters, after
        self._typed = letters if after.case is None else after.case.lower(letters)
        passed, k = {*without}, k + len({*without})  # so many more, of which these are taken out
        listed = after.best_listed(self._typed, k)
        found = [(log, text, False) for log, text in listed]
        strings = after.best_strings(self._typed, k, (log for log, _ in listed))
        found += [(log, text, True) for log, text in strings]
        if after.piece is not None:
            self.letters = after.piece((*self.prefix, letters)) if letters else ""
        best = (self._completion(*one) for one in sorted(found, key=lambda one: (-one[0], one[1]))[:k])
        self.best = tuple(one for one in best if one.word not in passed)[: k - len(passed)]

    def _completion(self, log: float, text: str, new: bool) -> Completion:
        written, cell_of = self.letters + text[len(self._typed) :], self._after.cell_of
        if self._after.piece is not None:
            written = self._after.piece((*self.prefix, text))
        if self.letters == self._typed and self._after.case is not None:
            written = self._after.case.capitalised((*self.prefix[:_START], text))[-1]
        return Completion(written, log, lambda: cell_of(text) if new else None)

    @overload
    def __getitem__(self, place: int) -> Completion: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Completion, ...]: ...
    def __getitem__(self, place: int | slice) -> Completion | tuple[Completion, ...]:
        return self.best[place]

    def __len__(self) -> int:
        return len(self.best)

    @cached_property
    def log_mass(self) -> float:
        """log p(the next word begins with the letters | K), a float; the end of the sentence is no word."""
        return self._after.log_mass(self._typed)

    def share(self, one: Completion) -> float:
        """Return p(x | K, x begins with the letters) of one completion: its p divided by that of all such words.

        K is the text before; the result is from 0 to 1.
        """
        return math.exp(min(one.log_p - self.log_mass, 0.0))

    def sheet(self) -> Sheet:
        rows = tuple((one.word, f"{one.p:.4g}", f"{self.share(one):.4g}", one.cell or "") for one in self.best)
        said = f"{self._after.before(self.prefix)}{self.letters}…: p(begins so) = {math.exp(self.log_mass):.4g}"
        return Sheet(((said.strip(),), TextTable(("word", "p", "p, given the letters", "not listed"), rows)))


class Completer:
    """Completes words in a text that grows, as a keyboard does: each word is read by the model once.

    `model`: the model that predicts; `condition`: the input that the text is written from, if the model reads one, None
    for none. Words that are given to `read` may come again, if the model has such a prior (`backgrounds.Recent`).

        keyboard = Completer(model)
        keyboard.complete("la reine est", "gr").best
    """

    def __init__(self, model: LLRNN, *, condition: object = None) -> None:
        self.model, self._condition = model, condition
        self._read: list[tuple[str, NextWords, ModelState]] = []

    def read(self, sentence: str | Sequence[str]) -> None:
        """Add a finished sentence (a text, or its words) to the text before, so that its words may come again later.

        Raises ConfigError if words do not come again in this model, or if the completer has a condition that is no text
        before.
        """
        before = Before(()) if self._condition is None else self._condition
        if not (isinstance(before, Before) and self.model.background.text_before):
            raise ConfigError(
                "words come again in a model with a background `Recent`, and without conditions, found "
                f"{self.model.background!r}; say swap(model, background=backgrounds.Recent(model.background, mu=0.1))"
            )
        self._condition = Before((*before.words, *self.model.read(sentence)))
        self._read.clear()

    def complete(
        self, prefix: str | Sequence[str] = "", letters: str = "", *, k: int = 3, without: Collection[str] = ()
    ) -> Completions:
        """Return the k most probable words after `prefix` that begin with `letters`, best first.

        `prefix`: the beginning of the sentence, before the word that is typed, as a text or its words; `letters`: ""
        for any word; words in `without` are left out. Raises ConfigError if k < 1 or the letters begin with a space.

            keyboard.complete("la reine est", "gr", k=5)[0].word
        """
        if k < 1:
            raise ConfigError(f"k must be 1 or more, found {k}")
        if letters[:1].isspace():
            raise ConfigError(f"the letters of one word are required, found {letters!r}; leave the space out")
        words = self.model.read(prefix)
        with torch.no_grad(), evaluating(self.model):
            return Completions(self.after(words), words, letters, k, without)

    def after(self, words: tuple[str, ...]) -> NextWords:
        """Return the distribution of the next word after these words, the beginning of a sentence.

        The first words that are the same as in the last call are not read again. After `read` was called, unlisted
        words of the text so far are first added to the vocabulary of `self.model`, so that they can come again.
        """
        if isinstance(self._condition, Before):
            self._list(Before(words))
        model, known = self.model, self._read
        if not known:
            p, state = read_prefix(model, (), [self._condition])
            known.append(("", self._next(p, state), state))
        same = 0
        while same < min(len(words), len(known) - 1) and known[same + 1][0] == words[same]:
            same += 1
        del known[same + 1 :]
        for word in words[same:]:
            state = known[-1][2]
            for symbol in model.vocabulary.symbols_of([word], place="prefix"):
                p, state = model.step(state, [symbol])
            known.append((word, self._next(p, state), state))
        return known[-1][1]

    def _list(self, sentence: Before) -> None:
        """Replace the model by one that also lists the words of the text before and of this sentence, if any are new.

        Each keeps the probability that it had. If the model is replaced, the states after the words of the present
        sentence are dropped, and the words are read again when they are needed. `sentence`: the words of the sentence
        so far.
        """
        listed = add_from_conditions(self.model, [self._condition, sentence])
        if listed is not self.model:
            self.model = listed
            self._read.clear()

    def _next(self, p: Distribution, state: ModelState) -> NextWords:
        units = self.model.vocabulary.units
        return NextWords(self.model, p) if units is None else NextUnits(self.model, p, state, units)


def complete(
    model: LLRNN,
    prefix: str | Sequence[str] = "",
    letters: str = "",
    *,
    k: int = 3,
    condition: object = None,
    without: Collection[str] = (),
) -> Completions:
    """Return the k most probable next words that begin with the letters typed so far, exactly.

    Strings outside the vocabulary that the model can generate, such as numbers, are included. `prefix`: the words
    before, as a string or a sequence; `letters`: the beginning of the word; `k`: how many words; `condition`: the input
    that the text is written from; `without`: words that are not wanted, such as those shown for fewer letters and not
    taken. Where the model's text is lowercase, words are written with capitals as in generated text, but if `letters`
    has a capital, they begin with the letters just as typed. Use a `Completer` for a text that grows: it reads each
    word once.

        complete(model, "la reine est", "gr").best[0].word
    """
    return Completer(model, condition=condition).complete(prefix, letters, k=k, without=without)


def split_letters(model: LLRNN, text: str) -> tuple[tuple[str, ...], str]:
    """Return the words of a text, and the letters of the word that is being typed at its end ("" after a space).

    The text is cut by the model's tokeniser, and the words, but not the letters, are lowercased where the model's text
    is.

    split_letters(model, "la reine est gr") # (("la", "reine", "est"), "gr")
    """
    words = [*model.tokeniser.tokenise(text)]
    typed = words.pop() if words and (model.tokeniser.has_blanks or not text[-1].isspace()) else ""
    return model.read(words), typed
