"""Exported keyboards: what a file says is what its model says, but for rounding; Python and JavaScript say the same."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from browser import chromium, require_browser
from helpers import shaken, small_corpus
from llrnn import GRU, LLRNN, LSTM, Completer, Corpus, Vocabulary, features, train
from llrnn.cli import run
from llrnn.ground.errors import ConfigError
from llrnn.inference.keyboard import Keyboard, export_keyboard, keyboard_bytes, keyboard_page
from llrnn.knowledge.backgrounds import Background, Discounted, Inflections, NGram, Recent
from llrnn.knowledge.contextual import Again, Expert
from llrnn.knowledge.features import Features
from llrnn.languages.domains import Names, Numbers, Regular, Spelling
from llrnn.text.conditions import Before

READER = Path(__file__).parents[2] / "src/llrnn/inference/keyboard/reader.js"
ASKED = [
    ([], ""),
    ([], "L"),
    (["le"], "p"),
    (["la", "Reine", "est"], "gr"),
    (["le", "zinzolin", "1984", "37,5"], ""),
    (["le", "xyz!", "Ünder"], "m"),
    (["le"], "qqq"),
]


BEFORE = ["La", "reine", "zinzolin", "dort", "Grandira", "xyz!", "le", "zinzolin", "1984"]


@cache
def model(layers: int = 1, again: bool = False) -> LLRNN:
    types = tuple(sorted(word for word in small_corpus().counts() if word.isalpha()))
    held = [Numbers("fr"), Spelling(types, order=3, endings=6, longest=2, lengths=(4,))]
    corpus = small_corpus().lowercased()
    vocabulary = Vocabulary.from_corpus(corpus, domains=held, as_new=0.5)
    phi = features.Identity(top=30) + features.CellAttributes() + features.Suffixes(2, min_count=3).of_listed()
    background: Background = Discounted.from_corpus(corpus)
    if again:
        rules = Inflections.learnt(types, least=1)
        background = Recent(background, mu=0.4, kappa=3.0, fading=4.0, inflections=rules, share=0.4, window=8)
    features_again = [Again()] if again else []
    own = {"background": background, "controller": LSTM(24, layers=layers), "contextual": features_again}
    made = LLRNN(vocabulary, output_features=phi, **own)  # type: ignore[arg-type]
    shaken(made, 0.4)
    made.provenance = {"config": {"corpus": {"lowercase": True}}}
    return made.eval()


def _open(vocabulary: Vocabulary, phi: Features) -> LLRNN:
    background = Discounted.from_corpus(small_corpus())
    return LLRNN(vocabulary, output_features=phi, background=background, controller=LSTM(3))


@pytest.mark.parametrize("layers", [1, 2])
def test_a_file_says_what_its_model_says_but_for_rounding(layers: int) -> None:
    keyboard, whole = Keyboard(keyboard_bytes(model(layers))), Completer(model(layers))
    for prefix, letters in ASKED:
        wanted = {one.word: one.log_p for one in whole.complete(prefix, letters, k=60)}
        found = keyboard.complete(prefix, letters, 5)
        assert all(log_p == pytest.approx(wanted.get(word, log_p), abs=0.2) for word, log_p in found)
        listed = [one for one in whole.complete(prefix, letters, k=60) if one.cell is None]
        if found:
            assert found[0][1] == pytest.approx(listed[0].log_p, abs=0.2)
        assert len(found) == min(5, len(listed))


@pytest.mark.parametrize("before", [[], BEFORE])
def test_the_words_of_the_user_come_again_as_in_the_model(before: list[str]) -> None:
    """Listed ones and, where there is text before, all that were typed; in the model they are listed for the call."""
    keyboard, whole = Keyboard(keyboard_bytes(model(again=True))), Completer(model(again=True), condition=Before(()))
    alone = Keyboard(keyboard_bytes(model()))
    whole.read(before)
    for prefix, letters in [*ASKED, (["le", "petit", "le"], ""), (["le"], "zin"), (["le"], "grandi")]:
        wanted = {one.word.lower(): one.log_p for one in whole.complete(prefix, letters, k=400)}
        found = keyboard.complete(prefix, letters, 8, before)
        assert [log_p for _, log_p in found] == pytest.approx([wanted[word.lower()] for word, _ in found], abs=0.1)
        known = {*keyboard.words, *map(str.lower, [*before, *prefix])}
        best = sorted(log for word, log in wanted.items() if word in known)[-8:]
        assert [log_p for _, log_p in found] == pytest.approx(best[::-1], abs=0.1)
    if before:
        assert keyboard.complete(["le"], "zin", 1, before)[0][0] == "zinzolin"
        assert keyboard.complete(["le"], "grandi", 3, before) != alone.complete(["le"], "grandi", 3, before)


def test_the_state_of_a_word_that_is_read_twice_is_the_same() -> None:
    keyboard, fresh = Keyboard(keyboard_bytes(model())), Keyboard(keyboard_bytes(model()))
    for prefix in (["le", "petit"], ["le"], ["la", "reine"], []):
        keyboard.complete(prefix, "p")
    assert keyboard.complete(["la", "reine"], "e") == fresh.complete(["la", "reine"], "e")


def test_fewer_words_are_the_most_frequent() -> None:
    small = Keyboard(keyboard_bytes(model(), words=20))
    assert len(small.words) == 20
    assert "le" in small.words


@pytest.mark.parametrize("again", [False, True])
def test_javascript_says_the_same(tmp_path: Path, again: bool) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    export_keyboard(model(again=again), tmp_path / "test.kb")
    keyboard = Keyboard.read(tmp_path / "test.kb")
    asked = [(*one, 6, before) for one in ASKED for before in ([], BEFORE)]
    (tmp_path / "asked.json").write_text(json.dumps(asked))
    script = (
        f"const {{Keyboard}} = require({json.dumps(str(READER))}), fs = require('fs');"
        "(async () => { const k = await Keyboard.read(fs.readFileSync('test.kb'));"
        "const asked = JSON.parse(fs.readFileSync('asked.json'));"
        "console.log(JSON.stringify(asked.map((one) => k.complete(...one)))); })()"
    )
    done = subprocess.run(["node", "-e", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    for one, found in zip(asked, json.loads(done.stdout), strict=True):
        wanted = keyboard.complete(*one)
        assert [word for word, _ in found] == [word for word, _ in wanted]
        assert [log_p for _, log_p in found] == pytest.approx([log_p for _, log_p in wanted], abs=1e-9)


CUT = {  # texts, and what is read of them: words, and the letters of one that is being typed
    "Qu'il ": (["Qu'", "il"], ""),
    "il l'ho": (["il", "l'"], "ho"),
    "Zut!": ([], "Zut!"),
    "": ([], ""),
    "Qu'": (["Qu'"], ""),  # what may follow is asked for, not what begins so
    "qu’": (["qu'"], ""),
    "L’homme ": (["L'", "homme"], ""),
    "aujourd'": ([], "aujourd'"),
    "Aujourd'hui": ([], "Aujourd'hui"),
}


def test_text_is_cut_next_to_signs_into_listed_words() -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    script = (
        f"const {{Keyboard}} = require({json.dumps(str(READER))});"
        "const own = {header: {lowercase: true}, words: [\"aujourd'hui\", 'homme', 'il', \"l'\", \"qu'\"]};"
        "const k = Object.assign(Object.create(Keyboard.prototype), own);"
        f"console.log(JSON.stringify({json.dumps([*CUT])}.map((text) => k.split(text))))"
    )
    done = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [[*found] for found in CUT.values()]


def test_a_page_types_offline_in_a_real_browser(tmp_path: Path) -> None:
    require_browser()
    content = keyboard_bytes(model())
    (tmp_path / "typing.html").write_text(keyboard_page(content, title="Typing <test>"))
    wanted = [word for word, _ in Keyboard(content).complete(["le"], "p", 3)]
    with chromium(tmp_path / "profile") as browser:
        browser.driver.execute_cdp_cmd("Network.enable", {})
        offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
        browser.driver.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
        browser.open((tmp_path / "typing.html").as_uri())
        browser.one("body[data-ready]")
        browser.one("#text").send_keys("le p")
        browser.until(lambda: browser.texts("#best button") == wanted or None, "the best words")
        browser.one("#text").send_keys(Keys.TAB)
        assert browser.script("return document.getElementById('text').value") == f"le {wanted[0]} "
        browser.one("#best button:nth-child(2)").click()
        typed = browser.script("return document.getElementById('text').value")
        assert typed.startswith(f"le {wanted[0]} ")
        assert len(typed.split()) == 3
        assert not browser.complaints()


TOKENS = re.compile(r"^ *(--[\w-]+: [^;]+);", re.MULTILINE)


def test_a_page_looks_as_the_playground_does() -> None:
    """Every colour and font that it names is there, with the same value."""
    style = (READER.parents[2] / "serve/page/style.css").read_text(encoding="utf8")
    page = keyboard_page(b"")
    own = TOKENS.findall(page)
    assert {*re.findall(r"var\((--[\w-]+)\)", page)} == {token.partition(":")[0] for token in own}
    assert {*own} <= {*TOKENS.findall(style)}


def french_keyboard() -> bytes:
    """After qu' comes il, after that dort; sentences end."""
    sentences = [["le", "roi", "dit", "qu'", "il", "dort", "."]] * 9 + [["l'", "homme", "dort", "."]] * 3
    corpus = Corpus.from_sentences(sentences)
    vocabulary = Vocabulary.from_corpus(corpus)
    made = LLRNN(vocabulary, output_features=features.Identity(), controller=LSTM(16))
    for _ in train(made, corpus, epochs=40, learning_rate=0.05):
        pass
    made.provenance = {"config": {"corpus": {"lowercase": True}}}
    return keyboard_bytes(made)


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_apostrophes_capitals_and_counts_in_a_real_browser(tmp_path: Path, scheme: str) -> None:
    require_browser()
    (tmp_path / "typing.html").write_text(keyboard_page(french_keyboard(), title="Typing <test>"))
    with chromium(tmp_path / "profile") as browser:
        browser.prefer(color_scheme=scheme)
        browser.open((tmp_path / "typing.html").as_uri())
        browser.one("body[data-ready]")
        field = browser.one("#text")

        def best(first: str) -> None:
            browser.until(lambda: browser.texts("#best button")[:1] == [first] or None, first)

        def shows(text: str, counted: str) -> None:
            assert browser.script("return document.getElementById('text').value") == text
            assert browser.text("#counter") == counted

        best("Le")  # a sentence begins
        field.send_keys("L'")
        best("homme")
        shows("L'", "2 keys for 2 characters")
        field.send_keys(Keys.TAB)
        shows("L'homme ", "3 keys for 8 characters: 5 saved, 63 %")
        field.send_keys(Keys.BACKSPACE * 8)
        shows("", "")  # begun again
        field.send_keys("Le r", Keys.BACKSPACE, "r")
        best("roi")
        shows("Le r", "6 keys for 4 characters")
        field.send_keys(Keys.TAB, "dit Q")
        best("Qu'")
        field.send_keys(Keys.TAB)
        shows("Le roi dit Qu'", "13 keys for 14 characters: 1 saved, 7 %")  # no blank behind it
        best("il")
        field.send_keys(Keys.TAB, Keys.TAB)
        shows("Le roi dit Qu'il dort ", "15 keys for 22 characters: 7 saved, 32 %")
        best(".")
        field.send_keys(Keys.TAB)
        shows("Le roi dit Qu'il dort. ", "16 keys for 23 characters: 7 saved, 30 %")
        best("Le")
        assert not browser.serious_findings()
        field.send_keys(Keys.ESCAPE, Keys.TAB)
        assert browser.script("return document.activeElement.textContent") == "Le"  # nobody is kept in the field
        assert not browser.complaints()


