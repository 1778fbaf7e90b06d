"""Batches: every target exactly once, in an order that (seed, epoch, position) alone decide."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from llrnn import LLRNN, LSTM, Corpus, Vocabulary, french
from llrnn.ground.errors import ConfigError, TrainingError, UnknownWordError
from llrnn.knowledge.features import Identity
from llrnn.knowledge.process import Batch
from llrnn.model.scoring import Batching, Continuous, Sentences, Sliding, derived_seed, score
from llrnn.text.corpus import Sentence, Token
from llrnn.text.encoded import EncodedText, TrainingSummary
from llrnn.training.settings import TrainingSettings
from strategies import QUICK

EOS_ID = 0


def text_of(lengths: Sequence[int], conditions: Sequence[object] | None = None) -> EncodedText:
    """Sentences of these lengths in which no word occurs twice, so that a word says where it stands."""
    ends = np.cumsum([0, *lengths])
    sentences = tuple(np.arange(start + 1, end + 1, dtype=np.int64) for start, end in pairwise(ends))
    return EncodedText(sentences, tuple(conditions or [None] * len(sentences)), EOS_ID)


texts = st.one_of(
    st.sampled_from([[0], [1], [1, 1], [0, 0, 0], [7]]),
    st.lists(st.integers(0, 9), min_size=1, max_size=25),
).map(text_of)
sizes = st.integers(1, 40)
batchings = st.one_of(
    st.builds(Sentences, sizes), st.builds(Continuous, sizes, sizes), st.builds(Sliding, sizes, sizes)
)
seeds = st.one_of(st.none(), st.integers(0, 3))


def counted(batch: Batch) -> list[tuple[int, int]]:
    """The (input, target) pairs that count, row by row."""
    return list(zip(batch.inputs[batch.mask].tolist(), batch.targets[batch.mask].tolist(), strict=True))


def pairs_of(text: EncodedText) -> list[tuple[int, int]]:
    """The (input, target) pairs of a text, in its order."""
    found = []
    for sentence in text.sentences:
        symbols = [EOS_ID, *sentence.tolist(), EOS_ID]
        found += list(pairwise(symbols))
    return found


def same(one: Batch, other: Batch) -> bool:
    tensors = (torch.equal(getattr(one, name), getattr(other, name)) for name in ("inputs", "targets", "mask"))
    return all(tensors) and one.conditions == other.conditions


# --- every target once --------------------------------------------------------------------------------------------


@given(texts, batchings, seeds, st.integers(0, 2))
@QUICK
def test_every_target_is_predicted_exactly_once_from_its_own_predecessor(
    text: EncodedText, batching: Batching, seed: int | None, epoch: int
) -> None:
    plan = batching.plan(text, seed=seed, epoch=epoch)
    found = [pair for batch in plan for pair in counted(batch)]
    assert sorted(found) == sorted(pairs_of(text))
    assert len(found) == text.n_targets
    for batch in plan:
        assert batch.inputs.shape == batch.targets.shape == batch.mask.shape
        assert batch.mask.any(), "a batch in which nothing counts would have no loss"


@given(texts, sizes, seeds)
@QUICK
def test_sentence_batches_hold_whole_sentences_within_the_size(text: EncodedText, words: int, seed: int | None) -> None:
    rows = []
    for batch in Sentences(words).plan(text, seed=seed):
        B, T = batch.inputs.shape
        assert words >= B * T or B == 1
        for inputs, targets, mask in zip(batch.inputs, batch.targets, batch.mask, strict=True):
            length = int(mask.sum())
            assert mask[:length].all()
            assert inputs[0] == EOS_ID
            assert targets[length - 1] == EOS_ID
            rows.append(tuple(targets[: length - 1].tolist()))
    assert sorted(rows) == sorted(tuple(sentence.tolist()) for sentence in text.sentences)


@given(texts, sizes, sizes)
@QUICK
def test_continuous_rows_go_on_from_batch_to_batch(text: EncodedText, rows: int, length: int) -> None:
    plan = Continuous(rows, length).plan(text)
    assert len({len(batch.inputs) for batch in plan}) == 1
    assert all(len(batch.inputs) <= rows and batch.inputs.shape[1] <= length for batch in plan)
    inputs, targets, mask = (torch.cat([getattr(b, name) for b in plan], 1) for name in ("inputs", "targets", "mask"))
    whole = Batch(inputs, targets, mask)
    assert counted(whole) == pairs_of(text)  # strip after strip: the text in its own order
    shifted, kept = whole.inputs[:, 1:], whole.mask[:, 1:]
    assert torch.equal(shifted[kept], whole.targets[:, :-1][kept])


@given(texts, sizes, sizes)
@QUICK
def test_sliding_windows_predict_each_word_from_the_n_before_it(text: EncodedText, length: int, rows: int) -> None:
    stream = text.stream().tolist()
    seen = [
        (row.tolist(), int(target))
        for batch in Sliding(length, rows).plan(text)
        for row, target in zip(batch.inputs, batch.targets[batch.mask], strict=True)
    ]
    padded = [text.eos] * (length - 1) + stream
    assert seen == [(padded[i : i + length], stream[i + 1]) for i in range(len(stream) - 1)]
    shuffled = list(Sliding(length, rows).plan(text, seed=3))
    assert sorted(int(t) for b in shuffled for t in b.targets[b.mask]) == sorted(stream[1:])


# --- the order ----------------------------------------------------------------------------------------------------


@given(texts, batchings, st.integers(0, 5), st.integers(0, 5))
@QUICK
def test_the_order_follows_from_seed_epoch_and_position_alone(
    text: EncodedText, batching: Batching, seed: int, epoch: int
) -> None:
    first = list(batching.plan(text, seed=seed, epoch=epoch))
    np.random.seed(seed + 17)
    random.seed(5)
    torch.manual_seed(epoch + 3)
    again = batching.plan(text, seed=seed, epoch=epoch)
    for position in reversed(range(len(first))):  # any batch can be had without those before it
        assert same(first[position], again[position])


@pytest.mark.parametrize("batching", [Sentences(20), Sliding(3, 4)])
def test_another_seed_or_epoch_is_another_order(batching: Batching) -> None:
    text = text_of([3, 5, 4, 2, 6, 3, 5, 4] * 5)

    def order(seed: int | None, epoch: int) -> list[tuple[int, int]]:
        return [pair for batch in batching.plan(text, seed=seed, epoch=epoch) for pair in counted(batch)]

    orders = [order(0, 0), order(0, 1), order(1, 0), order(None, 0)]
    assert len({tuple(found) for found in orders}) == len(orders)
    assert order(None, 0) == order(None, 1)  # scoring goes in the order of the text


def test_sentences_of_a_batch_change_company_between_epochs() -> None:
    text = text_of([4] * 60)

    def companies(epoch: int) -> set[frozenset[int]]:
        return {frozenset(batch.targets[:, 0].tolist()) for batch in Sentences(25).plan(text, seed=0, epoch=epoch)}

    assert not companies(0) & companies(1)


def test_a_plan_can_be_sliced() -> None:
    plan = Sentences(10).plan(text_of([1, 2, 3, 4, 5]), seed=0)
    part = plan[1:3]
    assert len(part) == 2
    assert same(part[0], plan[1])
    assert same(part[1], plan[2])
    assert same(plan[-1], plan[len(plan) - 1])
    with pytest.raises(IndexError):
        plan[len(plan)]


def test_derived_seeds_are_the_same_on_every_machine() -> None:
    assert derived_seed(0, 0) == 23947242637076183
    assert derived_seed(3, 1, 4, 2) != derived_seed(3, 1, 42)
    assert len({derived_seed(seed, epoch) for seed in range(20) for epoch in range(20)}) == 400


def order_digest() -> str:
    """SHA-256 of all batches of a corpus in all three ways."""
    corpus = Corpus.from_sentences(french.sentences(60)).lowercased()
    text = EncodedText.encode(corpus, Vocabulary.from_corpus(corpus))
    digest = hashlib.sha256()
    ways: list[Batching] = [Sentences(100), Continuous(4, 7), Sliding(8, 5)]
    for batching in ways:
        for epoch in range(2):
            for batch in batching.plan(text, seed=3, epoch=epoch):
                digest.update(batch.inputs.numpy().tobytes() + batch.targets.numpy().tobytes())
    return digest.hexdigest()


@pytest.mark.slow
def test_the_order_is_the_same_in_another_process() -> None:
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "12345",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    command = "import sys, test_batches; sys.stdout.write(test_batches.order_digest())"
    found = subprocess.run([sys.executable, "-c", command], env=environment, capture_output=True, check=True, text=True)
    assert found.stdout == order_digest()


# --- conditions ---------------------------------------------------------------------------------------------------


def test_conditions_travel_with_their_sentences() -> None:
    lengths = [3, 1, 4, 1, 5, 2, 2]
    text = text_of(lengths, [f"condition {i}" for i in range(len(lengths))])
    by_first_word = {int(s[0]): c for s, c in zip(text.sentences, text.conditions, strict=True)}
    plan = Sentences(8).plan(text, seed=1)
    assert len(plan) > 2
    found = []
    for batch in plan:
        assert batch.conditions is not None
        assert list(batch.conditions) == [by_first_word[int(row[0])] for row in batch.targets]
        found += list(batch.conditions)
    assert sorted(map(str, found)) == sorted(map(str, text.conditions))


@pytest.mark.parametrize("batching", [Continuous(), Sliding()])
def test_running_text_has_no_room_for_conditions(batching: Batching) -> None:
    with pytest.raises(TrainingError, match="use the batching by sentences"):
        batching.plan(text_of([2, 3], [None, {"topic": "chat"}]))


# --- a text as numbers --------------------------------------------------------------------------------------------


def test_a_corpus_as_numbers() -> None:
    corpus = Corpus.from_sentences([["a", "b", "a"], [], ["b"]])
    vocabulary = Vocabulary.from_corpus(corpus)
    text = EncodedText.encode(corpus, vocabulary)
    assert text.n_targets == 7
    words = [vocabulary.symbols[symbol] for symbol in text.stream()]
    assert words == ["</s>", "a", "b", "a", "</s>", "</s>", "b", "</s>"]
    counts = dict(zip(vocabulary, text.counts(len(vocabulary)).tolist(), strict=True))
    assert counts == {"a": 2, "b": 2, "</s>": 3}


def test_unknown_words_are_told_all_at_once_and_the_first_one_first() -> None:
    vocabulary = Vocabulary.from_corpus(Corpus.from_sentences([["a", "b"]]))
    lines = ["a b", "b zut a ah", "oh zut hm b", "x y z"]
    corpus = Corpus.from_sentences([line.split() for line in lines])
    required = (
        r"sentence 1: the word 'zut' is not among the 3 symbols of the vocabulary, nor are 6 others: "
        r"'ah', 'oh', 'hm', 'x', \.\.\.; "
    )
    with pytest.raises(UnknownWordError, match=required):
        EncodedText.encode(corpus, vocabulary)
    with pytest.raises(UnknownWordError, match=r"'zut' is not among the 3 symbols of the vocabulary; add it"):
        EncodedText.encode(Corpus.from_sentences([["zut", "zut"]]), vocabulary)


def test_an_unlisted_word_is_named_with_its_sentence() -> None:
    vocabulary = Vocabulary.from_corpus(Corpus.from_sentences([["a"]]))
    with pytest.raises(UnknownWordError, match=r"sentence 1: the word 'zut'"):
        EncodedText.encode(Corpus.from_sentences([["a"], ["a", "zut"]]), vocabulary)


def test_what_was_seen() -> None:
    seen = TrainingSummary.of(text_of([2, 3, 4]), 20)
    assert seen.share_of(text_of([2, 3, 4])) == 1.0
    assert seen.share_of(text_of([2, 9])) == 0.5
    assert seen.share_of(text_of([9])) == 0.0
    assert seen.share_of(EncodedText((), (), EOS_ID)) == 0.0


class Opaque:
    """A condition that is not plain data; its repr holds its address."""


def test_the_digest_tells_texts_apart() -> None:
    def with_condition(condition: object) -> EncodedText:
        return text_of([2, 2], [condition, None])

    different = [
        text_of([2, 2]),
        text_of([1, 3]),
        text_of([4]),
        EncodedText(text_of([2, 2]).sentences[::-1], (None, None), EOS_ID),
        with_condition("a"),
        with_condition({"a": "b"}),
        text_of([2, 2], [None, "a"]),
        with_condition(Opaque()),
    ]
    assert len({text.digest() for text in different}) == len(different)
    assert with_condition({"a": 1, "b": 2}).digest() == with_condition({"b": 2, "a": 1}).digest()
    assert with_condition(Opaque()).digest() == with_condition(Opaque()).digest()


# --- scoring ------------------------------------------------------------------------------------------------------


def scored(batching: Batching | None, model: LLRNN, text: EncodedText) -> float:
    return score(model, text, batching).log_perplexity


def test_scores_do_not_depend_on_the_size_of_batches_where_the_context_is_the_same() -> None:
    corpus = Corpus.from_sentences(french.sentences(12)).lowercased()
    vocabulary = Vocabulary.from_corpus(corpus)
    text = EncodedText.encode(corpus, vocabulary)
    model = LLRNN(vocabulary, output_features=Identity(), controller=LSTM(8)).double()
    n = text.n_targets
    by_sentence = scored(None, model, text)
    assert scored(Sentences(20), model, text) == pytest.approx(by_sentence, rel=1e-12)
    strip = scored(Continuous(1, 10**6), model, text)
    assert scored(Continuous(1, 3), model, text) == pytest.approx(strip, rel=1e-12)  # the state is carried
    short = scored(Sliding(3, 4), model, text)  # and here it is not
    assert abs(short - strip) > 1e-6
    assert abs(by_sentence - strip) > 1e-6
    assert len(score(model, text, Sliding(3, 4)).log_probs) == n


def test_scoring_keeps_no_gradients() -> None:
    corpus = Corpus.from_sentences([Sentence((Token("a"), Token("b")))])
    model = LLRNN(Vocabulary.from_corpus(corpus), output_features=Identity(), controller=LSTM(3))
    text = EncodedText.encode(corpus, model.vocabulary)
    assert not score(model, text).log_probs.requires_grad


# --- settings -----------------------------------------------------------------------------------------------------


def test_the_three_ways_by_name() -> None:
    made = [
        TrainingSettings().changed(batches=given).batches.make()
        for given in (
            {"kind": "sentences", "words": 5},
            {"kind": "continuous", "rows": 2, "length": 3},
            {"kind": "sliding", "length": 4, "rows": 6},
        )
    ]
    assert made == [Sentences(5), Continuous(2, 3), Sliding(4, 6)]
    assert [batching.carries_state for batching in made] == [False, True, False]


def test_zero_switches_clipping_and_patience_off() -> None:
    """TOML has no word for nothing."""
    changed = TrainingSettings().changed(clip=0, patience=0)
    assert changed.clip is None
    assert changed.patience is None
    assert TrainingSettings().clip is not None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batches": {"kind": "pages"}}, "batches"),
        (
            {"batches": {"kind": "sliding", "length": 0}},
            "batches.length: .*greater than or equal to 1, found 0",
        ),
        ({"batches": {"kind": "sentences", "rows": 3}}, "no such key"),
        ({"learning_rate": 0}, "learning_rate: .*greater than 0, found 0"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"optimizer": "lion"}, "optimizer: .*'sgd', 'rmsprop' or 'adamw', found 'lion'"),
        ({"clip": -1.0}, "clip"),
        ({"epochs": 0}, "epochs"),
        ({"patience": -1}, "patience"),
        ({"epoch": 3}, "epoch: no such key"),
    ],
)
def test_wrong_settings_are_refused_with_what_was_found(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TrainingSettings().changed(**changes)
