"""Contextual features φ(K, x): they depend on the condition and the prefix.

As a background, but with feature values instead of log b: one value for the rest, own values for the exceptions.

Features that let a network copy the values of a condition: inform(name='trattoria contadina';pricerange=moderate).

For each value v = v[0] … v[n-1] of the condition, and the words of the sentence so far (those after the last EOS):

    said(v)      whether v occurred among them, word after word, and not only within a longer value that occurred
                 ("marnee thai is cheap" does not say that the food is thai)
    k(v)         the length of the longest proper prefix of v with which they end
    offers(v)    {v[0], v[k]}: a match of k words may be an accident ("the"), so that v may also begin here

    Copied(x)     1 if some v that is not said offers x
    Continued(x)  1 if x is v[k] of some v that is not said, and k ≥ 1: what a value that was begun demands
    Mentioned(x)  1 if x is v[0] of some v that is said, and Copied(x) is 0
    Unmentioned(x)  on EOS, how many v are not said

All are 0 on all other words. A value can be pointed at if the vocabulary lists all of its words; any other is left
out, as if the condition did not have it. In an open vocabulary, where such a word has no symbol but its cell, the
words of the condition are temporarily added (`llrnn.words.add_from_conditions`). Without slots there are no values.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from llrnn.ground.arrays import LARGEST_FLOAT32
from llrnn.ground.errors import FeatureError
from llrnn.knowledge.backgrounds.base import Background
from llrnn.knowledge.features import Features
from llrnn.knowledge.process import Batch, Process, S, Saved
from llrnn.languages.ngrams.trie import ranges
from llrnn.layer.matrix import FeatureMatrix
from llrnn.layer.priors import ContextValues, DensePrior, FullPrior, LinearValues, SparsePrior
from llrnn.text.conditions import said_values, values_of
from llrnn.text.vocabulary import EOS, Revision, Vocabulary

Value = float | Sequence[float]  # of one feature, or of several that follow the prefix together


class NamedProcess(Process[S]):
    """Base class of processes (states that follow a prefix, see `Process`) whose result at a state is k named numbers.

    Its subclasses are `ContextualFeature`, whose numbers are feature values of words in the output layer, and
    `ContextualInput`, whose numbers the network reads. Misuse raises a FeatureError.
    """

    _error = FeatureError
    _name: str | None = None

    @property
    def name(self) -> str:
        return self._name if self._name is not None else type(self).__name__

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the k numbers of this process, in order; by default one, `name`, the name of the class."""
        return (self.name,)

    def beside(self, background: Background) -> Self:
        """Return a copy for a model with this background (prior over the next word); by default the process itself.

        A model calls it, so that it can follow the background's states. `Again`, for example, uses the states of
        a `Recent` in it.
        """
        return self

    def _numbers(self, values: Sequence[Value], width: int, place: Callable[[int], str]) -> Tensor:
        """Return E values, each a float or a sequence of k = `width` floats, as a float64 tensor (E, k).

        Raises a FeatureError where a value is NaN, infinite or too large for float32; `place(e)` returns a phrase that
        says where value e stands, for its message.
        """
        try:
            made = torch.tensor(values, dtype=torch.float64).view(-1, width)
        except OverflowError:  # an integer of hundreds of digits
            made = torch.tensor([[math.inf] * width for _ in values], dtype=torch.float64).view(-1, width)
        broken = torch.nonzero(~(made.abs() <= LARGEST_FLOAT32))
        if len(broken):
            row, column = broken[0].tolist()
            raise FeatureError(
                f"the feature {self.names[column]!r} must be a finite number of at most {LARGEST_FLOAT32:.1e}, which "
                f"float32 can hold, found {float(made[row, column])} on {place(row)}; scale it, or take its logarithm"
            )
        return made


class Following(NamedProcess[S]):
    """A contextual feature or input without states of its own: it uses those of the process `followed`.

    `followed` is a background (prior over the next word) or feature, whose states a model then computes once for both;
    the subclass's constructor sets it.
    """

    followed: Process[S]

    def bind(self, vocabulary: Vocabulary) -> Self:
        bound = super().bind(vocabulary)
        bound.followed = self.followed.bind(vocabulary)
        return bound

    def revised(self, revision: Revision) -> Self:
        return self._changed(revision.vocabulary, followed=self.followed.revised(revision))

    @property
    def state_key(self) -> object:
        return self.followed.state_key

    @property
    def reads_conditions(self) -> bool:
        return self.followed.reads_conditions

    def initial(self, condition: object = None) -> S:
        return self.followed.initial(condition)

    def advance(self, state: S, symbol: int) -> S:
        return self.followed.advance(state, symbol)

    def follow(self, states: Sequence[S], batch: Batch) -> tuple[Sequence[S], Sequence[S]]:
        if self.followed.is_static:  # it keeps no states, but there is something to say at every position
            return [self.initial()] * batch.n_positions, states
        return self.followed.follow(states, batch)


