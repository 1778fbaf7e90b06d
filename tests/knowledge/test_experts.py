"""Experts: n-gram models as features whose weight the network chooses, alone and several at once, by brute force."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.testing as npt
import pytest
import torch
from torch import Tensor

from brute import Array, Brute
from brute_ngrams import BOUNDARY, Gram, KneserNey
from helpers import by_way
from llrnn import GRU, LLRNN, Corpus, Vocabulary, contextual, explain, french, load
from llrnn.ground.bundle import read_bundle
from llrnn.ground.errors import CheckpointError, TrainingError
from llrnn.inference.explanation import Explanation
from llrnn.knowledge.backgrounds import Background, Mask, Mixture, NGram, Unigram
from llrnn.knowledge.contextual import ContextualFeature, Expert, Repeated
from llrnn.knowledge.features import Function, Identity, Suffixes
from llrnn.knowledge.process import Batch, Saved
from llrnn.layer.distribution import Distribution, Way
from llrnn.layer.numerics import add_differences
from llrnn.layer.priors import ContextValues, DensePrior, Prior
from llrnn.model.scoring import Continuous, Sentences, score
from llrnn.text.encoded import EncodedText, sentence_key
from llrnn.training.loop import train
from llrnn.training.runs import Record
from test_ngrams import babble, names, quiet

pytestmark = [quiet, pytest.mark.usefixtures("each_sum")]

WORDS = names()
VOCABULARY = Vocabulary(WORDS)
V = len(WORDS)
TRAIN, OTHER, THIRD = babble(60, seed=21), babble(60, seed=22), babble(25, seed=23)
FOLDS = 4


def corpus_of(sentences: Sequence[Gram]) -> Corpus:
    return Corpus.from_sentences(sentences)


def ngram(sentences: Sequence[Gram], order: int = 3, folds: int = 0) -> Background:
    return NGram.from_corpus(corpus_of(sentences), order=order, folds=folds)


def written_out(values: ContextValues) -> Array:
    """One feature's values on every word, (N, V)."""
    n = len(values.rest)
    assert values.width == 1
    found: Array = values.at(torch.arange(n).repeat_interleave(V), torch.arange(V).repeat(n), V).view(n, V).numpy()
    return found


def states_after(feature: ContextualFeature, seen: Sequence[Gram]) -> list[Any]:
    return [feature.scan([feature.initial()], [VOCABULARY.ids([BOUNDARY, *context])])[0][-1] for context in seen]


def unigrams_of(model: KneserNey) -> Array:
    return np.array(model.log_probs(()))


SEEN: list[Gram] = [(), ("w0",), ("w1", "w2"), ("w8", "w8", "w8"), *(sentence[:4] for sentence in TRAIN[:12])]


# --- values -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_an_expert_says_how_much_more_than_usual(order: int) -> None:
    expert = Expert(ngram(TRAIN, order)).bind(VOCABULARY)
    brute = KneserNey(TRAIN, WORDS, order)
    wanted = np.array([brute.log_probs((BOUNDARY, *context)) for context in SEEN]) - unigrams_of(brute)
    values = expert.values(states_after(expert, SEEN))
    npt.assert_allclose(written_out(values), wanted, atol=2e-6)
    assert len(values.position) < len(SEEN) * V  # a few words at each position
    rest, own = expert.value(states_after(expert, SEEN)[3])
    npt.assert_allclose([own.get(x, rest) for x in range(V)], wanted[3], atol=2e-6)


def counts_of(sentences: Sequence[Gram]) -> Unigram:
    return Unigram.from_corpus(corpus_of(sentences), smoothing=0.5)


def log_frequencies(sentences: Sequence[Gram]) -> Array:
    counts = [0.5 + sum(s.count(w) for s in sentences) + (len(sentences) if w == BOUNDARY else 0) for w in WORDS]
    return np.log(np.array(counts) / sum(counts))


def test_a_mixture_as_an_expert() -> None:
    """Of several tables: nothing is constant, and it is log b itself."""
    brute = KneserNey(TRAIN, WORDS, 3)
    p = np.exp(np.array([brute.log_probs((BOUNDARY, *context)) for context in SEEN]))
    wanted = np.log(0.5 * p + 0.5 * np.exp(log_frequencies(OTHER)))
    mixture = Mixture(ngram(TRAIN), counts_of(OTHER))
    expert = Expert(mixture).bind(VOCABULARY)
    npt.assert_allclose(written_out(expert.values(states_after(expert, SEEN))), wanted, atol=2e-6)