def test_what_cannot_be_exported_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = small_corpus()
    closed = Vocabulary.from_corpus(corpus)
    made = LLRNN(closed, output_features=features.Identity(), controller=GRU(3))
    with pytest.raises(ConfigError, match=r"controller GRU.*configs/typing"):
        keyboard_bytes(made)
    expert = NGram.from_corpus(corpus, order=2)
    with pytest.raises(ConfigError, match="depends on the context"):
        keyboard_bytes(LLRNN(closed, output_features=features.Identity(), background=expert, controller=LSTM(3)))
    again = Recent(expert, mu=1.0)
    with pytest.raises(ConfigError, match="depends on the context"):
        keyboard_bytes(LLRNN(closed, output_features=features.Identity(), background=again, controller=LSTM(3)))
    with_expert = LLRNN(
        closed, output_features=features.Identity(), contextual=[Expert(expert, name="two")], controller=LSTM(3)
    )
    with pytest.raises(ConfigError, match="contextual features"):
        keyboard_bytes(with_expert)
    names = Vocabulary.from_corpus(corpus, domains=[Names({"Rome": ["City"]}, Spelling(["ab", "ba"], order=2))])
    with pytest.raises(ConfigError, match="domains of patterns and spellings"):
        keyboard_bytes(_open(names, features.CellAttributes()))
    made.save(tmp_path / "gru")
    assert run(["export", "keyboard", str(tmp_path / "gru"), "--out", str(tmp_path / "x.kb")]) == 2
    assert "controller GRU" in capsys.readouterr().err


def test_a_closed_vocabulary_is_exported_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = [Regular({"plate": "[ab]-[01]"}, dict.fromkeys("ab01-", 0.2), name="plate")]
    for domains in ([], held):
        vocabulary = Vocabulary.from_corpus(small_corpus(), domains=domains)
        made = _open(vocabulary, features.Identity() + features.CellAttributes() if domains else features.Identity())
        made.save(tmp_path / "model")
        out = tmp_path / "x.kb"
        assert run(["export", "keyboard", str(tmp_path / "model"), "--out", str(out)]) == 0
        assert "MB" in capsys.readouterr().out
        assert Keyboard.read(out).complete(["le", "a-1", "unknown-word"], "p")
        shutil.rmtree(tmp_path / "model")
    assert run(["export", "keyboard", str(tmp_path), "--page", "--out", str(tmp_path / "x.html")]) == 2