class ContextualFeature(NamedProcess[S]):
    """A feature φ(K, x) of a context K and a word x, or several features that share a state.

    `ContextualFeature[S]`: S is the type of its states. A subclass has `initial(condition)`, the state before any word
    (`condition`: the input that the text is generated from, or None), `advance(state, symbol)`, the state after the
    word with this id, and `value` (for one state) or `values` (for a batch); `names` where it has several features.
    Each feature has a weight, a coordinate of the network's a(h).

        class Stutter(ContextualFeature[int]):                                # 1 on the word that came last
            def initial(self, condition=None): return self.vocabulary.eos
            def advance(self, state, symbol): return symbol
            def value(self, state): return 0.0, {state: 1.0}
    """

    context_independent = False  # whether weights are learned as they are, and no function of h
    linear_in: tuple[int, ...] = ()  # the columns of Φ that its values are linear in, if they are (`LinearFeature`)

    @property
    def static(self) -> Features | None:
        """The static features φ(x) of words from which this feature is computed; None (the default) if it needs none.

        A model adds them to its output features.
        """
        return None

    def on(self, features: FeatureMatrix) -> Self:
        """Return a copy that uses the columns of `features`, the model's matrix Φ (words × static features).

        By default the feature needs no such matrix, and is returned itself.
        """
        return self

    def value(self, state: S) -> tuple[Value, Mapping[int, Value]]:
        """Return the feature's value on all words in general, and {word id: value} for the words with another value.

        With several `names`, each value is a sequence of floats, one for each name.
        """
        found = self.values([state])
        rest, own = (found.rest, found.value) if len(self.names) > 1 else (found.rest[:, 0], found.value[:, 0])
        return rest[0].tolist(), dict(zip(found.word.tolist(), own.tolist(), strict=True))

    def remarks(self, state: S, words: Sequence[str]) -> Mapping[str, str]:
        """Return {feature name: text}, where the text says what caused its value at `state`; explanations quote it.

        `words`: the words of the text so far, which led to the state. By default {}; features without a text are left
        out.
        """
        return {}

    def values(self, states: Sequence[S]) -> Any:  # a subclass says which
        """Return the feature values at N states as `ContextValues`, or `LinearValues` from a `LinearFeature`.

        `ContextValues` holds (N, k) values for words in general, and the (position, word, values) that differ from
        them. By default it is made from `value`; a subclass that defines neither method raises a TypeError.
        """
        if type(self).value is ContextualFeature.value:
            raise TypeError(f"{type(self).__name__} needs a method `value`, or `values` for a batch of states")
        answers, width = [self.value(state) for state in states], len(self.names)
        rows = [(n, word, own[word]) for n, (_, own) in enumerate(answers) for word in sorted(own)]
        position, word, value = zip(*rows, strict=True) if rows else ((), (), ())
        return ContextValues(
            self._numbers([rest for rest, _ in answers], width, lambda n: f"the rest at position {n}"),
            torch.tensor(position, dtype=torch.long),
            torch.tensor(word, dtype=torch.long),
            self._numbers(value, width, lambda e: f"{self.vocabulary.symbol(word[e])!r} at position {position[e]}"),
        )


