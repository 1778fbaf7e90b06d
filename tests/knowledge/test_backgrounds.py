"""Backgrounds and contextual features: what they say, how they combine, come back from disk, and refuse."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.testing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brute import Array
from llrnn import EOS, Corpus, LLRNNError, Vocabulary, contextual
from llrnn.ground.errors import BackgroundError, CheckpointError, FeatureError, UnknownWordError
from llrnn.knowledge.backgrounds import Background, Mask, Mixture, Primed, Product, Static, Uniform, Unigram, restore
from llrnn.knowledge.backgrounds.base import mix, multiply
from llrnn.knowledge.backgrounds.primed import words_of
from llrnn.knowledge.contextual import ContextualFeature, Repeated
from llrnn.knowledge.process import Saved
from llrnn.layer.priors import DensePrior, Prior, SparsePrior
from strategies import MINUS_INFINITY, QUICK, SparseKnowledge, feature_rows, sparse_knowledge

WORDS = [EOS, "le", "chat", "noir", "dort"]
VOCABULARY = Vocabulary(WORDS)
COUNTS = {EOS: 1.0, "le": 2.0, "chat": 3.0, "noir": 4.0}
CONDITIONS = [None, "chat noir", ["le"], {"subject": "chat", "object": ["dort"]}]
PREFIXES = [[], ["le"], ["le", "chat"], ["le", EOS, "noir"]]


def masses(background: Background, condition: object = None, prefix: Sequence[str] = ()) -> dict[str, float]:
    """b(x) of every word, after a prefix."""
    bound = background.bind(VOCABULARY)
    state = bound.initial(condition)
    for word in prefix:
        state = bound.advance(state, VOCABULARY.id(word))
    b = bound.prior([state]).dense(1).log_b[0].exp().tolist()
    return dict(zip(VOCABULARY, b, strict=True))


def after_eos(condition: object, prefix: tuple[str, ...]) -> list[str]:
    """What may follow: the words of the condition, and the end of the sentence once there is a word."""
    return [*words_of(condition), *([EOS] if prefix else [])]


class Dense(Background):
    """A user's own: everything depends on the number of symbols so far."""

    def initial(self, condition: object = None) -> int:
        return 0

    def advance(self, state: int, symbol: int) -> int:
        return state + 1

    def prior(self, states: Sequence[int]) -> Prior:
        return DensePrior(torch.outer(torch.tensor(states, dtype=torch.float64), -torch.arange(5.0).double()))


# --- static -------------------------------------------------------------------------------------------------------


def test_uniform() -> None:
    assert masses(Uniform()) == dict.fromkeys(WORDS, pytest.approx(0.2))
    assert Uniform().is_static
    assert repr(Uniform().bind(VOCABULARY)) == repr(Uniform()) == "Uniform()"


def test_unigram_is_relative_frequency() -> None:
    assert masses(Unigram(COUNTS)) == pytest.approx({EOS: 0.1, "le": 0.2, "chat": 0.3, "noir": 0.4, "dort": 0.0})
    assert masses(Unigram(COUNTS, smoothing=2.0))["dort"] == pytest.approx(0.1)
    assert masses(Unigram({**COUNTS, "elsewhere": 90.0}))["le"] == pytest.approx(0.2)
    assert repr(Unigram(COUNTS, smoothing=0.5).bind(VOCABULARY)) == "Unigram(4 types, smoothing=0.5)"


def test_unigram_of_corpora_counts_ends_of_sentences() -> None:
    first = Corpus.from_sentences([["le", "chat", "dort"], ["le", "chat"]])
    second = Corpus.from_sentences([["noir"]])
    found = masses(Unigram.from_corpus(first, second))
    assert found == pytest.approx({EOS: 3 / 9, "le": 2 / 9, "chat": 2 / 9, "noir": 1 / 9, "dort": 1 / 9})
    assert masses(Unigram.from_corpus(second, smoothing=1.0))["dort"] == pytest.approx(1 / 7)


