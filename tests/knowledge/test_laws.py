"""`llrnn.testing`: what obeys the laws passes, and every kind of law-breaker is caught."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pytest
import torch

from helpers import small_corpus, small_features, small_vectors, small_vocabulary
from llrnn import Lexicon, contextual, features
from llrnn.ground.errors import LawError
from llrnn.knowledge.backgrounds import Background, Mask, Mixture, NGram, Primed, Static, Uniform, Unigram
from llrnn.knowledge.contextual import ContextualFeature
from llrnn.knowledge.features import Features, Function
from llrnn.knowledge.process import State
from llrnn.layer.priors import ContextValues, DensePrior, Prior, SparsePrior, Table
from llrnn.model.testing import check_background, check_contextual, check_features
from llrnn.text.vocabulary import EOS, Vocabulary

V = small_vocabulary()
FREQUENT = V.symbols[:6]


def unigram() -> Unigram:
    return Unigram.from_corpus(small_corpus(), smoothing=0.1)


def ngram(order: int = 3, folds: int = 0) -> Background:
    return NGram.from_corpus(small_corpus(), order=order, folds=folds)


def starts_alike(condition: object, prefix: tuple[str, ...]) -> list[str]:
    return [word for word in V.symbols[:50] if not prefix or word[0] == prefix[-1][0]] + [EOS]


# --- features ------------------------------------------------------------------------------------------------------

GOOD_FEATURES: list[Features] = [
    features.Identity(),
    features.Identity(top=5),
    features.Attributes(Lexicon.from_corpus(small_corpus())),
    features.Suffixes(3, min_count=2),
    features.Prefixes(2, min_count=2),
    features.Shape(),
    features.Numeric(),
    small_features(),
    small_features().scaled(0.5),
    small_vectors(),
    small_features() + small_vectors(components=None).scaled(0.5),
    Function(lambda word: {"length": float(len(word))}),
]


@pytest.mark.parametrize("phi", GOOD_FEATURES, ids=repr)
def test_the_librarys_features_obey(phi: Features) -> None:
    check_features(phi, V)


_counter = itertools.count()
_random = random.Random(0)

BAD_FEATURES: dict[str, Features] = {
    "not a number": Function(lambda word: {"x": math.nan}),
    "infinite": Function(lambda word: {"x": math.inf}),
    "text": Function(lambda word: {"x": "1"}),
    "random values": Function(lambda word: {"x": _random.random()}),
    "random names": Function(lambda word: [f"x{next(_counter)}"]),
    "nothing fires": Function(lambda word: {}),
}


@pytest.mark.parametrize("name", BAD_FEATURES)
def test_broken_features_are_caught(name: str) -> None:
    with pytest.raises(LawError, match="law broken"):
        check_features(BAD_FEATURES[name], V)


# --- backgrounds ---------------------------------------------------------------------------------------------------

GOOD_BACKGROUNDS: list[Background] = [
    Uniform(),
    Unigram.from_corpus(small_corpus()),
    unigram(),
    Static(torch.linspace(-3, 0, len(V))),
    Mask(forbidden=FREQUENT),
    Mask(allowed=FREQUENT),
    Mask(allowed=starts_alike),
    Mask(forbidden=lambda condition, prefix: prefix),
    Primed(unigram(), FREQUENT, boost=3.0, absent=0.1),
    Primed(unigram(), FREQUENT),
    unigram() * Mask(allowed=starts_alike),
    Mixture(unigram(), Primed(Uniform(), FREQUENT), weights=[0.3, 0.7]),
    Mixture(unigram(), Uniform()) * Mask(forbidden=FREQUENT[:2]),
    *(ngram(order) for order in (1, 2, 3, 4)),
    ngram(folds=4),
    Mixture(ngram(), unigram()),
    Mixture(ngram(folds=4), unigram(), weights=[0.9, 0.1]),
    ngram() * Mask(allowed=starts_alike),
    ngram(folds=4) * Mask(forbidden=FREQUENT),
]


@pytest.mark.filterwarnings("ignore::llrnn.ground.errors.EstimationWarning")
@pytest.mark.parametrize("background", GOOD_BACKGROUNDS, ids=repr)
def test_the_librarys_backgrounds_obey(background: Background) -> None:
    check_background(background, V, conditions=[None, " ".join(FREQUENT[:2])], prefixes=4, length=4)


class Own(Background):
    """A background made of three functions, as a user might write one."""

    def __init__(
        self,
        prior: Callable[[Background, Sequence[State]], torch.Tensor],
        *,
        initial: Callable[[], State] = lambda: 0,
        advance: Callable[[State, int], State] = lambda state, symbol: state + 1,
    ) -> None:
        self._prior, self._initial, self._advance = prior, initial, advance

    def initial(self, condition: object = None) -> State:
        return self._initial()

    def advance(self, state: State, symbol: int) -> State:
        return self._advance(state, symbol)

    def prior(self, states: Sequence[State]) -> Prior:
        return DensePrior(self._prior(self, states))


def zeros(background: Background, states: Sequence[State]) -> torch.Tensor:
    return torch.zeros(len(states), len(background.vocabulary), dtype=torch.float64)


def appended(state: State, symbol: int) -> State:
    state.append(symbol)
    return state


def sorted_in_place(background: Background, states: Sequence[State]) -> torch.Tensor:
    for state in states:
        state.reverse()
    return zeros(background, states)


def one_nan(background: Background, states: Sequence[State]) -> torch.Tensor:
    log_b = zeros(background, states)
    log_b[-1, 3] = math.nan
    return log_b


_calls = itertools.count()

BAD_BACKGROUNDS: dict[str, tuple[Background, str]] = {
    "advance mutates the state": (Own(zeros, initial=list, advance=appended), "advance changed"),
    "prior mutates the states": (
        Own(sorted_in_place, initial=list, advance=lambda state, symbol: [*state, symbol]),
        "prior changed",
    ),
    "not a number": (Own(one_nan), "NaN"),
    "infinite mass": (Own(lambda b, states: zeros(b, states) + math.inf), "below infinity"),
    "a value too few": (Own(lambda b, states: zeros(b, states)[:, 1:]), "a value for each"),
    "depends on the batch": (
        Own(lambda b, states: zeros(b, states).index_fill(1, torch.tensor([2]), -float(len(states)))),
        "one by one",
    ),
    "another answer each time": (
        Own(lambda b, states: zeros(b, states).index_fill(1, torch.tensor([2]), -float(next(_calls)))),
        "deterministic",
    ),
    "another state each time": (Own(zeros, advance=lambda state, symbol: next(_calls)), "deterministic"),
}


@pytest.mark.parametrize("name", BAD_BACKGROUNDS)
def test_broken_backgrounds_are_caught(name: str) -> None:
    background, law = BAD_BACKGROUNDS[name]
    with pytest.raises(LawError, match=law):
        check_background(background, V)


class OutOfRange(Background):
    def prior(self, states: Sequence[State]) -> Prior:
        table = Table(torch.zeros(len(self.vocabulary)))
        return SparsePrior.listed(table, [{len(self.vocabulary): 0.0} for _ in states])


class NotANumber(OutOfRange):
    def prior(self, states: Sequence[State]) -> Prior:
        return SparsePrior.static(Table(torch.full((len(self.vocabulary),), math.nan)))


@pytest.mark.parametrize("background", [OutOfRange(), NotANumber()])
def test_what_the_library_refuses_is_a_broken_law_too(background: Background) -> None:
    with pytest.raises(LawError):
        check_background(background, V)


class Thing:
    """A state without an equality of its own."""

    def __init__(self, words: tuple[int, ...]) -> None:
        self.words = words


@dataclass
class Pair:
    h: torch.Tensor
    past: dict[str, list[int]]


@pytest.mark.parametrize(
    "background",
    [
        Own(zeros, initial=lambda: torch.zeros(3), advance=lambda state, symbol: state + symbol),
        Own(zeros, initial=lambda: Thing(()), advance=lambda state, symbol: Thing((*state.words, symbol))),
        Own(
            zeros,
            initial=lambda: Pair(torch.zeros(2), {"w": []}),
            advance=lambda s, symbol: Pair(s.h + symbol, {"w": [*s.past["w"], symbol]}),
        ),
    ],
    ids=["tensors", "plain objects", "dataclasses with tensors"],
)
def test_states_of_every_kind_are_compared_by_what_they_hold(background: Background) -> None:
    check_background(background, V, prefixes=2, length=3)


def grown(state: State, symbol: int) -> State:
    state.past["w"].append(symbol)
    return Pair(state.h, state.past)


def added(state: State, symbol: int) -> State:
    return state.add_(symbol + 1)


@pytest.mark.parametrize(
    "background",
    [
        Own(zeros, initial=lambda: torch.zeros(3), advance=added),
        Own(zeros, initial=lambda: Pair(torch.zeros(2), {"w": []}), advance=grown),
    ],
    ids=["a tensor in place", "a list deep inside"],
)
def test_states_of_every_kind_are_caught_when_they_change(background: Background) -> None:
    with pytest.raises(LawError, match="advance changed"):
        check_background(background, V)


# --- contextual features -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [1, 3, 50])
def test_the_librarys_contextual_features_obey(window: int) -> None:
    check_contextual(contextual.Repeated(window), V)


def by_length(background: Background, states: Sequence[State]) -> torch.Tensor:
    return -0.01 * torch.tensor(states, dtype=torch.float64)[:, None] * torch.arange(len(background.vocabulary))


EXPERTS: list[ContextualFeature] = [
    *(contextual.Expert(ngram(order)) for order in (1, 2, 4)),
    contextual.Expert(ngram(folds=4), name="cross-fitted"),
    contextual.Expert(Mixture(ngram(), unigram()), name="mixture"),
    contextual.Expert(ngram() * Mask(forbidden=FREQUENT), name="masked"),
    contextual.Expert(Own(by_length), name="dense"),
    contextual.Expert(unigram(), name="static"),
]


@pytest.mark.filterwarnings("ignore::llrnn.ground.errors.EstimationWarning")
@pytest.mark.parametrize("expert", EXPERTS, ids=lambda expert: f"{expert.name} {expert.followed!r}")
def test_experts_obey(expert: ContextualFeature) -> None:
    check_contextual(expert, V, prefixes=4, length=4)


class OwnFeature(ContextualFeature):
    def __init__(
        self,
        value: Callable[[State], tuple[float, Mapping[int, float]]],
        *,
        initial: Callable[[], State] = lambda: 0,
        advance: Callable[[State, int], State] = lambda state, symbol: symbol,
    ) -> None:
        self._value, self._initial, self._advance = value, initial, advance

    def initial(self, condition: object = None) -> State:
        return self._initial()

    def advance(self, state: State, symbol: int) -> State:
        return self._advance(state, symbol)

    def value(self, state: State) -> tuple[float, Mapping[int, float]]:
        return self._value(state)


class BatchDependent(OwnFeature):
    def values(self, states: Sequence[State]) -> ContextValues:
        found: ContextValues = super().values(states)
        found.rest.fill_(float(len(states)))
        return found


def reversed_state(state: State) -> tuple[float, Mapping[int, float]]:
    state.reverse()
    return 0.0, {}


def test_a_contextual_feature_of_ones_own_obeys() -> None:
    check_contextual(OwnFeature(lambda state: (0.5, {state: -1.5, (state + 1) % len(V): 2.0})), V)


BAD_CONTEXTUAL: dict[str, tuple[ContextualFeature, str]] = {
    "not a number": (OwnFeature(lambda state: (0.0, {1: math.nan})), "finite"),
    "infinite on the rest": (OwnFeature(lambda state: (math.inf, {})), "finite"),
    "another value each time": (OwnFeature(lambda state: (float(next(_calls)), {})), "deterministic"),
    "depends on the batch": (BatchDependent(lambda state: (0.0, {})), "one by one"),
    "advance mutates the state": (OwnFeature(lambda state: (0.0, {}), initial=list, advance=appended), "changed"),
    "value mutates the state": (
        OwnFeature(reversed_state, initial=list, advance=lambda state, symbol: [*state, symbol]),
        "changed",
    ),
    "a word outside the vocabulary": (OwnFeature(lambda state: (0.0, {len(V): 1.0})), "numbered"),
}


@pytest.mark.parametrize("name", BAD_CONTEXTUAL)
def test_broken_contextual_features_are_caught(name: str) -> None:
    feature, law = BAD_CONTEXTUAL[name]
    with pytest.raises(LawError, match=law):
        check_contextual(feature, V)


def test_a_small_vocabulary_is_enough() -> None:
    check_background(Uniform(), Vocabulary([EOS, "a"]))
    check_contextual(contextual.Repeated(), Vocabulary([EOS, "a"]))
    check_features(features.Identity(), Vocabulary([EOS, "a"]))
