"""n-gram models: estimation, whole distributions and cross-fitting, each against an oracle of plain dictionaries."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.testing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from brute import Array
from brute_ngrams import (
    BOUNDARY,
    Gram,
    Grams,
    KneserNey,
    contexts,
    drawn_grams,
    listed,
    log_p,
    spread_out,
    stream_of,
    table_of,
    written_out,
)
from llrnn import GRU, LLRNN, Corpus, Vocabulary, french, load
from llrnn.ground.errors import BackgroundError, EstimationWarning, TrainingError, UnknownWordError
from llrnn.knowledge.backgrounds import Background, CrossFitted, Mask, Mixture, NGram, Unigram
from llrnn.knowledge.backgrounds.ngram import Nodes, over_own_words
from llrnn.knowledge.contextual import Expert
from llrnn.knowledge.features import Identity
from llrnn.knowledge.process import Batch
from llrnn.languages.ngrams import UNKNOWN, NGramTable, estimate, read_table, write_table
from llrnn.languages.ngrams import table as binding
from llrnn.languages.ngrams.table import backed_off, completed, for_vocabulary
from llrnn.languages.ngrams.table import written_out as every_ngram
from llrnn.languages.ngrams.trie import Trie
from llrnn.layer.distribution import Distribution
from llrnn.layer.priors import Prior, SparsePrior
from llrnn.model.scoring import Batching, Continuous, Sentences, Sliding, score
from llrnn.model.words import Entry, add, remove
from llrnn.text.encoded import EncodedText, sentence_key
from strategies import draws

torch.set_num_threads(1)
quick = settings(max_examples=draws(25))
quiet = pytest.mark.filterwarnings("ignore::llrnn.ground.errors.EstimationWarning")

WORDS = ("a", "b", BOUNDARY, "c")  # the boundary in the middle: no number is special
UNSEEN = "zzz"

# empty sentences, sentences of one word, one word again and again
sentences = st.one_of(
    st.just(()),
    st.lists(st.sampled_from("abc"), max_size=7).map(tuple),
    st.tuples(st.sampled_from("abc"), st.integers(1, 6)).map(lambda drawn: (drawn[0],) * drawn[1]),
)
corpora = st.lists(sentences, min_size=1, max_size=9)
thresholds = st.one_of(st.just(()), st.lists(st.integers(0, 3), min_size=1, max_size=5).map(tuple))


def babble(count: int, seed: int, words: int = 9) -> list[Gram]:
    """Sentences with some grammar: each word prefers a few others. Some are empty, some come twice."""
    draw = random.Random(seed)
    made: list[Gram] = []
    for _ in range(count):
        if made and draw.random() < 0.15:
            made.append(draw.choice(made))
            continue
        last, sentence = 0, []
        for _ in range(draw.choice([0, 1, 2, 4, 5, 6, 8, 9])):
            last = (last * 3 + int(draw.expovariate(0.7))) % words
            sentence.append(f"w{last}")
        made.append(tuple(sentence))
    return made


def names(words: int = 9) -> tuple[str, ...]:
    return (*(f"w{i}" for i in range(words)), BOUNDARY)


def after(bound: NGram, context: Sequence[str]) -> int:
    """The state after some words, fed one by one."""
    state = bound.initial()
    for word in context:
        state = bound.advance(state, bound.vocabulary.id(word))
    assert isinstance(state, int)
    return state


def dense(prior: Prior, n: int) -> Array:
    found: Array = prior.dense(n).log_b.numpy()
    return found


def assert_same(found: Array, wanted: Array, atol: float = 1e-10) -> None:
    npt.assert_allclose(found, wanted, rtol=0, atol=atol)


# --- estimation ---------------------------------------------------------------------------------------------------


@given(corpora, st.integers(1, 5), thresholds)
@quick
def test_kneser_ney_is_the_textbook_formula(corpus: list[Gram], order: int, min_counts: tuple[int, ...]) -> None:
    words = (*WORDS, UNSEEN)
    table = estimate(stream_of(corpus, words), words, order=order, min_counts=min_counts)
    brute = KneserNey(corpus, words, order, min_counts)
    grams = listed(table)
    asked = [c for c in contexts(WORDS, 4) if len(c) < 4 or c in brute.following or hash_of(c) % 8 == 0]
    wanted = np.array([brute.log_probs(context) for context in asked])
    assert_same(written_out(grams, words, asked), wanted)
    npt.assert_allclose(np.exp(wanted).sum(1), 1.0, rtol=1e-12)
    npt.assert_allclose(np.exp(written_out(grams, words, asked)).sum(1), 1.0, rtol=1e-12)


def hash_of(context: Gram) -> int:
    """The same in every process."""
    return sum((i + 1) * ord(word[0]) for i, word in enumerate(context))


@given(corpora, st.integers(1, 5), thresholds)
@quick
def test_what_is_listed_is_what_pruning_keeps(corpus: list[Gram], order: int, min_counts: tuple[int, ...]) -> None:
    table = estimate(stream_of(corpus, WORDS), WORDS, order=order, min_counts=min_counts)
    brute = KneserNey(corpus, WORDS, order, min_counts)
    grams = listed(table)
    assert {gram for gram in grams if len(gram) > 1} == {gram for gram in brute.kept if len(gram) > 1}
    assert {gram for gram in grams if len(gram) == 1} == {(word,) for word in WORDS}
    for level in table.levels:
        keys = level.keys(len(WORDS))
        assert (np.diff(keys) > 0).all() if len(keys) else True
    for suffix in table.suffixes:
        assert (suffix >= 0).all()


@pytest.mark.parametrize("min_counts", [(), (1, 1, 2), (1, 2, 2, 3)])
@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_kneser_ney_with_discounts_of_its_own(order: int, min_counts: tuple[int, ...]) -> None:
    """Enough text that the discounts are estimated: the formula for them is tried, not only what replaces it."""
    corpus, words = babble(350, seed=order), (*names(), UNSEEN)
    table = estimate(stream_of(corpus, words), words, order=order, min_counts=min_counts)
    brute = KneserNey(corpus, words, order, min_counts)
    own = {n for n, discounts in brute.discounts.items() if discounts != (0.5, 1.0, 1.5)}
    assert own >= set(range(2, order + 1)) or order == 1
    assert len(table.notes) == order - len(own)
    draw = random.Random(order)
    seen = sorted(context for context in brute.following if len(context) < 5)
    asked = draw.sample(seen, min(60, len(seen))) + [tuple(draw.choices(words, k=draw.randrange(5))) for _ in range(40)]
    wanted = np.array([brute.log_probs(context) for context in asked])
    assert_same(written_out(listed(table), words, asked), wanted)
    history = np.array([[words.index(w) for w in context] for context in asked if len(context) == 2]).reshape(-1, 2)
    for x, word in enumerate(words):
        found = backed_off(table, history, np.full(len(history), x))
        brute_p = [math.log(brute.p(tuple(words[i] for i in row), word)) for row in history.tolist()]
        assert_same(found, np.array(brute_p))


def test_a_discount_below_nothing_is_replaced() -> None:
    """Every t is there, but D₂ = 2 − 3 · ⅔ · 4 would add mass instead of taking it."""
    counts = {"a": 1, "b": 1, "c": 1, "d": 1, "e": 2, "f": 3, "g": 3, "h": 3, "i": 3, "j": 4}
    words = (*counts, BOUNDARY)
    corpus = [(word,) * count for word, count in counts.items()]
    table = estimate(stream_of(corpus, words), words, order=1)
    (note,) = table.notes
    assert "(4 n-grams with count 1, 1 n-grams with count 2, 4 n-grams with count 3, 1 n-grams with count 4)" in note
    wanted = np.array([KneserNey(corpus, words, 1).log_probs(())])
    assert_same(written_out(listed(table), words, [()]), wanted)
    assert np.exp(wanted)[0, 0] == pytest.approx(0.5 / sum((*counts.values(), 10)) + left_over(counts) / len(words))


def left_over(counts: dict[str, int]) -> float:
    """The share that the discounts ½, 1, 1½ take from these counts and from the ends of sentences."""
    all_counts = [*counts.values(), len(counts)]
    return sum((0.5, 1.0, 1.5)[min(count, 3) - 1] for count in all_counts) / sum(all_counts)


def test_too_little_text_is_said() -> None:
    words = ("a", BOUNDARY)
    table = estimate(stream_of([("a", "a")], words), words, order=5)
    assert table.order == 4
    assert table.notes[0] == "no sentence has 5 words: the order is 4"
    assert table.notes[1].startswith(
        "too little text for the Kneser-Ney discounts of order 1 (1 n-grams with count 1, 1 n-grams with count 2, "
        "0 n-grams with count 3, 0 n-grams with count 4): took (0.5, 1.0, 1.5)"
    )
    corpus = Corpus.from_sentences([["a", "a"]])
    with pytest.warns(EstimationWarning) as caught:
        NGram.from_corpus(corpus, folds=0).bind(Vocabulary(words))
    prefix = "NGram.from_corpus(1 sentences, order=5): "
    assert [str(warning.message) for warning in caught] == [prefix + note for note in table.notes]


def test_a_text_without_a_word_has_a_model_too() -> None:
    words = ("a", BOUNDARY)
    table = estimate(stream_of([()], words), words, order=3)
    assert table.order == 2
    assert np.exp(written_out(listed(table), words, contexts(words, 2))).sum(1) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("stream", "given", "message"),
    [
        ([1, 0, 1], {"order": 0}, "the order of an n-gram model must be 1 or more, found 0"),
        ([1, 0, 1], {"min_counts": [1, -2]}, r"the least counts of n-grams must be 0 or more, found \[1, -2\]"),
        ([0, 1], {}, "must begin and end with the end of a sentence"),
        ([1, 0], {}, "must begin and end with the end of a sentence"),
        ([1], {}, "must begin and end with the end of a sentence"),
    ],
)
def test_what_cannot_be_estimated(stream: list[int], given: dict[str, int], message: str) -> None:
    with pytest.raises(BackgroundError, match=message):
        estimate(np.array(stream), ("a", BOUNDARY), **given)  # type: ignore[arg-type]


# --- whole distributions ------------------------------------------------------------------------------------------


@st.composite
def any_table(draw: st.DrawFn) -> NGramTable:
    """n-grams of which only the prefixes are sure to be listed, with any weights, also where nothing follows."""
    order = draw(st.integers(1, 5))
    longest = (
        draw(st.lists(st.lists(st.sampled_from(WORDS), min_size=2, max_size=order).map(tuple), max_size=14))
        if order > 1
        else []
    )
    grams = {(word,) for word in WORDS} | {gram[:n] for gram in longest for n in range(1, len(gram) + 1)}
    number = st.floats(-6.0, 0.0, allow_nan=False)
    weight = st.one_of(st.just(0.0), st.floats(-3.0, 1.0, allow_nan=False))
    return table_of(WORDS, {gram: (draw(number), draw(weight)) for gram in sorted(grams)})


@st.composite
def thinned(draw: st.DrawFn) -> NGramTable:
    """An estimated table from which n-grams of middle orders were dropped, those that are no one's prefix."""
    order = draw(st.integers(3, 5))
    corpus = draw(corpora)
    table = estimate(stream_of(corpus, WORDS), WORDS, order=order, min_counts=draw(thresholds))
    grams = listed(table)
    chance = draw(st.randoms(use_true_random=False))
    for n in range(table.order - 1, 1, -1):
        prefixes = {gram[:-1] for gram in grams}
        for gram in sorted(gram for gram in grams if len(gram) == n and gram not in prefixes):
            if chance.random() < 0.5:
                del grams[gram]
    return table_of(WORDS, grams)


