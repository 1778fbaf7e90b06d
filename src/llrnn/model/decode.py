"""Text from a model: greedy, by sampling, or by beam search. All of it goes through `model.step`.

In an open vocabulary a cell competes as a whole, with the mass of all its strings; where it wins, one is drawn.

Text from conditions: what has to happen before a model writes from a condition.

    condition = read_condition(model, "inform(name='trattoria contadina';pricerange=moderate)")
    write(model, [condition], beam=5)

Before: the text of a condition is read as the conditions of the training text were, and words that the model does not
list, of the condition or of a table that it consults, are temporarily added.
"""

from __future__ import annotations

import difflib
import json
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, groupby, pairwise
from os import PathLike
from typing import Any

import numpy as np
import torch

from llrnn.ground.errors import ConfigError, CorpusError, LLRNNError, ZeroMassError, quoted, require_count, warn
from llrnn.ground.files import parse_json
from llrnn.knowledge.contextual.lookup import Lookup
from llrnn.knowledge.contextual.worded import Worded
from llrnn.knowledge.process import Batch, ModelState
from llrnn.layer.distribution import Distribution
from llrnn.layer.numerics import require_numbers
from llrnn.layer.weights import WeightChange
from llrnn.model.controllers import Encoder, Silent, evaluating
from llrnn.model.network import LLRNN, require_model
from llrnn.model.scoring import sentence_log_probs
from llrnn.model.words import some, try_add_from_conditions, warn_unlisted, words_by_column
from llrnn.text.conditions import (
    BEAM,
    Conditions,
    act_of,
    map_texts,
    parse_act,
    required_values,
    said_values,
    values_of,
)
from llrnn.text.corpus import Corpus, Format, Sentence, Token, find_values, format_of
from llrnn.text.encoded import EncodedText, warn_of_capitals
from llrnn.text.raw import contracted, warn_if_raw
from llrnn.text.units import decode

AT_ONCE = 512  # words that are read in one step, while nobody else is answered
COMPARED = 5  # texts of a search whose facts are read again, where those of the first are read as something else
WIDEST_BEAM = 500  # its square is how many hypotheses a step compares
_LOOP = 3  # so many words are not said twice in a search, unless a value of the condition became said in between
_FROZEN = 1e-6  # a temperature below what float32 can tell apart: only the most probable word is left


@dataclass(frozen=True)
class Generated:
    """A generated text: `words` after a `prefix` (tuples of strings), their log p, and both joined as `text`, a string.

    `log_prob`: Σ log p of `words` given what is before each, in nats, the prefix not counted; `finished`: whether the
    text ended by itself (the sum then includes the end of the sentence) or was cut at a maximal length. `generate` and
    `write` return lists of it.
    """

    prefix: tuple[str, ...]
    words: tuple[str, ...]
    log_prob: float
    finished: bool
    text: str = ""  # both, as the model writes them

    def __str__(self) -> str:
        return self.text or " ".join((*self.prefix, *self.words))


class Strategy(ABC):
    """Base class of decoding strategies: how the next word of each sequence is chosen from its distribution.

    Subclasses define `choose`.

    generate(model, "le chat", strategy=Sampling(temperature=0.7))
    """

    @abstractmethod
    def choose(self, distribution: Distribution, generator: torch.Generator | None) -> list[int]:
        """Return one symbol id for each of the N positions of the distribution, a list of N ints.

        Each position is one of the sequences that are being generated. `generator`: what random choices draw from, None
        for torch's global one.
        """


@dataclass(frozen=True)
class Greedy(Strategy):
    """The decoding strategy that takes the most probable word at every step; of equal ones that with the smaller id.

    For example:

        generate(model, "le chat", strategy=Greedy())
    """

    def choose(self, distribution: Distribution, generator: torch.Generator | None) -> list[int]:
        words: list[int] = distribution.top(1)[1][:, 0].tolist()
        return words


class Dictated(Strategy):
    """The decoding strategy of one text that was found already: its symbols, one after the other.

    Dictated(model.vocabulary.symbols_of(["le", "chat"]))
    """

    def __init__(self, symbols: Iterable[int]) -> None:
        self._symbols = iter(symbols)

    def choose(self, distribution: Distribution, generator: torch.Generator | None) -> list[int]:
        return [next(self._symbols)]


