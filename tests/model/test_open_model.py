"""Models of open vocabularies: Σp = 1 over infinitely many strings, samples as likely as they are said to be."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from helpers import shaken, small_corpus
from llrnn import (
    EOS,
    GRU,
    LLRNN,
    Corpus,
    Greedy,
    Sampling,
    Vocabulary,
    backgrounds,
    domains,
    evaluate,
    explain,
    features,
    generate,
    load,
    train,
)
from llrnn.config import read_config
from llrnn.config.project import Project
from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import CheckpointError, ConfigError, DomainError, LexiconError, LLRNNError
from llrnn.inference.explanation import Comparison, Explanation
from llrnn.inference.nbest import Hypothesis, NBest, NBestLists
from llrnn.inference.rescoring import ModelScorer, rescore
from llrnn.knowledge.backgrounds import Discounted, NGram, Unigram
from llrnn.knowledge.contextual import Expert
from llrnn.knowledge.process import Batch
from llrnn.languages.domains import Names, Numbers, Regular, Spelling
from llrnn.languages.grammars import pattern
from llrnn.model.scoring import score
from llrnn.model.testing import check_domain, check_features
from llrnn.text.automata import DFA, kind, of_kind
from llrnn.text.encoded import EncodedText
from llrnn.text.vocabulary import Cell, Domain
from strategies import QUICK, draws


def step_log_probs(model: LLRNN, words: Sequence[str]) -> list[float]:
    """log p of each word and of the end, by `model.step`, and of which string of its cell each word is."""
    ids, inside = model.vocabulary.locate(list(words))
    state, fed, found = model.start(), model.vocabulary.eos, []
    with torch.no_grad():
        for target, log in zip([*ids.tolist(), model.vocabulary.eos], [*inside.tolist(), 0.0], strict=True):
            distribution, state = model.step(state, [fed])
            found.append(float(distribution.log_probs()[0, target]) + log)
            fed = target
    return found


@cache
def types() -> tuple[str, ...]:
    return tuple(sorted(word for word in small_corpus().counts() if word.isalpha()))


@cache
def opened() -> Vocabulary:
    held = [Numbers("fr"), Spelling(types(), order=3, endings=6, longest=2, lengths=(4,))]
    return Vocabulary.from_corpus(small_corpus()[:40], domains=held, as_new=0.5)


@cache
def open_model() -> LLRNN:
    """Random weights, in float64."""
    phi = features.Identity(top=30) + features.CellAttributes() + features.Suffixes(2, min_count=3).of_listed()
    background = Discounted.from_corpus(small_corpus()[:40])
    model = LLRNN(opened(), output_features=phi, background=background, controller=GRU(6)).double()
    shaken(model, 1.5)
    return model


# --- Σp = 1 --------------------------------------------------------------------------------------------------------

LONGEST = 3


class Truncated:
    """A small vocabulary with all strings of up to three characters, and what the longer ones weigh."""

    def __init__(self, words: Sequence[str], order: int, cells: bool) -> None:
        held = [Numbers("fr"), Spelling([*words, "ab-1", "1-ba"], order=order, endings=3, lengths=(2,), cells=cells)]
        self.vocabulary = Vocabulary([*words, EOS], domains=held)
        self.symbol, log_inside = self._short()
        self.share = np.bincount(self.symbol, weights=np.exp(log_inside), minlength=len(self.vocabulary))
        self.share[: len(self.vocabulary.words)] = 1.0
        left = np.exp(np.concatenate(self.vocabulary.cell_log_mass))
        longer = np.concatenate([self._longer_numbers(), self._longer_spellings()])
        listed = [word for word in self.vocabulary.words if len(word) > LONGEST]  # these are no part of what is left
        for word in listed:
            cell = int(self.vocabulary.cells_of([word])[0])
            log_q = max(float(domain.locate([word])[1][0]) for domain in self.vocabulary.domains)
            longer[cell - len(self.vocabulary.words)] -= math.exp(log_q)
        ratio = np.divide(longer, left, out=np.zeros_like(left), where=left > 0)
        self.tail = np.concatenate([np.zeros(len(self.vocabulary.words)), ratio])

    def _short(self) -> tuple[Ints, Floats]:
        """The symbols of all strings that are not listed, and log of their share; one string stands for its kind."""
        spelling = self.vocabulary.domains[1]
        assert isinstance(spelling, Spelling)
        told = spelling._model.alphabet.characters
        sizes = [len(of_kind(k)) - sum(kind(c) == k for c in told) for k in range(5)]
        letters = [(c, 0.0) for c in told] + [(chr(of_kind(k)[-1]), math.log(sizes[k])) for k in range(5)]
        assert not {character for character, _ in letters[-5:]} & {*told}
        assert [kind(character) for character, _ in letters[-5:]] == list(range(5))
        level, found = [("", 0.0)], list[tuple[str, float]]()
        for _ in range(LONGEST):
            level = [(string + c, many + more) for string, many in level for c, more in letters]
            found += [one for one in level if one[0] not in self.vocabulary and one[0].strip() == one[0]]
        symbol, inside = self.vocabulary.locate([string for string, _ in found])
        return symbol, inside + np.array([many for _, many in found])

    def _longer_numbers(self) -> Floats:
        """By the automaton: what stands in each state after four characters, and the ways on from there."""
        domain = self.vocabulary.domains[0]
        assert isinstance(domain, Regular)
        weight = np.zeros(len(domain.language.labels))
        weight[0] = 1.0
        for _ in range(LONGEST + 1):
            after = np.zeros_like(weight)
            np.add.at(after, domain.language.moves, weight[:, None] * domain._weight)
            weight = after
        return np.asarray(weight @ domain._ahead * np.exp(domain._log_scale), dtype=np.float64)

    def _longer_spellings(self) -> Floats:
        domain = self.vocabulary.domains[1]
        assert isinstance(domain, Spelling)
        ended = domain._product.by_length[LONGEST + 1 :]
        number = domain._number[:, domain._ranges.of(np.arange(LONGEST + 1, LONGEST + 1 + len(ended)))].T
        found = np.bincount(number.ravel(), weights=ended.ravel(), minlength=len(domain.cells))
        return np.asarray(found, dtype=np.float64)


@cache
def truncated(which: int) -> Truncated:
    words = (["a", "ab", "b-a", "12", "7"], ["b", "1a", "bab", "1984", "aaaa"], ["a-b", "1er", "ba"])[which]
    return Truncated(words, order=(2, 3, 4)[which], cells=which != 2)


@settings(QUICK, max_examples=draws(25))
@given(st.integers(0, 2), st.integers(0, 2**31), st.floats(0.1, 4.0), st.lists(st.integers(0, 20), max_size=4))
def test_all_strings_together_have_probability_one(which: int, seed: int, loud: float, prefix: list[int]) -> None:
    """Every string of three characters at most, one by one; longer ones are summed by length."""
    small = truncated(which)
    vocabulary = small.vocabulary
    phi = features.Identity() + features.CellAttributes()
    background = Unigram({"a": 3, "b": 1, "7": 1, EOS: 5}, smoothing=0.5)
    model = LLRNN(vocabulary, output_features=phi, background=background, controller=GRU(3)).double()
    shaken(model, loud, seed)
    state = model.start()
    with torch.no_grad():
        for word in [vocabulary.eos, *(symbol % len(vocabulary) for symbol in prefix)]:
            p, state = model.step(state, [word])
        probs = p.log_probs()[0].exp().numpy()
    assert float(probs.sum()) == pytest.approx(1.0, abs=1e-12)
    short = float((probs * small.share).sum())
    tail = float((probs * small.tail).sum())
    assert short <= 1 + 1e-9
    assert short >= 1 - tail - 1e-9
    assert short + tail == pytest.approx(1.0, abs=1e-9)  # the tails are exact, not just bounds
    assert short > 0  # how much of it is short depends on the weights


def test_compiled_features_are_those_of_a_law_abiding_vocabulary() -> None:
    phi = features.Identity(top=30) + features.CellAttributes()
    matrix, vocabulary = open_model().output_features, opened()
    fitted = features.CellAttributes().fitted(vocabulary)
    for symbol, strings in vocabulary.witnesses.items():
        for string in strings:
            assert {*fitted(string)} <= matrix.row(symbol).keys()
    closed = Vocabulary(opened().words)
    check_features(features.Identity(top=30), closed)
    assert repr(phi)


# --- samples ---------------------------------------------------------------------------------------------------------


def chi_square_quantile(df: int, z: float = 4.753424) -> float:
    """Of the share of a normal distribution below z, 1 − 10⁻⁶ by default (Wilson and Hilferty)."""
    return float(df * (1 - 2 / (9 * df) + z * math.sqrt(2 / (9 * df))) ** 3)


def chi_square(counts: Floats, probs: Floats) -> float:
    expected = probs * counts.sum()
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.slow
def test_a_million_samples_are_as_frequent_as_the_model_says() -> None:
    model, vocabulary, many = open_model(), opened(), 10**6
    generator, rng = torch.Generator().manual_seed(1), np.random.default_rng(1)
    with torch.no_grad():
        state = model.start()
        for word in (EOS, "le"):
            p, state = model.step(state, [vocabulary.id(word)])
        drawn = p.sample((many,), generator=generator)[:, 0]
        log_probs = p.log_probs()[0].numpy()
    counts: Counter[str] = Counter()
    for symbol, count in Counter(drawn.tolist()).items():
        counts.update(vocabulary.spell(symbol, count, rng))
    assert counts.total() == many
    strings = list(counts)
    symbol, inside = vocabulary.locate(strings)
    log_p = log_probs[symbol] + inside
    order = np.argsort(-log_p, kind="stable").tolist()
    unlisted = [i for i in order if strings[i] not in vocabulary][:30]
    chosen = [*[i for i in order if strings[i] in vocabulary][:30], *unlisted]
    found = np.array([counts[strings[i]] for i in chosen], dtype=np.float64)
    probs = np.exp(log_p[chosen])
    assert len(chosen) == 60
    assert many * probs.min() > 20
    all_counts, all_probs = np.append(found, many - found.sum()), np.append(probs, 1 - probs.sum())
    assert chi_square(all_counts, all_probs) < chi_square_quantile(60)
    cells = np.flatnonzero(np.bincount(drawn.numpy(), minlength=len(vocabulary)))
    assert (cells >= len(vocabulary.words)).sum() > 20
    # the test has power: a twentieth more of one string, at the cost of the rest, is not let through
    for wrong in (int(np.argmax(probs[:30])), 30 + int(np.argmax(probs[30:]))):
        shifted = all_probs.copy()
        by = 0.05 if wrong < 30 else 0.25
        shifted[wrong] *= 1 + by
        shifted[-1] -= all_probs[wrong] * by
        assert chi_square(all_counts, shifted) > chi_square_quantile(60)


def test_the_quantile_is_that_of_the_tables() -> None:
    assert chi_square_quantile(60, 3.090232) == pytest.approx(99.607, abs=0.1)  # of 0.999
    assert chi_square_quantile(10, 3.090232) == pytest.approx(29.588, abs=0.2)
    assert chi_square_quantile(60) > chi_square_quantile(60, 4.0) > 99.607


# --- a domain of one's own ----------------------------------------------------------------------------------------


class HexColours(Domain):
    """#a0b1c2: greys, of which there are 256, and all others; each as likely as any other of its cell."""

    def __init__(self, grey: float = 0.2) -> None:
        self._grey = grey

    @property
    def name(self) -> str:
        return "colour"

    @property
    def cells(self) -> tuple[Cell, ...]:
        return Cell("colour:grey", ("Colour:any", "Colour:grey")), Cell("colour:other", ("Colour:any",))

    @property
    def log_mass(self) -> Floats:
        return np.log([self._grey, 1 - self._grey])

    @property
    def language(self) -> DFA:
        return pattern("#[0-9a-f]{6}")

    def locate(self, strings: Sequence[str]) -> tuple[Ints, Floats]:
        inside = self.language.label_all(strings) >= 0
        grey = np.array([len({s[1:3], s[3:5], s[5:7]}) == 1 for s in strings], dtype=bool)
        cells = np.where(inside, np.where(grey, 0, 1), -1)
        log_q = np.where(grey, math.log(self._grey / 256), math.log((1 - self._grey) / (16**6 - 256)))
        return cells, np.where(inside, log_q, -np.inf)

    def draw(self, cell: int, count: int, rng: np.random.Generator) -> list[str]:
        if cell == 0:
            return [f"#{value:02x}{value:02x}{value:02x}" for value in rng.integers(256, size=count).tolist()]
        drawn: list[str] = []
        while len(drawn) < count:
            more = [f"#{value:06x}" for value in rng.integers(16**6, size=count).tolist()]
            drawn += [string for string in more if len({string[1:3], string[3:5], string[5:7]}) > 1]
        return drawn[:count]

    def members(self, cell: int) -> Sequence[str] | None:
        return [f"#{value:02x}" * 1 + f"{value:02x}" * 2 for value in range(256)] if cell == 0 else None

    def described(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {"kind": "hex", "grey": self._grey}, {}


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domains, "_KINDS", dict(domains._KINDS))
    domains.register("hex", lambda plain, arrays: HexColours(plain["grey"]))