def test_unigram_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "counts.tsv"
    path.write_text("le\t6\nchat\t3\n", encoding="utf-8")
    assert masses(Unigram.from_file(path, smoothing=1.0)) == pytest.approx(
        {EOS: 1 / 14, "le": 7 / 14, "chat": 4 / 14, "noir": 1 / 14, "dort": 1 / 14}
    )


def test_unigram_gives_the_symbol_for_unknown_words_what_is_not_listed() -> None:
    vocabulary = Vocabulary([EOS, "le", "<unk>"], unknown="<unk>")
    bound = Unigram({EOS: 1.0, "le": 1.0, "chat": 1.0, "noir": 1.0}).bind(vocabulary)
    assert bound.log_b.exp().tolist() == pytest.approx([0.25, 0.25, 0.5])


def test_static_is_a_vector() -> None:
    log_b = torch.tensor([0.0, -1.0, -2.0, MINUS_INFINITY, 1.0])
    background = Static(log_b, name="mine").bind(VOCABULARY)
    assert torch.equal(background.log_b, log_b.double())
    assert background.is_static
    for states in ([], [None, None]):
        prior = background.prior(states)
        assert isinstance(prior, SparsePrior)
        assert prior.is_static
        assert torch.equal(prior.tables[0].log_b, log_b.double())
    assert repr(background) == "mine"


# --- masks --------------------------------------------------------------------------------------------------------


def test_mask_of_sets() -> None:
    assert masses(Mask(allowed={"le", EOS})) == {EOS: 1, "le": 1, "chat": 0, "noir": 0, "dort": 0}
    assert masses(Mask(forbidden=["le"])) == {EOS: 1, "le": 0, "chat": 1, "noir": 1, "dort": 1}
    assert masses(Mask(allowed=[])) == dict.fromkeys(WORDS, 0.0)
    assert masses(Mask(forbidden=[])) == dict.fromkeys(WORDS, 1.0)
    assert Mask(allowed=["le"]).is_static
    assert repr(Mask(allowed=["le"])) == "Mask(allowed=1 symbols)"


def test_mask_of_functions_sees_condition_and_sentence() -> None:
    allowed = Mask(allowed=after_eos)
    assert masses(allowed, "chat noir") == {EOS: 0, "le": 0, "chat": 1, "noir": 1, "dort": 0}
    assert masses(allowed, "chat", ["le"]) == {EOS: 1, "le": 0, "chat": 1, "noir": 0, "dort": 0}
    assert masses(allowed, "chat", ["le", EOS]) == {EOS: 0, "le": 0, "chat": 1, "noir": 0, "dort": 0}
    assert masses(Mask(forbidden=after_eos), "chat", ["le"]) == {EOS: 0, "le": 1, "chat": 0, "noir": 1, "dort": 1}
    assert not allowed.is_static
    assert repr(allowed) == "Mask(allowed=after_eos)"


def test_the_prefix_of_a_mask_is_the_words_in_order() -> None:
    asked: list[tuple[object, tuple[str, ...]]] = []

    def record(condition: object, prefix: tuple[str, ...]) -> list[str]:
        asked.append((condition, prefix))
        return []

    masses(Mask(forbidden=record), "C", ["noir", EOS, "le", "chat"])
    assert asked == [("C", ("le", "chat"))]


def test_a_mask_may_be_any_callable() -> None:
    def last(n: int, condition: object, prefix: tuple[str, ...]) -> tuple[str, ...]:
        return prefix[-n:]

    mask = Mask(forbidden=partial(last, 1))
    assert masses(mask, None, ["le", "chat"])["chat"] == 0
    assert masses(mask, None, ["le", "chat"])["le"] == 1
    assert repr(mask).startswith("Mask(forbidden=functools.partial(")


# --- primed -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        (None, {}),
        ("le chat", {"le": 1.0, "chat": 1.0}),
        (["le", "chat noir"], {"le": 1.0, "chat": 1.0, "noir": 1.0}),
        ({"who": "chat", "what": ["dort", 3]}, {"chat": 1.0, "dort": 1.0, "3": 1.0}),
        (7, {"7": 1.0}),
    ],
)
def test_words_of_a_condition(condition: object, words: dict[str, float]) -> None:
    assert words_of(condition) == words


