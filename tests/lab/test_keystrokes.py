"""The study of typing: keys are counted as the protocol says, and every system proposes words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from helpers import shaken, small_corpus
from llrnn import LLRNN, LSTM, Corpus, Vocabulary, features
from llrnn.ground.errors import ConfigError
from llrnn.inference.keyboard import Keyboard, keyboard_bytes
from llrnn.knowledge.backgrounds import Discounted
from llrnn.languages.domains import Spelling
from llrnn.text.units import CharacterUnits
from llrnn_lab.studies import keystrokes
from llrnn_lab.studies.keystrokes import FromFile, FromModel, Listed, NGrams, Spelt, Typist


class Always:
    """Shows the same words whenever they fit."""

    def propose(self, prefix: Sequence[str], letters: str, k: int = keystrokes.SHOWN) -> list[str]:
        return [word for word in ("la", "reine") if word.startswith(letters)] if letters else []


def test_keys_are_counted() -> None:
    """la: l, accepted; reine: r, accepted; dort: four letters and the space."""
    found = keystrokes.typed(Always(), [["la", "reine", "dort"]])
    assert (found["keys"], found["characters"]) == (2 + 2 + 5, 3 + 6 + 5)
    assert found["saved"] == pytest.approx(1 - 9 / 14)
    assert found["top3"] == {"0": 0.0, "1": pytest.approx(2 / 3), "2": 0.5, "3": 0.5}


class Ranked:
    """Shows the first words of a list that fit."""

    def propose(self, prefix: Sequence[str], letters: str, k: int = keystrokes.SHOWN) -> list[str]:
        words = ("aa", "ab", "ac", "ad", "adb", "ae", "adc")
        return [word for word in words if word.startswith(letters)][:k]


def test_words_that_were_passed_over_are_not_shown_again() -> None:
    """adc: aa ab ac, again for a, ad adb adc for ad: three keys; without those passed over ad adb ae for a: three, too.
    ae: aa ab ac twice, and the space; without those passed over it is shown for a."""
    both = keystrokes.typed(Ranked(), [["adc", "ae"]])
    assert both["keys"] == 3 + 3
    assert both["passed over"] == pytest.approx(1 - (3 + 2) / (4 + 3))


def test_what_was_typed_comes_again() -> None:
    """n-grams alone never show a word that is not listed; the share is the one that saves most."""
    corpus = small_corpus().lowercased()
    types = [word for word in corpus.counts() if word.isalpha()]
    vocabulary = Vocabulary.from_corpus(corpus, domains=[Spelling(types, order=2, cells=False)])
    alone = NGrams(keystrokes.n_grams(corpus, vocabulary, 3), vocabulary)
    text = Corpus.from_sentences([["zzzzz"]] * 4)
    typist, share = keystrokes.remembering(lambda one: keystrokes.Remembering(alone, one), text)
    assert alone.propose([], "z") == []
    assert keystrokes.typed(typist, [["zzzzz"], ["zzzzz"]])["keys"] <= 6 + 2
    saved = {
        one: keystrokes.typed(keystrokes.Remembering(alone, one), [["zzzzz"]] * 4)["saved"] for one in keystrokes._AGAIN
    }
    assert saved[share] == max(saved.values())


def test_every_system_proposes_words_that_begin_so() -> None:
    corpus = small_corpus().lowercased()
    types = [word for word in corpus.counts() if word.isalpha()]
    vocabulary = Vocabulary.from_corpus(corpus, domains=[Spelling(types, order=2, cells=False)])
    model = LLRNN(
        vocabulary,
        output_features=features.Identity(),
        background=Discounted.from_corpus(corpus),
        controller=LSTM(4),
    )
    shaken(model, 0.2)
    trie = keystrokes.n_grams(corpus, vocabulary, 3)
    cut = CharacterUnits.from_corpus(corpus)
    units = cut.corpus(corpus)
    spelt = LLRNN(Vocabulary.from_corpus(units), output_features=features.Identity(), controller=LSTM(4))
    systems: dict[str, Typist] = {
        "trigram": NGrams(trie, vocabulary),
        "frequencies": keystrokes.with_frequencies(trie, model, corpus[:2]),
        "characters": Spelt(spelt.eval(), cut),
        "llrnn": FromModel(model.eval()),
        "listed": Listed(model.eval()),
        "exported": FromFile(Keyboard(keyboard_bytes(model))),
    }
    systems |= {
        "trigram, again": keystrokes.Remembering(NGrams(trie, vocabulary), 0.2),
        "llrnn, again": keystrokes.Remembering(FromModel(model.eval()), 0.2),
    }
    for name, system in systems.items():
        for prefix, letters in ([], ""), (["la"], "p"), (["zzz", "le"], "r"):
            shown = system.propose(prefix, letters)
            assert len(shown) <= keystrokes.SHOWN, name
            assert all(word.startswith(letters) for word in shown), name
    text = [list(sentence.words) for sentence in corpus[:2]]
    results = {"fr": {"systems": {"llrnn": keystrokes.typed(systems["llrnn"], text)}}}
    assert "| fr | llrnn |" in keystrokes.table(results)


def test_a_strange_language_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="one of tr, et"):
        keystrokes.run(tmp_path, tmp_path, ["xx"])