@pytest.mark.usefixtures("registered")
def test_a_domain_of_ones_own_is_trained_saved_loaded_and_drawn_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_domain(HexColours())
    sentences = (
        [["fond", f"#{i:02x}{i:02x}{i:02x}"] for i in range(0, 120, 3)] + [["texte", "#a0b1c2"]] * 10 + [["uni"]] * 2
    )
    corpus = Corpus.from_sentences(sentences)
    vocabulary = Vocabulary(["fond", "texte", "#000000", "uni", EOS], domains=[HexColours()])
    model = LLRNN(
        vocabulary,
        output_features=features.Identity(top=5) + features.CellAttributes(),
        background=Discounted.from_corpus(corpus),
        controller=GRU(8),
    )
    before = step_log_probs(model, ["fond", "#0b0b0b"])[1]
    assert list(train(model, corpus, epochs=30, learning_rate=0.05))
    assert step_log_probs(model, ["fond", "#0b0b0b"])[1] > before
    expected, surprising = (explain(model, prefix=word, word="#c0ffee").log_p for word in ("texte", "fond"))
    assert expected > surprising + 0.5  # the text has greys after the one word and another colour after the other
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    for words in (["fond", "#123456"], ["texte", "#0c0c0c", "uni"]):
        assert step_log_probs(again, words) == pytest.approx(step_log_probs(model, words), abs=1e-12)
    ours, theirs = (generate(m, count=40, generator=torch.Generator().manual_seed(0)) for m in (model, again))
    assert ours == theirs
    drawn = {word for one in ours for word in one.words} - {*vocabulary.words}
    assert drawn
    assert set(HexColours().locate(sorted(drawn))[0].tolist()) <= {0, 1}
    monkeypatch.setattr(domains, "_KINDS", {})
    with pytest.raises(CheckpointError, match="no domain of the kind 'hex' is known; register it"):
        load(tmp_path / "model")


