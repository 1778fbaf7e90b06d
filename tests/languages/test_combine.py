"""n-gram models made of others against dictionaries in pure Python: mixtures, relative-entropy pruning, weights."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brute_ngrams import BOUNDARY, contexts, listed, log_p, stream_of
from llrnn.ground.errors import BackgroundError, ConfigError
from llrnn.languages.ngrams import NGramTable, estimate, interpolated, normalised, pruned
from llrnn.languages.ngrams.table import Level
from strategies import draws

WORDS = (BOUNDARY, "a", "b", "c")
texts = st.lists(st.lists(st.sampled_from(WORDS[1:]), max_size=5), min_size=2, max_size=12)


def estimated(sentences: list[list[str]], order: int = 3) -> NGramTable:
    return over(WORDS, [*sentences, ["a", "b", "c"]], order)


def over(words: tuple[str, ...], sentences: list[list[str]], order: int) -> NGramTable:
    return estimate(stream_of(sentences, words), words, order=order)


def sums(table: NGramTable) -> list[float]:
    grams = listed(table)
    return [math.fsum(math.exp(log_p(grams, c, w)) for w in table.words) for c in contexts(WORDS, 2)]


@settings(max_examples=draws(10))
@given(texts, texts, st.floats(0.05, 0.95))
def test_a_mixture_is_the_weighted_mean_wherever_an_ngram_is_listed(
    one: list[list[str]], two: list[list[str]], share: float
) -> None:
    tables = estimated(one), estimated(two, 2)
    mixed, parts = interpolated(tables, [share, 1 - share]), [listed(table) for table in tables]
    assert {*listed(mixed)} == {*parts[0]} | {*parts[1]}
    for *context, word in listed(mixed):
        wanted = share * math.exp(log_p(parts[0], tuple(context), word)) + (1 - share) * math.exp(
            log_p(parts[1], tuple(context), word)
        )
        assert math.exp(log_p(listed(mixed), tuple(context), word)) == pytest.approx(wanted, rel=1e-9)
    np.testing.assert_allclose(sums(mixed), 1.0, atol=1e-9)


def test_words_in_another_order_are_the_same_words() -> None:
    table = estimated([["a", "b"], ["c"]])
    turned = over(WORDS[::-1], [["a", "b"], ["c"], ["a", "b", "c"]], 3)
    mixed = listed(interpolated([table, turned], [0.5, 0.5]))
    for gram, (wanted, _) in listed(table).items():
        assert mixed[gram][0] == pytest.approx(wanted, abs=1e-9)


def test_models_over_other_words_are_refused() -> None:
    other = over((BOUNDARY, "a", "d"), [["a", "d"]], 2)
    with pytest.raises(BackgroundError, match=r"y\.arpa lists 1 that x\.arpa does not, such as 'd'; .* --words FILE"):
        interpolated([estimated([]), other], [0.5, 0.5], names=["x.arpa", "y.arpa"])
    for weights in ([0.5, 0.6], [1.0, 0.0], [1.0]):
        with pytest.raises(ConfigError, match="weight"):
            interpolated([estimated([]), estimated([])], weights)


@settings(max_examples=draws(10))
@given(texts)
def test_weights_that_were_right_stay(sentences: list[list[str]]) -> None:
    table = estimated(sentences)
    before, after = listed(table), listed(normalised(table))
    for context, word in product(contexts(WORDS, 2), WORDS):
        assert log_p(after, context, word) == pytest.approx(log_p(before, context, word), abs=1e-6)


def divergence(table: NGramTable, history: tuple[str, ...], gone: set[str]) -> float:
    """D(p ‖ p') at a context, from its definition: p' is the model without some words, normalised anew."""
    grams = listed(table)
    kept = {x for x in WORDS if (*history, x) in grams} - gone
    backed = {x: math.exp(log_p(grams, history[1:], x)) for x in WORDS}
    p = {x: math.exp(log_p(grams, history, x)) for x in WORDS}
    weight = (1 - sum(p[x] for x in kept)) / (1 - sum(backed[x] for x in kept))
    after = {x: p[x] if x in kept else weight * backed[x] for x in WORDS}
    joint = math.exp(math.fsum(log_p(grams, history[:k], history[k]) for k in range(len(history))))
    return joint * math.fsum(p[x] * math.log(p[x] / after[x]) for x in WORDS)


@settings(max_examples=draws(15))
@given(texts, st.floats(1e-5, 0.02))
def test_pruning_takes_what_changes_the_model_least(sentences: list[list[str]], threshold: float) -> None:
    table = normalised(estimated(sentences))
    small = pruned(table, threshold)
    grams, kept = listed(table), {*listed(small)}
    assert kept <= {*grams}
    np.testing.assert_allclose(sums(small), 1.0, atol=1e-9)
    for history in {gram[:-1] for gram in grams if len(gram) == 3}:
        own = {gram[-1] for gram in grams if gram[:-1] == history}
        gone = {word for word in own if (*history, word) not in kept}
        assert divergence(table, history, gone) <= len(gone) * threshold + 1e-9
        cheapest = min(divergence(table, history, {word}) for word in own)
        if abs(cheapest - threshold) > 1e-9:
            assert bool(gone) == (cheapest <= threshold)
    for left in kept:
        assert len(left) == 1 or left[:-1] in kept
        assert listed(small)[left][0] == pytest.approx(grams[left][0])


def test_a_context_that_lists_all_words_is_not_emptied() -> None:
    """Any one of its words could be backed off to for nothing, but not all of them."""
    levels = [
        Level(np.zeros(4, np.int64), np.arange(4), np.log(np.full(4, 0.25)), np.zeros(4)),
        Level(np.ones(4, np.int64), np.arange(4), np.log([0.7, 0.1, 0.1, 0.1]), np.zeros(4)),
    ]
    table = normalised(NGramTable(WORDS, tuple(levels)))
    small = listed(pruned(table, 1e-6))
    for word, wanted in zip(WORDS, [0.7, 0.1, 0.1, 0.1], strict=True):
        assert math.exp(log_p(small, ("a",), word)) == pytest.approx(wanted)
    assert 1 <= len(small) - 4 < 4


def test_a_threshold_is_above_nought() -> None:
    with pytest.raises(ConfigError, match="threshold above 0"):
        pruned(estimated([]), 0.0)
