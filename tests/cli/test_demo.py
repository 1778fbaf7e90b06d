"""The demo: small here; at its real size, and with its claim, among the slow tests."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from browser import PHONE, WIDE, Browser, chromium, require_browser
from llrnn import explain, load
from llrnn.cli import demo
from llrnn.cli.demo import Demo, run, write_report
from llrnn.config.project import embedded_corpora
from llrnn.ground.errors import TrainingError
from llrnn.ground.rendering import Strong
from llrnn.training.runs import Record
from strategies import QUICK  # noqa: F401  (importing it sets the number of threads)

Patch = pytest.MonkeyPatch
NAMES = ["RNN", "RNN with unigram bias", "LL-RNN"]


@pytest.fixture(scope="module")
def small() -> Demo:
    return run(sentences=300, epochs=1)


class Page(HTMLParser):
    """What a page is made of: its tags, its attributes, its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "line", "circle", "rect", "polyline"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_three_models_are_trained_on_the_same_text_and_tested(small: Demo) -> None:
    assert [one.name for one in small.contenders] == NAMES
    assert {part: len(corpus) for part, corpus in small.corpora.items()} == {"train": 300, "valid": 30, "test": 30}
    sizes = [one.model.output_features.n_classes for one in small.contenders]
    assert sizes[0] == sizes[1] == len(small.contenders[0].model.vocabulary) > sizes[2]
    for one in small.contenders:
        assert len(one.valid) == 1
        assert one.words_per_second > 0
        assert one.test.words == sum(len(sentence.tokens) + 1 for sentence in small.corpora["test"])
        assert one.test.audit.worst_sum_error < 1e-4
        assert one.test.log_perplexity < math.log(sizes[0])
    assert len(small.sentences) == 5
    assert all(word in small.contenders[0].model.vocabulary for words in small.sentences for word in words)


def test_the_report_holds_everything_and_needs_no_network(small: Demo, tmp_path: Path) -> None:
    path = write_report(small, tmp_path / "new" / "demo")
    html = path.read_text(encoding="utf8")
    page = Page(html)
    assert page.open == []
    assert html.startswith("<!DOCTYPE html>")
    assert set(re.findall(r"https?://[^/\s]*", html)) == {"http://127.0.0.1:8017"}  # the playground, by a click alone
    assert not re.search(r"[^:]//[a-z]|url\(|@import", html)
    assert not {name for name, _ in page.attributes} & {"src", "xlink:href", "data", "srcset", "action"}
    assert not {"script", "link", "iframe", "img", "object", "embed"} & {*page.tags}
    assert page.tags.count("svg") % 2 == 0  # each chart for a page, and for a phone
    assert page.tags.count("svg") > 0
    assert page.tags.count("table") == 2 + (small.decision is not None)
    results = small.results()
    cells = [cell for row in (results.header, *results.rows) for cell in row]
    for cell in [*cells, *(" ".join(words) for words in small.sentences)]:
        assert cell in page.text
    best = min(small.contenders, key=lambda one: one.test.log_perplexity)
    assert [isinstance(row[0], Strong) for row in results.rows] == [one is best for one in small.contenders]
    assert all(f"<b>{cell}</b>" in html for cell in best.row())
    for word in small.sentences[0]:
        assert word in page.text


def test_results_and_the_models_lie_beside_the_report(small: Demo, tmp_path: Path) -> None:
    write_report(small, tmp_path)
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf8"))
    assert [one["name"] for one in results] == NAMES
    wanted = [one.test.log_perplexity for one in small.contenders]
    assert [one["test"]["log_perplexity"] for one in results] == wanted
    for folder, contender in (("model", small.contenders[2]), ("softmax", small.contenders[1])):
        saved = load(tmp_path / folder)
        assert saved.vocabulary == contender.model.vocabulary
        assert saved.feature_names == contender.model.feature_names


