"""Values that end as they were given: who begins a value of the condition has to go on with it.

For the values v = v[0] … v[n-1] of the condition, and the words of the sentence so far, the state is

    live    the pairs (v, k), 0 < k < n: the last k words are the first k of v
    free    whether these words need not be the beginning of a value at all

    b(K, x) = 1          if free, or if x = v[k] of some live (v, k): where values share what was said, any may go on
    b(K, x) = outside    else, also on the end of the sentence: 0, or so little that nothing of it is ever written

A word w makes the state free if a value ends with it, or if no value begins or goes on with it; an ordinary word leaves
it free if it was. Ordinary words are those that training texts often say outside of the values of their conditions:
`the` may begin the value `the dead fish`, and much else. A state is free, too, behind a beginning that some text broke
off (`alamo square`), so that no text which was counted is forbidden. People break off a value now and then that nobody
broke off before: `fitted` leaves a millionth for them, or such a text could not be scored at all. Behind the break it
goes on as if free.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Hashable, Iterable, Iterator, Sequence
from itertools import chain, takewhile
from typing import Any, NamedTuple, Self

import torch

from llrnn.ground.errors import BackgroundError
from llrnn.knowledge.backgrounds.base import Background
from llrnn.knowledge.process import Saved
from llrnn.layer.priors import MINUS_INFINITY, Exceptions, SparsePrior, Table
from llrnn.text.conditions import values_of
from llrnn.text.corpus import Corpus, find_values
from llrnn.text.vocabulary import EOS, Revision, Vocabulary

_OF_VALUES = 0.9  # of the occurrences of a word that is not ordinary: within values of the condition, at least
OUTSIDE = 1e-6  # of a factor that was fitted, as `primed.LEAST_ABSENT`: what was not seen may still be said one day


class ValueProgress(NamedTuple):
    """The state of `WholeValues`: which values of the condition (input of a text) the last words may begin.

    `values`: a tuple of the values, each a tuple of symbols (ids, or words); `live`: a tuple of (index of a value, how
    many of its words were said, not all); `free`: whether any word may come next.
    """

    values: tuple[tuple[Hashable, ...], ...]
    live: tuple[tuple[int, int], ...] = ()
    free: bool = True

    def due(self) -> set[Any]:
        """Return the symbols with which the live values go on."""
        return {self.values[i][k] for i, k in self.live}

    def behind(self, symbol: Hashable, ordinary: Container[object], broken: Container[object]) -> ValueProgress:
        """Return the state after one more word of the sentence; `ordinary` and `broken`: of `WholeValues`, as symbols.

        A word that is not due, where one is, is read as if any word might come.
        """
        values = self.values
        on = [(i, k + 1) for i, k in self.live if values[i][k] == symbol]
        was_free = self.free or not on
        if was_free:
            on += [(i, 1) for i, value in enumerate(values) if value[0] == symbol]
        live = tuple((i, k) for i, k in on if k < len(values[i]))
        has_ended = len(live) < len(on) or not on
        is_free = has_ended or (was_free and symbol in ordinary) or any(values[i][:k] in broken for i, k in live)
        return ValueProgress(values, live, is_free)


class WholeValues(Background[ValueProgress]):
    """A prior that is `outside` on what does not go on with a value of the condition that was begun, else 1.

    The condition is the input that a text is generated from: slots with values. Once `943` of the value `943 s van ness
    avenue` was said, `s` follows, and so on to its end. Of a value with an unlisted word, the words before it count.

        NGram.from_corpus(train) * WholeValues.fitted(train, valid)

    ordinary    words that may be said without being the beginning of a value
    broken      beginnings of values, tuples of words, behind which anything may follow
    outside     the prior of all other words where a value has to go on: 0, nothing else may ever follow, or a little
    """

    _ordinary: frozenset[int]  # these three once it is bound
    _broken: frozenset[tuple[int, ...]]
    _table: Table

    def __init__(
        self, ordinary: Iterable[str] = (), broken: Iterable[Sequence[str]] = (), *, outside: float = 0.0
    ) -> None:
        if not 0 <= outside <= 1:
            raise BackgroundError(f"WholeValues(outside=...) must be 0 to 1, found {outside}")
        if isinstance(ordinary, str):
            raise BackgroundError(f"WholeValues(ordinary=...) must be a collection of words, found {ordinary!r}")
        self.ordinary, self.broken, self.outside = frozenset(ordinary), frozenset(map(tuple, broken)), outside

    @classmethod
    def fitted(cls, train: Corpus, *others: Corpus, outside: float = OUTSIDE) -> Self:
        """Return the prior that hinders no text of these corpora, which are sentences with conditions.

        A word of `train` is ordinary if less than nine tenths of its occurrences are in values of the sentence's own
        condition, said as given. Where a text breaks off a value nevertheless, that beginning is free.
        """
        said, inside = train.counts(), Counter[str]()
        for sentence in train:
            spans = find_values(sentence.words, {value.words for value in values_of(sentence.condition)})
            inside.update(word for words in spans.values() for word in words)
        found = cls((word for word, count in said.items() if inside[word] / count < _OF_VALUES), outside=outside)
        while more := set(chain.from_iterable(map(found._broken_off, (train, *others)))):
            found = cls(found.ordinary, found.broken | more, outside=outside)
        return found

    def _broken_off(self, corpus: Corpus) -> Iterator[tuple[Any, ...]]:
        """Yield the beginnings of values, tuples of words, that texts of a corpus break off where this hinders it."""
        for sentence in corpus:
            state = ValueProgress(tuple(value.words for value in values_of(sentence.condition)))
            for word in (*sentence.words, EOS):
                if not state.free and word not in state.due():
                    yield from (state.values[i][:k] for i, k in state.live)
                state = state.behind(word, self.ordinary, self.broken)

    def bind(self, vocabulary: Vocabulary) -> Self:
        bound = super().bind(vocabulary)
        bound._ordinary = frozenset(vocabulary.id(word) for word in self.ordinary if word in vocabulary)
        listed = (words for words in self.broken if all(word in vocabulary for word in words))
        bound._broken = frozenset(tuple(map(vocabulary.id, words)) for words in listed)
        bound._table = Table(torch.zeros(len(vocabulary), dtype=torch.float64))
        return bound

    def revised(self, revision: Revision) -> Self:
        return self.bind(revision.vocabulary)

    def initial(self, condition: object = None) -> ValueProgress:
        known, given = self.vocabulary, dict.fromkeys(value.words for value in values_of(condition))
        listed = (takewhile(lambda word: word in known and word != EOS, words) for words in given)
        return ValueProgress(tuple(ids for words in listed if (ids := tuple(map(known.id, words)))))

    def advance(self, state: ValueProgress, symbol: int) -> ValueProgress:
        if symbol == self.vocabulary.eos:
            return ValueProgress(state.values)
        return state.behind(symbol, self._ordinary, self._broken)

    def prior(self, states: Sequence[ValueProgress]) -> SparsePrior:
        if all(state.free for state in states):
            return self._table.everywhere()
        others = math.log(self.outside) if self.outside else MINUS_INFINITY
        log_b = [0.0 if state.free else others for state in states]
        due = Exceptions.listed([{} if state.free else dict.fromkeys(state.due(), 0.0) for state in states])
        return SparsePrior((self._table,), torch.tensor(log_b, dtype=torch.float64)[:, None], due)

    def saved(self) -> Saved:
        broken = sorted(map(list, self.broken))
        return Saved("whole_values", {"ordinary": sorted(self.ordinary), "broken": broken, "outside": self.outside})

    def __repr__(self) -> str:
        return f"WholeValues({len(self.ordinary)} ordinary words)"