@dataclass(frozen=True)
class Sampling(Strategy):
    """The decoding strategy that draws each word from p^(1/`temperature`), normalised.

    `top_k`: only from the k most probable words; `top_p`: only from the smallest set of most probable words whose
    probability, at this temperature, is at least `top_p`; None: no limit. Raises ConfigError for a temperature, top_k
    or top_p out of range.

        generate(model, "le chat", strategy=Sampling(temperature=0.7, top_p=0.9))
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise ConfigError(
                f"temperature must be above 0 and finite, found {self.temperature}; choose greedy for the most "
                "probable word, as temperature 0 would"
            )
        if self.top_k is not None and self.top_k < 1:
            raise ConfigError(f"top_k must be 1 or more, found {self.top_k}; correct it, or leave it out")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p must be above 0 and at most 1, found {self.top_p}; correct it, or leave it out")

    def choose(self, distribution: Distribution, generator: torch.Generator | None) -> list[int]:
        if self.temperature < _FROZEN:
            return Greedy().choose(distribution, generator)
        p = distribution.tempered(self.temperature) if self.temperature != 1.0 else distribution
        if self.top_k is None and self.top_p is None:
            drawn: list[int] = p.sample(generator=generator).tolist()
            return drawn
        log_p, words = self._candidates(p)
        index = torch.multinomial(log_p.double().exp(), 1, generator=generator)
        chosen: list[int] = words.gather(1, index)[:, 0].tolist()
        return chosen

    def _candidates(self, p: Distribution) -> tuple[torch.Tensor, torch.Tensor]:
        """Return log p and ids of the most probable words of `p`, best first, each (N, k).

        Log p is −∞ for words outside the smallest set of best words with probability `top_p` or more (the best word is
        always in it); k is `top_k` at most. `p`: already at the temperature. Log p is not normalised anew.
        """
        limit = self.top_k if self.top_k is not None else p.prior.n_symbols
        k = min(limit, 32 if self.top_p is not None else limit)
        log_p, words = p.top(k)
        while self.top_p is not None and k < limit and float(log_p.exp().sum(-1).min()) < self.top_p:
            k = min(2 * k, limit)
            log_p, words = p.top(k)
        if self.top_p is not None:
            mass_before = log_p.exp().cumsum(-1) - log_p.exp()
            mass_before[:, 0] = -1.0  # the best word always stays, however little was asked for
            log_p = log_p.masked_fill(mass_before >= self.top_p, float("-inf"))
        return log_p, words


def chosen_strategy(
    *, greedy: bool = False, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> Strategy:
    """Return `Greedy()` if `greedy`, else the `Sampling` with these options (None: no limit).

    Raises ConfigError for `greedy` together with others, or an option out of range.
    """
    sampling = Sampling(temperature, top_k, top_p)
    if greedy and sampling != Sampling():
        raise ConfigError("greedy draws nothing, found temperature, top_k or top_p beside it; leave one of them out")
    return Greedy() if greedy else sampling


def generate(
    model: LLRNN,
    prefix: str | tuple[str, ...] = "",
    *,
    count: int = 1,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    greedy: bool = False,
    beam: int | None = None,
    max_words: int = 60,
    seed: int | None = None,
    condition: object = None,
    conditions: Sequence[object] | None = None,
    strategy: Strategy | None = None,
    generator: torch.Generator | None = None,
) -> list[Generated]:
    """Generate `count` continuations of the prefix: exact samples, greedy decoding, or beam search.

    `prefix`: a text, or the tuple of its words. Samples are drawn at `temperature`, from the `top_k` most probable
    words or the smallest set of words with probability `top_p`; `greedy` takes the most probable word; `beam` is the
    number of hypotheses of a beam search, of which the `count` best are returned; `strategy` is a `Strategy` of your
    own, which chooses each word. `max_words`: after how many words (symbols) beyond the prefix a text that has not
    ended by itself is cut. `condition`: the input that the text is written from, for models that read one;
    `conditions`: several, with one text for each in place of `count`. The same `seed` draws the same texts; without
    one, or a `generator`, torch's global generator draws. Raises ConfigError for options that exclude each other, and
    ZeroMassError where nothing can follow the prefix.

        generate(model, "le chat", temperature=0.7, top_p=0.9, count=3, seed=1)
        generate(model, "le chat", beam=5)[0]
    """
    require_model(model)
    require_count("count", count)
    require_count("max_words", max_words)
    for one in [condition] if conditions is None else conditions:
        check_condition(model, one)
    words = model.read(prefix) if isinstance(prefix, str) else prefix
    chosen = chosen_strategy(greedy=greedy, temperature=temperature, top_k=top_k, top_p=top_p)
    draws = [name for name, found in (("seed", seed), ("generator", generator)) if found is not None]
    if (strategy is not None or beam is not None) and chosen != Sampling():
        raise ConfigError("choose one way: greedy, beam, a strategy, or sampling with temperature, top_k, top_p")
    if len(draws) > 1 or (beam is not None and (draws or strategy is not None)):
        raise ConfigError("give a seed or a generator, and none of them with beam, which draws nothing")
    if beam is not None:
        if conditions is None and count > beam:
            raise ConfigError(f"a beam of {beam} finds so many texts at most, found count={count}; widen the beam")
        found = beam_search_each(model, [condition] if conditions is None else conditions, words, beam, max_words)
        return found[0][:count] if conditions is None else [best[0] for best in found]
    if seed is not None:
        generator = torch.Generator(model.device).manual_seed(seed)
    given = [condition] * count if conditions is None else conditions
    with torch.no_grad(), evaluating(model):
        return _drawn(model, words, given, strategy or chosen, max_words, generator)


def _drawn(
    model: LLRNN,
    prefix: tuple[str, ...],
    conditions: Sequence[object],
    strategy: Strategy,
    max_words: int,
    generator: torch.Generator | None,
) -> list[Generated]:
    distribution, state = read_prefix(model, prefix, conditions)
    words: list[list[int]] = [[] for _ in conditions]
    log_probs = [0.0] * len(conditions)
    active = list(range(len(conditions)))
    while active:
        chosen = strategy.choose(distribution.require_mass(), generator)
        log_p = distribution.log_prob(torch.tensor(chosen, device=model.device)).tolist()
        for row, word, log in zip(active, chosen, log_p, strict=True):
            words[row].append(word)
            log_probs[row] += log
        going = [
            i for i, row in enumerate(active) if words[row][-1] != model.vocabulary.eos and len(words[row]) < max_words
        ]
        active = [active[i] for i in going]
        if active:
            distribution, state = model.step(state.select(going), [words[row][-1] for row in active])
    return [_finish(model, prefix, row, log, generator) for row, log in zip(words, log_probs, strict=True)]


def beam_search_each(
    model: LLRNN, conditions: Sequence[object], prefix: tuple[str, ...] = (), beam: int = BEAM, max_words: int = 60
) -> list[list[Generated]]:
    """Return for each condition the texts found by a beam search: a list of at most `beam` `Generated`, best first.

    A condition is the input that a text is written from, None for a model without. `prefix`: the words that all texts
    begin with; `max_words`: after how many further words a text is cut. All searches run in one batch.
    """
    with torch.no_grad(), evaluating(model):
        searches = begin_searches(model, conditions, prefix, beam, max_words)
        while advance_searches(searches):
            pass
    return [search.found() for search in searches]


class Search:
    """The beam search of one sequence, advanced step by step, alone or with others of the same model.

        searches = begin_searches(model, conditions, beam=5)
        while advance_searches(searches):            # others may join before any step
            ...
        searches[0].found()

    `found()` is a list of `Generated`. The states of its hypotheses are the `rows` (a list of indices) of `state`, a
    `ModelState` that all searches which took the last step together share. `prefix`: the words that the text begins
    with; `given`: EOS and the ids of their symbols; `width`: the number of hypotheses; `max_words`: after how many
    words a text is cut; `condition`: the input that the text is written from, or None. Where it has slots, no text goes
    round in a circle, and those with the fewest `errors` come first.
    """

    def __init__(
        self, model: LLRNN, prefix: tuple[str, ...], given: list[int], width: int, max_words: int, condition: object
    ) -> None:
        self.model, self.prefix, self.max_words, self.width = model, prefix, max_words, width
        self.condition, self._given, self._steps, self._ended = condition, given, 0, False
        self.change: WeightChange | None = None  # of the weights, at every step
        self._values = _listed_values(model, condition)
        self._going: list[tuple[float, list[int]]] = [(0.0, [])]  # log p and words of those that go on, best first
        self._done: list[tuple[float, list[int]]] = []  # and of those that have ended
        self.state, self.rows = ModelState((), ()), [0]
        self.error: LLRNNError | None = None

    @property
    def has_ended(self) -> bool:
        return self._ended or self.error is not None or self._steps >= self.max_words

    def words(self) -> list[int]:
        """Return the symbol ids to feed next, one for each hypothesis, best first: its last word.

        Before the first step it is the last symbol of the prefix, or EOS without a prefix.
        """
        return [found[-1] if found else self._given[-1] for _, found in self._going]

    def check(self, p: Distribution, state: ModelState, start: int, alive: Sequence[bool]) -> bool:
        """Drop hypotheses after which no word is possible; return True if all could stay, so that `grow` may be called.

        `p`, `state`: the distributions and state after the last step, of all searches together; `start`: the row in
        them of this search's first hypothesis; `alive`: for each of its hypotheses, whether any word is possible. Where
        no hypothesis is left the search ends, with an `error` if it has found nothing; False is returned, too, where
        the prior says why nothing can follow the prefix, which becomes the `error`.
        """
        reason = self.model.background.refusal(state.knowledge[0][start]) if self._steps == 0 else None
        if reason is not None:
            self.error = ZeroMassError(f"nothing can follow the prefix {' '.join(self.prefix)!r}: {reason}")
            return False
        if all(alive):
            return True
        self.rows = [row for row, lives in zip(self.rows, alive, strict=True) if lives]
        self._going = [one for one, lives in zip(self._going, alive, strict=True) if lives]
        self._ended = not self.rows
        if self._ended and not self._done:
            try:
                p.row(start).require_mass()  # which says so
            except LLRNNError as error:
                self.error = error
        return False

    def grow(self, log_p: list[list[float]], words: list[list[int]], state: ModelState, start: int) -> None:
        """Extend each hypothesis by its best next words and keep the `width` best; those that end are set apart.

        `log_p`, `words`: for each hypothesis the log p and ids of its best next words, best first; `state`: the state
        of all searches after the last step, in which this one's first hypothesis is row `start`. Log p of a hypothesis
        is the sum over its words; of equal ones that with smaller ids comes first.
        """
        grown = [
            (log + log_word, row, [*before, word])
            for row, (log, before) in enumerate(self._going)
            for log_word, word in list(zip(log_p[row], words[row], strict=True))[: self.width + 1]
            if log_word > float("-inf")
        ]
        grown = [entry for entry in grown if not self._has_looped(entry[2])]
        self._steps += 1
        if not grown:  # all would go round in a circle: what was found so far is cut
            self._ended = True
            return
        grown = sorted(grown, key=lambda entry: (-entry[0], entry[2]))[: 2 * self.width]
        eos = self.model.vocabulary.eos
        ended = [(log, found) for log, _, found in grown if found[-1] == eos]
        self._done = sorted([*self._done, *ended], key=lambda entry: -entry[0])[: self.width]
        kept = [entry for entry in grown if entry[2][-1] != eos][: self.width]
        self._going = [(log, found) for log, _, found in kept]
        # log p only falls as a sequence grows: nothing can get better than a full list of better ones
        full = len(self._done) == self.width
        self._ended = not kept or (full and self._done[-1][0] >= kept[0][0])
        self.rows, self.state = [] if self._ended else [start + row for _, row, _ in kept], state

    def _has_looped(self, words: list[int]) -> bool:
        """Return whether a hypothesis ends with three words that it had before, and said nothing new in between.

        What is new is a value of the condition (the input of the text) that was not said before. False without values.
        """
        if not self._values:
            return False
        text = tuple(self._given[1:] + words)
        ends = (n for n in range(len(text) - 1, _LOOP - 1, -1) if text[n - _LOOP : n] == text[-_LOOP:])
        before = next(ends, None)
        return before is not None and said_values(self._values, text) == said_values(self._values, text[:before])

    def found(self) -> list[Generated]:
        """Return the best texts, a list of at most `width` `Generated`, best first.

        They are those that ended by themselves or, where none did, those cut at `max_words`; of a condition (input)
        with slots, those with fewer `errors` before others. Raises the LLRNNError of a search in which nothing was
        possible.
        """
        steps = self.ranking()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return list[Generated](end.value)

    def ranking(self) -> Generator[int, None, list[Generated]]:
        """Find what `found` returns in steps: a generator of how many words are read next, which returns the list."""
        if self.error is not None:
            raise self.error
        best = (self._done or self._going)[: self.width]
        texts = [_finish(self.model, self.prefix, words, log, None) for log, words in best]
        wrong = [errors(self.condition, (*one.prefix, *one.words)) for one in texts]
        ranked = sorted(range(len(texts)), key=wrong.__getitem__)  # stable: likelier first
        if texts and (yield from misread(self.model, self.condition, [texts[ranked[0]]])) != [0]:
            compared = [texts[place] for place in ranked[:COMPARED]]
            for place, more in zip(ranked, (yield from misread(self.model, self.condition, compared)), strict=False):
                wrong[place] += more
            ranked[:COMPARED] = sorted(ranked[:COMPARED], key=wrong.__getitem__)
        return [texts[place] for place in ranked]


def errors(condition: object, words: Sequence[str]) -> int:
    """Return how many values of a condition a text leaves out, or says more often than the condition has them.

    The condition is the input of the text; 0 where it has no slots. Of the texts of a beam search, those with the
    fewest come first.

        errors(parse_act("inform(name=alamo;food=thai)"), "alamo is a nice alamo".split())     # 2
    """
    wanted = Counter(words for _, words in required_values(condition))
    found = Counter(find_values(words, wanted).values())
    return sum(1 for value in wanted if not find_values(words, [value])) + (found - wanted).total()


def rivals(model: LLRNN, condition: object) -> list[list[object]]:
    """Return what a text could mean in place of each fact of its condition (input), as `Worded.rivals` does, or []."""
    wordings = next((one for one in model.contextual if isinstance(one, Worded)), None)
    return [] if wordings is None or model.vocabulary.units is not None else wordings.rivals(condition)


def misread(model: LLRNN, condition: object, texts: Sequence[Generated]) -> Generator[int, None, list[int]]:
    """Find for each text how many facts of its condition (input) are read as something else, by the model itself.

    P(fact | text) = p(text | condition) / (p(text | condition) + Σ p(text | rival)) is then below a half; rivals are
    those of `Worded`, which tells what a fact without words of its own, such as kids=no, could be taken for. A
    generator, so that a server can answer others in between: it yields how many words are read next, at most `AT_ONCE`
    or one text, and returns the list at its end.
    """
    groups = rivals(model, condition)
    if not groups or not texts:
        return [0] * len(texts)
    read, log_p = [condition, *chain.from_iterable(groups)], list[float]()
    sentences = [Sentence(tuple(map(Token, (*one.prefix, *one.words))), given) for one in texts for given in read]
    n = max(1, AT_ONCE // (1 + max(len(one.words) for one in sentences)))
    for begin in range(0, len(sentences), n):
        some = EncodedText.encode(Corpus(tuple(sentences[begin : begin + n])), model.vocabulary)
        yield int(some.lengths.sum())
        log_p += [one.sum() for one in sentence_log_probs(model, some)]
    table, ends = np.array(log_p).reshape(len(texts), -1), np.cumsum([1, *map(len, groups)])
    with np.errstate(invalid="ignore"):  # a text that is impossible is read as nothing else
        against = [np.logaddexp.reduce(table[:, begin:end], 1) for begin, end in pairwise(ends)]
        return [int(n) for n in np.sum([other > table[:, 0] for other in against], 0)]


def _listed_values(model: LLRNN, condition: object) -> list[tuple[int, ...]]:
    """Return the slot values of a condition (input of a text) as symbol ids; [] where symbols are parts of words.

    Values with words that the vocabulary does not list are left out.
    """
    known = model.vocabulary
    if known.units is not None:
        return []
    values = (words for _, words in values_of(condition) if all(word in known for word in words))
    return [tuple(map(known.id, words)) for words in values]


def begin_searches(
    model: LLRNN,
    conditions: Sequence[object],
    prefix: tuple[str, ...] = (),
    beam: int = BEAM,
    max_words: int = 60,
    change: WeightChange | None = None,
) -> list[Search]:
    """Return a beam search for each condition, ready for `advance_searches`; all but the last symbol is read.

    The last symbol is that of the prefix, or EOS without one; the first step of the search reads it.

    A condition is the input that a text is written from, None for a model without. `prefix`: the words that all texts
    begin with; `max_words`: after how many further words a text is cut; `change`: of the feature weights, None for
    none. Raises ConfigError unless `beam`, the number of hypotheses, is 1 to 500.
    """
    if not 1 <= beam <= WIDEST_BEAM:
        raise ConfigError(f"the beam must be 1 to {WIDEST_BEAM:,} wide, found {beam}; choose another width")
    given = [model.vocabulary.eos, *model.vocabulary.symbols_of(prefix, place="prefix")]
    state = model.start(conditions)
    for word in given[:-1]:
        _, state = model.step(state, [word] * len(conditions), change=change)
    searches = [Search(model, prefix, given, beam, max_words, condition) for condition in conditions]
    for row, search in enumerate(searches):
        search.state, search.rows, search.change = state, [row], change
    return searches


def advance_searches(searches: Sequence[Search]) -> bool:
    """Run one step for all unfinished searches of one model and change of weights; return False if all have ended.

    Searches may have been begun at different times. In the step each hypothesis that cannot go on is dropped, and each
    other is extended.
    """
    going = _by_state(search for search in searches if not search.has_ended)
    if not going:
        return False
    words = [word for search in going for word in search.words()]
    distribution, after = going[0].model.step(_joined(going), words, change=going[0].change)
    require_numbers(distribution.log_z)
    own = [slice(*ends) for ends in pairwise([0, *accumulate(len(search.rows) for search in going)])]
    alive: list[bool] = (distribution.log_z > float("-inf")).tolist()
    checked = [search.check(distribution, after, at.start, alive[at]) for search, at in zip(going, own, strict=True)]
    if not all(checked):
        return advance_searches(searches)  # without what came to its end
    widest = max(search.width for search in going)
    log_p, best = (part.tolist() for part in distribution.top(widest + 1))
    for search, at in zip(going, own, strict=True):
        search.grow(log_p[at], best[at], after, at.start)
    return True


def _by_state(searches: Iterable[Search]) -> list[Search]:
    """Return the searches ordered so that those which share a `state` object stand together."""
    found = list(searches)
    first = {id(search.state): place for place, search in reversed([*enumerate(found)])}
    return sorted(found, key=lambda search: first[id(search.state)])


def _joined(searches: Sequence[Search]) -> ModelState:
    """Return the states of all hypotheses of these searches (of one model) as one batch, in the order of `searches`.

    Searches that share a `state` object must stand together.
    """
    model, groups = searches[0].model, (list(own) for _, own in groupby(searches, lambda search: id(search.state)))
    parts = [own[0].state.select([row for search in own for row in search.rows]) for own in groups]
    state = parts[0] if len(parts) == 1 else ModelState.joined(parts, model.device)
    return ModelState(model.controller.trimmed(state.controller), state.knowledge)


def read_prefix(model: LLRNN, prefix: tuple[str, ...], conditions: Sequence[object]) -> tuple[Distribution, ModelState]:
    """Return the distributions of the word after the prefix, one for each condition, and the state after the prefix.

    `prefix`: the first words of a sentence; a condition is the input that a text is written from, None for a model
    without. Raises ZeroMassError where the model's prior allows nothing after the prefix.
    """
    ids = [model.vocabulary.eos, *model.vocabulary.symbols_of(prefix, place="prefix")]
    state = model.start(conditions)
    if isinstance(model.controller, Silent):  # no network goes word by word: all in one pass
        rows = torch.tensor([ids] * len(conditions), device=model.device)
        mask = (torch.arange(len(ids), device=model.device) == len(ids) - 1).expand(rows.shape)
        distribution, state = model.scan(Batch(rows, rows, mask), state)
    else:
        for word in ids:
            distribution, state = model.step(state, [word] * len(conditions))
    reasons = (model.background.refusal(own) for own in state.knowledge[0])
    refused = next((reason for reason in reasons if reason is not None), None)
    if refused is not None:
        raise ZeroMassError(f"nothing can follow the prefix {' '.join(prefix)!r}: {refused}")
    return distribution, state


def _finish(
    model: LLRNN, prefix: tuple[str, ...], words: list[int], log_prob: float, generator: torch.Generator | None
) -> Generated:
    """Return the `Generated` of symbol ids `words`; a symbol for a set of strings becomes one string of the set.

    Such strings (of 4-digit numbers, for example) are drawn here, since they do not depend on the context, by
    `generator` or else seed 0; their log p given the symbol is added to `log_prob`. `words` may end with the id of EOS,
    which is taken off and makes the result `finished`. Units of words are joined to words.
    """
    finished = bool(words) and words[-1] == model.vocabulary.eos
    spoken = words[:-1] if finished else words
    spelled = [model.vocabulary.symbol(word) for word in spoken]
    if model.vocabulary.units is not None:
        spelled = decode(spelled, whole=False)
        return Generated(prefix, tuple(spelled), log_prob, finished, model.write((*prefix, *spelled)))
    if any(word >= model.vocabulary.n_words for word in spoken):
        seed = 0 if generator is None else int(torch.randint(2**62, (1,), generator=generator, device=generator.device))
        rng = np.random.default_rng(seed)
        spelled = [model.vocabulary.spelled(word, rng) for word in spoken]
    inside = float(model.vocabulary.locate(spelled)[1].sum()) if model.vocabulary.is_open else 0.0
    return Generated(prefix, tuple(spelled), log_prob + inside, finished, model.write((*prefix, *spelled)))


# Text from conditions: what has to happen before a model writes from a condition.


def condition_kind(model: LLRNN) -> Conditions:
    """Return how conditions (the inputs that texts are written from) were read in training: "act" or "plain".

    "act": as dialog acts; "plain": as JSON or text.
    """
    return "act" if model.corpus_settings.get("conditions") == "act" else "plain"


def read_corpus(
    model: LLRNN, file: str | PathLike[str], format: Format = "auto", lowercase: bool | None = None
) -> Corpus:
    """Read a text file in the way in which the model's training text was read: cut, lowercased, with conditions.

    `format`: auto, conllu, text, jsonl or tsv; `lowercase`: None is as in training.

        evaluate(model, read_corpus(model, "test.txt"))
    """
    small = model.reads_lowercase if lowercase is None else lowercase
    surface = model.corpus_settings.get("multiword") == "surface"
    cut, lower = model.tokeniser.sentences if model.cuts_text else None, small and model.tokeniser.lower
    kind = condition_kind(model)
    corpus = Corpus.from_file(file, format=format, lowercase=lower, conditions=kind, surface=surface, cut=cut)
    corpus = contracted(corpus, model.tokeniser.contractions) if surface else corpus
    if not model.cuts_text:
        warn_if_raw(corpus)
    elif format_of(file, format) == "text":
        corpus = replace(corpus, cut_by=model.cut_by)
    warn_of_capitals(model.vocabulary, corpus)
    return corpus


def read_condition(model: LLRNN, text: str) -> object:
    """Parse a condition, the input that a text is written from, in the format of the model's training text.

    That is a dialog act, JSON, or plain text, which becomes an act object, JSON data, or a string; it is cut into words
    and lowercased where the model's text is. Raises CorpusError for wrong JSON, or a malformed act.

        write(model, [read_condition(model, "inform(name='trattoria contadina')")])
    """
    return in_model_words(model, _parsed(text, condition_kind(model)))


def in_model_words(model: LLRNN, condition: object) -> object:
    """Return a condition with its texts cut into words and lowercased where the model's text is.

    A condition is the input that a text is written from; texts within it, such as the values of slots, are changed in a
    copy, words joined by blanks. It is returned as it is where the model's text is neither cut nor lowercased.
    """
    if model.cuts_text:
        return map_texts(condition, lambda text: " ".join(model.read(text)))
    return map_texts(condition, model.tokeniser.lower) if model.reads_lowercase else condition


def _parsed(text: str, kind: Conditions) -> object:
    if text.lstrip()[:1] not in (("{",) if kind == "act" else ("{", "[")):
        return parse_act(text) if kind == "act" else text
    try:
        found = parse_json(text)
        return act_of(found) if kind == "act" else found
    except json.JSONDecodeError as error:
        place = f"column {error.pos + 1} of the condition {quoted(text)}"
        raise CorpusError(f"{place}: JSON is required ({error.msg})") from None


def looks_at_conditions(model: LLRNN) -> bool:
    """Return whether a condition (the input that a text is written from) can change what the model predicts."""
    return model.needs_conditions or any(process.reads_conditions for process in model.processes)


def check_condition(model: LLRNN, condition: object) -> None:
    """Raise ConfigError if the condition (the input that a text is written from) is None, and the model needs one.

    It is also raised if a condition is given to a model that would ignore it.
    """
    if condition is None and model.needs_conditions:
        raise ConfigError("this model writes from a condition, and none was given; give one as `condition`")
    if condition is not None and not looks_at_conditions(model):
        raise ConfigError(
            f"this model does not look at conditions: it was trained without any, found {quoted(condition)}; "
            "leave it out"
        )


def warn_of_unknown_names(model: LLRNN, conditions: Iterable[object]) -> None:
    """Give a Python warning that names dialog acts and slots which the model does not know and ignores, if any.

    They are most likely misspelt. `conditions`: the inputs that texts are written from.
    """
    message = unknown_names_of(model, conditions)
    if message is not None:
        warn(message)


_KNOWN = 20  # names and values that are listed beside one that is not known


def warnings_of(model: LLRNN, condition: object) -> list[str]:
    """Return warnings about a condition, one for unknown acts and slots and one for each slot with unknown values.

    Each lists a few names or values that the model knows. The result is [] where all are known, the condition is None,
    or the model's network reads no conditions. A condition is the input that a text is written from.
    """
    encoder = getattr(model.controller, "encoder", None)
    if not isinstance(encoder, Encoder) or condition is None:
        return []
    names = unknown_names_of(model, [condition])
    known = some(sorted(encoder.slot_names), _KNOWN)
    found = [] if names is None else [f"{names} (known: {known or 'none'})"]
    for slot, words in encoder.unknown_values(condition).items():
        listed = some(encoder.known_values(slot), _KNOWN)
        found.append(f"no condition in training had {some([*map(repr, words)])} in {slot!r} (known: {listed})")
    return found


def unknown_names_of(model: LLRNN, conditions: Iterable[object]) -> str | None:
    """Return one message that names the dialog acts and slots which the model does not know; None if there are none.

    `conditions`: the inputs that texts are written from. None also where the model's network reads no conditions.
    """
    encoder = getattr(model.controller, "encoder", None)
    if not isinstance(encoder, Encoder):
        return None
    found = dict.fromkeys(name for condition in conditions for name in encoder.unknown_names(condition))
    if not found:
        return None
    near = [difflib.get_close_matches(name, sorted(encoder.slot_names), n=1) for name in found]
    meant = [repr(one[0]) for one in near if one]
    advice = f"did you mean {', '.join(meant)}?" if meant else "check their spelling"
    listed = some([*map(repr, found)])
    return f"the model was trained without acts or slots of the name {listed}, and ignores them; {advice}"


def prepared(model: LLRNN, conditions: Sequence[object], tell: Callable[[str], None] = warn_unlisted) -> LLRNN:
    """Return a copy of the model with the words of these conditions, and of its look-up tables, in its vocabulary.

    Conditions are the inputs that texts are written from. The model itself is returned where nothing is new, or where
    words cannot be added; in the second case `tell` is called with the reason.
    """
    words = words_by_column(one for one in model.contextual if isinstance(one, Lookup))
    return try_add_from_conditions(model, conditions, words, tell)


def write(
    model: LLRNN,
    conditions: Sequence[object],
    *,
    beam: int | None = None,
    strategy: Strategy | None = None,
    prefix: str | tuple[str, ...] = "",
    max_words: int = 60,
    generator: torch.Generator | None = None,
) -> list[Generated]:
    """Return a text for each condition (the input that it is written from), by beam search or a decoding strategy.

    `conditions`: as `read_condition` returns them; `beam`: how many hypotheses, 5 by default; `strategy`: how words are
    chosen, in place of a beam search; `prefix`: how every text begins; `max_words`: after how many further words it is
    cut; `generator`: what the strategy draws from. Unknown words of conditions are added to the vocabulary for the
    call. Raises ConfigError where a condition is missing, or the model ignores it.

        write(model, [read_condition(model, "inform(name='trattoria contadina')")], beam=5)[0]
    """
    for condition in conditions:
        check_condition(model, condition)
    ready = prepared(model, conditions)
    chosen: dict[str, Any] = {"strategy": strategy, "generator": generator}
    chosen = chosen if strategy is not None and beam is None else {"beam": beam or BEAM}
    return generate(ready, prefix, conditions=conditions, max_words=max_words, **chosen)