# --- a model from a configuration -----------------------------------------------------------------------------------

CONFIG = """
[corpus]
embedded = {train = 150, valid = 20, test = 40}
[vocabulary]
min_count = 1
[[domains]]
kind = "numbers"
language = "fr"
[[domains]]
kind = "spelling"
order = 3
endings = 12
lengths = [4]
[features]
output = [{kind = "identity", top = 60}, {kind = "orthographic"}, {kind = "suffixes", longest = 2, listed = true}]
[background]
kind = "discounted"
[[contextual]]
kind = "expert"
order = 2
folds = 2
[controller]
kind = "gru"
hidden = 12
[training]
epochs = 1
"""


def project(folder: Path, *changes: str, text: str = CONFIG) -> Project:
    (folder / "my.toml").write_text(text, encoding="utf8")
    return Project.from_config(read_config(folder / "my.toml", changes))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, LLRNN]:
    made = project(tmp_path_factory.mktemp("project"))
    model = made.model()
    for _ in train(model, made.corpora["train"], valid=made.corpora["valid"], settings=made.config.training):
        pass
    return made, model.double()


Trained = tuple[Project, LLRNN]


def unlisted(made: Project) -> list[str]:
    return [word for word in made.corpora["test"].counts() if word not in made.vocabulary]


def test_teacher_forcing_and_steps_give_the_same_numbers(trained: Trained) -> None:
    made, model = trained
    test = made.corpora["test"]
    assert unlisted(made)
    total = float(score(model, EncodedText.encode(test, model.vocabulary)).log_probs.sum())
    by_hand = sum(sum(step_log_probs(model, sentence.words)) for sentence in test)
    assert total == pytest.approx(by_hand, rel=1e-9)
    inside = sum(float(model.vocabulary.locate(list(s.words))[1].sum()) for s in test)
    assert inside < -10  # it matters