def test_primed_entities_need_evidence() -> None:
    primed = Primed(Unigram(COUNTS), ["chat", "noir"])
    assert masses(primed) == pytest.approx({EOS: 0.1, "le": 0.2, "chat": 0.0, "noir": 0.0, "dort": 0.0})
    found = masses(primed, "le chat dort", ["le"])
    assert found == pytest.approx({EOS: 0.1, "le": 0.2, "chat": 0.3, "noir": 0.0, "dort": 0.0})
    assert not primed.is_static
    assert repr(primed) == "Primed(Unigram(4 types, smoothing=0), 2 entities)"


def test_primed_evidence_boost_and_absent() -> None:
    def evidence(condition: object) -> Mapping[str, float]:
        return {"chat": 0.5, "noir": 0.0, "unheard": 1.0, "le": 9.0}

    primed = Primed(Unigram(COUNTS), ["chat", "noir", "dort"], evidence=evidence, boost=4.0, absent=0.25)
    assert masses(primed) == pytest.approx({EOS: 0.1, "le": 0.2, "chat": 0.6, "noir": 0.0, "dort": 0.0})
    assert masses(Primed(Unigram(COUNTS), ["chat"], absent=0.25))["chat"] == pytest.approx(0.075)


def test_primed_leaves_the_symbol_for_unknown_words_alone() -> None:
    """An entity that is not listed says nothing of all the other words that are not."""
    vocabulary = Vocabulary([EOS, "le", "<unk>"], unknown="<unk>")
    primed = Primed(Uniform(), ["le", "Grenoble", "Meylan"]).bind(vocabulary)
    found = primed.prior([primed.initial("Grenoble")]).dense(1).log_b[0].exp()
    assert found.tolist() == pytest.approx([1 / 3, 0.0, 1 / 3])


# --- combining ----------------------------------------------------------------------------------------------------

PARTS: Mapping[str, Callable[[], Background]] = {
    "uniform": Uniform,
    "unigram": lambda: Unigram(COUNTS),
    "static mask": lambda: Mask(forbidden=["chat"]),
    "mask": lambda: Mask(forbidden=after_eos),
    "allowed": lambda: Mask(allowed=after_eos),
    "primed": lambda: Primed(Unigram(COUNTS, smoothing=1.0), ["chat", "dort"], absent=0.1),
    "dense": Dense,
    "product": lambda: Unigram(COUNTS) * Mask(forbidden=after_eos),
    "mixture": lambda: Mixture(Uniform(), Primed(Uniform(), ["chat"])),
}


def written_out(background: Background) -> Array:
    """b of every word after every prefix under every condition, asked one at a time."""
    found = [list(masses(background, c, p).values()) for c in CONDITIONS for p in PREFIXES]
    return np.array(found)


def in_one_batch(background: Background) -> Array:
    bound = background.bind(VOCABULARY)
    states = []
    for condition in CONDITIONS:
        for prefix in PREFIXES:
            seen = bound.scan([bound.initial(condition)], [VOCABULARY.ids(prefix)])
            states.append(seen[0][-1] if prefix else bound.initial(condition))
    return bound.prior(states).dense(len(states)).log_b.exp().numpy()


@pytest.mark.parametrize("name", PARTS)
def test_batched_is_one_by_one(name: str) -> None:
    npt.assert_allclose(in_one_batch(PARTS[name]()), written_out(PARTS[name]()), rtol=1e-12)


@pytest.mark.parametrize("left", PARTS)
@pytest.mark.parametrize("right", PARTS)
def test_products_multiply_and_mixtures_add(left: str, right: str) -> None:
    one, other = PARTS[left](), PARTS[right]()
    p, q = in_one_batch(one), in_one_batch(other)
    npt.assert_allclose(in_one_batch(one * other), p * q, rtol=1e-10)
    npt.assert_allclose(in_one_batch(Mixture(one, other)), (p + q) / 2, rtol=1e-10)
    npt.assert_allclose(in_one_batch(Mixture(one, other, weights=[2.0, 0.5])), 2 * p + q / 2, rtol=1e-10)


