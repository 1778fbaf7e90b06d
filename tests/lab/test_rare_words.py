"""The paper's illustration with rare words: the bars hold, and for the right reason."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llrnn_lab.studies import rare_words
from llrnn_lab.studies.rare_words import ASKED, BARS, ONEHOT, SAME, SOFTMAX, Study
from test_cli import Capture, done

FULL = Study()  # as the experiment itself: with 2,000 sentences `grenoble` and `15` miss their bars


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out: Path = tmp_path_factory.mktemp("rare-words")
    found = rare_words.run(out, seeds=1, study=FULL)
    assert json.loads((out / "rare-words.json").read_text(encoding="utf8")) == found
    assert all(name in (out / "rare-words.md").read_text(encoding="utf8") for name in (SOFTMAX, ONEHOT, SAME))
    return found


def of(found: dict[str, Any], name: str) -> dict[str, Any]:
    measured: dict[str, Any] = found["runs"][0]["models"][name]
    return measured


@pytest.mark.slow
@pytest.mark.parametrize("bar", BARS, ids=lambda bar: bar.name)
def test_features_on_both_sides_meet_the_bar(found: dict[str, Any], bar: rare_words.Bar) -> None:
    assert bar.holds(of(found, SAME)["ratios"][bar.name])


@pytest.mark.slow
def test_the_softmax_cannot_tell_unknown_words_apart(found: dict[str, Any]) -> None:
    p = of(found, SOFTMAX)["p"]
    assert p["37"] == p["15"] == p["grenoble"] > 0
    assert of(found, SOFTMAX)["ratios"]["euros"] == 1.0


@pytest.mark.slow
def test_identity_alone_does_not_see_what_37_is(found: dict[str, Any]) -> None:
    ratios = of(found, ONEHOT)["ratios"]
    assert ratios["euros"] == pytest.approx(1.0, rel=1e-6)
    assert ratios["place"] >= 100  # its output features tell them apart all the same


@pytest.mark.slow
def test_it_is_the_network_that_prefers_numbers(found: dict[str, Any]) -> None:
    background = of(found, SAME)["background"]
    assert background["37"] < 100 * background["grenoble"]
    assert of(found, SAME)["ratios"]["place"] > 10 * background["37"] / background["grenoble"]


@pytest.mark.parametrize("seed", range(3))
def test_the_text_holds_no_word_that_is_asked_for(seed: int) -> None:
    corpus = rare_words.text(Study().sentences, seed)
    assert not {*ASKED, *rare_words.ELSEWHERE} & {*corpus.counts()}
    counts = rare_words.seen_prices(corpus)
    assert len(counts) >= 20
    assert 1 in counts.values()
    assert max(counts.values()) >= 10


def test_seen_numbers_are_listed_and_15_is_not() -> None:
    corpus = rare_words.text(500, 0)
    vocabulary = rare_words.open_model(corpus, FULL, 0).vocabulary
    assert all(number in vocabulary for number in rare_words.seen_prices(corpus))
    assert "preposterous" in vocabulary
    assert not any(word in vocabulary for word in ("15", "37", "grenoble"))
    cells = [vocabulary.symbols[i] for i in vocabulary.ids(["15", "37", "grenoble"])]
    assert cells == ["‹number:digits2›", "‹number:digits2›", "‹place:Location›"]


def test_bars_can_fail() -> None:
    place, number, _ = BARS
    assert place.sentence([200.0, 99.0]).endswith("fails.")
    assert place.sentence([200.0, 100.0]).endswith("holds.")
    assert not number.holds(0.3)
    assert not number.holds(3.1)
    assert not number.holds(math.nan)


def test_the_verb_prints_the_table(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = Study(sentences=300, frequent=40, size=4, epochs=1)
    monkeypatch.setattr(rare_words, "Study", lambda epochs: replace(tiny, epochs=epochs))
    shown = done(capsys, "experiment", "rare-words", "--out", str(tmp_path / "made"), "--seeds", "1", "--epochs", "1")
    assert "p(grenoble)" in shown
    assert (tmp_path / "made" / "rare-words.json").exists()