class Countdown(Background):
    """Dense, and a word of it forbidden: as another model might be."""

    def initial(self, condition: object = None) -> int:
        return 0

    def advance(self, state: int, symbol: int) -> int:
        return state + symbol

    def prior(self, states: Sequence[int]) -> Prior:
        log_b = -0.1 * torch.tensor(list(states), dtype=torch.float64)[:, None] * torch.arange(V)
        log_b[:, 4] = -math.inf
        return DensePrior(log_b)


def test_what_the_expert_forbids_is_a_finite_feature() -> None:
    dense = Expert(Countdown()).bind(VOCABULARY)
    found = written_out(dense.values(states_after(dense, SEEN)))
    assert (found[:, 4] == -50.0).all()
    sums = [sum(VOCABULARY.ids(context)) + VOCABULARY.eos for context in SEEN]
    wanted = np.maximum(-0.1 * np.outer(sums, np.arange(V)), -50.0)
    npt.assert_allclose(np.delete(found, 4, 1), np.delete(wanted, 4, 1), rtol=1e-6)
    masked = Expert(ngram(TRAIN) * Mask(forbidden=["w3"])).bind(VOCABULARY)
    values = written_out(masked.values(states_after(masked, SEEN)))
    plain = Expert(ngram(TRAIN)).bind(VOCABULARY)
    others = np.delete(written_out(plain.values(states_after(plain, SEEN))), 3, 1)
    npt.assert_allclose(np.delete(values, 3, 1), others, atol=2e-6)


class WordByWord(Background[None]):
    """The frequencies of a text, of which nothing is said in general: every word is an exception."""

    is_static = True

    def __init__(self, corpus: Corpus) -> None:
        self.counts: Background = Unigram.from_corpus(corpus, smoothing=0.5)

    def bind(self, vocabulary: Vocabulary) -> Self:
        bound = super().bind(vocabulary)
        bound.counts = self.counts.bind(vocabulary)
        return bound

    def prior(self, states: Sequence[None]) -> Prior:
        return self.counts.prior(states).dense(1)


def test_a_static_background_as_an_expert() -> None:
    """It has no states to count positions by."""
    sentences = corpus_of(TRAIN)
    expert = Expert(WordByWord(sentences), name="usual")
    model = LLRNN(VOCABULARY, output_features=Identity(), controller=GRU(3), contextual=[expert]).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.layer.context_bias.fill_(1.0)
        (batch,) = Sentences(10**6).plan(EncodedText.to_train_on(sentences, VOCABULARY))
        found = model.log_prob(batch)
    wanted = log_frequencies(TRAIN)[batch.targets[batch.mask].numpy()]
    npt.assert_allclose(found.numpy(), wanted, atol=1e-5)


def test_no_states_of_an_expert() -> None:
    for background in (ngram(TRAIN), ngram(TRAIN, folds=FOLDS), Countdown()):
        values = Expert(background).bind(VOCABULARY).values([])
        assert values.rest.shape == (0, 1)
        assert values.value.shape == (0, 1)


# --- several at once, in a model ----------------------------------------------------------------------------------

FEATURES: dict[str, dict[str, float]] = {
    word: {f"odd {i % 2}": 1.0, **({"low": 0.5} if i < 4 else {})} for i, word in enumerate(WORDS)
}
FEATURES[BOUNDARY] = {}  # a function is not asked about the end of sentences
WEIGHTS = (-8.0, -2.5, -0.5, 0.0, 0.7, 1.0, 2.5, 8.0)


def model_with(background: Background, seed: int, dtype: torch.dtype = torch.float64) -> LLRNN:
    """Two experts and `Repeated`; random weights, those of the experts often extreme.

    With an odd seed the static features are loud: then a few words hold nearly all, and when they are exceptions that
    an expert is against, little is left of log Z.
    """
    model = LLRNN(
        VOCABULARY,
        output_features=Function(FEATURES.__getitem__),
        background=background,
        controller=GRU(3),
        contextual=[
            Expert(ngram(OTHER, 4), name="other"),
            Repeated(4),
            Expert(ngram(THIRD, 2), name="third"),
        ],
    ).to(dtype)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
        model.layer.bias.mul_(9.0 if seed % 2 else 1.0)
        chosen = torch.randint(len(WEIGHTS), (2,), generator=generator).tolist()
        model.layer.context_weight.mul_(0.3)
        model.layer.context_bias[0] = WEIGHTS[chosen[0]]
        model.layer.context_bias[2] = WEIGHTS[chosen[1]]
    return model


