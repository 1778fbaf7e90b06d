"""Log-probabilities of running text: back-off by its definition, and the hash table that finds the n-grams."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.testing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from brute import Array
from brute_ngrams import BOUNDARY, Gram, Grams, listed, log_p, spread_out, stream_of, table_of
from llrnn import Vocabulary
from llrnn.knowledge.backgrounds import NGram
from llrnn.languages.ngrams import UNKNOWN, NGramTable, estimate
from llrnn.languages.ngrams import table as module
from llrnn.languages.ngrams.table import HashIndex
from llrnn.languages.ngrams.trie import Trie, searched
from strategies import draws

torch.set_num_threads(1)
quick = settings(max_examples=draws(40))

WORDS = ("a", "b", BOUNDARY, "c")  # the boundary in the middle: no number is special
texts = st.lists(st.sampled_from(WORDS), max_size=30).map(tuple)
numbers = st.integers(0, 2**62)


@st.composite
def any_table(draw: st.DrawFn) -> NGramTable:
    """Orders 1 to 6; only prefixes of n-grams are sure to be listed, and any n-gram may have a weight."""
    order = draw(st.integers(1, 6))
    gram = st.lists(st.sampled_from(WORDS), min_size=1, max_size=order).map(tuple)
    longest = draw(st.lists(gram, max_size=20))
    grams = {(word,) for word in WORDS} | {gram[:n] for gram in longest for n in range(1, len(gram) + 1)}
    log_prob, weight = st.floats(-6.0, 0.0), st.one_of(st.just(0.0), st.floats(-3.0, 1.0))
    return table_of(WORDS, {gram: (draw(log_prob), draw(weight)) for gram in sorted(grams)})


def by_definition(grams: Grams, text: Gram) -> tuple[Array, list[int]]:
    """log p of each word but the first, and the length of the longest n-gram that is listed and ends in it."""
    order = max(map(len, grams))
    places = [(text[max(0, at - order + 1) : at], text[at]) for at in range(1, len(text))]
    log_probs = np.array([log_p(grams, context, word) for context, word in places])
    suffixes = [[(*context[cut:], word) for cut in range(len(context) + 1)] for context, word in places]
    return log_probs, [max(len(gram) for gram in some if gram in grams) for some in suffixes]


def scored(ngram: NGram, text: Gram) -> tuple[Array, list[int]]:
    log_prob, length = ngram.score(ngram.vocabulary.ids(text))
    return log_prob.numpy(), length.tolist()


@given(any_table(), texts)
@quick
def test_a_text_is_scored_as_back_off_is_defined(table: NGramTable, text: Gram) -> None:
    found, _ = scored(NGram(table).bind(Vocabulary(WORDS)), text)
    npt.assert_allclose(found, by_definition(listed(table), text)[0], rtol=0, atol=1e-12)


@given(st.lists(texts, max_size=6), st.integers(1, 6), st.lists(st.integers(0, 2), max_size=6), texts)
@quick
def test_estimated_and_pruned_models_say_the_length_of_the_ngram(
    corpus: list[Gram], order: int, pruned: list[int], text: Gram
) -> None:
    sentences = [tuple(word for word in one if word != BOUNDARY) for one in [*corpus, ("a",)]]
    table = estimate(stream_of(sentences, WORDS), WORDS, order=order, min_counts=pruned[:order])
    found, lengths = scored(NGram(table).bind(Vocabulary(WORDS)), (BOUNDARY, *text))
    wanted, longest = by_definition(listed(table), (BOUNDARY, *text))
    npt.assert_allclose(found, wanted, rtol=0, atol=1e-12)
    assert lengths == longest


@pytest.mark.parametrize("symbols", [(*WORDS, "x", "y"), ("x", *WORDS, UNKNOWN, "y"), ("x", "a", BOUNDARY)])
@given(corpus=st.lists(texts, min_size=1, max_size=6), order=st.integers(1, 5), data=st.data())
@quick
def test_words_that_the_model_does_not_list(
    symbols: tuple[str, ...], corpus: list[Gram], order: int, data: st.DataObject
) -> None:
    """They are found as `<unk>`, in every place of an n-gram."""
    words = (*WORDS, UNKNOWN)
    sentences = [tuple(UNKNOWN if w == "b" else w for w in one if w != BOUNDARY) for one in [*corpus, ("b", "b")]]
    table = estimate(stream_of(sentences, words), words, order=order)
    text = tuple(data.draw(st.lists(st.sampled_from(symbols), max_size=20)))
    found, _ = scored(NGram(table, restrict=True).bind(Vocabulary(symbols)), (BOUNDARY, *text))
    wanted, _ = by_definition(spread_out(listed(table), symbols), (BOUNDARY, *text))
    npt.assert_allclose(found, wanted, rtol=0, atol=1e-12)


@given(any_table(), texts.filter(bool))
@quick
def test_a_text_at_once_is_word_after_word(table: NGramTable, text: Gram) -> None:
    ngram = NGram(table).bind(Vocabulary(WORDS))
    ids, state = ngram.vocabulary.ids(text), ngram.initial()
    trie, found = ngram.trie(torch.device("cpu")), ngram.score(np.array(ids))
    for at, (before, word) in enumerate(pairwise(ids)):
        state = ngram.advance(state, before)
        one = torch.tensor([word])
        log_prob, length = trie.log_prob_of(torch.tensor([state]), one)
        assert (found[0][at], found[1][at]) == (log_prob[0], length[0])
        assert float(log_prob) == pytest.approx(float(ngram.prior([state]).at(torch.tensor([0]), one)), abs=1e-12)


@pytest.mark.parametrize("text", [(), (BOUNDARY,)])
def test_nothing_to_score(text: Gram) -> None:
    table = estimate(stream_of([("a", "b")], WORDS), WORDS, order=3)
    assert [len(part) for part in scored(NGram(table).bind(Vocabulary(WORDS)), text)] == [0, 0]


def test_children_of_nodes_in_any_layout() -> None:
    """A batch may come transposed."""
    table = estimate(stream_of([("a", "b", "c"), ("a", "b")], WORDS), WORDS, order=3)
    trie, node = Trie.from_table(table), torch.arange(-1, len(WORDS))[None].repeat(len(WORDS), 1)
    word = torch.arange(len(WORDS))[:, None].repeat(1, len(WORDS) + 1)
    wanted = trie.child(node, word)
    assert (wanted >= 0).any()
    assert (wanted[:, 0] == -1).all()
    assert torch.equal(trie.child(node.t(), word.t()), wanted.t())


# --- the hash table -----------------------------------------------------------------------------------------------

# numbers side by side, far apart, and such as differ in few bits only
keys = st.one_of(
    st.sets(st.integers(0, 60)),
    st.sets(numbers),
    st.tuples(st.integers(1, 2**20), st.integers(0, 40), st.integers(0, 200)).map(
        lambda drawn: {i * drawn[0] << drawn[1] for i in range(drawn[2])} if drawn[1] < 34 else {drawn[0]}
    ),
)


@given(keys, st.lists(st.one_of(numbers, st.integers(-70, 70)), max_size=30), st.integers(1, 64))
@quick
def test_keys_are_found_where_they_stand(some: set[int], others: list[int], at_once: int) -> None:
    """A few at once or all; what is not listed is not found; and a binary search, for other devices, says the same."""
    place = {key: at for at, key in enumerate(sorted(some))}
    asked = [*sorted(some), *others, *some]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_AT_ONCE", at_once)
        index = HashIndex(np.array(sorted(some), dtype=np.int64))
        found = index.find(np.array(asked, dtype=np.int64))
    assert found.tolist() == [place.get(key, -1) for key in asked]
    assert searched(torch.from_numpy(index.keys), torch.tensor(asked, dtype=torch.long)).tolist() == found.tolist()