tables = st.one_of(any_table(), thinned())
texts = st.lists(st.sampled_from(WORDS), max_size=14).map(tuple)


def bound_to_words(table: NGramTable) -> NGram:
    return NGram(table).bind(Vocabulary(WORDS))


@given(tables, st.lists(texts, min_size=1, max_size=5))
@quick
def test_sparse_is_dense_is_brute(table: NGramTable, seen: list[Gram]) -> None:
    ngram = bound_to_words(table)
    wanted = written_out(listed(table), WORDS, seen)
    states = [after(ngram, context) for context in seen]
    N, V = len(seen), len(WORDS)
    for given_states in (states, Nodes(len(states), torch.tensor(states))):
        prior = ngram.prior(given_states)
        assert isinstance(prior, SparsePrior)
        assert_same(dense(prior, N), wanted)
        position, word = torch.arange(N).repeat_interleave(V), torch.arange(V).repeat(N)
        assert_same(prior.at(position, word).view(N, V).numpy(), wanted)
        keys = prior.exceptions.position * V + prior.exceptions.word
        assert (keys.diff() > 0).all()
        npt.assert_allclose(ngram.log_probs(given_states).numpy(), wanted, rtol=1e-5, atol=1e-5)
    out = torch.full((N, V), math.nan)
    assert ngram.log_probs(states, out=out) is out
    npt.assert_allclose(out.numpy(), wanted, rtol=1e-5, atol=1e-5)