class LinearFeature(ContextualFeature[S]):
    """Contextual features that are linear in static features of words: φ_i(K, x) = Σ_j S_ij(K) φ_j(x).

    The coefficients S depend on the context K; a feature may so differ between contexts on any number of words. A
    subclass has `names` (of the k features φ_i), `columns` (names of the J static features φ_j), `slopes` (S at each
    state), and `static` (the features φ_j themselves, to be added to the output features; None in a model that was
    loaded). A static feature that is 0 on all words of the vocabulary has no column in Φ and is ignored. See
    `layer.linear`.

        LLRNN(vocabulary, output_features=phi, contextual=[Agreement.estimated("french", treebank)])
    """

    _there: tuple[int, ...] = ()  # which of `columns` are in Φ

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The names of the J static features φ_j of words that the contextual features are linear in.

        They are in the order of the last axis of the coefficients that `slopes` returns.
        """

    @abstractmethod
    def slopes(self, states: Sequence[S]) -> Tensor:
        """Return the coefficients S of φ_i(K, x) = Σ_j S_ij(K) φ_j(x) at N states, (N, len(names), len(columns))."""

    def on(self, features: FeatureMatrix) -> Self:
        """Return a copy that knows the column numbers of its static features in the matrix `features`.

        Raises a FeatureError if the matrix has none of them.
        """
        there = [j for j, name in enumerate(self.columns) if name in features.column_of]
        if not there:
            raise FeatureError(
                f"{self!r} needs its static features among those of words, found none of them; add its `static` to "
                "the output features, as output_features=features + agreement.static"
            )
        made = copy.copy(self)
        made._there, made.linear_in = tuple(there), tuple(features.column_of[self.columns[j]] for j in there)
        return made

    def values(self, states: Sequence[S]) -> LinearValues:
        if not self.linear_in:
            raise FeatureError(f"{self!r} must know the static features of a model before it is used: .on(features)")
        slopes = self.slopes(states)
        slopes = slopes if len(self._there) == slopes.shape[2] else slopes[:, :, list(self._there)]
        return LinearValues(slopes, self.linear_in, self.context_independent)


class Repeated(ContextualFeature[tuple[int, ...]]):
    """A contextual feature that is 1 on the words among the last `window` words of the prefix, 0 on all others.

    Ends of sentences do not count as words, and the words of earlier sentences of the text count on.

    Example:

        Repeated(window=20)
    """

    def __init__(self, window: int = 50) -> None:
        if window < 1:
            raise FeatureError(f"Repeated(window=...) must be 1 or more, found {window}")
        self._window = window

    def revised(self, revision: Revision) -> Self:
        return self.bind(revision.vocabulary)

    reads_conditions = False

    def initial(self, condition: object = None) -> tuple[int, ...]:
        return ()

    def advance(self, state: tuple[int, ...], symbol: int) -> tuple[int, ...]:
        """Return the ids of the last `window` words, `symbol` included; after EOS the state is unchanged."""
        if symbol == self.vocabulary.eos:
            return state
        return (*state[-(self._window - 1) :], symbol) if self._window > 1 else (symbol,)

    def value(self, state: tuple[int, ...]) -> tuple[float, Mapping[int, float]]:
        return 0.0, dict.fromkeys(state, 1.0)

    def saved(self) -> Saved:
        return Saved("repeated", {"window": self._window})

    def __repr__(self) -> str:
        return f"Repeated(window={self._window})"


_LIMIT = 50.0  # nats: a word that the expert forbids has this little, since features are finite


class Expert(Following[S], ContextualFeature[S]):
    """A contextual feature made of a background b_e (prior): the network chooses how far to follow it.

        φ_e(K, x) = log b_e(K, x) − log b_ref(x)        its weight a_e: 0 not at all, 1 as it is, below 0 against it

    `background`: the expert; `name`: what explanations and `--expert NAME=FACTOR` call it. The reference b_ref is the
    expert's context-independent part, such as the unigrams of an n-gram model: then the feature is one number on all
    words except those with values of their own in this context. An expert without such a part (another model, a
    mixture) has no reference: its feature is log b_e on every word. Values are clamped to ±50 nats. A word added to the
    vocabulary later has the value of words in general.

        Expert(NGram.from_path("legal.arpa"), name="legal")
    """

    followed: Background[S]

    def __init__(self, background: Background[S], *, name: str = "expert") -> None:
        self.followed, self._name = background, name

    def bind(self, vocabulary: Vocabulary) -> Self:
        bound = super().bind(vocabulary)
        bound.followed = bound.followed.as_expert()
        return bound

    def values(self, states: Sequence[S]) -> ContextValues:
        prior, n = self.followed.prior(states), len(states)
        if isinstance(prior, FullPrior):
            return _everywhere(prior.dense(n))
        if prior.active is None:
            return _by_region(prior, n)
        tables, exceptions = torch.stack([table.log_b for table in prior.tables]), prior.exceptions  # (K, V)
        which = prior.active  # the one table of each position
        rest = prior.shift.gather(1, which[:, None]).expand(n, -1)
        own = _difference(exceptions.log_b, tables[which.expand(n)[exceptions.position], exceptions.word])
        return _clamped(rest, exceptions.position, exceptions.word, own)

    def saved(self) -> Saved:
        return Saved("expert", {"name": self.name}, parts=(self.followed.saved(),))

    def __repr__(self) -> str:
        return f"Expert({self.followed!r}, name={self.name!r})"


def _by_region(prior: SparsePrior, n: int) -> ContextValues:
    """Return `Expert` values by a prior at n positions whose K static tables cover disjoint sets of words (regions).

    The value of a word is log b less its table's log b, that is the shift of its table at the position. The value on
    words in general is that of the table with most words; words of other tables are listed only at positions where
    their shift differs, and words that the prior lists always are. Where the tables overlap, every word is listed with
    its log b (`_everywhere`). Values are clamped to ±50.
    """
    if (region := prior.regions) is None:
        return _everywhere(prior.dense(n))
    tables, V, shift = torch.stack([table.log_b for table in prior.tables]), prior.n_symbols, prior.shift
    reference = tables.gather(0, region[None])[0]  # what it says of words in general, (V,)
    main = torch.bincount(region, minlength=len(tables)).argmax()
    position, word = _differing(shift, region, main)
    exceptions = prior.exceptions
    own = exceptions.position * V + exceptions.word
    key = torch.unique(torch.cat([own, position * V + word]))
    value = shift.new_empty(len(key))
    value[torch.searchsorted(key, position * V + word)] = shift[position, region[word]]
    value[torch.searchsorted(key, own)] = _difference(exceptions.log_b, reference[exceptions.word])
    return _clamped(shift[:, main][:, None].expand(n, -1), key // V, key % V, value)


def _everywhere(prior: DensePrior) -> ContextValues:
    """Return `ContextValues` that list the value log b of every word at every position: exact, with N × V entries.

    The value on words in general, (N, 1), is 0, but no word has it. Values are clamped to ±50.
    """
    (N, V), like = prior.log_b.shape, prior.log_b
    position = torch.arange(N, device=like.device).repeat_interleave(V)
    word = torch.arange(V, device=like.device).repeat(N)
    return _clamped(like.new_zeros(N, 1), position, word, like.reshape(-1))


def _differing(shift: Tensor, region: Tensor, main: Tensor) -> tuple[Tensor, Tensor]:
    """Return (position, word), each (E,): words of each table at the positions where its shift is not the main table's.

    shift       (N, K) what is added to the log b of each of K tables at each position
    region      (V,) the index of the table that each word belongs to
    main        a scalar: the index of the main table
    """
    position, table = torch.nonzero(shift != shift[:, main][:, None], as_tuple=True)
    words, count = torch.argsort(region, stable=True), torch.bincount(region, minlength=shift.shape[1])
    which, place = ranges((count.cumsum(0) - count)[table], count[table])
    return position[which], words[place]


def _difference(log_b: Tensor, reference: Tensor) -> Tensor:
    """Return log_b − reference elementwise, and 0 where both are equal, also where both are minus infinity."""
    return torch.where(log_b == reference, 0.0, log_b - reference)


def _clamped(rest: Tensor, position: Tensor, word: Tensor, value: Tensor) -> ContextValues:
    return ContextValues(rest.clamp(-_LIMIT, _LIMIT), position, word, value.clamp(-_LIMIT, _LIMIT).view(-1, 1))


_SAID = -1  # in the place of how many words match: a value that was said is followed no more
_OTHER = -1  # in the place of words that are of no value

Words = tuple[int, ...]


class ConditionValue(NamedTuple):
    """A value of a slot of the condition (input of a text): `words`, a tuple of ids, and the slot's name, `slot`."""

    words: Words
    slot: str

    def match(self, sentence: Words) -> int:
        """Return the greatest number of first words of the value, but not all, that `sentence` ends with; 0 if none.

        `sentence`: word ids.
        """
        longest = min(len(self.words) - 1, len(sentence))
        return next((k for k in range(longest, 0, -1) if sentence[-k:] == self.words[:k]), 0)