def test_evaluation_counts_and_spells_out_unlisted_words(trained: Trained) -> None:
    made, model = trained
    test = made.corpora["test"]
    result = evaluate(model, test)
    outside = sum(n for word, n in test.counts().items() if word not in made.vocabulary)
    assert result.audit.problems() == [p for p in result.audit.problems() if "covers" in p or "sentences" in p]
    assert result.audit.worst_sum_error < 1e-9
    assert outside > 0
    assert result.contract.spelled == outside
    assert result.words == test.tokens + len(test) == result.audit.words_counted
    nats = -sum(sum(step_log_probs(model, sentence.words)) for sentence in test)
    assert result.bits_per_character == pytest.approx(nats / math.log(2) / result.characters)
    assert 0.5 < result.bits_per_character < 8


@pytest.mark.parametrize("temperature", [1.0, 1.5])
def test_strings_that_nobody_listed_are_generated(trained: Trained, temperature: float) -> None:
    made, model = trained
    drawn = generate(
        model, count=60, max_words=12, strategy=Sampling(temperature), generator=torch.Generator().manual_seed(2)
    )
    new = {word for one in drawn for word in one.words} - {*made.vocabulary.words}
    assert new - {*made.corpora["train"].counts()}
    for one in drawn:
        log_probs = step_log_probs(model, one.words)
        expected = sum(log_probs if one.finished else log_probs[:-1])
        assert one.log_prob == pytest.approx(expected, abs=1e-8)
    again = generate(
        model, count=60, max_words=12, strategy=Sampling(temperature), generator=torch.Generator().manual_seed(2)
    )
    assert again == drawn