def test_three_factors_are_one_product() -> None:
    three = Unigram(COUNTS) * (Mask(forbidden=["le"]) * Mask(forbidden=["chat"]))
    assert repr(three) == "Unigram(4 types, smoothing=0) * Mask(forbidden=1 symbols) * Mask(forbidden=1 symbols)"
    assert three.is_static
    assert masses(three) == pytest.approx({EOS: 0.1, "le": 0.0, "chat": 0.0, "noir": 0.4, "dort": 0.0})
    assert not (three * Dense()).is_static


def test_what_is_static_stays_one_table_that_is_made_once() -> None:
    """Class masses are remembered by table: a new one for each batch would be summed over V each time."""
    for made in (Unigram(COUNTS) * Uniform(), Mixture(Unigram(COUNTS), Uniform())):
        bound = made.bind(VOCABULARY)
        first, again = bound.prior([]), bound.prior([bound.initial()])
        assert isinstance(first, SparsePrior)
        assert isinstance(again, SparsePrior)
        assert first.is_static
        assert len(first.tables) == 1
        assert first.tables[0] is again.tables[0]


@pytest.mark.parametrize("name", [name for name in PARTS if name not in ("dense", "uniform", "unigram", "static mask")])
def test_no_positions_at_all(name: str) -> None:
    bound = PARTS[name]().bind(VOCABULARY)
    assert bound.prior([]).n == 0
    assert (bound * Dense()).prior([]).n == 0
    assert Mixture(Uniform(), bound).bind(VOCABULARY).prior([]).n == 0


def test_repr_of_a_mixture() -> None:
    assert repr(Mixture(Uniform(), Uniform(), weights=[1, 2])) == "Mixture(Uniform(), Uniform(), weights=[1, 2])"
    assert repr(Dense()) == "Dense()"


@given(st.data())
@QUICK
def test_priors_multiply_and_mix_as_numbers_do(data: st.DataObject) -> None:
    rows = data.draw(feature_rows(4))
    known: list[SparseKnowledge] = [data.draw(sparse_knowledge(rows, 2)) for _ in range(2)]
    (p, q), (log_p, log_q) = (k.prior() for k in known), (k.log_b() for k in known)
    dense_p, dense_q = (DensePrior(torch.from_numpy(log_b)) for log_b in (log_p, log_q))
    forms: list[tuple[Prior, Prior]] = [(p, q), (dense_p, q), (p, dense_q)]
    for left, right in forms:
        npt.assert_allclose(multiply(left, right).dense(2).log_b.numpy(), log_p + log_q, rtol=1e-10, atol=1e-12)
        mixed = mix([left, right], [math.log(0.3), math.log(0.7)]).dense(2).log_b.numpy()
        npt.assert_allclose(mixed, np.logaddexp(log_p + math.log(0.3), log_q + math.log(0.7)), rtol=1e-10, atol=1e-12)


# --- on disk ------------------------------------------------------------------------------------------------------

SAVED = ("uniform", "unigram", "static mask", "primed")
NESTED: Mapping[str, Callable[[], Background]] = {
    **{name: PARTS[name] for name in SAVED},
    "allowed set": lambda: Mask(allowed=["le", EOS]),
    "boosted": lambda: Primed(Uniform(), ["le"], boost=2.0),
    "product": lambda: Unigram(COUNTS) * Mask(forbidden=["le"]),
    "mixture": lambda: Mixture(Unigram(COUNTS), Primed(Uniform(), ["chat"]) * Mask(forbidden=["le"]), weights=[1, 3]),
}


@pytest.mark.parametrize("name", NESTED)
def test_saved_and_restored(name: str) -> None:
    background = NESTED[name]()
    saved = background.bind(VOCABULARY).saved()
    again = restore(saved)
    npt.assert_array_equal(in_one_batch(again), in_one_batch(background))
    assert repr(again.bind(VOCABULARY)) == repr(background.bind(VOCABULARY))
    assert again.bind(VOCABULARY).saved().fields == saved.fields