class CopyProgress(NamedTuple):
    """The state of features that copy values of a condition (input of a text): how far each was said in this sentence.

    `values`: a tuple of `ConditionValue`; `words`: a frozenset of the ids of all their words; `matched[i]`: how many
    words of value i the sentence ends with, or −1 once all of value i was said; `sentence`: a tuple of the ids of the
    sentence's words so far, −1 for one or several that are of no value.
    """

    values: tuple[ConditionValue, ...]
    words: frozenset[int]
    matched: tuple[int, ...]
    sentence: Words = ()

    def behind(self, symbol: int) -> CopyProgress:
        """Return the state after the word with id `symbol`, not EOS; itself where the word changes nothing."""
        word = symbol if symbol in self.words else _OTHER
        if word == _OTHER and self.sentence[-1:] in ((), (_OTHER,)):
            return self  # most words have nothing to do with it
        sentence = (*self.sentence, word)
        said = said_values([value.words for value in self.values], sentence)  # not within a longer value that was said
        matched = tuple([_SAID if value.words in said else value.match(sentence) for value in self.values])
        return self._replace(matched=matched, sentence=sentence)


def said_of(state: CopyProgress, known: dict[int, Any], work: Callable[[CopyProgress], Any]) -> Any:
    """Return `work(state)`, from the cache `known` if it is there; else call `work` and add the result.

    `known`: {id(state): result}, changed in place, valid as long as these states live; a result None is not cached.
    `work`: a function of a state.
    """
    if (found := known.get(id(state))) is None:
        found = known[id(state)] = work(state)
    return found