def test_greedy_and_beam_search_spell_what_wins(trained: Trained) -> None:
    _, model = trained
    (greedy,) = generate(model, prefix="le", strategy=Greedy(), max_words=8)
    beams = generate(model, prefix="le", beam=4, count=4, max_words=8)
    for one in (greedy, *beams):
        log_probs = step_log_probs(model, [*one.prefix, *one.words])[1:]
        assert one.log_prob == pytest.approx(sum(log_probs if one.finished else log_probs[:-1]), abs=1e-8)
    # where cells alone are likely, they win, and a string of theirs is shown
    vocabulary = Vocabulary(["a", EOS], domains=[Regular({"b": "b+"}, {"b": 0.5})])
    background = backgrounds.Static(torch.tensor([-9.0, -1.5, 0.0], dtype=torch.float64))
    eager = LLRNN(vocabulary, output_features=features.Identity(), background=background, controller=GRU(2)).double()
    best = generate(eager, beam=2, count=2, max_words=3)
    assert best[0].words == ()
    (said,) = generate(eager, strategy=Greedy(), max_words=3)
    assert len(said.words) == 3
    assert set("".join(said.words)) == {"b"}
    assert said.log_prob == pytest.approx(sum(step_log_probs(eager, said.words)[:-1]))


def test_an_unlisted_word_is_explained_by_its_cell(trained: Trained) -> None:
    made, model = trained
    for word in ("zorglub", "1789", unlisted(made)[0]):
        why = explain(model, prefix="le", word=word)
        assert isinstance(why, Explanation)
        assert why.total == pytest.approx(why.log_p, abs=1e-9)
        assert why.log_p == pytest.approx(step_log_probs(model, ["le", word])[1], abs=1e-9)
        assert why.cell == model.vocabulary.symbols[model.vocabulary.id(word)]
        assert why.log_inside == pytest.approx(model.vocabulary.log_inside(word))
        assert why.terms
    listed = explain(model, prefix="le", word="le")
    assert (listed.cell, listed.log_inside) == (None, 0.0)


def test_rivals_in_one_cell_differ_by_their_spelling_alone(trained: Trained) -> None:
    _, model = trained
    compared = explain(model, prefix="en", word="1789", rival="1848")
    assert isinstance(compared, Comparison)
    assert compared.terms == ()
    assert compared.total == pytest.approx(compared.log_ratio, abs=1e-9)
    assert compared.log_ratio == pytest.approx(0.0, abs=1e-9)  # all years are alike
    other = explain(model, prefix="en", word="1789", rival="zorglub")
    assert other.total == pytest.approx(other.log_ratio, abs=1e-9)
    assert {"Numeral:any", "Numeral:year"} <= {term.name for term in other.terms}
    against_listed = explain(model, prefix="en", word="zorglub", rival="le")
    assert against_listed.total == pytest.approx(against_listed.log_ratio, abs=1e-9)


