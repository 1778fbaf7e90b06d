"""Contextual inputs: what follows the prefix, as an input of the network (the paper's ψ(C, x₁…x_t), equation 11).

    ψ_t = Σ_{f fires on x_t} E_f  +  Σ_k v_k(state_t) U_k            U learned, a row for each named number; 0 at first

A `ContextualInput` is a process like any other (`knowledge.process`): a state that begins with the condition and
follows the symbols, x_t included. What it says of a state is not a weight of words, but a vector of numbers with names.

    GrammarState(grammar)              what may follow, what is under way, how many symbols are due at least
    SlotProgress("name", "area")       how many values of the condition are unsaid, begun, said
    Announced(framed)                  which slot the words before announce
    PointedWords(feature, chi)         Σ_x (φ(K, x) − φ(K, rest)) χ(x)      the words that a feature points at
    ConditionNumbers.fitted(conditions)    the numbers of a condition (equation 17), the same at every step
    Opinion(background, chi)           Σ_x b(K, x) χ(x) / Σ_x b(K, x)       what an expert expects next, by features
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from llrnn.ground.arrays import ByteCache
from llrnn.ground.errors import FeatureError
from llrnn.knowledge.backgrounds.base import Background
from llrnn.knowledge.backgrounds.constraint import At, Constraint, Grammar
from llrnn.knowledge.contextual.base import (
    ContextualFeature,
    CopyProgress,
    Following,
    NamedProcess,
    Unsaid,
    Value,
    said_of,
)
from llrnn.knowledge.contextual.frames import Framed, FrameState
from llrnn.knowledge.features import FeatureMatrix, Features, compile_features
from llrnn.knowledge.process import Process, S, Saved
from llrnn.languages.grammars.automaton import Language, Node
from llrnn.languages.ngrams.table import ranges
from llrnn.text.conditions import NumericFields
from llrnn.text.vocabulary import Revision, Vocabulary

_MOST = 20_000  # numbers of one input: each has a row of U, and a place at every position
_CACHED = 64 * 2**20  # bytes: of what a grammar says of its nodes


class ContextualInput(NamedProcess[S]):
    """Numbers that the network reads beside the word: `initial`, `advance`, and the numbers at a state.

        class Depth(ContextualInput[int]):
            def initial(self, condition=None): return 0
            def advance(self, state, symbol): return state + (self.vocabulary.symbol(symbol) == "(")
            def number(self, state): return state / 10

    `names`: one for each number, where there are several.
    """

    def number(self, state: S) -> Value:
        """The number at a state, or one for each name."""
        found = self.numbers([state])[0].tolist()
        return found if len(self.names) > 1 else float(found[0])

    def numbers(self, states: Sequence[S]) -> Tensor:
        """The numbers for a batch of states, (N, k). A subclass has this method, or `number`."""
        if type(self).number is ContextualInput.number:
            raise TypeError(f"{type(self).__name__} needs a method `number`, or `numbers` for a batch of states")
        width = len(self.names)
        answers = [self.number(state) for state in states]
        for n, answer in enumerate(answers):
            found = len(answer) if isinstance(answer, Sequence) else 1
            if found != width:
                raise FeatureError(f"{self!r} must say {width} numbers, one for each name, found {found} at state {n}")
        return self._numbers(answers, width, lambda n: f"state {n}").float()


class GrammarState(Following[At], ContextualInput[At]):
    """Where a prefix stands in a language: the state of a grammar or of an automaton.

        GrammarState(Grammar.from_file("forms.lark"))

    next SYMBOL     1 where it may follow; symbols that the language does not tell apart share one number (named by one)
    next end        1 where the string may end
    outside         1 once the prefix has left the language; then all others are 0
    due             log(1 + how many letters there must be until a string can end)
    at RULE/i.j     1 where the j-th symbol of the i-th alternative of a rule is due; of automata, `state q`
    within RULE/i.j     the same of the rules around these

    constraint  a `Grammar`, an `Automaton`, or another constraint; the model may be held to it by its background or not
    buckets     so many numbers for all places (at, within, state), which share them by turns; by default each its own
    """

    def __init__(self, constraint: Background, *, buckets: int | None = None) -> None:
        if not isinstance(constraint, Constraint):
            raise FeatureError(f"GrammarState(...) needs a Grammar, an Automaton or another Constraint: {constraint!r}")
        if buckets is not None and buckets < 1:
            raise FeatureError(f"GrammarState(buckets=...) must be 1 or more, found {buckets}")
        self.constraint, self._buckets = constraint, buckets
        self._names: tuple[str, ...] = ()
        self._rows: ByteCache[Node, Tensor] = ByteCache(_CACHED, _bytes_of_row)

    def bind(self, vocabulary: Vocabulary) -> Self:
        bound = super().bind(vocabulary)
        bound.constraint = self.constraint.bind(vocabulary)
        bound._rows = ByteCache(_CACHED, _bytes_of_row)
        language = bound.constraint.initial(None).reader.language
        letters = [language.columns.example(column) for column in range(language.columns.count)]
        places = list(language.places())
        if self._buckets is not None:
            places = [f"place {n}" for n in range(self._buckets)]
        bound._names = (*(f"next {letter}" for letter in letters), "next end", "outside", "due", *places)
        if len(bound._names) > _MOST:
            raise FeatureError(
                f"{self!r} would be {len(bound._names):,} numbers at every position, at most {_MOST:,} are possible; "
                "give GrammarState(..., buckets=1000), so that places share numbers"
            )
        return bound

    @property
    def names(self) -> tuple[str, ...]:
        if not self._names:
            raise self._unbound()
        return self._names

    @property
    def followed(self) -> Constraint:
        return self.constraint

    @property
    def reads_conditions(self) -> bool:
        return self.constraint.reads_conditions and not isinstance(self.constraint, Grammar)  # which has no say in it

    def numbers(self, states: Sequence[At]) -> Tensor:
        """A row for each node, made once; those of a language that a condition made are not kept."""
        own = self.constraint.initial(None).reader.language
        rows = [self._row(own, state.reader.language, state.node) for state in states]
        return torch.stack(rows) if rows else torch.zeros(0, len(self.names))

    def _row(self, own: Language, language: Language, node: Node | None) -> Tensor:
        made = partial(self._made, language, node)
        return self._rows.get(node, made) if language is own else made()

    def _made(self, language: Language, node: Node | None) -> Tensor:
        row, n_letters = torch.zeros(len(self.names)), language.columns.count
        if node is None:
            row[n_letters + 1] = 1.0
            return row
        row[:n_letters] = torch.from_numpy(language.weights(node) > 0).float()
        row[n_letters] = float(language.end(node) > 0)
        row[n_letters + 2] = math.log1p(language.shortest(node))
        n_places = len(row) - n_letters - 3
        places = torch.tensor(list(language.places_at(node)), dtype=torch.long)
        row[n_letters + 3 + places % max(1, n_places)] = 1.0
        return row

    def revised(self, revision: Revision) -> Self:
        return self._changed(revision.vocabulary)

    def saved(self) -> Saved:
        return Saved("grammar_state", {"buckets": self._buckets}, parts=(self.constraint.saved(),))

    def __repr__(self) -> str:
        return f"GrammarState({self.constraint!r})"


def _bytes_of_row(key: object, row: Tensor) -> int:
    return 500 + 4 * row.numel()


class SlotProgress(Following[CopyProgress], ContextualInput[CopyProgress]):
    """What was said of the condition: for each slot, how many of its values are unsaid, begun and said.

        SlotProgress("name", "area", "food")            three numbers for each; without names, of all slots together

    Values are followed as `Copied` follows them, and with it: their states are computed once.
    """

    def __init__(self, *slots: str) -> None:
        self._follows, self._slots = Unsaid(*slots), slots

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{slot} {how}" for slot in self._slots or ("values",) for how in ("unsaid", "begun", "said"))

    def bind(self, vocabulary: Vocabulary) -> Self:
        bound = super().bind(vocabulary)
        bound._follows = self._follows.bind(vocabulary)
        return bound

    @property
    def followed(self) -> Unsaid:
        return self._follows

    def numbers(self, states: Sequence[CopyProgress]) -> Tensor:
        known: dict[int, Any] = {}
        rows = [said_of(state, known, self._follows.progress) for state in states]
        return torch.from_numpy(np.array(rows, dtype=np.float32).reshape(len(states), len(self.names)))

    def revised(self, revision: Revision) -> Self:
        return self.bind(revision.vocabulary)

    def saved(self) -> Saved:
        return Saved("slot_progress", {"slots": list(self._slots)})

    def __repr__(self) -> str:
        return f"SlotProgress({', '.join(map(repr, self._slots))})"


class Announced(Following[FrameState], ContextualInput[FrameState]):
    """log p(s | the words before) − log p(s) of each slot s, for the network to read: which one a frame announces.

    Announced(Framed.counted(corpus))
    """

    def __init__(self, framed: Framed) -> None:
        self._framed = framed

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{slot} announced" for slot in self._framed.slots)

    def bind(self, vocabulary: Vocabulary) -> Self:
        bound = super().bind(vocabulary)
        bound._framed = self._framed.bind(vocabulary)
        return bound

    @property
    def followed(self) -> Framed:
        return self._framed

    def numbers(self, states: Sequence[FrameState]) -> Tensor:
        slots, opinions = self._framed.slots, map(self._framed.opinion, states)
        return torch.tensor([[opinion[slot] for slot in slots] for opinion in opinions]).view(len(states), len(slots))

    def revised(self, revision: Revision) -> Self:
        return self.bind(revision.vocabulary)

    def saved(self) -> Saved:
        return Saved("announced", parts=(self._framed.saved(),))

    def __repr__(self) -> str:
        return f"Announced({self._framed!r})"


class ConditionNumbers(ContextualInput[tuple[float, ...]]):
    """A condition of numbers, joined to the input at every step: a record such as {"price": 37, "stars": 4}, a vector.

        ConditionNumbers.fitted(corpus.conditions)          normalised by the mean and the deviation of training

    As the first state of the network instead: `llrnn.model.controllers.FirstState`.
    """

    needs_condition = True

    def __init__(self, fields: NumericFields) -> None:
        self._fields = fields

    @classmethod
    def fitted(cls, conditions: Iterable[object], names: Collection[str] = ()) -> ConditionNumbers:
        """With the means and deviations of these conditions; with `names`, of these fields alone."""
        return cls(NumericFields.fitted(conditions, names))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"C {name}" for name in self._fields.columns)

    def initial(self, condition: object = None) -> tuple[float, ...]:
        return tuple(self._fields.vector(condition))

    def numbers(self, states: Sequence[tuple[float, ...]]) -> Tensor:
        return torch.tensor(states, dtype=torch.float32).view(len(states), len(self._fields.columns))

    def revised(self, revision: Revision) -> Self:
        return self.bind(revision.vocabulary)

    def saved(self) -> Saved:
        return Saved("condition_numbers", self._fields.settings())

    def __repr__(self) -> str:
        return f"ConditionNumbers({', '.join(self._fields.names)})"


class Weighed(ContextualInput[S]):
    """The common half of what weighs words: Σ_x w(K, x) χ(x), with static features χ of words."""

    def __init__(self, features: Features | FeatureMatrix, name: str) -> None:
        if not isinstance(features, Features | FeatureMatrix):
            raise FeatureError(f"{type(self).__name__}(...) needs features of words, found {features!r}")
        self._chi, self._name = features, name

    def bind(self, vocabulary: Vocabulary) -> Self:
        bound = super().bind(vocabulary)
        chi = self._chi if isinstance(self._chi, FeatureMatrix) else compile_features(self._chi, vocabulary)
        if chi.n_symbols != len(vocabulary):
            raise FeatureError(f"{self!r} has features of {chi.n_symbols} symbols, the vocabulary {len(vocabulary)}")
        bound._chi = chi
        return bound

    @property
    def chi(self) -> FeatureMatrix:
        if not isinstance(self._chi, FeatureMatrix):
            raise self._unbound()
        return self._chi

    def _summed(self, n: int, position: Tensor, word: Tensor, weight: Tensor) -> Tensor:
        """Σ weight χ(word) at each position, for weights (E, w): (N, w · features of χ)."""
        chi, width = self.chi, weight.shape[1]
        class_of, offsets, columns, values = (
            torch.from_numpy(part).to(weight.device) for part in (chi.class_of, chi.offsets, chi.columns, chi.values)
        )
        own = class_of[word]
        which, place = ranges(offsets[own], offsets[own + 1] - offsets[own])
        found = weight.new_zeros(n, chi.n_features, width)
        found.index_put_((position[which], columns[place]), weight[which] * values[place, None].to(weight), True)
        return found.transpose(1, 2).reshape(n, -1).float()

    def _revised_chi(self, revision: Revision) -> FeatureMatrix:
        """New words have none of the features."""
        chi, kept = self.chi, revision.kept
        class_of = np.where(kept >= 0, chi.class_of[kept], chi.n_classes)
        return replace(chi, class_of=class_of, offsets=np.append(chi.offsets, chi.offsets[-1]))

    def _saved(self, kind: str, part: Saved) -> Saved:
        chi = self.chi
        tensors = {name: torch.from_numpy(getattr(chi, name)) for name in _ARRAYS}
        fields: dict[str, Any] = {"name": self.name, "names": list(chi.names), "groups": list(chi.groups)}
        return Saved(kind, fields, tensors, (part,))


_ARRAYS = ("class_of", "offsets", "columns", "values")


def saved_chi(saved: Saved) -> FeatureMatrix:
    """The features of words of an input in a model folder."""
    arrays = {name: saved.tensors[name].numpy() for name in _ARRAYS}
    return FeatureMatrix(tuple(saved.fields["names"]), tuple(saved.fields["groups"]), **arrays)


class PointedWords(Following[S], Weighed[S]):
    """The words that a contextual feature points at, as an input: those that are repeated, copied, looked up.

        PointedWords(Repeated(window=20), Identity(top=500))        which of the frequent words were among the last 20
        PointedWords(lookup, Identity() + Attributes(lexicon))      what the table wants to be said, and what that is

    v = Σ_x (φ(K, x) − φ(K, rest)) χ(x): a number for each feature χ of words, and each feature φ if there are several.
    """

    def __init__(
        self, feature: ContextualFeature[S], features: Features | FeatureMatrix, *, name: str | None = None
    ) -> None:
        if not isinstance(feature, ContextualFeature):
            raise FeatureError(f"PointedWords(...) needs a contextual feature that points at words, found {feature!r}")
        super().__init__(features, feature.name if name is None else name)
        self.feature = feature

    def bind(self, vocabulary: Vocabulary) -> Self:
        bound = super().bind(vocabulary)
        bound.feature = self.feature.bind(vocabulary)
        return bound

    @property
    def names(self) -> tuple[str, ...]:
        own = self.feature.names
        of = [f"{self.name} " if len(own) == 1 else f"{self.name} {one} " for one in own]
        return tuple(f"{one}{name}" for one in of for name in self.chi.names)

    @property
    def followed(self) -> Process[S]:
        return self.feature

    def numbers(self, states: Sequence[S]) -> Tensor:
        found = self.feature.values(states)
        return self._summed(len(states), found.position, found.word, found.value - found.rest[found.position])

    def revised(self, revision: Revision) -> Self:
        parts: Mapping[str, Any] = {"feature": self.feature.revised(revision), "_chi": self._revised_chi(revision)}
        return self._changed(revision.vocabulary, **parts)

    def saved(self) -> Saved:
        return self._saved("pointed_words", self.feature.saved())

    def __repr__(self) -> str:
        return f"PointedWords({self.feature!r}, name={self.name!r})"


class Opinion(Following[S], Weighed[S]):
    """What an expert expects next, as an input: the mean of the features χ of words under its distribution.

        Opinion(NGram.from_arpa("legal.arpa"), Attributes(lexicon), name="legal")

    v = Σ_x b(K, x) χ(x) / Σ_x b(K, x): with attributes, how likely a noun is, a plural, …; at the cost of N × V.
    """

    def __init__(self, background: Background[S], features: Features | FeatureMatrix, *, name: str = "opinion") -> None:
        if not isinstance(background, Background):
            raise FeatureError(f"Opinion(...) needs a background, such as n-grams, found {background!r}")
        super().__init__(features, name)
        self.background = background

    def bind(self, vocabulary: Vocabulary) -> Self:
        bound = super().bind(vocabulary)
        bound.background = self.background.bind(vocabulary)
        return bound

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.name} {name}" for name in self.chi.names)

    @property
    def followed(self) -> Process[S]:
        return self.background

    def numbers(self, states: Sequence[S]) -> Tensor:
        """What has no mass at all (a sentence outside its language) has no opinion: 0."""
        log_b = self.background.prior(states).dense(len(states)).log_b  # (N, V)
        b = torch.nan_to_num(log_b.softmax(1), nan=0.0)
        chi, class_of = self.chi, torch.from_numpy(self.chi.class_of).to(b.device)
        by_class = b.new_zeros(len(b), chi.n_classes).index_add_(1, class_of, b)
        row = np.repeat(np.arange(chi.n_classes), np.diff(chi.offsets))
        place = torch.from_numpy(np.stack([chi.columns, row]))
        turned = torch.sparse_coo_tensor(
            place, torch.from_numpy(chi.values), (chi.n_features, chi.n_classes), check_invariants=False
        )
        expected: Tensor = torch.sparse.mm(turned.to(b), by_class.t()).t().float()
        return expected

    def revised(self, revision: Revision) -> Self:
        parts: Mapping[str, Any] = {
            "background": self.background.revised(revision),
            "_chi": self._revised_chi(revision),
        }
        return self._changed(revision.vocabulary, **parts)

    def saved(self) -> Saved:
        return self._saved("opinion", self.background.saved())

    def __repr__(self) -> str:
        return f"Opinion({self.background!r}, name={self.name!r})"