@given(tables)
@quick
def test_completing_changes_no_probability(table: NGramTable) -> None:
    whole = completed(table)
    before, now = listed(table), listed(whole)
    assert before.items() <= now.items()
    assert all(gram[1:] in now for gram in now if len(gram) > 1)
    assert all((suffix >= 0).all() for suffix in whole.suffixes)
    asked = contexts(WORDS, 4)
    assert_same(written_out(now, WORDS, asked), written_out(before, WORDS, asked))
    for level in whole.levels:
        assert (np.diff(level.keys(len(WORDS))) > 0).all()


@given(tables, st.lists(texts.filter(bool), min_size=1, max_size=3), st.data())
@quick
def test_follow_is_the_fold_of_advance(table: NGramTable, rows: list[Gram], data: st.DataObject) -> None:
    """In one piece, and in pieces that go on from the states of those before."""
    ngram = bound_to_words(table)
    vocabulary = ngram.vocabulary
    T = max(len(row) for row in rows)
    inputs = torch.tensor([vocabulary.ids((*row, *[BOUNDARY] * (T - len(row)))) for row in rows])
    mask = torch.tensor(data.draw(st.lists(st.booleans(), min_size=inputs.numel(), max_size=inputs.numel())))
    mask = mask.view(inputs.shape)
    wanted = torch.tensor(ngram.scan([ngram.initial()] * len(rows), inputs.tolist()))
    cuts = sorted(data.draw(st.sets(st.integers(1, T), max_size=3)) - {T})
    states: Sequence[int] = [ngram.initial()] * len(rows)
    for start, stop in zip([0, *cuts], [*cuts, T], strict=True):
        piece = slice(start, stop)
        found, states = ngram.follow(states, Batch(inputs[:, piece], inputs[:, piece], mask[:, piece]))
        assert torch.equal(found.nodes, wanted[:, piece][mask[:, piece]])
        assert list(states) == wanted[:, stop - 1].tolist()


def known_suffix(grams: Grams, context: Gram) -> Gram:
    """The longest suffix that matters: something follows it, or it has a weight; or else the last word, or nothing."""
    alive = {gram[:-1] for gram in grams} | {gram for gram, (_, weight) in grams.items() if weight}
    suffixes = (context[i:] for i in range(len(context) + 1))
    return next(suffix for suffix in suffixes if suffix in alive or len(suffix) < 2)


@given(tables, texts, texts)
@quick
def test_the_state_is_the_longest_known_suffix(table: NGramTable, one: Gram, other: Gram) -> None:
    """So that hypotheses of a decoder may share their states, and a long text needs no long memory."""
    ngram = bound_to_words(table)
    whole = completed(table)
    nodes = [tuple(WORDS[i] for i in row) for n in range(1, table.order + 1) for row in whole.history(n).tolist()]
    nodes.append(())  # the empty context is node -1
    longest = max(table.order - 1, 1)
    suffixes = [known_suffix(listed(whole), context[-longest:]) for context in (one, other)]
    states = [after(ngram, context) for context in (one, other)]
    assert [nodes[state] for state in states] == suffixes
    assert (states[0] == states[1]) == (suffixes[0] == suffixes[1])


def test_missing_suffixes_at_every_depth() -> None:
    """`a b c a` alone, without any of its suffixes: what is listed for its sake changes nothing."""
    grams: dict[Gram, tuple[float, float]] = {(word,): (-1.0 - i, -0.25 * i) for i, word in enumerate(WORDS)}
    grams |= {("a", "b"): (-0.5, -0.75), ("a", "b", "c"): (-0.25, -1.5), ("a", "b", "c", "a"): (-0.125, 0.0)}
    table = table_of(WORDS, grams)
    now = listed(completed(table))
    assert set(now) - set(grams) == {("b", "c"), ("c", "a"), ("b", "c", "a")}
    assert now["b", "c", "a"] == (log_p(grams, ("b", "c"), "a"), 0.0)
    ngram = bound_to_words(table)
    asked = contexts(WORDS, 4)
    states = [after(ngram, context) for context in asked]
    wanted = written_out(grams, WORDS, asked)
    assert_same(dense(ngram.prior(states), len(asked)), wanted)


def test_the_weight_of_a_context_that_nothing_follows_counts() -> None:
    """Pruned models and restricted vocabularies leave such contexts; the definition does not except them."""
    grams: dict[Gram, tuple[float, float]] = {(word,): (-1.0, -0.5) for word in WORDS}
    grams |= {("a", "b"): (-0.5, -2.0), ("c", "a"): (-0.75, -0.125), ("c", "a", "b"): (-0.25, 0.0)}
    ngram = bound_to_words(table_of(WORDS, grams))
    wanted = written_out(grams, WORDS, [("a", "b")])
    assert_same(dense(ngram.prior([after(ngram, ["a", "b"])]), 1), wanted)