def test_a_loaded_model_says_and_draws_the_same(trained: Trained, tmp_path: Path) -> None:
    made, model = trained
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.vocabulary == model.vocabulary
    for words in (["le", "zorglub"], ["en", "1789"], ["12,5", "%", "grmbl-grmbl"], unlisted(made)[:4]):
        assert step_log_probs(again, words) == step_log_probs(model, words)
    ours, theirs = (generate(m, count=30, generator=torch.Generator().manual_seed(5)) for m in (model, again))
    assert ours == theirs
    first, second = evaluate(model, made.corpora["test"]), evaluate(again, made.corpora["test"])
    assert first.log_perplexity == second.log_perplexity
    again.save(tmp_path / "again")
    names = [
        {path.name: path.read_bytes() for path in (tmp_path / folder).iterdir() if path.is_file()}
        for folder in ("model", "again")
    ]
    assert names[0] == names[1]


def test_names_survive_the_folder_too(tmp_path: Path) -> None:
    under = Spelling(types(), order=3, endings=4, lengths=(4,))
    held = [Numbers("fr"), Names({"paris": ["Geo:city"], "1984": ["Odd:yes"], "loire": ["Geo:river"]}, under)]
    vocabulary = Vocabulary([*types()[:20], EOS], domains=held)
    phi = features.Identity(top=5) + features.CellAttributes()
    model = LLRNN(vocabulary, output_features=phi, background=Unigram({EOS: 3, types()[0]: 1}), controller=GRU(3))
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    words = ["paris", "1984", "loire", "grmbl", types()[1]]
    assert step_log_probs(again, words) == pytest.approx(step_log_probs(model, words), abs=1e-12)
    assert vocabulary.symbols[vocabulary.id("1984")] == "‹number:year›"
    assert vocabulary.symbols[vocabulary.id("paris")] == "‹name:Geo:city›"
    cell = vocabulary.id("grmbl")
    ours, theirs = (m.vocabulary.spell(cell, 9, np.random.default_rng(0)) for m in (model, again))
    assert ours == theirs


@pytest.mark.filterwarnings("ignore::llrnn.ground.errors.EstimationWarning")
def test_ngrams_count_cells_as_symbols() -> None:
    corpus = Corpus.from_sentences([["en", "1789"], ["en", "1848"], ["en", "1914"], ["le", "chat"], ["le", "rat"]])
    vocabulary = Vocabulary(["en", "le", "chat", "rat", EOS], domains=[Numbers("fr")])
    bound = NGram.from_corpus(corpus, order=2, folds=0).bind(vocabulary)
    state = bound.advance(bound.advance(bound.initial(), vocabulary.eos), vocabulary.id("en"))
    log_b = bound.prior([state]).dense(1).log_b[0]
    assert int(log_b.argmax()) == vocabulary.id("1900")
    assert float(log_b.exp().sum()) == pytest.approx(1.0, abs=1e-5)
    model = LLRNN(
        vocabulary,
        output_features=features.Identity(top=5) + features.CellAttributes(),
        background=Discounted.from_corpus(corpus),
        contextual=[Expert(NGram.from_corpus(corpus, order=2, folds=0), name="kn")],
        controller=GRU(4),
    )
    before = step_log_probs(model, ["en", "1515"])[1]
    for _ in train(model, corpus, epochs=20, learning_rate=0.05):
        pass
    assert step_log_probs(model, ["en", "1515"])[1] > before + 0.5
    assert "kn" in {term.name for term in explain(model, prefix="en", word="1515").terms}


def test_words_that_train_as_new_are_first_shown_as_their_cells() -> None:
    vocabulary = opened()
    corpus = small_corpus()[:40]
    assert vocabulary.as_new
    with_text_words, to_train_on = EncodedText.encode(corpus, vocabulary), EncodedText.to_train_on(corpus, vocabulary)
    waiting = set(vocabulary.as_new)
    for sentence, read, shown in zip(corpus, with_text_words.sentences, to_train_on.sentences, strict=True):
        for word, one, other in zip(sentence.words, read.tolist(), shown.tolist(), strict=True):
            assert vocabulary.words[one] == word
            if word in waiting:
                waiting.remove(word)
                assert other == vocabulary.cells_of([word])[0] >= len(vocabulary.words)
            else:
                assert other == one
    assert not waiting
    assert to_train_on.inside is None
    assert with_text_words.inside is not None
    assert not np.concatenate(with_text_words.inside).any()