class Oracle:
    """log b and the values of all contextual features, by brute force, after everything that a row was fed."""

    def __init__(self) -> None:
        self.background, self.other = KneserNey(TRAIN, WORDS, 3), KneserNey(OTHER, WORDS, 4)
        self.third = KneserNey(THIRD, WORDS, 2)

    def log_b(self, fed: Sequence[Gram], forbidden: Callable[[Gram], set[str]]) -> Array:
        gone = [[w in forbidden(prefix[1:]) for w in WORDS] for prefix in fed]
        return np.where(gone, -math.inf, [self.background.log_probs(prefix) for prefix in fed])

    def values(self, fed: Sequence[Gram]) -> Array:
        other = np.array([self.other.log_probs(prefix) for prefix in fed]) - unigrams_of(self.other)
        third = np.array([self.third.log_probs(prefix) for prefix in fed]) - unigrams_of(self.third)
        last = [[word for word in prefix if word != BOUNDARY][-4:] for prefix in fed]
        repeated = np.array([[float(word in words) for word in WORDS] for words in last])
        return np.stack([other, repeated, third], 2)


def fed_at(batch: Batch) -> list[Gram]:
    """What the row had read at each position that counts."""
    rows = zip(batch.inputs.tolist(), batch.mask.tolist(), strict=True)
    return [tuple(WORDS[x] for x in row[: t + 1]) for row, mask in rows for t, counts in enumerate(mask) if counts]


def brute_of(model: LLRNN, h: Tensor, log_b: Array, values: Array) -> Brute:
    layer = model.layer
    a = torch.cat([h @ layer.weight.t() + layer.bias, h @ layer.context_weight.t() + layer.context_bias], 1)
    rows = [FEATURES[word] for word in WORDS]
    return Brute(model.output_features.names, rows, log_b, values, a.detach().double().numpy())


def a_batch(sentences: Sequence[Gram]) -> Batch:
    (batch,) = Sentences(10**6).plan(EncodedText.encode(corpus_of(sentences), VOCABULARY))
    return batch


def nearly_everything(condition: object, prefix: tuple[str, ...]) -> list[str]:
    """Two or three words are left, others each time."""
    keep = {WORDS[len(prefix) % 9], WORDS[(3 * len(prefix) + 1) % 9], BOUNDARY}
    return [word for word in WORDS if word not in keep]


def nothing(condition: object, prefix: tuple[str, ...]) -> list[str]:
    return []


