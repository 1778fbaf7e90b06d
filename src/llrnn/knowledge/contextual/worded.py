"""Facts that have no words of their own: kids=no, food=none, area=dont_care, a slot that is asked for.

Which words say them is learnt by aligning conditions with their texts (IBM model 1, EM). Each word of a text comes from
one of the sources of its condition: none, the kind of the act, `slot=` of each value that texts say as it is (as one
word, SLOT_NAME), and of each fact f without words three: slot=no, slot=*, *=no, so that rare facts share with others.

    t(w | s)    p(word w | source s), maximises Π_texts Π_w Σ_s t(w | s) over the sources s of each condition
    own(w)      the share of all w in the training texts that comes from slot=... or slot=*
    told(f)     Σ_w own(w) log (0.001 + Σ_s t(w | s)) / (0.001 + Σ_s t(w | s) without s = slot=no and slot=*): how much
                better the condition explains the words so far with f than without; divided by its mean in training

f is told from 0.2 on, and told in full from 0.5 on. With T(x | S) = max(0.001, max_{s in S} t(x | s)):

    Worded:due(x)      [log T(x | facts not told in full) − log T(x | the condition's other sources)]₊
    Worded:foreign(x)  [log T(x | sources of facts that the condition does not have) − log T(x | the condition's)]₊
    Worded:untold(x)   on the end of the sentence, how many facts are not told

All are 0 on other words. "does not allow" is due for kids=no until it was said, and foreign where nobody asked.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from llrnn.ground.arrays import ByteCache
from llrnn.knowledge.contextual.base import ContextualFeature
from llrnn.knowledge.process import Saved
from llrnn.layer.priors import ContextValues
from llrnn.text.conditions import ACT, Act, Fact, facts_of, is_literal, values_of, with_fact, worded_values
from llrnn.text.corpus import Corpus, delexicalise
from llrnn.text.vocabulary import Revision, Vocabulary

Source = tuple[str, str]  # slot and value, "=" for one that is said as it is, "*" for any
Shares = dict[Source, dict[str, float]]  # t(word | source)
Own = dict[str, dict[str, float]]  # slot, word
Kinds = Mapping[str, Collection[str]]  # slots that acts of a kind ever have
_Listed = tuple[NDArray[np.int64], NDArray[np.float32]]
NOBODY: Source = ("", "")
ITERATIONS = 8
ENOUGH, FULL = 0.2, 0.5  # of what texts say of a fact on average: it is told, and told in full
MOST_RIVALS = 32  # conditions that a text is compared under
LEAST = 0.001  # what a source says less often than that, it does not say
ONCE = 1.0  # expected occurrences: fewer are no evidence


class Telling(NamedTuple):
    """What a condition has to tell, and how much of it was told.

    `facts`: its facts without words of their own, each as a tuple of its sources; `others`: its other sources; `told`:
    for each fact, how much better it explains the words so far, in nats.
    """

    facts: tuple[tuple[Source, ...], ...]
    others: tuple[Source, ...]
    told: tuple[float, ...]


class Worded(ContextualFeature[Telling]):
    """Three features of facts that have no words of their own, such as kids=no: what they demand, and what none does.

    `Worded:due` is positive on words that say a fact of the condition (input of the text) that is not told yet,
    `Worded:foreign` on words that say one that it does not have, and `Worded:untold` is, on EOS, how many are not told.

        Worded.aligned(corpus)              corpus: sentences with conditions

    shares  {(slot, value): {word: p(word | it)}}, what says a fact; `aligned` finds it
    own     {slot: {word: share of the word's occurrences that says facts of the slot}}
    means   {(slot, value): how much of the fact texts tell on average, in nats}
    worded  facts whose values could be said, but are not
    kinds   {kind of acts: slots that they ever have}
    """

    def __init__(
        self, shares: Shares, own: Own, means: Mapping[Fact, float], worded: Collection[Fact], kinds: Kinds
    ) -> None:
        self._shares, self._own, self._means, self._worded = shares, own, dict(means), frozenset(worded)
        self._kinds = {kind: frozenset(slots) for kind, slots in kinds.items()}
        every = {source for fact in self._means for source in _sources(fact)}
        self._of_facts = sorted(every & shares.keys())
        self._by_word: dict[str, dict[Source, float]] = {}
        for source, words in shares.items():
            for word, share in words.items():
                self._by_word.setdefault(word, {})[source] = share
        self._caches()

    @classmethod
    def aligned(cls, corpus: Corpus) -> Self:
        """Return the features with wordings learnt from sentences and their conditions (what they are written from)."""
        worded = worded_values((sentence.condition, sentence.words) for sentence in corpus)
        of_values = {slot for one in corpus for slot, _ in values_of(one.condition)} - {slot for slot, _ in worded}
        texts = delexicalise(corpus, of_values)
        pairs = [(_begun(sentence.condition, worded), sentence.words) for sentence in texts]
        found = cls(*_aligned(pairs), {}, worded, {})
        told, count = defaultdict[Fact, float](float), Counter[Fact]()
        for telling, words in pairs:
            for word in words:
                telling = found._behind(telling, word)
            for (fact, *_), share in zip(telling.facts, telling.told, strict=True):
                told[fact] += share
                count[fact] += 1
        kinds = defaultdict[str, set[str]](set)
        for act in (one.condition for one in corpus if isinstance(one.condition, Act)):
            kinds[act.name].update(slot.name for slot in act.slots)
        return cls(found._shares, found._own, {fact: told[fact] / n for fact, n in count.items()}, worded, kinds)

    reads_conditions = True

    def bind(self, vocabulary: Vocabulary) -> Self:
        bound = super().bind(vocabulary)
        bound._caches()
        return bound

    def _caches(self) -> None:
        self._known: ByteCache[object, _Listed] = ByteCache(64 * 2**20, lambda key, found: 2000 + 20 * len(found[0]))

    @property
    def names(self) -> tuple[str, ...]:
        return "Worded:due", "Worded:foreign", "Worded:untold"

    @property
    def state_key(self) -> object:
        return Worded, id(self._shares), id(self.vocabulary)

    def initial(self, condition: object = None) -> Telling:
        return _begun(condition, self._worded)

    def advance(self, state: Telling, symbol: int) -> Telling:
        if symbol == self.vocabulary.eos:
            return state._replace(told=(0.0,) * len(state.facts))
        return self._behind(state, self.vocabulary.symbols[symbol])

    def _behind(self, state: Telling, word: str) -> Telling:
        share = self._by_word.get(word, {})
        own = [share.get(fact, 0.0) + share.get(any_value, 0.0) for fact, any_value, _ in state.facts]
        if not any(own):
            return state
        every = {*state.others}.union(*state.facts)
        total = LEAST + math.fsum(share.get(source, 0.0) for source in every)  # the same in whatever order
        weights = (self._own.get(fact[0], {}).get(word, 0.0) for fact, *_ in state.facts)
        more = (weight * math.log(total / (total - one)) for weight, one in zip(weights, own, strict=True))
        return state._replace(told=tuple(map(sum, zip(state.told, more, strict=True))))

    def rivals(self, condition: object) -> list[list[object]]:
        """Return for each fact of an act or a record without words of its own what a text could mean instead of it.

        Those are conditions with another value of its slot or without the slot, and other kinds of acts that ever have
        its slots; at most `MOST_RIVALS` in all, for the first of the facts.

            Worded.aligned(corpus).rivals(parse_act("inform(kids=no)"))[0]      # [inform(kids=yes), inform()]
        """
        groups = list[list[object]]()
        if isinstance(condition, Act):
            slots = {slot.name for slot in condition.slots}
            kinds = [kind for kind, theirs in self._kinds.items() if kind != condition.name and slots <= theirs]
            groups.append([replace(condition, name=kind) for kind in kinds])
        for fact, *_ in self.initial(condition).facts:
            others = [one for one in self._means if one[0] == fact[0] and one != fact]
            groups.append([with_fact(condition, fact, other) for other in (*others, None)])
        total = list(accumulate(map(len, groups)))
        return [group for group, n in zip(groups, total, strict=True) if group and n <= MOST_RIVALS]

    def _below(self, state: Telling, share: float) -> tuple[int, ...]:
        """Return the indices of the facts of which less than this share of what texts say on average was told."""
        means = [self._means.get(own[0], 0.0) for own in state.facts]
        return tuple([i for i, (told, mean) in enumerate(zip(state.told, means, strict=True)) if told < share * mean])

    def remarks(self, state: Telling, words: Sequence[str]) -> Mapping[str, str]:
        told = {"Worded:due": self._below(state, FULL), "Worded:untold": self._below(state, ENOUGH)}
        facts = {name: ["=".join(state.facts[i][0]) for i in left] for name, left in told.items()}
        return {name: f"{', '.join(left)} still to be told" for name, left in facts.items() if left}

    def values(self, states: Sequence[Telling]) -> ContextValues:
        if not states:
            return ContextValues.none(0, 3)
        found = [self._listed(state) for state in states]
        position = np.repeat(np.arange(len(states)), [len(words) for words, _ in found])
        words, values = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return ContextValues(torch.zeros(len(states), 3), *map(torch.from_numpy, (position, words, values)))

    def _listed(self, state: Telling) -> _Listed:
        going_on, left = self._below(state, FULL), len(self._below(state, ENOUGH))
        return self._known.get((state.facts, state.others, going_on, left), lambda: self._list(state, going_on, left))

    def _list(self, state: Telling, going_on: Iterable[int], left: int) -> _Listed:
        """Return (word ids in order, values of the three features on them) where one is not 0, (E,) and (E, 3).

        `going_on`: indices of the facts that are not told in full; `left`: how many are not told.
        """
        due = {source for i in going_on for source in state.facts[i]}
        own = {*state.others}.union(*state.facts)
        surplus, foreign = self._surplus(due, own - due), self._surplus({*self._of_facts} - own, own)
        known = [word for word in surplus.keys() | foreign.keys() if word in self.vocabulary]
        found = {self.vocabulary.id(word): (surplus.get(word, 0.0), foreign.get(word, 0.0), 0.0) for word in known}
        if left:
            found[self.vocabulary.eos] = (0.0, 0.0, float(left))
        words = sorted(found)
        values = np.array([found[word] for word in words], dtype=np.float32).reshape(-1, 3)
        return np.array(words, dtype=np.int64), values

    def _surplus(self, these: Collection[Source], others: Collection[Source]) -> dict[str, float]:
        """Return {word: log T(word | these) − log T(word | others)} where it is above 0."""
        said: dict[str, float] = {}
        for source in these:
            for word, share in self._shares.get(source, {}).items():
                said[word] = max(share, said.get(word, LEAST))
        against = {word: max(LEAST, *(self._by_word[word].get(source, 0.0) for source in others)) for word in said}
        return {word: math.log(share / against[word]) for word, share in said.items() if share > against[word]}

    def revised(self, revision: Revision) -> Self:
        return self.bind(revision.vocabulary)

    def saved(self) -> Saved:
        shares = [[*source, dict(words)] for source, words in self._shares.items()]
        means = [[*fact, mean] for fact, mean in self._means.items()]
        worded = sorted(map(list, self._worded))
        kinds = {kind: sorted(slots) for kind, slots in self._kinds.items()}
        return Saved("worded", {"shares": shares, "own": self._own, "means": means, "worded": worded, "kinds": kinds})

    @classmethod
    def restored(cls, fields: Mapping[str, Any]) -> Worded:
        """Make the features from the `fields` of what `saved` returned."""
        shares = {(slot, value): dict(words) for slot, value, words in fields["shares"]}
        means = {(slot, value): mean for slot, value, mean in fields["means"]}
        worded = [(slot, value) for slot, value in fields["worded"]]
        return cls(shares, fields["own"], means, worded, fields["kinds"])

    def __repr__(self) -> str:
        return f"Worded({len(self._means)} facts)"


def _sources(fact: Fact) -> tuple[Source, ...]:
    slot, value = fact
    return fact, (slot, "*"), ("*", value)


def _begun(condition: object, worded: Collection[Fact]) -> Telling:
    """Return the state before the first word of a text from a condition; `worded`: values that are not said as such."""
    facts, others = list[tuple[Source, ...]](), [NOBODY]
    for fact in dict.fromkeys(facts_of(condition)):
        if fact[0] == ACT:
            others.append(fact)
        elif is_literal(fact, worded):
            others.append((fact[0], "="))
        else:
            facts.append(_sources(fact))
    return Telling(tuple(facts), tuple(dict.fromkeys(others)), (0.0,) * len(facts))


def _aligned(pairs: Iterable[tuple[Telling, Sequence[str]]]) -> tuple[Shares, Own]:
    """Return t(word | source) after `ITERATIONS` of EM, and {slot: {word: own(word)}}.

    Words that a source is expected to say less than once are not among them. `pairs`: the sources of each text, and its
    words.
    """
    numbers: dict[tuple[Source, str], int] = {}
    entries = list[int]()  # one for each source that each word may come from: the number of (source, word)
    sizes = list[int]()
    for telling, words in pairs:
        own = sorted({*telling.others}.union(*telling.facts))
        sizes += [len(own)] * len(words)
        entries += [numbers.setdefault((source, word), len(numbers)) for word in words for source in own]
    if not numbers:
        return {}, {}
    known = {source: n for n, source in enumerate(dict.fromkeys(source for source, _ in numbers))}
    source = np.array([known[source] for source, _ in numbers])
    entry, token = np.array(entries), np.repeat(np.arange(len(sizes)), sizes)
    t = np.ones(len(numbers))
    for _ in range(ITERATIONS):
        p = t[entry]
        count = np.bincount(entry, p / np.bincount(token, p)[token], len(numbers))
        t = count / np.bincount(source, count)[source]
    often, shares, of_slots = defaultdict[str, float](float), Shares(), Own()
    for (_, word), n in zip(numbers, count.tolist(), strict=True):
        often[word] += n
    for ((slot, value), word), n, share in zip(numbers, count.tolist(), t.tolist(), strict=True):
        if n >= ONCE:
            shares.setdefault((slot, value), {})[word] = share
        if n >= ONCE and value != "=":
            of_slot = of_slots.setdefault(slot, {})
            of_slot[word] = of_slot.get(word, 0.0) + n / often[word]
    return shares, of_slots