def test_a_decision_of_agreement_is_found_and_adds_up(small: Demo, tmp_path: Path, monkeypatch: Patch) -> None:
    """The embedded corpus has it in its test text; three hundred sentences need not."""
    said = " ".join(demo.DECISION[:2])
    assert any(said in " ".join(one.words) for one in embedded_corpora(6000, 600, 600)["test"])
    monkeypatch.setattr(demo, "DECISION", ("la maison est", "grande", "grand"))
    model = small.contenders[-1].model
    found = demo._decision(model)
    assert found is not None
    assert found.total == pytest.approx(found.log_ratio, abs=1e-4)
    assert "Gender:Fem" in model.output_features.row(model.vocabulary.id(found.chosen.word))
    shown = Demo(small.corpora, small.contenders, small.sentences, found)
    html = write_report(shown, tmp_path).read_text(encoding="utf8")
    page = Page(html)
    assert "Why this word?" in page.text
    assert f"{found.chosen.word} rather than {found.rival.word}" in page.text
    assert f"{found.log_ratio:+.3f}" in page.text
    assert page.tags.count("svg") == 4
    link = urlsplit(next(value or "" for name, value in page.attributes if name == "href"))
    words = {"prefix": " ".join(found.chosen.prefix), "word": found.chosen.word, "rival": found.rival.word}
    assert {name: one for name, (one,) in parse_qs(link.fragment).items()} == words
    assert f"llrnn serve --demo --demo-folder {tmp_path}" in page.text


@pytest.fixture(scope="module")
def report(small: Demo, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a decision, whatever the small model thinks of it."""
    decided = explain(small.contenders[-1].model, prefix="la maison est", word="grande", rival="grand")
    shown = Demo(small.corpora, small.contenders, small.sentences, decided)
    return write_report(shown, tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    require_browser()
    with chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE])
def test_the_report_in_light_and_dark_on_a_screen_and_on_a_phone(
    report: Path, window: Browser, scheme: str, size: tuple[int, int]
) -> None:
    window.resize(size)
    window.prefer(color_scheme=scheme)
    window.open(report.as_uri())
    window.one("svg")
    paper = window.script("return getComputedStyle(document.documentElement).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", paper))) > 600) == (scheme == "light")
    assert window.script("return document.documentElement.scrollWidth") <= size[0]
    letters = """return [...document.querySelectorAll("svg text")].filter((one) => one.checkVisibility())
        .map((one) => one.getBoundingClientRect().height)"""
    assert min(window.script(letters)) > 11  # no chart is made smaller than it can be read
    link = window.one("main a").get_attribute("href") or ""
    assert link.startswith("http://127.0.0.1:8017/#prefix=la+maison+est")
    assert window.serious_findings() == []


def test_the_same_seed_is_the_same_demo_and_whoever_follows_sees_every_training(small: Demo) -> None:
    seen: dict[str, list[str]] = {}

    def follow(name: str, records: object) -> list[Record]:
        assert hasattr(records, "__iter__")
        listed = list(records)
        seen[name] = [record.event for record in listed]
        return listed

    again = run(sentences=300, epochs=1, follow=follow)
    assert again.sentences == small.sentences
    assert [one.valid for one in again.contenders] == [one.valid for one in small.contenders]
    assert [one.test for one in again.contenders] == [one.test for one in small.contenders]
    assert list(seen) == NAMES
    assert all(events[-2:] == ["epoch", "end"] for events in seen.values())


def test_a_stopped_demo_says_so() -> None:
    with pytest.raises(TrainingError, match="stopped before its table was complete"):
        run(sentences=100, epochs=1, should_stop=lambda: True)


@pytest.mark.slow
def test_at_its_real_size_the_ll_rnn_is_ahead_of_both(tmp_path: Path) -> None:
    """The command itself, on all cores: a test process has one thread only."""
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    command = [sys.executable, "-c", "import llrnn.cli; llrnn.cli.main()", "demo", "--out", str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf8"))
    rnn, biased, ours = (one["test"]["log_perplexity"] for one in results)
    assert ours < min(rnn, biased)
    assert "Why this word?" in (tmp_path / "report.html").read_text(encoding="utf8")