def test_a_trie_of_words_alone() -> None:
    table = table_of(WORDS, {(word,): (math.log(p), 0.0) for word, p in zip(WORDS, (0.1, 0.2, 0.3, 0.4), strict=True)})
    trie = Trie.from_table(table)
    assert trie.order == 1
    rows = trie.rows(torch.tensor([0, 3]))
    assert rows.rest.tolist() == [0.0, 0.0]
    assert len(rows.position) == len(rows.word) == len(rows.log_prob) == 0
    assert trie.states(torch.tensor([2]), torch.tensor([[1, 3]])).tolist() == [[1, 3]]


def test_no_states_at_all() -> None:
    words = (*names(), UNSEEN)
    ngram = NGram(estimate(stream_of(babble(50, 0), words), words, order=3)).bind(Vocabulary(words))
    assert ngram.prior([]).n == 0
    assert dense(ngram.prior([]), 0).shape == (0, len(words))


def test_an_unbound_model_says_so() -> None:
    table = estimate(stream_of([("a",)], WORDS), WORDS, order=2)
    corpus = Corpus.from_sentences([["a"], ["b"]])
    for made in (NGram(table), NGram.from_corpus(corpus, folds=0, order=2)):
        with pytest.raises(BackgroundError, match=r"must be bound to a vocabulary before it is used: .bind"):
            made.prior([0])


def test_saved_and_restored() -> None:
    table = estimate(stream_of(babble(80, 3), names()), names(), order=4, min_counts=(1, 1, 2))
    ngram = NGram(table).bind(Vocabulary(names()))
    again = NGram.restored(ngram.saved()).bind(Vocabulary(names()))
    states = [after(ngram, context) for context in babble(30, 4)]
    assert [after(again, context) for context in babble(30, 4)] == states
    npt.assert_array_equal(dense(again.prior(states), 30), dense(ngram.prior(states), 30))
    assert repr(again) == repr(ngram) == f"NGram(order=4, {table.size} n-grams)"


# --- other vocabularies -------------------------------------------------------------------------------------------

OPEN = ("a", "b", BOUNDARY, "c", UNKNOWN)


@given(corpora, st.integers(1, 4), st.permutations(WORDS))
@quick
def test_the_order_of_words_does_not_matter(corpus: list[Gram], order: int, symbols: list[str]) -> None:
    table = estimate(stream_of(corpus, WORDS), WORDS, order=order)
    moved = for_vocabulary(table, Vocabulary(symbols))
    assert moved.words == tuple(symbols)
    assert listed(moved) == listed(table)
    for level in moved.levels:
        assert (np.diff(level.keys(len(WORDS))) > 0).all()
    assert for_vocabulary(table, Vocabulary(WORDS)) is table


def with_unknown(corpus: Sequence[Gram]) -> list[Gram]:
    """Some `b` become unknown: `<unk>` occurs in contexts, and after them."""
    return [tuple(UNKNOWN if w == "b" and (i + j) % 2 else w for j, w in enumerate(s)) for i, s in enumerate(corpus)]


@pytest.mark.parametrize("unknown", [None, UNKNOWN, "UNK"])
@given(corpus=corpora, order=st.integers(1, 4), seen=st.lists(texts, min_size=1, max_size=4))
@quick
def test_other_words_share_the_mass_of_the_unknown_word(
    unknown: str | None, corpus: list[Gram], order: int, seen: list[Gram]
) -> None:
    """In every context, in equal parts, with the symbol for unknown words where the vocabulary has one: still 1."""
    corpus = with_unknown(corpus)
    table = estimate(stream_of(corpus, OPEN), OPEN, order=order)
    others = ["x", "y", *([unknown] if unknown else [])]
    vocabulary = Vocabulary(["x", *WORDS[::-1], *others[1:]], unknown=unknown)
    ngram = NGram(table).bind(vocabulary)
    brute = KneserNey(corpus, OPEN, order)
    states = [after(ngram, context) for context in seen]
    found = np.exp(dense(ngram.prior(states), len(seen)))
    npt.assert_allclose(found.sum(1), 1.0, rtol=1e-9)
    for row, context in zip(found, seen, strict=True):
        share = brute.p(context, UNKNOWN) / len(others)
        for word in others:
            assert row[vocabulary.id(word)] == pytest.approx(share, rel=1e-9)
        for word in WORDS:
            assert row[vocabulary.id(word)] == pytest.approx(brute.p(context, word), rel=1e-9)


SHARING = [
    pytest.param((*WORDS, "x", "y", "z"), None, id="no symbol for unknown words"),
    pytest.param(("x", *WORDS, UNKNOWN, "y"), UNKNOWN, id="unknown is <unk>"),
    pytest.param(("UNK", "x", *WORDS[::-1], "y"), "UNK", id="unknown has another name"),
    pytest.param(("x", "a", BOUNDARY, "y", "z"), None, id="words left out"),
    pytest.param((UNKNOWN, "x", "a", BOUNDARY, "y"), None, id="<unk> is a word like any other"),
]
SEEN: list[Gram] = [
    (),
    ("a",),
    ("a", "x"),
    ("x", "a"),
    (BOUNDARY, "a"),
    (BOUNDARY, "a", "a"),
    ("a", BOUNDARY, "a", "a"),
]
TOGETHER: list[Gram] = [
    ("a", "b", "c"),
    ("b", "c", "b"),
    ("a", "b", "c", "b", "a"),
    ("a", "a", "b", "b"),
    ("c", "a", "b"),
]


def bound_both_ways(
    corpus: Sequence[Gram], order: int, symbols: Sequence[str], unknown: str | None, pruned: Sequence[int] = ()
) -> tuple[NGram, NGram, NGramTable]:
    """An n-gram model as it is bound, and the same with every n-gram of every word listed; and before it was bound."""
    table = estimate(stream_of(with_unknown(corpus), OPEN), OPEN, order=order, min_counts=pruned)
    vocabulary = Vocabulary(symbols, counts=[5] * len(symbols), unknown=unknown)
    spread = table_of(symbols, spread_out(listed(table), symbols, unknown))
    return NGram(table, restrict=True).bind(vocabulary), NGram(spread).bind(vocabulary), table