def test_which_string_it_was_is_part_of_every_batching(trained: Trained) -> None:
    made, model = trained
    words = ("le", "zorglub", "1789")
    ids, inside = model.vocabulary.locate(list(words))
    row = torch.tensor([[model.vocabulary.eos, *ids.tolist(), model.vocabulary.eos]])
    own = torch.from_numpy(np.append(inside, 0.0))[None]
    with torch.no_grad():
        batch = Batch(row[:, :-1], row[:, 1:], torch.ones(1, 4, dtype=torch.bool), inside=own)
        log_p = model.log_prob(batch)
    assert log_p.tolist() == pytest.approx(step_log_probs(model, words), abs=1e-9)
    text = EncodedText.encode(Corpus.from_sentences([list(words)]), model.vocabulary)
    assert text.inside is not None
    assert text.inside[0].tolist() == inside.tolist()
    stream = text.run().inside_at(np.arange(len(words) + 2))
    assert stream is not None
    assert stream.tolist() == [0.0, *inside.tolist(), 0.0]
    assert made.vocabulary is model.vocabulary


def test_hypotheses_with_unlisted_words_are_rescored(trained: Trained) -> None:
    _, model = trained
    hypotheses = [("le", "zorglub"), ("le", "chat"), ("en", "1789"), ("le", "zorglubs"), ()]
    lists = NBestLists((), (NBest("a", tuple(Hypothesis(words) for words in hypotheses)),))
    found = ModelScorer(model)(lists.lists)[0]
    for words, log_p in zip(hypotheses, found, strict=True):
        assert log_p == pytest.approx(sum(step_log_probs(model, words)), abs=1e-9)
    ranked = rescore(lists, {"lm": ModelScorer(model)}).lists.lists[0].hypotheses
    best = sorted(zip(found, hypotheses, strict=True), reverse=True)
    assert [one.words for one in ranked] == [words for _, words in best]


# --- discounted counts ------------------------------------------------------------------------------------------------


def letters() -> Regular:
    return Regular({"one": "[a-z]", "more": "[a-z]{2,}"}, {chr(code): 0.02 for code in range(97, 123)})


def masses(background: Discounted, vocabulary: Vocabulary) -> dict[str, float]:
    log_b = background.bind(vocabulary).prior([]).dense(1).log_b[0]
    return dict(zip(vocabulary.symbols, log_b.exp().tolist(), strict=True))


def test_discounted_counts_by_hand() -> None:
    """Counts 3, 2, 1, 1 and 3 ends: D = 2 / (2 + 2 · 1), and half a count of each of five words is free.

    Both words seen once are of one letter, so that κ is as small as it can be, 10.
    """
    counts = {"a": 3, "b": 2, "c": 1, "d": 1, EOS: 3}
    found = masses(Discounted(counts), Vocabulary(["a", "b", "c", "d", EOS], domains=[letters()]))
    one, more = 22 * 0.02, 0.52**2 / (1 - 0.52)
    expected = {"a": 0.25, "b": 0.15, "c": 0.05, "d": 0.05, EOS: 0.25}
    expected["‹regular:one›"] = 0.25 * (2 + 10 * one / (one + more)) / 12
    expected["‹regular:more›"] = 0.25 * (10 * more / (one + more)) / 12
    assert found == pytest.approx(expected)
    assert sum(found.values()) == pytest.approx(1.0)


def test_discounted_counts_with_a_frequency_list_by_hand() -> None:
    """c is in the list, so one of the two words seen once is new to it: u = (1 + 1) / (2 + 2)."""
    counts = {"a": 3, "b": 2, "c": 1, "d": 1, EOS: 3}
    background = Discounted(counts, {"e": 3.0, "c": 1.0, "f": 1.0})
    found = masses(background, Vocabulary(["a", "b", "c", "d", "e", "f", EOS], domains=[letters()]))
    one, more = 20 * 0.02, 0.52**2 / (1 - 0.52)
    expected = {"a": 0.25, "b": 0.15, "c": 0.05, "d": 0.05, EOS: 0.25}
    expected |= {"e": 0.25 * 0.5 * 3 / 4, "f": 0.25 * 0.5 * 1 / 4}
    expected["‹regular:one›"] = 0.25 * 0.5 * (1 + 10 * one / (one + more)) / 11
    expected["‹regular:more›"] = 0.25 * 0.5 * (10 * more / (one + more)) / 11
    assert found == pytest.approx(expected)
    assert sum(found.values()) == pytest.approx(1.0)


