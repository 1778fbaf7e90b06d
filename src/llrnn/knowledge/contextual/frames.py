"""Which slot the words before ask for: after "the phone number for NAME is" comes a phone number, not an address.

Values of a condition are read as one symbol, their slot, in the words so far: u = … phone number for NAME is. How often
a value of slot s began behind u, and behind each shorter end of u, was counted in the training text (Witten and Bell):

    p(s | u) = (c(u, s) + d(u) p(s | u without its first symbol)) / (c(u) + d(u))      d(u) how many slots followed u
    Framed(x) = log p(s | u) − log p(s)       x the first word of a value of s that is not said yet; of several slots
                                              the largest; else 0

What was counted in a training sentence itself is no evidence about it: training reads the counts without its fold, as
n-grams do (`backgrounds.CrossFitted`). A word with which a value that was begun goes on has 0: no frame is due there.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

from llrnn.ground.arrays import ByteCache
from llrnn.ground.errors import FeatureError, TrainingError
from llrnn.knowledge.contextual.base import ContextualFeature, Value
from llrnn.knowledge.process import Batch, Saved
from llrnn.text.conditions import said_values, values_of
from llrnn.text.corpus import Corpus, find_values
from llrnn.text.encoded import sentence_key
from llrnn.text.vocabulary import Revision, Vocabulary

Context = tuple[str, ...]  # the last symbols, the last one last
Counts = dict[Context, Counter[str]]
Values = tuple[tuple[tuple[str, ...], str], ...]  # words and slot of each
_WHOLE = -1  # the fold of a text that nothing was counted in


class Read(NamedTuple):
    """A symbol of the text before, as `Framed` reads it: a word, or `<slot>` in place of the words of a slot's value.

    `symbol`: that string; `words`: how many words of the sentence it covers, 1 for a word.
    """

    symbol: str
    words: int


class FrameState(NamedTuple):
    """The state of `Framed`: the condition's values, and the sentence so far, as words and with values read as slots.

    The condition is the input of the sentence. `values`: a tuple of (words, slot) pairs, longest value first, words
    being a tuple of strings; `words`: a tuple of those of the sentence; `read`: a tuple of `Read`, the sentence's last
    symbols, where a value of a slot is one symbol `<slot>`; `fold`: which part of the training text the sentence is in,
    −1 outside training; `said`: a frozenset of the values, as tuples of words, that the sentence has said.
    """

    values: Values
    words: tuple[str, ...]
    read: tuple[Read, ...]
    fold: int = _WHOLE
    said: frozenset[tuple[str, ...]] = frozenset()

    @classmethod
    def of(cls, condition: object, fold: int = _WHOLE) -> FrameState:
        found = {words: slot for slot, words in reversed(values_of(condition))}  # the first slot with a value has it
        return cls(tuple(sorted(found.items(), key=lambda one: -len(one[0]))), (), (), fold)

    def behind(self, word: str, order: int) -> FrameState:
        """Return the state after one more word; the words of a value that ends with it become one symbol `<slot>`.

        `order`: how many symbols before a value will be looked at; older ones are dropped.
        """
        longest = len(self.values[0][0]) if self.values else 1
        words, read, said = (*self.words, word), (*self.read, Read(word, 1)), self.said
        ended = [(value, slot) for value, slot in self.values if words[-len(value) :] == value]
        for value, slot in ended[:1]:
            read = (*_without(read, len(value)), Read(f"<{slot}>", len(value)))
            said = frozenset(said_values([value for value, _ in self.values], words))
        return self._replace(words=words, read=read[-order - longest :], said=said)

    def context(self, order: int) -> Context:
        return ("<s>", *(one.symbol for one in self.read))[-order:]

    def going_on(self) -> set[str]:
        """Return the next words of all values of the condition (input) whose first words the sentence ends with.

        Where several beginnings of a value fit, the words after each; values that were said in full have no next word.
        """
        return {
            value[k]
            for value, _ in self.values
            for k in range(1, min(len(value), len(self.words) + 1))
            if self.words[-k:] == value[:k]
        }


def _without(read: tuple[Read, ...], words: int) -> tuple[Read, ...]:
    """Return the symbols `read` without as many at the end as are needed to cover the last `words` words.

    `read`: a tuple of `Read`, each of which covers one word or more.
    """
    while words > 0 and read:
        words -= read[-1].words
        read = read[:-1]
    return read


class Framed(ContextualFeature[FrameState]):
    """A feature that says which slot's value comes next: log p(s | the words before) − log p(s) for each slot s.

    Slots and values are those of the condition, the input that a sentence is generated from. The feature has this value
    on the first word of each value of s that the sentence has not said yet and that does not continue a value begun,
    and is 0 on all other words; where two slots' values begin with one word, the larger counts.

        Framed.counted(corpus, order=6, folds=10)          corpus: sentences with conditions

    counts  {the last symbols before a value: {slot: how often}}, also for all shorter ends of them; `counted` makes it
    order   how many symbols before a value count, at most; a value among them is one
    folds   a list of such counts, of each part (fold) of the training text: in training, those of a sentence's own part
            are subtracted. []: no such parts; None: they are lost, and training is refused
    """

    def __init__(self, counts: Counts, *, order: int = 6, folds: Sequence[Counts] | None = None) -> None:
        if order < 1:
            raise FeatureError(f"Framed(order=...) must be 1 or more, found {order}")
        self._counts, self._order, self._folds = counts, order, folds
        self._known: ByteCache[tuple[Context, int], dict[str, float]] = ByteCache(64 * 2**20, _bytes_of_answer)
        self._first_words: ByteCache[Values, list[int | None]] = ByteCache(16 * 2**20, _bytes_of_values)

    def bind(self, vocabulary: Vocabulary) -> Self:
        bound = super().bind(vocabulary)
        bound._first_words = ByteCache(16 * 2**20, _bytes_of_values)
        return bound

    @classmethod
    def counted(cls, corpus: Corpus, *, order: int = 6, folds: int = 10) -> Framed:
        """Return the feature with counts of what stands before values, from sentences with conditions.

        A condition is the input that a sentence is generated from: slots with values. `order`: the longest context, in
        symbols; `folds`: in how many parts the text is cut, so that in training a sentence does not use counts of its
        own part, 0 or at least 2. Raises a FeatureError if no sentence says a value of its condition.
        """
        if folds < 0 or folds == 1:
            raise FeatureError(f"Framed.counted(folds=...) must be 0, or 2 or more, found {folds}")
        counts: Counts = defaultdict(Counter)
        parts: list[Counts] = [defaultdict(Counter) for _ in range(folds)]
        for sentence in corpus:
            seen = list(_beginnings(sentence.condition, sentence.words, order))
            for own in (counts, *([parts[sentence_key(sentence.words) % folds]] if folds else [])):
                for context, slot in seen:
                    for length in range(len(context) + 1):
                        own[context[len(context) - length :]][slot] += 1
        if not counts:
            raise FeatureError("values of conditions are required in the training text, found none; give such a text")
        return cls(dict(counts), order=order, folds=[dict(part) for part in parts])

    reads_conditions = True

    @property
    def state_key(self) -> object:
        """A key that is equal for features of one vocabulary, `order` and number of folds, whose states are equal.

        States do not depend on the counts; a model computes those of equal keys once.
        """
        return Framed, self._order, None if self._folds is None else len(self._folds), id(self.vocabulary)

    def initial(self, condition: object = None) -> FrameState:
        return FrameState.of(condition)

    def advance(self, state: FrameState, symbol: int) -> FrameState:
        if symbol == self.vocabulary.eos:
            return state._replace(words=(), read=(), said=frozenset())
        return state.behind(self.vocabulary.symbols[symbol], self._order)

    def follow(self, states: Sequence[FrameState], batch: Batch) -> tuple[Sequence[FrameState], Sequence[FrameState]]:
        """Return the states after each input that is not padding, row by row, and those after each row's last column.

        In training (`batch.sentences` is given), each sentence gets the number of its fold, the part of the training
        text whose counts are not used for it. Raises a TrainingError if the feature comes from a model folder, which
        does not store the folds.
        """
        if batch.sentences is None or self._folds == []:
            return super().follow(states, batch)
        if self._folds is None:
            raise TrainingError(
                f"{self!r} was counted in the text of an earlier training, and its folds are not kept in the model "
                "folder; give it again: llrnn.load(folder, contextual=[...])"
            )
        folds = (batch.sentences[:, 0] % len(self._folds)).tolist()
        return super().follow([s._replace(fold=fold) for s, fold in zip(states, folds, strict=True)], batch)

    def value(self, state: FrameState) -> tuple[Value, Mapping[int, Value]]:
        opinion = self.opinion(state)
        found: dict[int, float] = {}
        going_on = state.going_on() if len(state.words) else set()
        firsts = self._first_words.get(state.values, lambda: self._listed(state.values))
        for (words, slot), word in zip(state.values, firsts, strict=True):
            if word is not None and slot in opinion and words not in state.said and words[0] not in going_on:
                found[word] = max(found.get(word, -math.inf), opinion[slot])
        return 0.0, found

    def _listed(self, values: Values) -> list[int | None]:
        """Return the id of the first word of each value, None where the vocabulary does not list all of its words.

        `values`: (words, slot) pairs of the condition (input of a sentence).
        """
        known = self.vocabulary
        return [known.id(words[0]) if all(word in known for word in words) else None for words, _ in values]

    @property
    def slots(self) -> tuple[str, ...]:
        """The names of the slots that the training text has values of, sorted."""
        return tuple(sorted(self._counts[()]))

    def opinion(self, state: FrameState) -> dict[str, float]:
        """Return {slot s: log p(s | the words before) − log p(s)} at a state, for all `slots`; cached.

        p(s) is the probability that the next value of the condition (input) that is said is one of slot s; "the words
        before" are the last `order` symbols of the sentence, in which a value is one symbol. Natural logarithms.
        """
        context = state.context(self._order)
        return self._known.get((context, state.fold), lambda: self._made(context, state.fold))

    def _made(self, context: Context, fold: int) -> dict[str, float]:
        """Return {slot s: log p(s | context) − log p(s)}, interpolated (Witten and Bell) with shorter contexts.

        p(s) is smoothed by adding one to each count. `context`: the symbols before a value, a tuple of strings; `fold`:
        the index of the part of the training text whose counts are not used, −1: all are.
        """
        slots, whole = self._counts[()], self._followed((), fold)
        share = {slot: (whole[slot] + 1) / (whole.total() + len(slots)) for slot in slots}
        found = dict(share)
        for length in range(1, len(context) + 1):
            seen = self._followed(context[len(context) - length :], fold)
            if not seen:
                break
            total = seen.total() + len(seen)
            found = {slot: (seen[slot] + len(seen) * below) / total for slot, below in found.items()}
        return {slot: math.log(found[slot] / share[slot]) for slot in slots}

    def _followed(self, context: Context, fold: int) -> Counter[str]:
        """Return {slot: how often a value of it followed a context} in the training text without one fold.

        `context`: symbols; `fold`: the index of the fold (part of the text) whose counts are not used, −1: all are.
        """
        seen = self._counts.get(context, Counter())
        if fold == _WHOLE or not self._folds:
            return seen
        return seen - self._folds[fold].get(context, Counter())

    def revised(self, revision: Revision) -> Self:
        return self.bind(revision.vocabulary)

    def saved(self) -> Saved:
        counts = [[list(context), dict(slots)] for context, slots in self._counts.items()]
        return Saved("framed", {"order": self._order, "counts": counts})

    @classmethod
    def restored(cls, fields: Mapping[str, Any]) -> Framed:
        """Make the feature from the `fields` of what `saved` returned; training with it raises a TrainingError.

        The folds, counts of the parts of the training text, are not saved.
        """
        counts = {tuple(context): Counter(slots) for context, slots in fields["counts"]}
        return cls(counts, order=fields["order"])

    def __repr__(self) -> str:
        return f"Framed({len(self._counts)} contexts, order={self._order})"


def _beginnings(condition: object, words: Iterable[str], order: int) -> Iterator[tuple[Context, str]]:
    """Yield (context, slot) for each value of the condition that a sentence says.

    The condition is the input of the sentence: slots with values. The context is a tuple of the last `order` symbols
    before the value: words, `<slot>` for a value, and `<s>` for the beginning of the sentence. Of values that overlap,
    the longest counts.
    """
    text, state, states = tuple(words), FrameState.of(condition), list[FrameState]()
    for word in text:
        states.append(state)
        state = state.behind(word, order)
    slots = dict(state.values)
    for begin, value in find_values(text, slots).items():
        yield states[begin].context(order), slots[value]


def _bytes_of_answer(key: tuple[Context, int], opinion: dict[str, float]) -> int:
    return 300 + 60 * len(key[0]) + 100 * len(opinion)


def _bytes_of_values(values: Values, firsts: list[int | None]) -> int:
    return 200 + sum(200 + 100 * len(words) for words, _ in values)