@pytest.mark.parametrize(("symbols", "unknown"), SHARING)
@given(corpus=corpora, order=st.integers(1, 4), pruned=thresholds)
@quick
def test_words_that_share_say_what_they_would_say_if_they_were_listed(
    symbols: tuple[str, ...], unknown: str | None, corpus: list[Gram], order: int, pruned: tuple[int, ...]
) -> None:
    """Priors, single words, rows, scores, temperatures: all against the definition, word by word."""
    ngram, spread, table = bound_both_ways(corpus, order, symbols, unknown, pruned[:order])
    assert ngram.table.size <= table.size + len(symbols) + 1  # whatever the number of words that share
    wanted = written_out(spread_out(listed(table), symbols, unknown), symbols, SEEN)
    states = [after(ngram, context) for context in SEEN]
    prior, n, V = ngram.prior(states), len(SEEN), len(symbols)
    assert_same(dense(prior, n), wanted)
    grid = torch.arange(n).repeat_interleave(V), torch.arange(V).repeat(n)
    assert_same(prior.at(*grid).view(n, V).numpy(), wanted)
    npt.assert_allclose(ngram.log_probs(states).numpy(), wanted, atol=1e-5)
    npt.assert_allclose(ngram.log_probs(states, out=torch.empty(n, V)).numpy(), wanted, atol=1e-5)
    assert_same(dense(prior.powered(0.5), n), 0.5 * wanted)
    text = [ngram.vocabulary.id(word) for context in SEEN for word in (BOUNDARY, *context, "y")]
    for found, should in zip(ngram.score(text), spread.score(text), strict=True):
        assert_same(found.numpy(), should.numpy())
    again = NGram.restored(ngram.saved()).bind(ngram.vocabulary)
    assert_same(dense(again.prior(states), n), wanted)
    assert {gram: p for gram, (p, _) in listed(every_ngram(ngram.table)).items()} == pytest.approx(
        {gram: p for gram, (p, _) in listed(spread.table).items()}
    )
    backwards = ngram.bind(Vocabulary(symbols[::-1], unknown=unknown))
    assert_same(dense(backwards.prior([after(backwards, context) for context in SEEN]), n), wanted[:, ::-1])


SMALLER = [
    pytest.param(("a", BOUNDARY, UNKNOWN), UNKNOWN, id="fewer words"),
    pytest.param(("UNK", BOUNDARY, "c"), "UNK", id="fewer words, unknown has another name"),
    pytest.param(OPEN, None, id="the same words"),
]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("symbols", "unknown"), [*SHARING, *SMALLER])
def test_a_bound_model_reads_a_history_as_the_file_does(
    symbols: tuple[str, ...], unknown: str | None, seed: int, tmp_path: Path
) -> None:
    """`<unk>` in every place of random ARPA files: `llrnn score`, the bound model, and the definition."""
    grams, path = drawn_grams(OPEN, 3, random.Random(seed)), tmp_path / "drawn.arpa"
    write_table(table_of(OPEN, grams), path)
    asked, vocabulary = over_own_words(read_table(path)), Vocabulary(symbols, unknown=unknown)
    bound = NGram.from_path(path, restrict=True).bind(vocabulary)
    read = {word: word if word in OPEN and word != unknown else UNKNOWN for word in symbols}
    part = {word: math.log([*read.values()].count(UNKNOWN)) if read[word] == UNKNOWN else 0.0 for word in symbols}
    seen, text = [*product(symbols, repeat=2)], [word for gram in product(symbols, repeat=3) for word in gram]
    wanted = [[log_p(grams, (read[x], read[y]), read[word]) - part[word] for word in symbols] for x, y in seen]
    npt.assert_allclose(dense(bound.prior([after(bound, one) for one in seen]), len(seen)), wanted, atol=1e-6)
    queried, _ = asked.score(asked.vocabulary.ids([read[word] for word in text]))
    found, _ = bound.score(vocabulary.ids(text))
    npt.assert_allclose(found, queried - torch.tensor([part[word] for word in text[1:]]), atol=1e-12)


@pytest.mark.parametrize(("symbols", "unknown"), SHARING)
def test_words_that_share_in_products_mixtures_folds_and_experts(symbols: tuple[str, ...], unknown: str | None) -> None:
    ngram, spread, _ = bound_both_ways(TOGETHER, 3, symbols, unknown)
    assert ngram.table.shared is not None
    vocabulary, V = ngram.vocabulary, len(symbols)
    counts = Unigram({word: 1 + number for number, word in enumerate(symbols)})
    inputs = torch.tensor([[vocabulary.id(word) for word in (BOUNDARY, "a", "x", "a", "a", BOUNDARY)]])
    mask = torch.ones_like(inputs, dtype=torch.bool)

    def prior_of(background: Background) -> Array:
        bound = background.bind(vocabulary)
        states, _ = bound.follow([bound.initial()], Batch(inputs, inputs, mask))
        return dense(bound.prior(states), inputs.shape[1])

    def features_of(background: Background) -> Array:
        expert = Expert(background).bind(vocabulary)
        states, _ = expert.follow([expert.initial()], Batch(inputs, inputs, mask))
        values = expert.values(states)
        assert (torch.diff(values.position * V + values.word) > 0).all()
        position, word = torch.cartesian_prod(torch.arange(inputs.shape[1]), torch.arange(V)).unbind(1)
        found: Array = values.at(position, word, V).numpy()
        return found

    def mixed(background: Background) -> Background:
        return Mixture(background, counts, weights=[0.7, 0.3])

    assert_same(prior_of(ngram * counts), prior_of(spread * counts))
    assert_same(prior_of(ngram * ngram), prior_of(spread * spread))
    assert_same(prior_of(mixed(ngram)), prior_of(mixed(spread)))
    npt.assert_allclose(features_of(ngram), features_of(spread), atol=1e-6)
    npt.assert_allclose(features_of(mixed(ngram)), features_of(mixed(spread)), atol=1e-6)