def test_counts_of_words_outside_the_list_are_free_too() -> None:
    counts = {"a": 6, "zz": 2, "q": 1, EOS: 3}
    found = masses(Discounted(counts), Vocabulary(["a", EOS], domains=[letters()]))
    taken = 2 * 1 / (1 + 2)  # D = n₁ / (n₁ + 2 n₂), of two words
    cells = found["‹regular:one›"] + found["‹regular:more›"]
    assert cells == pytest.approx((taken + 3) / 12)
    assert found["a"] == pytest.approx((6 - taken / 2) / 12)
    assert sum(found.values()) == pytest.approx(1.0)


# --- configurations ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (CONFIG.replace('kind = "numbers"', 'kind = "letters"'), ConfigError, "domains.*letters"),
        (CONFIG.replace('language = "fr"', "ratio = 1.5"), ConfigError, "domains.*ratio.*less than 1"),
        (CONFIG.replace('language = "fr"', "ratio = 0"), ConfigError, "domains.*ratio.*greater than 0"),
        (CONFIG.replace('language = "fr"', "ratio = 0.9"), DomainError, "the cell 'number:.*' must have finite mass"),
        (CONFIG.replace("order = 3", "order = 1"), ConfigError, "domains.*order.*greater than or equal to 2"),
        (CONFIG.replace("lengths = [4]", "lengths = [4, 4]"), DomainError, r"rise, found \[4, 4\]"),
        (CONFIG.replace("endings = 12", "ending = 12"), ConfigError, "domains.*ending"),
        (CONFIG.replace("min_count = 1", 'lists = ["/nowhere/list.tsv"]'), LexiconError, "/nowhere/list.tsv"),
        (CONFIG.replace("min_count = 1", "as_new = 2.0"), ConfigError, "as_new"),
        (CONFIG.replace('kind = "spelling"', 'kind = "names"'), ConfigError, "domains.*one of 'numbers', 'spelling'"),
    ],
)
def test_mistakes_in_domains_are_one_clear_line(
    text: str, error: type[LLRNNError], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message) as caught:
        project(tmp_path, text=text)
    assert len(str(caught.value).splitlines()) == 1


def test_lists_of_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "list.tsv").write_text("zorglub\t3\nle\t9\n", encoding="utf8")
    made = project(tmp_path, text=CONFIG.replace("min_count = 1", f'lists = ["{tmp_path / "list.tsv"}"]'))
    assert "zorglub" in made.vocabulary
    assert "zorglub" not in made.vocabulary.as_new
    assert made.vocabulary.symbols[made.vocabulary.id("1984")] == "‹number:year›"
    assert made.model().vocabulary.is_open


def test_each_domain_has_the_share_of_its_own_words() -> None:
    """Three new words of letters and one number: (3 + 1/2) to (1 + 1/2), whatever the cells say."""
    counts = {"a": 5, "b": 2, "x": 1, "y": 1, "xy": 1, "7": 1, EOS: 3}
    vocabulary = Vocabulary(["a", "b", EOS], domains=[Numbers("fr"), letters()])
    found = masses(Discounted(counts), vocabulary)
    numbers = sum(mass for symbol, mass in found.items() if symbol.startswith("‹number:"))
    others = sum(mass for symbol, mass in found.items() if symbol.startswith("‹regular:"))
    assert numbers / others == pytest.approx(1.5 / 3.5)
    assert sum(found.values()) == pytest.approx(1.0)


def test_a_domain_whose_every_string_is_listed_has_no_mass() -> None:
    digits = [str(digit) for digit in range(10)]
    full = Regular({"digit": "[0-9]"}, dict.fromkeys(digits, 0.05), name="digit")
    counts = dict.fromkeys(digits, 2) | {"q": 1, EOS: 3}
    found = masses(Discounted(counts), Vocabulary([*digits, EOS], domains=[full, letters()]))
    assert found["‹digit:digit›"] == 0
    assert sum(found.values()) == pytest.approx(1.0)