@pytest.mark.parametrize(
    "background", [Dense(), Mask(allowed=after_eos), Primed(Uniform(), ["le"], evidence=lambda c: {})]
)
def test_what_is_the_users_own_must_be_given_again(background: Background) -> None:
    saved = background.bind(VOCABULARY).saved()
    assert saved == Saved("custom", {"repr": repr(background.bind(VOCABULARY))})
    with pytest.raises(CheckpointError, match=re.escape(f"of your own, {background!r}: give it again at loading")):
        restore(saved)
    with pytest.raises(CheckpointError, match="give it again"):
        restore((Uniform() * background).bind(VOCABULARY).saved())


def test_an_unknown_kind_needs_a_newer_library() -> None:
    with pytest.raises(CheckpointError, match="unknown kind of background 'quantum': it needs a newer llrnn"):
        restore(Saved("quantum"))
    with pytest.raises(CheckpointError, match="unknown kind of contextual feature 'quantum'"):
        contextual.restore(Saved("quantum"))


# --- refusals -----------------------------------------------------------------------------------------------------

NEEDS_BINDING = "must be bound to a vocabulary before it is used: .bind(vocabulary)"


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: Uniform().prior([]), f"Uniform() {NEEDS_BINDING}"),
        (lambda: Unigram(COUNTS).prior([]), f"Unigram(4 types, smoothing=0) {NEEDS_BINDING}"),
        (lambda: Mask(allowed=["le"]).prior([]), f"Mask(allowed=1 symbols) {NEEDS_BINDING}"),
        (lambda: Primed(Uniform(), ["le"]).prior([]), f"Primed(Uniform(), 1 entities) {NEEDS_BINDING}"),
        (lambda: Unigram(COUNTS, smoothing=-1), "smoothing must be a finite number of 0 or more, found -1"),
        (lambda: Unigram(COUNTS, smoothing=math.inf), "smoothing must be a finite number of 0 or more, found inf"),
        (lambda: Unigram({"le": -1.0}), "the count of 'le' must be finite and 0 or more, found -1.0"),
        (lambda: Unigram({"le": math.nan}), "the count of 'le' must be finite and 0 or more, found nan"),
        (
            lambda: Unigram({"elsewhere": 1.0}).bind(VOCABULARY),
            "Unigram(1 types, smoothing=0) knows none of the 5 symbols: take counts of the same text, or smoothing",
        ),
        (
            lambda: Static(torch.zeros(4)).bind(VOCABULARY),
            "Static is a vector over 4 symbols, but the vocabulary lists 5: make both from the same vocabulary",
        ),
        (
            lambda: Uniform().bind(VOCABULARY).bind(Vocabulary([EOS])),
            "Uniform() is a vector over 5 symbols, but the vocabulary lists 1: make both from the same vocabulary",
        ),
        (
            lambda: restore(Saved("static", {"name": math.inf}, {"log_b": torch.zeros(5)})),
            "the name of a background must be a string, found inf",
        ),
        (
            lambda: Static(torch.tensor([math.nan])),
            "log b must be a number below infinity for every symbol, found NaN or infinity",
        ),
        (lambda: Mask(), "Mask takes either allowed=... or forbidden=..., one of them"),
        (lambda: Mask(allowed=[], forbidden=[]), "Mask takes either allowed=... or forbidden=..., one of them"),
        (lambda: Primed(Uniform(), [], boost=0.0), "Primed needs boost > 0 and absent >= 0, found 0.0 and 0.0"),
        (lambda: Primed(Uniform(), [], absent=-1.0), "Primed needs boost > 0 and absent >= 0, found 1.0 and -1.0"),
        (lambda: Primed(Uniform(), [], boost=math.inf), "Primed needs boost > 0 and absent >= 0, found inf and 0.0"),
        (lambda: Product(), "a product needs at least one background, found none"),
        (lambda: Mixture(), "a mixture needs at least one background, found none"),
        (lambda: Mixture(Uniform(), weights=[1, 1]), "a mixture of 1 needs as many weights above 0, found [1, 1]"),
        (lambda: Mixture(Uniform(), weights=[0.0]), "a mixture of 1 needs as many weights above 0, found [0.0]"),
        (
            lambda: masses(Primed(Uniform(), ["le"], evidence=lambda c: {"le": math.inf})),
            "the evidence for 'le' must be a number below infinity, found inf",
        ),
    ],
)
def test_backgrounds_that_cannot_be(made: Callable[[], Any], message: str) -> None:
    with pytest.raises(BackgroundError, match=f"^{re.escape(message)}$"):
        made()