class ConditionFeature(ContextualFeature[CopyProgress]):
    """Base class of features that follow which slot values of the condition the sentence has said so far.

    The condition is the input that the sentence is generated from: a dialogue act or record of slots with values.

    `slots`: the names of the slots whose values count; none means all. Subclasses: `Copied`, `Continued`, `Mentioned`,
    `Unmentioned`. A value with a word outside the vocabulary is ignored.
    """

    def __init__(self, *slots: str) -> None:
        if not all(isinstance(slot, str) for slot in slots) or len(set(slots)) < len(slots):
            raise FeatureError(f"{type(self).__name__}(...) takes the names of slots, each once, found {slots}")
        self.slots = slots  # that it looks at; none means all
        self._columns = {slot: column for column, slot in enumerate(slots)}  # to which of its features a slot belongs

    def revised(self, revision: Revision) -> Self:
        return self.bind(revision.vocabulary)

    @property
    def state_key(self) -> object:
        """A key that is equal for all features of this kind with one vocabulary, whatever their slots.

        Their states are equal; a model computes the states of processes with equal keys once.
        """
        return ConditionFeature, id(self.vocabulary)

    def initial(self, condition: object = None) -> CopyProgress:
        known = self.vocabulary
        values = tuple(
            [
                ConditionValue(tuple([known.id(word) for word in words]), slot)
                for slot, words in values_of(condition)
                if EOS not in words and all(word in known for word in words)
            ]
        )  # nobody can say a value with EOS in it
        return CopyProgress(values, frozenset(chain(*(value.words for value in values))), (0,) * len(values))

    def _own(self, state: CopyProgress) -> list[tuple[Words, int, int]]:
        """Return (word ids, index of its slot in `slots`, number of matched words) for each value of these slots.

        The number of matched words is −1 once the value was said; without `slots`, all values count, with index 0.
        """
        columns, of_all = self._columns, zip(state.values, state.matched, strict=True)
        if not columns:
            return [(value.words, 0, k) for value, k in of_all]
        return [(value.words, columns[value.slot], k) for value, k in of_all if value.slot in columns]

    def progress(self, state: CopyProgress) -> list[list[float]]:
        """Return [unsaid, begun, said], the numbers of the condition's values in each stage, for each slot of `slots`.

        A value is begun if the sentence ends with its first words, but not all. The condition is the input of the text.
        Without `slots`, a list of one such list, for all slots together.
        """
        counts = [[0.0, 0.0, 0.0] for _ in self.slots or ("all",)]
        for _, column, k in self._own(state):
            counts[column][2 if k == _SAID else 1 if k else 0] += 1.0
        return counts

    def advance(self, state: CopyProgress, symbol: int) -> CopyProgress:
        if symbol == self.vocabulary.eos:
            return state._replace(matched=(0,) * len(state.matched), sentence=())
        return state.behind(symbol)

    def saved(self) -> Saved:
        if type(self) not in KINDS.values():  # a class of the user's own that is made of one of these
            return super().saved()
        return Saved(type(self).__name__.lower(), {"slots": list(self.slots)})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.slots))})"