def test_an_expert_lists_the_smaller_part_of_the_words_that_differ() -> None:
    """Nothing but its n-grams where `<unk>` was not seen, and the listed words alone where most words share."""
    symbols = (*WORDS, *(f"x{number}" for number in range(100)))
    ngram, _, _ = bound_both_ways(TOGETHER, 3, symbols, None)
    expert = Expert(ngram).bind(ngram.vocabulary)
    for context in ((), ("x1",), ("a",), ("a", "b")):
        values = expert.values([after(ngram, context)])
        assert len(values.word) <= len(WORDS)


@pytest.mark.parametrize("way", ["words", "static"])
@pytest.mark.parametrize(("symbols", "unknown"), SHARING)
def test_a_model_over_words_that_share_is_the_same_model(
    symbols: tuple[str, ...], unknown: str | None, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As background and as expert: log p and gradients, top words; saved, with words added and removed."""
    monkeypatch.setattr(Distribution, "way", way)
    ngram, spread, _ = bound_both_ways(TOGETHER, 3, symbols, unknown)
    sentences: list[Gram] = [("a", "x", "a"), ("a", "a", "y", "y"), ("y",), ("a",)]

    def model_with(background: NGram) -> LLRNN:
        made = LLRNN(
            background.vocabulary,
            output_features=Identity(top=3),
            background=background,
            contextual=[Expert(background)],
            controller=GRU(4),
            seed=2,
        ).double()
        generator = torch.Generator().manual_seed(0)
        for parameter in made.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / 2
        return made

    def log_p(model: LLRNN) -> Array:
        known = [sentence for sentence in sentences if all(word in model.vocabulary for word in sentence)]
        found: Array = score(
            model, EncodedText.encode(Corpus.from_sentences(known), model.vocabulary)
        ).log_probs.numpy()
        return found

    ours, theirs = model_with(ngram), model_with(spread)
    wanted = log_p(theirs)
    npt.assert_allclose(log_p(ours), wanted, atol=1e-6)
    ours.save(tmp_path)
    npt.assert_allclose(log_p(load(tmp_path)), wanted, atol=1e-6)
    for added, removed in ([("new", "newer"), ()], [(), ("y",)], [("new",), ("x", "UNK")], [(), (UNKNOWN, "x")]):

        def changed(model: LLRNN, added: Gram = added, removed: Gram = removed) -> LLRNN:
            more = add(model, [Entry(word, count=2) for word in added])
            return remove(more, [word for word in removed if word in symbols and word != unknown])

        npt.assert_allclose(log_p(changed(ours)), log_p(changed(theirs)), atol=1e-6)
    gradients: list[Array] = []
    figures: list[Array] = []
    for model in (ours, theirs):
        (batch,) = Sentences(10**7).plan(EncodedText.encode(Corpus.from_sentences(sentences), model.vocabulary))
        gradients.append(torch.autograd.grad(model.log_prob(batch).mean(), model.layer.weight)[0].numpy())
        with torch.no_grad():
            tempered = model.scan(batch)[0].tempered(0.7)
            best, _ = tempered.top(len(symbols))
            npt.assert_allclose(best.exp().sum(1), 1.0, atol=1e-6)
            figures.append(np.append(tempered.entropy().numpy(), best.numpy()))
    npt.assert_allclose(gradients[0], gradients[1], atol=1e-6)
    npt.assert_allclose(figures[0], figures[1], atol=1e-5)


def test_sharing_words_are_written_out_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    ngram, spread, _ = bound_both_ways(TOGETHER, 2, (*WORDS, "x", "y"), None)
    more = spread.table.size - (ngram.table.size - 1)
    assert more > 0
    monkeypatch.setattr(binding, "MOST_LISTED", 3)
    with pytest.raises(BackgroundError, match=r"2 words share .*have \d+ n-grams, and at most 3 are"):
        every_ngram(ngram.table)


def test_an_unknown_word_that_the_vocabulary_lists_as_a_word_shares_too() -> None:
    table = estimate(stream_of(with_unknown([("a", "b"), ("b", "b", "c")]), OPEN), OPEN, order=3)
    vocabulary = Vocabulary([*OPEN, "x"])
    ngram = NGram(table).bind(vocabulary)
    for context in ([], ["a"], ["b", UNKNOWN], ["x"], ["a", "x"]):
        row = np.exp(dense(ngram.prior([after(ngram, context)]), 1))[0]
        assert row.sum() == pytest.approx(1.0)
        assert row[vocabulary.id("x")] == pytest.approx(row[vocabulary.id(UNKNOWN)])


def test_the_unknown_word_keeps_its_contexts_under_another_name() -> None:
    corpus = with_unknown([("a", "b", "c"), ("b", "c"), ("a", "b", "c", "b")])
    table = estimate(stream_of(corpus, OPEN), OPEN, order=3)
    vocabulary = Vocabulary([*WORDS, "UNK"], unknown="UNK")
    ngram, brute = NGram(table).bind(vocabulary), KneserNey(corpus, OPEN, 3)
    for context in contexts(OPEN, 2):
        renamed = ["UNK" if word == UNKNOWN else word for word in context]
        wanted = brute.log_probs(context)
        assert_same(dense(ngram.prior([after(ngram, renamed)]), 1)[0], np.array(wanted))


@given(corpora, st.integers(1, 4), st.sets(st.sampled_from("abc"), min_size=1, max_size=2))
@quick
def test_a_restricted_model_leaves_words_out_and_changes_no_other(
    corpus: list[Gram], order: int, gone: set[str]
) -> None:
    """The words that stay keep their ratios in every context; a constant of a context is no one's concern."""
    table = estimate(stream_of(corpus, WORDS), WORDS, order=order)
    stays = [word for word in WORDS if word not in gone]
    ngram = NGram(table, restrict=True).bind(Vocabulary(stays))
    asked = contexts(stays, 3)
    found = dense(ngram.prior([after(ngram, context) for context in asked]), len(asked))
    wanted = written_out(listed(table), stays, asked)
    assert_same(
        found - np.logaddexp.reduce(found, 1, keepdims=True), wanted - np.logaddexp.reduce(wanted, 1, keepdims=True)
    )


@pytest.mark.parametrize(
    ("listed_words", "symbols", "message"),
    [
        (
            (*"abcdefg", BOUNDARY), ("a", BOUNDARY),
            "the n-gram model lists 6 words that the vocabulary does not, such as 'b', 'c', 'd', 'e', 'f', ...; build "
            "the vocabulary from the same text, or leave them out of the model: restrict=True (--restrict)",
        ),
        (
            ("a", "b", BOUNDARY), ("a", BOUNDARY),
            "the n-gram model lists 1 words that the vocabulary does not, such as 'b'; build "
            "the vocabulary from the same text, or leave them out of the model: restrict=True (--restrict)",
        ),
        (
            ("a", BOUNDARY), (*"abcdefg", BOUNDARY),
            "the n-gram model does not list 6 words of the vocabulary, such as 'b', 'c', 'd', 'e', 'f', ..., and has "
            "no <unk> whose mass they could share; estimate it with <unk>, or with this vocabulary",
        ),
    ],
)  # fmt: skip
def test_words_that_do_not_fit_are_counted_and_named(
    listed_words: tuple[str, ...], symbols: tuple[str, ...], message: str
) -> None:
    table = estimate(stream_of([("a",)], listed_words), listed_words, order=2)
    with pytest.raises(BackgroundError, match=f"^{re.escape(message)}$"):
        for_vocabulary(table, Vocabulary(symbols))


@quiet
def test_a_restricted_estimate_counts_the_words_that_it_leaves_out() -> None:
    sentences = babble(60, 5)
    corpus = Corpus.from_sentences(sentences)
    stays = tuple(word for word in names() if word not in ("w3", "w4"))
    with pytest.raises(UnknownWordError, match="sentence"):
        NGram.from_corpus(corpus, order=3, folds=0).bind(Vocabulary(stays))
    ngram = NGram.from_corpus(corpus, order=3, folds=0, restrict=True).bind(Vocabulary(stays))
    assert isinstance(ngram, NGram)
    brute = KneserNey(sentences, names(), 3)
    for context in (("w0",), ("w1", "w2"), ("w5", "w8", "w0")):
        wanted = [math.log(brute.p(context, word)) for word in stays]
        assert_same(dense(ngram.prior([after(ngram, context)]), 1)[0], np.array(wanted))


# --- cross-fitting ------------------------------------------------------------------------------------------------

FOLDS = 3
SENTENCES = babble(40, seed=11)
CORPUS = Corpus.from_sentences(SENTENCES)
VOCABULARY = Vocabulary(names())
BATCHINGS: dict[str, Batching] = {
    "sentences": Sentences(words=40),
    "continuous": Continuous(rows=3, length=5),
    "continuous, long": Continuous(rows=2, length=64),
    "continuous, one column": Continuous(rows=4, length=1),
    "sliding": Sliding(length=3, rows=16),
}
ORDER = 3


def fold_of(sentence: Sequence[str]) -> int:
    return sentence_key(sentence) % FOLDS


def brutes() -> list[KneserNey]:
    """One for each fold, without its sentences, and the whole."""
    without = [[s for s in SENTENCES if fold_of(s) != fold] for fold in range(FOLDS)]
    return [KneserNey(part, names(), ORDER) for part in [*without, SENTENCES]]


def crossfitted() -> CrossFitted:
    made = NGram.from_corpus(CORPUS, order=ORDER, folds=FOLDS).bind(VOCABULARY)
    assert isinstance(made, CrossFitted)
    return made


def owners(text: Sequence[Gram]) -> dict[int, Gram]:
    return {sentence_key(sentence): sentence for sentence in text}


def expected(batching: Batching, text: EncodedText, seed: int | None) -> list[Array]:
    """For each batch, log p at the positions that count: by the fold of the target, after all that its row was fed."""
    models, words = brutes(), names()
    fed: list[Gram] = []
    found = []
    for batch in batching.plan(text, seed=seed):
        if not fed or not batching.carries_state:
            fed = [()] * len(batch.inputs)
        rows: list[list[float]] = []
        for b, (inputs, counts) in enumerate(zip(batch.inputs.tolist(), batch.mask.tolist(), strict=True)):
            for t, (word, counted) in enumerate(zip(inputs, counts, strict=True)):
                fed[b] = (*fed[b], words[word])
                if counted:
                    key = None if batch.sentences is None else int(batch.sentences[b, t])
                    model = models[-1 if key is None else fold_of(owners(SENTENCES)[key])]
                    rows.append(model.log_probs(fed[b]))
        found.append(np.array(rows).reshape(-1, len(words)))
    return found


def followed(
    background: Background, batching: Batching, text: EncodedText, seed: int | None
) -> list[tuple[Sequence[Any], int]]:
    """What a model asks of its background, batch by batch."""
    found: list[tuple[Sequence[Any], int]] = []
    states: Sequence[object] | None = None
    for batch in batching.plan(text, seed=seed):
        if states is None or not batching.carries_state:
            states = [background.initial() for _ in batch.inputs]
        seen, states = background.follow(states, batch)
        found.append((seen, int(batch.mask.sum())))
    return found


@quiet
@pytest.mark.parametrize("keyed", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("name", BATCHINGS)
def test_a_training_sentence_sees_the_model_without_its_fold(name: str, keyed: bool) -> None:
    """And any other text the model of the whole."""
    background = crossfitted()
    text = (EncodedText.to_train_on if keyed else EncodedText.encode)(CORPUS, VOCABULARY)
    wanted = expected(BATCHINGS[name], text, seed=4)
    asked = followed(background, BATCHINGS[name], text, seed=4)
    assert len({fold_of(sentence) for sentence in SENTENCES}) == FOLDS
    V = len(VOCABULARY)
    for (states, n), rows in zip(asked, wanted, strict=True):
        prior = background.prior(states)
        assert_same(dense(prior, n), rows)
        position, word = torch.arange(n).repeat_interleave(V), torch.arange(V).repeat(n)
        assert_same(prior.at(position, word).view(n, V).numpy(), rows)
    assert len(np.concatenate(wanted)) == text.n_targets


@quiet
def test_the_folds_make_a_difference() -> None:
    """Or else the test above could not fail."""
    text = EncodedText.to_train_on(CORPUS, VOCABULARY)
    keyed, whole = (
        np.concatenate(expected(Sentences(), given, None)) for given in (text, EncodedText.encode(CORPUS, VOCABULARY))
    )
    assert (np.abs(keyed - whole).max(1) > 0.01).mean() > 0.9


def test_equal_sentences_share_their_fold() -> None:
    """Whatever the order of the text, and wherever they stand."""
    text = EncodedText.to_train_on(CORPUS, VOCABULARY)
    backwards = EncodedText.to_train_on(Corpus(CORPUS.sentences[::-1]), VOCABULARY)
    assert text.keys is not None
    assert backwards.keys is not None
    assert text.keys.tolist() == backwards.keys.tolist()[::-1]
    by_words: dict[Gram, set[int]] = {}
    for sentence, key in zip(SENTENCES, text.keys.tolist(), strict=True):
        by_words.setdefault(sentence, set()).add(key)
    assert all(len(keys) == 1 for keys in by_words.values())
    assert len(by_words) < len(SENTENCES)
    assert len({next(iter(keys)) for keys in by_words.values()}) == len(by_words)


@quiet
def test_the_states_of_single_steps_are_of_the_whole() -> None:
    background = crossfitted()
    whole = background.whole
    state, own = background.initial(), whole.initial()
    for word in VOCABULARY.ids(["w0", "w1", "w2", BOUNDARY, "w0"]):
        state, own = background.advance(state, word), whole.advance(own, word)
        npt.assert_array_equal(dense(background.prior([state]), 1), dense(whole.prior([own]), 1))


@quiet
def test_no_states_of_a_cross_fitted_background() -> None:
    background = crossfitted()
    assert background.prior([]).n == 0
    nothing = torch.zeros(2, 3, dtype=torch.bool)
    inputs = torch.full((2, 3), VOCABULARY.eos)
    keys = torch.tensor([[0, 0, 0], [1, 1, 1]])
    states, _ = background.follow([background.initial()] * 2, Batch(inputs, inputs, nothing, None, keys))
    assert background.prior(states).n == 0


def test_too_few_folds_or_sentences_are_refused() -> None:
    with pytest.raises(BackgroundError, match="cross-fitting needs 2 folds or more, found 1"):
        NGram.from_corpus(CORPUS, folds=1)
    same = Corpus.from_sentences([["a", "b"]] * 3)
    for corpus, found in ((same, "10 folds of 3"), (Corpus(()), "10 folds of 0")):
        with pytest.raises(BackgroundError, match=f"{found} sentences leave nothing to estimate on; .*folds=0"):
            NGram.from_corpus(corpus)


def test_the_folds_say_nothing_that_the_whole_has_said() -> None:
    with pytest.warns(EstimationWarning) as caught:
        crossfitted()
    assert {str(warning.message).split(":")[0] for warning in caught} == {
        f"NGram.from_corpus({len(CORPUS)} sentences, order={ORDER})"
    }


def small_model(background: Background) -> LLRNN:
    return LLRNN(VOCABULARY, output_features=Identity(), background=background, controller=GRU(4), seed=2)


@quiet
@pytest.mark.parametrize(
    "combined",
    [lambda b: b, lambda b: b * Mask(forbidden=["w8"]), lambda b: Mask(forbidden=["w8"]) * b],
    ids=["alone", "times a mask", "a mask times it"],
)
def test_a_restored_one_evaluates_as_before_and_refuses_to_train(combined: type[Background], tmp_path: Path) -> None:
    background = NGram.from_corpus(CORPUS, order=ORDER, folds=FOLDS)
    model = small_model(combined(background))  # type: ignore[call-arg]
    model.save(tmp_path)
    again = load(tmp_path)
    assert repr(again.background) == repr(model.background)
    without = Corpus.from_sentences([s for s in SENTENCES if "w8" not in s])
    text = EncodedText.encode(without, VOCABULARY)
    for batching in BATCHINGS.values():
        before, now = score(model, text, batching), score(again, text, batching)
        assert torch.equal(before.log_probs, now.log_probs)
    (batch,) = Sentences(10**6).plan(EncodedText.to_train_on(without, VOCABULARY))
    assert not torch.equal(model.log_prob(batch), model.log_prob(type(batch)(batch.inputs, batch.targets, batch.mask)))
    with pytest.raises(TrainingError, match=r"its folds are not kept.*give it again: llrnn.load\(folder, background="):
        again.log_prob(batch)
    given = load(tmp_path, background=combined(background))  # type: ignore[call-arg]
    assert torch.equal(given.log_prob(batch), model.log_prob(batch))


@quiet
def test_cross_fitting_tells_how_far_to_trust() -> None:
    """On its own text an n-gram model is sure of itself; cross-fitted it is as unsure as on another text."""
    corpus = Corpus.from_sentences(french.sentences(150, skip=1000)).lowercased()
    other = Corpus.from_sentences(french.sentences(150, skip=2000)).lowercased()
    vocabulary = Vocabulary.from_corpus(corpus, other)
    background = NGram.from_corpus(corpus, order=3, folds=5)
    model = LLRNN(vocabulary, output_features=Identity(top=1), background=background, controller=GRU(2))
    for parameter in model.parameters():
        parameter.data.zero_()  # p = b
    with torch.no_grad():
        (fitted,) = Sentences(10**7).plan(EncodedText.to_train_on(corpus, vocabulary))
        unsure = -float(model.log_prob(fitted).mean())
        sure = score(model, EncodedText.encode(corpus, vocabulary)).log_perplexity
        elsewhere = score(model, EncodedText.encode(other, vocabulary)).log_perplexity
    assert sure < elsewhere - 1.0
    assert unsure == pytest.approx(elsewhere, abs=0.4)