@pytest.mark.parametrize(
    ("made", "place"),
    [
        (lambda: Mask(allowed=["souris"]).bind(VOCABULARY), "Mask(allowed=1 symbols)"),
        (lambda: masses(Mask(allowed=after_eos), "souris"), "Mask(allowed=after_eos)"),
        (lambda: Primed(Uniform(), ["souris"]).bind(VOCABULARY), "Primed(entities=...)"),
    ],
)
def test_words_of_another_vocabulary_are_named_with_their_place(made: Callable[[], Any], place: str) -> None:
    with pytest.raises(UnknownWordError, match=re.escape(f"{place}: the word 'souris' is not among the 5 symbols")):
        made()


def test_what_follows_the_prefix_must_be_bound() -> None:
    with pytest.raises(LLRNNError, match=re.escape(f"Repeated(window=50) {NEEDS_BINDING}")):
        Repeated().advance((), 1)


# --- contextual features ------------------------------------------------------------------------------------------


def repeated(window: int, prefix: Sequence[str]) -> dict[str, float]:
    feature = Repeated(window).bind(VOCABULARY)
    (states,) = feature.scan([feature.initial("any condition")], [VOCABULARY.ids([EOS, *prefix])])
    rest, own = feature.value(states[-1])
    return {word: own.get(x, rest) for x, word in enumerate(VOCABULARY)}


@pytest.mark.parametrize(
    ("window", "seen"),
    [(1, {"noir"}), (2, {"noir", "chat"}), (3, {"noir", "chat", "le"}), (50, {"noir", "chat", "le", "dort"})],
)
def test_repeated_looks_back_as_far_as_its_window(window: int, seen: set[str]) -> None:
    """The boundary of sentences neither fires nor takes a place in the window."""
    found = repeated(window, ["dort", "le", EOS, "chat", "noir", EOS])
    assert found == {word: float(word in seen) for word in WORDS}


def test_nothing_is_repeated_at_the_start() -> None:
    assert set(repeated(5, []).values()) == {0.0}


def test_repeated_comes_back_from_disk_and_refuses() -> None:
    assert repr(contextual.restore(Repeated(7).saved())) == "Repeated(window=7)"
    assert Repeated().name == "Repeated"
    with pytest.raises(FeatureError, match=r"Repeated\(window=\.\.\.\) must be 1 or more, found 0"):
        Repeated(0)


class Clock(ContextualFeature):
    """A user's own: its state is the number of symbols."""

    def initial(self, condition: object = None) -> int:
        return 0

    def advance(self, state: int, symbol: int) -> int:
        return state + 1

    def value(self, state: int) -> tuple[float, Mapping[int, float]]:
        return -1.0 * state, {4: 2.5, 1: 0.5} if state else {}


def test_values_of_a_batch_of_states() -> None:
    found = Clock().bind(VOCABULARY).values([0, 1, 3])
    assert found.rest.tolist() == [[0.0], [-1.0], [-3.0]]
    assert found.position.tolist() == [1, 1, 2, 2]
    assert found.word.tolist() == [1, 4, 1, 4]
    assert found.value.tolist() == [[0.5], [2.5], [0.5], [2.5]]
    assert found.at(torch.tensor([0, 1, 2]), torch.tensor([4, 4, 0]), 5).tolist() == [[0.0], [2.5], [-3.0]]
    nowhere = Clock().values([0, 0])
    assert nowhere.rest.shape == (2, 1)
    assert nowhere.value.shape == (0, 1)
    assert nowhere.at(torch.tensor([1]), torch.tensor([4]), 5).tolist() == [[0.0]]
    assert Clock().values([]).rest.shape == (0, 1)


def test_a_contextual_feature_of_the_users_own_must_be_given_again() -> None:
    assert Clock().saved() == Saved("custom", {"repr": "Clock()"})
    with pytest.raises(CheckpointError, match=re.escape("of your own, Clock(): give it again at loading")):
        contextual.restore(Clock().saved())