class Pointing(ConditionFeature):
    """Base class of features that are 1 on certain words of the condition's values and 0 elsewhere.

    The condition is the input of the text: slots with values. There is one feature for all slots, or one for each of
    `slots`, named `Class:slot`.
    """

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}:{slot}" for slot in self.slots) or (self.name,)

    @abstractmethod
    def _pointed(self, state: CopyProgress) -> list[tuple[int, int]]:
        """Return the (word id, index into `names`) pairs whose feature value is 1 at a state.

        In any order, possibly repeated. Subclasses implement it.
        """

    def _keys(self, state: CopyProgress) -> list[int]:
        width = len(self.slots) or 1
        return [word * width + column for word, column in self._pointed(state)]

    def values(self, states: Sequence[CopyProgress]) -> ContextValues:
        """Return the `ContextValues` of N states: 0 on words in general, 1 on the pairs of `_pointed` of each."""
        V, width = len(self.vocabulary), len(self.names)
        known: dict[int, list[int]] = {}
        of_states = [said_of(state, known, self._keys) for state in states]
        keys = [n * V * width + key for n, own in enumerate(of_states) for key in own]
        if not keys:
            return ContextValues.none(len(states), width)
        ones = np.array(keys, dtype=np.int64)
        own, row = np.unique(ones // width, return_inverse=True)
        value = np.zeros((len(own), width), dtype=np.float32)
        value[row, ones % width] = 1.0
        parts = (own // V, own % V, value)
        return ContextValues(torch.zeros(len(states), width), *map(torch.from_numpy, parts))


class Copied(Pointing):
    """A feature that is 1 on words with which a value of the condition that was not said yet begins, or continues.

    The condition is the input that the text is generated from, such as inform(name='alamo square';food=thai). A value
    continues with its word k + 1 if the sentence ends with its first k words; the feature is then 1 on its first word,
    too. `slots`: one feature for each of these slots; without, one for all.

        Copied("name", "food")
    """

    def _pointed(self, state: CopyProgress) -> list[tuple[int, int]]:
        own = self._own(state)
        return [(v[i], column) for v, column, k in own if k != _SAID for i in ((0, k) if k else (0,))]


class Continued(Pointing):
    """A feature that is 1 on the next word of a value that the sentence has begun and not finished.

    Values are those of the slots of the condition, the input that the text is generated from. There is one feature for
    the values of all slots.

    Example:

        Continued()
    """

    def __init__(self) -> None:
        super().__init__()

    def _pointed(self, state: CopyProgress) -> list[tuple[int, int]]:
        return [(v[k], column) for v, column, k in self._own(state) if k > 0]


class Mentioned(Pointing):
    """A feature that is 1 on the first word of a value that the sentence has said already, to discourage repetition.

    Values are those of the slots of the condition, the input that the text is generated from. It is 0 on words with
    which an unsaid value of the same slots begins or continues. `slots`: one feature for each of these slots; without,
    one for all.

    Example:

        Mentioned("name", "food")
    """

    def _pointed(self, state: CopyProgress) -> list[tuple[int, int]]:
        if _SAID not in state.matched:
            return []
        own = self._own(state)
        offered = {v[i] for v, _, k in own if k != _SAID for i in (0, k)}
        return [(v[0], column) for v, column, k in own if k == _SAID and v[0] not in offered]


class Unmentioned(ConditionFeature):
    """A feature whose value on EOS is how many values of the condition the sentence has not said; 0 on other words.

    The condition is the input that the text is generated from. It is one feature: `slots` says whose values count;
    without any, all do.

    Example:

        Unmentioned()
    """

    def values(self, states: Sequence[CopyProgress]) -> ContextValues:
        known: dict[int, int] = {}
        counts = [said_of(state, known, self._left) for state in states]
        if not any(counts):
            return ContextValues.none(len(states), 1)
        left = torch.tensor(counts, dtype=torch.float32)
        position = left.nonzero()[:, 0]
        word = torch.full_like(position, self.vocabulary.eos)
        return ContextValues(torch.zeros(len(states), 1), position, word, left[position, None])

    def _left(self, state: CopyProgress) -> int:
        return sum(k != _SAID for _, _, k in self._own(state))


KINDS: dict[str, type[ConditionFeature]] = {
    made.__name__.lower(): made for made in (Copied, Continued, Mentioned, Unmentioned)
}
