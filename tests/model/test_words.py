"""Words added to a trained model and removed from it: all others change by one factor, at every context."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.testing as npt
import pytest
import torch

from helpers import shaken, small_corpus, small_model, small_vocabulary
from llrnn import GRU, LLRNN, Corpus, Lexicon, Vocabulary, backgrounds, cli, domains, features, french, load
from llrnn.ground.errors import FeatureError, LexiconError, LLRNNError, VocabularyError
from llrnn.knowledge.backgrounds import (
    Background,
    Discounted,
    Mask,
    Mixture,
    Model,
    NGram,
    Product,
    Uniform,
    Unigram,
)
from llrnn.knowledge.backgrounds.base import symbol_mass
from llrnn.knowledge.contextual import ContextualFeature, Expert, Repeated
from llrnn.knowledge.features import Features, compile_features
from llrnn.knowledge.process import Batch, State
from llrnn.layer.matrix import FeatureMatrix
from llrnn.model.decode import generate
from llrnn.model.scoring import score
from llrnn.model.words import Entry, add, likened, read_words, remove
from llrnn.text.encoded import EncodedText, TrainingSummary
from llrnn.text.vocabulary import EOS
from test_ngrams import quiet

pytestmark = quiet

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

NEW = ["chatouille", "zorglub", "Bredouille", "1234", "relation"]


def word_lexicon() -> Lexicon:
    return Lexicon.from_corpus(small_corpus())


@cache
def open_vocabulary() -> Vocabulary:
    types = [word for word in small_corpus().counts() if word.isalpha()]
    held = [domains.Numbers("fr"), domains.Spelling(types, order=3, endings=10)]
    return Vocabulary.from_corpus(small_corpus(), domains=held, as_new=0.5)


def built(
    vocabulary: Vocabulary,
    phi: Features,
    background: Background,
    context: Sequence[ContextualFeature] = (),
    psi: Features | None = None,
) -> LLRNN:
    """A model of random weights in float64."""
    model = LLRNN(
        vocabulary,
        output_features=phi,
        input_features=psi,
        background=background,
        controller=GRU(6),
        contextual=context,
        seed=1,
    ).double()
    shaken(model, 3.0)
    model.training_summary = TrainingSummary.of(EncodedText.encode(small_corpus()[:40], vocabulary), len(vocabulary))
    return model


def closed_features() -> Features:
    return (
        features.Identity(top=20)
        + features.Attributes(word_lexicon()).scaled(0.5)
        + features.Suffixes(3, min_count=3).scaled(0.7)
        + features.Prefixes(2, min_count=3)
        + features.Shape()
    )


def open_features() -> Features:
    return features.Identity(top=20) + features.Attributes(word_lexicon()).of_listed() + features.CellAttributes()


def unigram() -> Background:
    return Unigram.from_corpus(small_corpus(), smoothing=0.1)


def ngram(folds: int = 0) -> Background:
    return NGram.from_corpus(small_corpus(), order=3, folds=folds)


def closed_model(background: Background | None = None, context: Sequence[ContextualFeature] = ()) -> LLRNN:
    return built(small_vocabulary(), closed_features(), background or unigram(), context)


def open_model(background: Background | None = None, context: Sequence[ContextualFeature] = ()) -> LLRNN:
    made = background or Discounted.from_corpus(small_corpus())
    return built(
        open_vocabulary(), open_features(), made, context, psi=features.CellAttributes() + features.Identity(top=5)
    )


MODELS: dict[str, Callable[[], LLRNN]] = {
    "closed, unigrams": closed_model,
    "closed, uniform": lambda: closed_model(Uniform()),
    "closed, n-grams": lambda: closed_model(ngram()),
    "closed, cross-fitted n-grams": lambda: closed_model(ngram(folds=3)),
    "closed, product": lambda: closed_model(Product(ngram(), unigram())),
    "closed, mixture": lambda: closed_model(Mixture(ngram(), unigram(), weights=[0.7, 0.3])),
    "closed, expert": lambda: closed_model(unigram(), [Expert(ngram(folds=3), name="kn"), Repeated(3)]),
    "closed, expert that is a mixture": lambda: closed_model(unigram(), [Expert(Mixture(ngram(), unigram()))]),
    "open, unigrams": open_model,
    "open, n-grams": lambda: open_model(ngram()),
    "open, product": lambda: open_model(Product(Discounted.from_corpus(small_corpus()), ngram())),
    "open, cross-fitted": lambda: open_model(ngram(folds=2)),
    "open, expert": lambda: open_model(None, [Expert(ngram(folds=2), name="kn"), Repeated(5)]),
}
every_model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())


def distributions(model: LLRNN, prefixes: Sequence[Sequence[str]]) -> Array:
    """log p of every symbol after each prefix, (n, V)."""
    rows = []
    with torch.no_grad():
        for prefix in prefixes:
            state: State = model.start()
            for word in [EOS, *prefix]:
                distribution, state = model.step(state, model.vocabulary.ids([word]))
            rows.append(distribution.log_probs()[0].double().numpy())
    return np.stack(rows)


def prefixes() -> list[tuple[str, ...]]:
    words = [sentence.words for sentence in small_corpus()]
    return [(), *(tuple(row[:length]) for row, length in zip(words, [1, 2, 3, 4, 5, 3], strict=False))]


def entries(model: LLRNN) -> list[Entry]:
    """Words with counts and attributes, and some without counts."""
    some = [Entry(form, frozenset({"POS:NOUN"}), 3 + i) for i, form in enumerate(NEW[:2])]
    return some + [Entry(form, count=None if model.vocabulary.is_open or form != "1234" else 2) for form in NEW[2:]]


# --- laws ------------------------------------------------------------------------------------------------------------


@every_model
def test_old_words_change_by_one_factor(make: Callable[[], LLRNN]) -> None:
    model = make()
    more = add(model, entries(model))
    old, new = distributions(model, prefixes()), distributions(more, prefixes())
    n = len(model.vocabulary.words)
    assert more.vocabulary.words == (*model.vocabulary.words, *NEW)
    change = new[:, :n] - old[:, :n]
    npt.assert_allclose(change, np.broadcast_to(change[:, :1], change.shape), atol=1e-9)
    npt.assert_allclose(np.exp(new).sum(1), 1.0, atol=1e-9)
    assert np.isfinite(new[:, n : n + len(NEW)]).all()


@pytest.mark.parametrize("make", [open_model, MODELS["open, n-grams"], MODELS["open, product"]])
def test_strings_that_nobody_listed_change_by_the_same_factor(make: Callable[[], LLRNN]) -> None:
    model = make()
    more = add(model, entries(model))
    strings = ["chatouillement", "zorg", "77", "Grenouillette", "10 000", "1567", "1999"]
    found = []
    for one in (model, more):
        ids, inside = one.vocabulary.locate(strings)
        log_p = distributions(one, prefixes())
        found.append(np.concatenate([log_p[:, ids] + inside, log_p[:, :1]], 1))
    change = found[1] - found[0]
    npt.assert_allclose(change, np.broadcast_to(change[:, :1], change.shape), atol=1e-9)


def test_a_word_that_its_cell_says_all_of_is_as_probable_as_before() -> None:
    model = built(open_vocabulary(), features.CellAttributes(), Discounted.from_corpus(small_corpus()))
    more = add(model, [Entry(form) for form in NEW], unchanged=True)
    ids, inside = model.vocabulary.locate(NEW)
    n = len(model.vocabulary.words)
    before = distributions(model, prefixes())
    after = distributions(more, prefixes())
    npt.assert_allclose(after[:, n : n + len(NEW)], before[:, ids] + inside, atol=1e-9)
    npt.assert_allclose(after[:, :n], before[:, :n], atol=1e-9)


@every_model
def test_adding_and_removing_gives_the_old_model(make: Callable[[], LLRNN]) -> None:
    model = make()
    again = remove(add(model, entries(model)), NEW)
    assert again.vocabulary == model.vocabulary
    assert again.vocabulary.counts == model.vocabulary.counts
    npt.assert_allclose(distributions(again, prefixes()), distributions(model, prefixes()), atol=1e-9)
    for mine, other in zip(rows_of(again.output_features), rows_of(model.output_features), strict=True):
        assert mine == other


@every_model
def test_removing_changes_the_others_by_one_factor(make: Callable[[], LLRNN]) -> None:
    """Where the words that are gone are not in the context."""
    model = make()
    used = {word for prefix in prefixes() for word in prefix} | {EOS}
    gone = [word for word in model.vocabulary.words if word not in used][::7]
    fewer = remove(model, gone)
    stay = [word for word in model.vocabulary.words if word not in gone]
    assert fewer.vocabulary.words == tuple(stay)
    assert fewer.output_features.n_classes == len(set(fewer.output_features.class_of.tolist()))
    new = distributions(fewer, prefixes())
    change = new[:, : len(stay)] - distributions(model, prefixes())[:, model.vocabulary.ids(stay)]
    if model.contextual:  # repeated words may be among those that are gone
        change = change[:, [i for i, word in enumerate(stay) if word in used]]
    npt.assert_allclose(change, np.broadcast_to(change[:, :1], change.shape), atol=1e-9)
    npt.assert_allclose(np.exp(new).sum(1), 1.0, atol=1e-9)
    with torch.no_grad():
        known = fewer.step(fewer.start(), [fewer.vocabulary.eos])[0]
        log_p, word = known.top(len(fewer.vocabulary))
    npt.assert_allclose(log_p.exp().sum(), 1.0, atol=1e-6)
    assert len(set(word[0].tolist())) == len(fewer.vocabulary)


@every_model
def test_a_batch_says_what_the_steps_say(make: Callable[[], LLRNN]) -> None:
    model = make()
    more = add(model, entries(model))
    fed = torch.tensor([more.vocabulary.ids([EOS, *prefixes()[-1], "zorglub", "1234"])])
    with torch.no_grad():
        distribution, _ = more.scan(Batch(fed, fed, torch.ones_like(fed, dtype=torch.bool)))
        whole = distribution.log_probs()
    words = [more.vocabulary.words[i] for i in fed[0, 1:].tolist()]
    stepped = distributions(more, [words[:n] for n in range(len(words) + 1)])
    npt.assert_allclose(whole.numpy(), stepped, atol=1e-9)


@pytest.mark.parametrize("folds", [0, 2])
def test_n_grams_of_a_cell_lose_what_leaves_it(folds: int) -> None:
    """In every context, those in which the cell was seen included, and in every fold."""
    corpus = Corpus.from_sentences([["en", "1901"], ["en", "1902", "ou", "1903"], ["le", "chat"], ["en", "ville"]] * 3)
    words = ["en", "ou", "le", "chat", "ville", EOS]
    vocabulary = Vocabulary(words, counts=[3] * 6, domains=[domains.Numbers("fr")])
    background = NGram.from_corpus(corpus, order=3, folds=folds)
    model = LLRNN(
        vocabulary, output_features=features.CellAttributes(), background=background, controller=GRU(3)
    ).double()
    shaken(model, 2.0)
    more = add(model, [Entry(str(year)) for year in range(1100, 1400)])
    found = []
    for one in (model, more):
        fed = torch.tensor([one.vocabulary.ids([EOS, "en", "1903", "ou", "le"])])
        keys = torch.full_like(fed, 5) if folds else None
        distribution, _ = one.scan(Batch(fed, fed, torch.ones_like(fed, dtype=torch.bool), sentences=keys))
        ids, inside = one.vocabulary.locate([*words, "1903", "1999", "44"])
        found.append(distribution.log_probs().detach().numpy()[:, ids] + inside)
    change = found[1] - found[0]
    npt.assert_allclose(change, np.broadcast_to(change[:, :1], change.shape), atol=1e-9)


# --- mass ------------------------------------------------------------------------------------------------------------


def test_a_count_is_a_share_of_all_counts() -> None:
    model = built(small_vocabulary(), features.Suffixes(2), Unigram.from_corpus(small_corpus()))
    more = add(model, [Entry("zorglub", count=7)])
    log_b = more.background.prior([]).dense(1).log_b[0]
    assert log_b[-1].exp().item() == pytest.approx(7 / sum(model.vocabulary.counts))
    assert more.vocabulary.counts[-1] == 7
    assert more.training_summary is not None
    assert more.training_summary.counts[-1] == 0
    assert more.provenance["words added"] == 1
    assert add(more, [Entry("zorg", count=1), Entry("bulg", count=1)]).provenance["words added"] == 3


@pytest.mark.parametrize("make", [open_model, lambda: closed_model(unigram()), MODELS["open, n-grams"]])
def test_without_a_count_a_word_has_what_words_like_it_have(make: Callable[[], LLRNN]) -> None:
    """By sets of names of features, over all pairs of words; all else keeps its ratios (the laws above)."""
    model = make()
    new = Entry("zorglubier", frozenset({"POS:NOUN"}))
    b = symbol_mass(model.background, model.vocabulary)
    more = add(model, [new])
    phi, words = model.output_features, [word for word in model.vocabulary.words if word != EOS]
    own = {*more.output_features.row(more.vocabulary.id(new.form))}
    assert not any(name.startswith("New:") for name in own)
    rows = {word: {*phi.row(model.vocabulary.id(word))} for word in words}
    alike = {word: len(own & row) / len(own | row) for word, row in rows.items()}
    best = [word for word in words if alike[word] == max(alike.values())]
    share = np.mean([b[model.vocabulary.id(word)] for word in best]) / b.sum()
    assert 0 < len(best) < len(words)
    (found,) = likened(model, [new])
    assert found.share == pytest.approx(share, rel=1e-12)
    if more.background.is_static:
        mass = symbol_mass(more.background, more.vocabulary)
        assert mass[more.vocabulary.id(new.form)] == pytest.approx(share * b.sum(), rel=1e-12)
    assert more.vocabulary.counts[more.vocabulary.id(new.form)] == 0


def test_mass_leaves_the_cell() -> None:
    model = open_model()
    more = add(model, [Entry("1234"), Entry("77", count=5)], unchanged=True)
    b, new = (np.exp(m.background.prior([]).dense(1).log_b[0].numpy()) for m in (model, more))
    n, total = len(model.vocabulary.words), sum(model.vocabulary.counts)
    cells, inside = model.vocabulary.locate(["1234", "77"])
    shares = np.exp(inside)
    assert new[n] == pytest.approx(b[cells[0]] * shares[0])
    assert new[n + 1] == pytest.approx(5 / total)
    npt.assert_allclose(new[cells + 2], b[cells] * (1 - shares))
    assert new.sum() == pytest.approx(1 + 5 / total - b[cells[1]] * shares[1])


def test_the_last_string_of_a_cell_takes_all_and_brings_it_back() -> None:
    vocabulary = Vocabulary(["un", "deux", EOS], counts=[5, 3, 2], domains=[domains.Numbers("fr")])
    model = built_small(vocabulary)
    cell = vocabulary.symbols.index("‹number:digits1›")
    digits = [str(digit) for digit in range(10)]
    full = add(model, [Entry(digit) for digit in digits], unchanged=True)
    before, after = distributions(model, [()]), distributions(full, [()])
    assert after[0, cell + 10] == -np.inf
    npt.assert_allclose(np.exp(after).sum(), 1.0)
    npt.assert_allclose(np.logaddexp.reduce(after[0, 3:13]), before[0, cell], atol=1e-9)
    npt.assert_allclose(distributions(remove(full, digits), [()]), before, atol=1e-9)


def built_small(vocabulary: Vocabulary) -> LLRNN:
    counts = dict(zip(vocabulary.words, vocabulary.counts, strict=False))
    model = LLRNN(
        vocabulary, output_features=features.CellAttributes(), background=Unigram(counts), controller=GRU(3)
    ).double()
    shaken(model, 2.0)
    return model


def test_an_expert_says_of_new_words_what_it_says_of_the_rest() -> None:
    model = closed_model(unigram(), [Expert(ngram(), name="kn")])
    more = add(model, entries(model))
    expert, old = more.contextual[0], model.contextual[0]
    for prefix in prefixes():
        states = [one.initial() for one in (old, expert)]
        for word in (EOS, *prefix):
            states = [one.advance(s, more.vocabulary.id(word)) for one, s in zip((old, expert), states, strict=True)]
        assert old.value(states[0]) == expert.value(states[1])


# --- features --------------------------------------------------------------------------------------------------------


def rows_of(matrix: FeatureMatrix) -> list[dict[str, float]]:
    return [matrix.row(symbol) for symbol in range(matrix.n_symbols)]


FEATURES: dict[str, Callable[[], Features]] = {
    "suffixes": lambda: features.Suffixes(3, min_count=3),
    "prefixes": lambda: features.Prefixes(2, min_count=3).scaled(0.3),
    "shape": lambda: features.Shape().scaled(2.0),
    "identity": lambda: features.Identity(top=10).scaled(0.5),
    "attributes": lambda: features.Attributes(given_lexicon()).scaled(0.7),
    "numbers": lambda: features.Suffixes(1) + features.Numeric(small=50.0).scaled(0.4),
}
LISTED = ["12", "37", "0", "1950", "le", "la", "maison", "raison", "saison", "Paris", "relation", "relatif", "religion"]
ADDED = ["prison", "Lyon", "7", "45", "99", "1848", "3,5", "reliure", "relaison", "x"]


def given_lexicon() -> Lexicon:
    table = {"maison": ["POS:NOUN", "Gender:Fem"], "Paris": ["POS:PROPN"], "le": ["POS:DET"], "relatif": ["POS:ADJ"]}
    return Lexicon.from_mapping(table | {"prison": ["POS:NOUN", "Gender:Fem"], "Lyon": ["POS:PROPN"]})


@pytest.mark.parametrize("make", FEATURES.values(), ids=FEATURES.keys())
def test_features_are_those_that_compiling_would_give(make: Callable[[], Features]) -> None:
    """Fitted to the old words: what is frequent does not change by what is added."""
    words = [*LISTED, EOS]
    old = Vocabulary(words, counts=[3] * len(words))
    fitted = make().fitted(old)
    model = LLRNN(old, output_features=make(), controller=GRU(3))
    sides = {side for name in model.output_features.names for side in (name, *name.split("&"))}
    more = add(model, [Entry(form, given_lexicon()(form) & sides, 1) for form in ADDED])
    for number, form in enumerate(ADDED, len(words)):
        expected = {name: value for name, value in fitted(form).items() if name in model.output_features.names}
        assert more.output_features.row(number) == pytest.approx(expected, abs=1e-9)
    assert rows_of(more.output_features)[: len(words)] == rows_of(model.output_features)


def test_features_in_an_open_vocabulary_are_those_that_compiling_would_give() -> None:
    phi = (
        features.Identity(top=20)
        + features.CellAttributes().scaled(0.5)
        + features.Suffixes(2, min_count=4).of_listed()
    )
    model = built(open_vocabulary(), phi, Discounted.from_corpus(small_corpus()))
    more = add(model, [Entry(form, count=1) for form in NEW])
    whole = compile_features(phi, more.vocabulary)
    fixed = [name for name in whole.names if not name.startswith("Suffix:")]
    for symbol in range(len(more.vocabulary)):
        mine, other = more.output_features.row(symbol), whole.row(symbol)
        assert {name: mine.get(name) for name in fixed} == {name: other.get(name) for name in fixed}


def test_words_of_equal_features_share_a_class() -> None:
    model = closed_model()
    more = add(model, [Entry(form, count=1) for form in ("xxyxx", "xyyxyxx", "xzxx")])
    assert more.output_features.n_classes <= model.output_features.n_classes + 1
    assert len({int(more.output_features.class_of[-i]) for i in (1, 2, 3)}) == 1


def test_input_features_are_found_on_their_own() -> None:
    psi = features.Prefixes(2, min_count=3) + features.Identity(top=3)
    model = built(small_vocabulary(), features.Suffixes(2, min_count=3), unigram(), psi=psi)
    more = add(model, [Entry("relation", count=2)])
    assert set(more.input_features.row(len(model.vocabulary))) <= {"Prefix:r", "Prefix:re", "NotAmong:3"}
    assert "NotAmong:3" in more.input_features.row(len(model.vocabulary))
    assert set(more.output_features.row(len(model.vocabulary))) <= {"Suffix:n", "Suffix:on"}


def test_a_softmax_takes_no_new_words_but_those_that_are_like_others() -> None:
    model = built(small_vocabulary(), features.Identity(), unigram())
    with pytest.raises(FeatureError, match="as a softmax does"):
        add(model, [Entry("zorglub", count=1)])
    like = model.vocabulary.words[3]
    more = add(model, [Entry("zorglub", frozenset({f"Word:{like}"}), 1)])
    assert more.output_features.row(len(model.vocabulary)) == {f"Word:{like}": 1.0}


def test_a_removed_word_comes_back_with_its_own_identity() -> None:
    model = built(small_vocabulary(), features.Identity().scaled(0.5), unigram())
    word = model.vocabulary.words[4]
    count = model.vocabulary.counts[4]
    fewer = remove(model, [word])
    assert fewer.training_summary is None  # its numbers mean other words now
    assert fewer.output_features.names == model.output_features.names
    back = add(fewer, [Entry(word, count=count)])
    assert back.output_features.row(len(back.vocabulary) - 1) == {f"Word:{word}": 0.5}


def test_in_an_open_softmax_a_new_word_is_known_by_its_cell() -> None:
    model = built(open_vocabulary(), features.Identity(), Discounted.from_corpus(small_corpus()))
    more = add(model, [Entry("1234")])
    assert more.output_features.row(len(model.vocabulary.words)) == {"Word:‹number:year›": 1.0}


# --- a model like any other ------------------------------------------------------------------------------------------


@every_model
def test_saved_and_loaded(make: Callable[[], LLRNN], tmp_path: Path) -> None:
    model = make()
    add(load_saved(model, tmp_path / "old"), entries(model)).save(tmp_path / "new")
    more, direct = load(tmp_path / "new"), add(model, entries(model))
    npt.assert_array_equal(distributions(more, prefixes()), distributions(direct, prefixes()))
    assert more.provenance["words added"] == len(NEW)
    text = Corpus.from_sentences([[*small_corpus()[0].words, "zorglub", "1234"]])
    assert np.isfinite(score(more, EncodedText.encode(text, more.vocabulary)).log_perplexity)


def load_saved(model: LLRNN, folder: Path) -> LLRNN:
    model.save(folder)
    return load(folder)


def test_the_given_model_stays_as_it_is() -> None:
    model = closed_model()
    before = distributions(model, prefixes())
    more = add(model, entries(model))
    with torch.no_grad():
        for parameter in more.parameters():
            parameter.add_(1.0)
    npt.assert_array_equal(distributions(model, prefixes()), before)


def test_new_words_are_written_and_tied_weights_stay_tied() -> None:
    vocabulary = small_vocabulary()
    phi = features.Suffixes(2) + features.Identity(top=0)
    model = LLRNN(vocabulary, output_features=phi, background=unigram(), controller=GRU(6), tied=True)
    more = add(model, [Entry(form, count=100_000) for form in NEW])
    assert more.layer.weight is more.embedding.weight
    texts = generate(more, count=5, max_words=10, generator=torch.Generator().manual_seed(1))
    assert any(word in NEW for text in texts for word in text.words)
    assert generate(more, beam=2, count=2, max_words=5)


# --- mistakes --------------------------------------------------------------------------------------------------------


def test_knowledge_that_cannot_take_words_says_so() -> None:
    model = closed_model(unigram() * Model(small_model()))
    with pytest.raises(LLRNNError, match="words cannot be added to Model"):
        add(model, [Entry("zorglub", count=1)])


def test_a_mask_takes_a_new_word_for_one_of_the_others() -> None:
    chosen = small_vocabulary().words[2]
    for mask, allowed in ((Mask(forbidden={chosen}), True), (Mask(allowed={chosen, EOS}), False)):
        more = add(closed_model(unigram() * mask), [Entry("zorglub", count=1)])
        distribution, _ = more.step(more.start(), [more.vocabulary.eos])
        assert bool(distribution.log_probs()[0, more.vocabulary.id("zorglub")] > -math.inf) == allowed


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([Entry("le", count=1)], "1 of the new words are listed already: 'le'"),
        ([Entry(EOS, count=1, place="w.tsv:4")], "(w.tsv:4) can be no new word: it marks the ends"),
        ([Entry("", count=1)], "it is empty"),
        ([Entry("a\u2028b", count=1)], "it holds a line break"),
        ([Entry(" a", count=1)], "white space"),
        ([Entry("\ud800", count=1)], "surrogate"),
        ([Entry("qq", count=1), Entry("qq", count=1)], "'qq' comes again"),
        ([Entry("qq", count=0)], "above 0"),
        ([Entry("qq", frozenset({"POS:NUON"}), 1)], "found 1 that are not: 'POS:NUON' of 'qq'"),
    ],
)
def test_mistakes_in_words(given: list[Entry], said: str) -> None:
    with pytest.raises(LLRNNError) as caught:
        add(closed_model(), given)
    assert said in str(caught.value)


def test_a_cell_is_no_word() -> None:
    with pytest.raises(VocabularyError, match="listed already"):
        add(open_model(), [Entry("‹number:year›")])


def test_a_value_that_differs_from_word_to_word_cannot_be_named() -> None:
    lengths = features.Function(lambda word: {"Length": float(len(word))}, name="length")
    model = built(small_vocabulary(), lengths, unigram())
    assert add(model, [Entry("zorglub", count=1)]).output_features.row(len(model.vocabulary)) == {}
    with pytest.raises(FeatureError, match="cannot be told"):
        add(model, [Entry("zorglub", frozenset({"Length"}), 1)])


def test_counts_need_counts() -> None:
    vocabulary = Vocabulary(["un", EOS])
    model = LLRNN(vocabulary, output_features=features.Suffixes(1, min_count=1), controller=GRU(3))
    with pytest.raises(VocabularyError, match="no counts"):
        add(model, [Entry("deux", count=1)])


@pytest.mark.parametrize(
    ("forms", "said"),
    [([EOS], "cannot be removed"), (["zorglub", "le"], "1 of the words are not listed: 'zorglub'")],
)
def test_mistakes_in_removing(forms: list[str], said: str) -> None:
    with pytest.raises(VocabularyError, match=said):
        remove(closed_model(), forms)


def test_the_symbol_for_unknown_words_stays() -> None:
    vocabulary = Vocabulary.from_corpus(small_corpus(), top=20, unknown="<unk>")
    model = LLRNN(vocabulary, output_features=features.Identity(top=5), controller=GRU(3))
    with pytest.raises(VocabularyError, match="stands for unknown words"):
        remove(model, ["<unk>"])


# --- tables ----------------------------------------------------------------------------------------------------------


def test_a_table_is_read(tmp_path: Path) -> None:
    path = tmp_path / "words.tsv"
    path.write_text("# form\n\nChat\tPOS:NOUN|Gender=Masc\t3\nchat\tPOS:VERB, X:Y\t4\n#\t_\nseul\n", encoding="utf8")
    chat = frozenset({"POS:NOUN", "Gender=Masc", "POS:VERB", "X:Y"})
    assert read_words(path, lowercase=True) == [
        Entry("chat", chat, 7, f"{path}:3"),
        Entry("#", place=f"{path}:5"),
        Entry("seul", place=f"{path}:6"),
    ]
    assert len(read_words(path)) == 4


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("chat POS:NOUN", ":1: form, TAB, attributes, TAB and a count are required, found 1 columns"),
        ("chat\tPOS:NOUN\t1\t2", ":1: form, TAB, attributes, TAB and a count are required, found 4 columns"),
        ("chat\t\t5", ":1:6: attributes are required after the TAB"),
        ("chat\t_\t0", ":1:8: the count must be a whole number above 0, found '0'"),
        ("chat\t_\tmany", "found 'many'"),
        ("chat\t_\t1.5", "found '1.5'"),
        ("chat\t_\t" + "9a" * 9_000, "…; correct it"),
        ("# nothing", "no word in the file"),
    ],
)
def test_mistakes_in_tables(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "words.tsv"
    path.write_text(line + "\n", encoding="utf8")
    with pytest.raises(LexiconError) as caught:
        read_words(path)
    assert said in str(caught.value)


# --- the command line ------------------------------------------------------------------------------------------------

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    closed_model().save(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_verbs_add_and_remove(folder: Path, capsys: Capture) -> None:
    Path("words.tsv").write_text("zorglub\tPOS:NOUN\t3\nchatouille\t_\t1\n", encoding="utf8")
    assert cli.run(["words", "add", "model", "words.tsv", "--out", "more", "--json"]) == 0
    size = len(small_vocabulary())
    found = json.loads(capsys.readouterr().out)
    assert found == {"out": "more", "added": 2, "listed": size + 2, "priors": found["priors"]}
    assert load("more").vocabulary.words[-2:] == ("zorglub", "chatouille")
    assert cli.run(["words", "remove", "more", "words.tsv", "--out", "more"]) == 0
    assert capsys.readouterr().out == f"more: 2 words removed, {size} listed now\n"
    npt.assert_allclose(
        distributions(load("more"), prefixes()), distributions(load("model"), prefixes()), rtol=0, atol=1e-9
    )


def test_the_prior_of_each_word_is_told(folder: Path, capsys: Capture) -> None:
    model = load("model")
    Path("words.tsv").write_text("zorglub\tPOS:NOUN\t3\nzorg\n", encoding="utf8")
    assert cli.run(["words", "add", "model", "words.tsv", "--out", "more", "--json"]) == 0
    priors = json.loads(capsys.readouterr().out)["priors"]
    log_b = load("more").background.prior([]).dense(1).log_b[0].exp()
    assert [*priors] == ["zorglub", "zorg"]
    assert list(priors.values()) == pytest.approx((log_b[-2:] / log_b.sum()).tolist())
    assert priors["zorglub"] == pytest.approx(3 / model.vocabulary.total / float(log_b.sum()))
    assert cli.run(["words", "add", "model", "words.tsv", "--out", "more", "--force"]) == 0
    assert f"zorg {priors['zorg']:.3g}" in " ".join(capsys.readouterr().out.split())


def test_another_model_is_replaced_only_when_that_is_said(folder: Path) -> None:
    Path("words.tsv").write_text("zorglub\t_\t3\n", encoding="utf8")
    shutil.copytree("model", "other")
    asked = ["words", "add", "model", "words.tsv", "--out", "other"]
    assert cli.run(asked) == 2
    assert "zorglub" not in load("other").vocabulary
    assert cli.run([*asked, "--force"]) == 0
    assert "zorglub" in load("other").vocabulary
    assert cli.run(["words", "add", "model", "words.tsv", "--out", "./model"]) == 0  # in its own place


def test_a_model_of_small_letters_gets_small_words(folder: Path) -> None:
    model = closed_model()
    model.provenance = {"config": {"corpus": {"lowercase": True}}}
    model.save("small")
    Path("words.tsv").write_text("Zorglub\t_\t3\n", encoding="utf8")
    assert cli.run(["words", "add", "small", "words.tsv", "--out", "more"]) == 0
    assert "zorglub" in load("more").vocabulary


@pytest.mark.parametrize(
    ("table", "arguments", "said"),
    [
        ("le\t_\t2\n", ["add", "model", "words.tsv", "--out", "x"], "'le' (words.tsv:1)"),
        ("</s>\t_\t2\n", ["add", "model", "words.tsv", "--out", "x"], "'</s>' (words.tsv:1) can be no new word"),
        ("\t_\t2\n", ["add", "model", "words.tsv", "--out", "x"], "(words.tsv:1) can be no new word: it is empty"),
        ("a\u0085b\t_\t2\n", ["add", "model", "words.tsv", "--out", "x"], "(words.tsv:1) can be no new word"),
        ("qq\tPOS:NUON\t2\n", ["add", "model", "words.tsv", "--out", "x"], "'POS:NUON' of 'qq' (words.tsv:1)"),
        ("qq\t_\t2\n", ["add", "nowhere", "words.tsv", "--out", "x"], "nowhere: a model folder is required"),
        ("qq\t_\t2\n", ["add", "model", "other.tsv", "--out", "x"], "other.tsv: a file is required"),
        ("qq\t_\t2\n", ["add", "model", "words.tsv"], "Missing option '--out'"),
        ("qq\t_\t2\n", ["add", "model", "words.tsv", "--out", "words.tsv"], "cannot be made a folder"),
        ("qq\t_\t2\n", ["add", "model", "words.tsv", "--out", "run"], "holds a training run already"),
        ("qq\t_\t2\n", ["add", "model", "words.tsv", "--out", "run", "--force"], "holds a training run already"),
        ("qq\t_\t2\n", ["add", "model", "words.tsv", "--out", "other"], "holds a model already; choose another"),
        ("zorglub\n", ["remove", "model", "words.tsv", "--out", "x"], "not listed: 'zorglub'"),
        ("</s>\n", ["remove", "model", "words.tsv", "--out", "x"], "cannot be removed"),
    ],
)
def test_mistakes_of_the_command_line(
    folder: Path, capsys: Capture, table: str, arguments: list[str], said: str
) -> None:
    Path("words.tsv").write_text(table, encoding="utf8")
    Path("run").mkdir()
    Path("run/training.json").write_text("{}")
    shutil.copytree("model", "other")
    assert cli.run(["words", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert said in captured.err
    assert not Path("x").exists()


# --- many words ------------------------------------------------------------------------------------------------------


def test_a_thousand_words_are_added_at_once() -> None:
    """A thousand words into an open vocabulary of a few thousand, with an n-gram expert."""
    corpus = Corpus.from_sentences(french.sentences(1500, skip=1000))
    types = [word for word in corpus.counts() if word.isalpha()]
    held = [domains.Numbers("fr"), domains.Spelling(types, order=3, endings=10)]
    vocabulary = Vocabulary.from_corpus(corpus, domains=held, as_new=0.5)
    model = LLRNN(
        vocabulary,
        output_features=features.Identity(top=500) + features.CellAttributes() + features.Suffixes(3).of_listed(),
        background=backgrounds.Discounted.from_corpus(corpus),
        contextual=[Expert(NGram.from_corpus(corpus, order=3, folds=0), name="kn")],
        controller=GRU(64),
    )
    new = [Entry(f"{word}ouille") for word in types[:1000]]
    more = add(model, new)
    assert len(more.vocabulary) == len(vocabulary) + 1000