class Spy:
    """Watches which of the two ways to log Z was taken."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.added = self.refused = 0
        monkeypatch.setattr("llrnn.layer.numerics.add_differences", self)

    def __call__(self, *arguments: Any) -> Tensor | None:
        found = add_differences(*arguments)
        self.added, self.refused = self.added + (found is not None), self.refused + (found is None)
        return found


@pytest.mark.parametrize("way", ["words", "adding", "leaving"])
@pytest.mark.parametrize("masked", [False, True], ids=["n-gram", "n-gram times mask"])
def test_log_p_is_the_sum_over_all_words(masked: bool, way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """And so is its gradient, on each way to log Z."""
    forbid = nearly_everything if masked else nothing
    background = ngram(TRAIN) * Mask(forbidden=forbid) if masked else ngram(TRAIN)
    oracle, spy = Oracle(), Spy(monkeypatch)
    batch = a_batch(TRAIN[4:10])
    fed = fed_at(batch)
    log_b = oracle.log_b(fed, lambda prefix: set(forbid(None, prefix)))
    values = oracle.values(fed)
    rng = np.random.default_rng(0)
    allowed = [int(rng.choice(np.flatnonzero(row > -math.inf))) for row in log_b]
    for seed in range(16):
        model = model_with(background, seed)
        distribution, _ = model.scan(batch)
        distribution.h.retain_grad()
        brute = brute_of(model, distribution.h, log_b, values)
        log_p = by_way(distribution, way).log_prob(torch.tensor(allowed))
        npt.assert_allclose(log_p.detach().numpy(), brute.log_probs[range(len(fed)), allowed], rtol=0, atol=1e-12)
        npt.assert_allclose(distribution.log_probs().detach().numpy(), brute.log_probs, rtol=0, atol=1e-12)
        assert_gradient(model, distribution.h, log_p, brute.gradient(allowed))
    if way == "adding":
        assert spy.added > 1
        assert spy.refused > 1


def assert_gradient(model: LLRNN, h: Tensor, log_p: Tensor, wanted: Array) -> None:
    """∂ Σ log p / ∂a is observed minus expected features; the weights and h follow by the chain rule."""
    log_p.sum().backward()  # type: ignore[no-untyped-call]
    layer, m = model.layer, len(model.output_features.names)
    a, hidden = torch.from_numpy(wanted), h.detach()
    everything = torch.cat([layer.weight, layer.context_weight]).detach()
    pairs = [
        (layer.bias.grad, a[:, :m].sum(0)),
        (layer.context_bias.grad, a[:, m:].sum(0)),
        (layer.weight.grad, a[:, :m].t() @ hidden),
        (layer.context_weight.grad, a[:, m:].t() @ hidden),
        (h.grad, a @ everything),
    ]
    for found, expected in pairs:
        assert found is not None
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)


def test_log_prob_of_a_batch_and_step_by_step() -> None:
    """`LLRNN.log_prob` itself, and the same numbers word by word."""
    model, oracle, batch = model_with(ngram(TRAIN), seed=3), Oracle(), a_batch(TRAIN[6:14])
    fed = fed_at(batch)
    with torch.no_grad():
        distribution, _ = model.scan(batch)
        brute = brute_of(model, distribution.h, oracle.log_b(fed, lambda _: set()), oracle.values(fed))
        targets = batch.targets[batch.mask].tolist()
        found = model.log_prob(batch).numpy()
        npt.assert_allclose(found, brute.log_probs[range(len(fed)), targets], rtol=0, atol=1e-12)
        npt.assert_allclose(distribution.entropy().numpy(), brute.entropy, atol=1e-9)
        npt.assert_allclose(distribution.expected_features().numpy(), brute.expected_features, atol=1e-8)
        state, row = model.start(), batch.inputs[-1].tolist()
        for t, word in enumerate(row):
            one, state = model.step(state, [word])
            npt.assert_allclose(one.log_probs()[0].numpy(), brute.log_probs[len(fed) - len(row) + t], atol=1e-9)


def test_single_precision_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """The difference is taken only where float32 can afford it: four digits of log p, on either way."""
    monkeypatch.setattr(Distribution, "way", "static")
    oracle, batch, spy = Oracle(), a_batch(TRAIN[4:10]), Spy(monkeypatch)
    fed = fed_at(batch)
    log_b, values = oracle.log_b(fed, lambda _: set()), oracle.values(fed)
    targets = batch.targets[batch.mask].tolist()
    for seed in range(20):
        model = model_with(ngram(TRAIN), seed, torch.float32)
        with torch.no_grad():
            distribution, _ = model.scan(batch)
            brute = brute_of(model.double(), distribution.h.double(), log_b, values)
            model.float()
            found = distribution.log_prob(batch.targets[batch.mask])
        npt.assert_allclose(found.numpy(), brute.log_probs[range(len(fed)), targets], rtol=1e-4, atol=1e-4)
    assert spy.added
    assert spy.refused


# --- cross-fitted experts -----------------------------------------------------------------------------------------


def test_a_cross_fitted_expert_leaves_out_the_sentence_that_it_judges() -> None:
    """By brute force at every target of the training text, also where the strips of a text go on in the next batch."""
    expert = Expert(ngram(TRAIN, folds=FOLDS)).bind(VOCABULARY)
    by_key = {sentence_key(sentence): sentence for sentence in TRAIN}
    parts = [KneserNey([s for s in TRAIN if sentence_key(s) % FOLDS != fold], WORDS, 3) for fold in range(FOLDS)]
    text = EncodedText.to_train_on(corpus_of(TRAIN), VOCABULARY)
    states: Sequence[Any] = []
    fed: list[Gram] = []
    for batch in Continuous(rows=3, length=7).plan(text):
        assert batch.sentences is not None
        states = states or [expert.initial() for _ in batch.inputs]
        fed = fed or [() for _ in batch.inputs]
        seen, states = expert.follow(states, batch)
        wanted = []
        for b, row in enumerate(batch.inputs.tolist()):
            for t, word in enumerate(row):
                fed[b] = (*fed[b], WORDS[word])
                key = int(batch.sentences[b, t])
                assert key in by_key
                if batch.mask[b, t]:
                    part = parts[key % FOLDS]
                    wanted.append(np.array(part.log_probs(fed[b])) - unigrams_of(part))
        npt.assert_allclose(written_out(expert.values(seen)), np.array(wanted), atol=2e-6)


def test_a_restored_expert_evaluates_as_before_and_refuses_to_train(tmp_path: Path) -> None:
    experts = [Expert(ngram(TRAIN, folds=FOLDS), name="mine"), Expert(ngram(OTHER), name="other")]
    model = LLRNN(VOCABULARY, output_features=Identity(), controller=GRU(4), contextual=experts, seed=5)
    model.save(tmp_path)
    again = load(tmp_path)
    assert repr(again.contextual) == repr(model.contextual)
    assert [feature.name for feature in again.contextual] == ["mine", "other"]
    text = EncodedText.encode(corpus_of(OTHER), VOCABULARY)
    for batching in (Sentences(60), Continuous(rows=3, length=5)):
        assert torch.equal(score(model, text, batching).log_probs, score(again, text, batching).log_probs)
    with pytest.raises(TrainingError, match=r"give it again: llrnn.load\(folder, .*contextual=\[...\]\)"):
        list(train(again, corpus_of(TRAIN), epochs=1))
    given = load(tmp_path, contextual=experts)
    (batch,) = Sentences(10**6).plan(EncodedText.to_train_on(corpus_of(TRAIN), VOCABULARY))
    assert torch.equal(given.log_prob(batch), model.log_prob(batch))


def test_a_cross_fitted_expert_is_saved_by_its_whole() -> None:
    saved = Expert(ngram(TRAIN, folds=FOLDS), name="mine").bind(VOCABULARY).saved()
    assert (saved.kind, saved.fields) == ("expert", {"name": "mine"})
    assert [part.kind for part in saved.parts] == ["crossfitted"]
    with pytest.raises(CheckpointError, match="no experts with a reference of their own any more"):
        contextual.restore(replace(saved, parts=(*saved.parts, *saved.parts)))
    (whole,) = saved.parts[0].parts
    assert isinstance(whole, Saved)
    assert whole.kind == "ngram"


# --- explanations -------------------------------------------------------------------------------------------------


def test_an_explanation_names_every_expert_and_adds_up() -> None:
    model = model_with(ngram(TRAIN), seed=8)
    oracle = Oracle()
    for prefix in [("w0",), ("w1", "w3"), TRAIN[2][:3]]:
        values = oracle.values([(BOUNDARY, *prefix)])[0]
        for word in ("w0", "w4", BOUNDARY):
            found = explain(model, prefix=prefix, word=word)
            assert isinstance(found, Explanation)
            terms = {term.name: term for term in found.terms}
            assert {"other", "third"} <= terms.keys()
            assert terms["other"].value == pytest.approx(values[WORDS.index(word), 0], abs=1e-6)
            assert terms["third"].value == pytest.approx(values[WORDS.index(word), 2], abs=1e-6)
            assert found.total == pytest.approx(found.log_p, abs=1e-9)
            assert found.log_b == pytest.approx(math.log(oracle.background.p((BOUNDARY, *prefix), word)), abs=1e-9)
        assert sum(math.exp(explain(model, prefix=prefix, word=w).log_p) for w in WORDS) == pytest.approx(1.0)


def test_two_experts_need_two_names() -> None:
    with pytest.raises(Exception, match="every feature needs a name of its own, but 'expert' is used twice"):
        LLRNN(VOCABULARY, output_features=Identity(), contextual=[Expert(ngram(TRAIN)), Expert(ngram(OTHER))])


# --- training -----------------------------------------------------------------------------------------------------

FRENCH = Corpus.from_sentences(french.sentences(200)).lowercased()
FRENCH_TRAIN, FRENCH_VALID = FRENCH.split(180)
FRENCH_VOCABULARY = Vocabulary.from_corpus(FRENCH)
GIVEN: dict[str, Any] = {
    "valid": FRENCH_VALID, "epochs": 2, "log_every": 1, "checkpoint_every": 3, "learning_rate": 0.02,
}  # fmt: skip
BATCHES = {
    "sentences": {"kind": "sentences", "words": 500},
    "windows": {"kind": "sliding", "length": 11, "rows": 40},
    "continuous": {"kind": "continuous", "rows": 20, "length": 13},
}


def french_model() -> LLRNN:
    return LLRNN(
        FRENCH_VOCABULARY,
        output_features=Identity(top=50) + Suffixes(2, min_count=3),
        background=Unigram.from_corpus(FRENCH),
        controller=GRU(6, dropout=0.2),
        contextual=[Expert(NGram.from_corpus(FRENCH_TRAIN, order=3, folds=3), name="trigrams")],
    )


class StopAfter:
    def __init__(self, steps: int) -> None:
        self._left = steps

    def __call__(self) -> bool:
        self._left -= 1
        return self._left < 0


def trained(folder: Path, batches: dict[str, Any], **given: Any) -> tuple[dict[str, Tensor], list[Record]]:
    model = french_model()
    records = list(train(model, FRENCH_TRAIN, folder=folder, batches=batches, **{**GIVEN, **given}))
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}, records


@pytest.mark.parametrize("batches", [pytest.param(b, id=name) for name, b in BATCHES.items()])
def test_training_with_a_cross_fitted_expert_resumes_bit_for_bit(batches: dict[str, Any], tmp_path: Path) -> None:
    """Stopped in mid-epoch, with strips of the text half read."""
    wanted, records = trained(tmp_path / "whole", batches)
    losses = [record.train for record in records if record.event == "epoch"]
    assert losses[0] is not None
    assert losses[1] is not None
    assert losses[1] < losses[0]
    per_epoch = records[0].batches
    for index, stop in enumerate([2, 1, per_epoch]):
        _, parts = trained(tmp_path / "parts", batches, resume=index > 0, should_stop=StopAfter(stop))
        assert parts[-1].event == "interrupted"
    found, _ = trained(tmp_path / "parts", batches, resume=True)
    for name in ("model", "training"):
        one, other = (read_bundle(tmp_path / folder, name).tensors for folder in ("whole", "parts"))
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one)
    assert all(torch.equal(found[key], wanted[key]) for key in wanted)


def test_the_network_learns_to_trust_a_good_expert() -> None:
    """Its weight grows; and held-out text gains by it."""
    model = french_model()
    before = score(model, EncodedText.encode(FRENCH_VALID, FRENCH_VOCABULARY)).log_perplexity
    list(train(model, FRENCH_TRAIN, epochs=3, learning_rate=0.05, batches=BATCHES["sentences"]))
    text = EncodedText.encode(FRENCH_VALID, FRENCH_VOCABULARY)
    (batch,) = Sentences(10**6).plan(text)
    with torch.no_grad():
        weight = model.scan(batch)[0].context_adaptor.mean()
    assert 0.2 < float(weight) < 1.5
    assert score(model, text).log_perplexity < before - 0.5


@quiet
def test_an_expert_that_is_a_mixture_says_the_same_step_by_step() -> None:
    """After a word that no n-gram begins with, an n-gram model looks static at one position, and is not."""
    text = corpus_of(TRAIN)
    vocabulary = Vocabulary.from_corpus(text, others=["zzz"])
    mixed = Mixture(NGram.from_corpus(text, order=3, folds=0), Unigram.from_corpus(text, smoothing=0.1))
    model = LLRNN(
        vocabulary,
        output_features=Suffixes(2, min_count=1),
        background=Unigram.from_corpus(text, smoothing=0.1),
        controller=GRU(4),
        contextual=[Expert(mixed)],
    ).double()
    with torch.no_grad():
        model.layer.context_bias.fill_(2.0)
        words = torch.tensor([[vocabulary.eos, 0, vocabulary.id("zzz"), 1]])
        at_once, _ = model.scan(Batch(words, words, torch.ones_like(words, dtype=torch.bool)))
        state = model.start()
        for position, word in enumerate(words[0].tolist()):
            distribution, state = model.step(state, [word])
            difference = (distribution.log_probs()[0] - at_once.log_probs()[position]).abs().max()
            assert float(difference) < 1e-9
