"""Models of characters and byte pairs: trained by a configuration, and everything that they say is of words."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

import llrnn
from helpers import shaken, small_corpus
from llrnn import GRU, LLRNN, Completer, Corpus, Vocabulary, cli, evaluate, features, generate
from llrnn.config import read_config
from llrnn.ground.errors import ConfigError, VocabularyError
from llrnn.inference.keyboard import keyboard_bytes
from llrnn.inference.scores import score
from llrnn.text.units import BytePairs, CharacterUnits, Units

Capture = pytest.CaptureFixture[str]
CONFIG = """
kind = "softmax"
tied = true
[corpus]
embedded = {train = 150, valid = 30, test = 30}
units = "UNITS"
[background]
kind = "unigram"
smoothing = 1.0
[controller]
hidden = 24
[training]
epochs = 2
batches = {kind = "sentences", words = 400}
learning_rate = 0.01
"""


def cut(kind: str, corpus: Corpus) -> Units:
    if kind == "characters":
        return CharacterUnits.from_corpus(corpus)
    pytest.importorskip("tokenizers")
    return BytePairs.from_corpus(corpus, 60)


def model_of(kind: str, sentences: list[str] | None = None) -> LLRNN:
    corpus = small_corpus() if sentences is None else Corpus.from_sentences([one.split() for one in sentences])
    units = cut(kind, corpus)
    vocabulary = Vocabulary.from_corpus(units.corpus(corpus), others=units.symbols(), units=units)
    model = LLRNN(vocabulary, output_features=features.Identity(), controller=GRU(6), seed=3)
    shaken(model, 2.0)
    return model.eval().double()


@torch.no_grad()
def walked(model: LLRNN, sentence: str) -> list[float]:
    """log p of every word and of the end, unit by unit."""
    units = model.vocabulary.units
    assert units is not None
    state, fed, found = model.start(), model.vocabulary.eos, list[float]()
    for word in [*sentence.split(), None]:
        total = 0.0 if word is None else units.log_inside(word)
        for symbol in [model.vocabulary.eos] if word is None else model.vocabulary.ids(units.of(word)):
            p, state = model.step(state, [fed])
            total += float(p.log_probs()[0, symbol])
            fed = symbol
        found.append(total)
    return found


@pytest.mark.parametrize("kind", ["characters", "bpe"])
def test_scores_and_bits_are_those_of_words(kind: str) -> None:
    model, text = model_of(kind), ["la reine dort .", "zoé ✓ mange"]  # ✓ is no listed character
    found = score(model, text)
    for one, sentence in zip(found.sentences, text, strict=True):
        assert one.words == (*sentence.split(), "</s>")
        np.testing.assert_allclose(one.log_p, walked(model, sentence), rtol=1e-9)
    nats = -sum(sum(walked(model, sentence)) for sentence in text)
    result = evaluate(model, Corpus.from_sentences([one.split() for one in text]))
    assert result.words == 9
    assert result.log_perplexity == pytest.approx(nats / 9, rel=1e-9)
    assert result.bits_per_character == pytest.approx(nats / math.log(2) / (15 + 1 + 11 + 1), rel=1e-9)
    assert not result.audit.failures()
    assert "|words:9|end:yes|unknown:spelled 7|" in str(result)


@pytest.mark.parametrize(("letters", "k"), [("", 4), ("a", 3), ("ab", 2), ("b✓", 2)])
@torch.no_grad()
def test_completions_of_characters_are_the_best_of_all_strings(letters: str, k: int) -> None:
    """By brute force over all words of up to four characters; a longer one is less likely than the k best of these."""
    model = model_of("characters", ["ab ba aab b", "abb a ab", "aa bb"])
    found = Completer(model).complete("ab", letters, k=k)
    every = ["".join(one) for size in range(1, 5) for one in itertools.product("ab✓", repeat=size)]
    rest = [one for one in every if one.startswith(letters) and "✓" not in one[len(letters) :]]
    log_p = {one: walked(model, f"ab {one}")[1] for one in rest}
    best = sorted(log_p, key=lambda one: -log_p[one])[:k]
    assert [one.word for one in found] == best
    np.testing.assert_allclose([one.log_p for one in found], [log_p[one] for one in best], rtol=1e-9)
    assert all(one.cell is None for one in found)


@pytest.mark.parametrize("kind", ["characters", "bpe"])
@torch.no_grad()
def test_the_mass_of_letters_is_the_word_itself_and_one_letter_more(kind: str) -> None:
    """p(u…) = p(u ends there) + Σ_a p(ua…), where no unit is lost to sequences that spell nothing."""
    model = model_of(kind, ["ab ba aab b", "abb a ab", "aa bb", "ab ab"])
    after = Completer(model).after(("ab",))
    whole = math.exp(after.log_mass("a"))
    parts = sum(math.exp(after.log_mass(f"a{one}")) for one in "ab")
    # what is left: `a` ends, however it is cut; `<other>` behind it; the end of the sentence in the middle of a word
    assert parts < whole
    if kind == "characters":
        p, state = model.step(model.start(), [model.vocabulary.eos])
        for symbol in [*model.vocabulary.symbols_of(["ab"]), model.vocabulary.id("a")]:
            p, state = model.step(state, [symbol])
        left = p.log_probs()[0].exp()
        others = sum(float(left[model.vocabulary.id(one)]) for one in ("▁", "<other>", "</s>"))
        assert parts == pytest.approx(whole * (1 - others), rel=1e-9)
    assert sum(math.exp(one.log_p) for one in Completer(model).complete("ab", "a", k=5)) <= whole


def test_words_are_generated_and_the_folder_keeps_the_units(tmp_path: Path) -> None:
    model = model_of("characters")
    model.save(tmp_path)
    back = llrnn.load(tmp_path)
    assert back.vocabulary.units == model.vocabulary.units
    generator = torch.Generator().manual_seed(1)
    written = generate(back, "la reine", generator=generator, max_words=40)
    assert written[0].prefix == ("la", "reine")
    assert not any("▁" in word for word in written[0].words)
    assert score(back, ["la reine"]).log_prob == score(model, ["la reine"]).log_prob


@pytest.mark.parametrize("kind", ["characters", "bpe"])
def test_a_configuration_trains_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, kind: str
) -> None:
    if kind == "bpe":
        pytest.importorskip("tokenizers")
    monkeypatch.chdir(tmp_path)
    Path("c.toml").write_text(CONFIG.replace("UNITS", kind), encoding="utf8")
    sizes = ["--set", "corpus.bpe_size=80"] if kind == "bpe" else []
    assert cli.run(["train", "c.toml", "--out", "run", "--quiet", *sizes]) == 0
    Path("t.txt").write_text("la reine dort .\nun xylophone ✓ chante\n", encoding="utf8")
    capsys.readouterr()
    assert cli.run(["evaluate", "run", "t.txt", "--json"]) == 0
    (figures,) = json.loads(capsys.readouterr().out)
    assert figures["words"] == 10
    assert 1.0 < figures["bits_per_character"] < 12.0
    assert cli.run(["score", "run", "t.txt"]) == 0
    assert "xylophone" in capsys.readouterr().out
    assert cli.run(["generate", "run", "--prefix", "la", "--count", "1", "--seed", "1"]) == 0
    assert "▁" not in capsys.readouterr().out
    assert cli.run(["complete", "run", "la rei"]) == 0
    assert "\nrei" in capsys.readouterr().out


def test_what_needs_words_is_refused(tmp_path: Path) -> None:
    model = model_of("characters")
    with pytest.raises(VocabularyError, match="a model of units spells every word, so that none can be added"):
        llrnn.words.add(model, [llrnn.words.Entry("zinzolin", count=3)])
    with pytest.raises(ConfigError, match="found units in the place of words"):
        keyboard_bytes(model)
    (tmp_path / "c.toml").write_text(CONFIG.replace("UNITS", "characters"), encoding="utf8")
    for change, said in {
        "corpus.bpe_size=80": "corpus: bpe_size is for units = 'bpe', found units = 'characters'; leave it out",
        "vocabulary.top=80": "vocabulary.top is for units = 'words'",
        "domains=[{kind='numbers'}]": "domains is for units = 'words'",
        "corpus.units=letters": "units",
    }.items():
        with pytest.raises(ConfigError, match=said):
            read_config(tmp_path / "c.toml", [change])
