"""The playground in a real browser, over a real server: what it shows is what the API says, and it adds up."""

from __future__ import annotations

import json
import math
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from selenium.webdriver.common.keys import Keys

from browser import PHONE, WIDE, Browser, chromium, require_browser
from llrnn.config.draft import draft_config
from llrnn.config.project import Project
from llrnn.ground import rendering
from llrnn.serve import app
from llrnn.serve.app import create_app
from llrnn.serve.engine import Engine
from llrnn.serve.served import Served
from page_models import ACT, BAIT, EXPERT, HOSTILE, listed, served_models, waiter
from web_client import Address, running

PREFIX = "la maison est"
SUM = "sum of all probabilities: 1.000000"
FEATURE = "Gender:Fem"
FOLDER = Path(app.__file__).parent / "page"


class Page:
    """The page at an address, as a person has it before them."""

    def __init__(self, browser: Browser, address: Address) -> None:
        self.browser, self.address = browser, address
        self.forgiven: list[str] = []  # complaints of the console that the test provokes

    def open(self, **state: str) -> None:
        """With this state in the link."""
        self.browser.open(f"http://127.0.0.1:{self.address.port}/#{urlencode(state)}")

    def ask(self, path: str, **request: Any) -> Any:
        """The API's own answer, asked without the page."""
        usual = {"model": "french", "prefix": PREFIX, **({"top": 12} if path == "next" else {})}
        said = self.address.ask("POST", f"/v1/{path}", {**usual, **request})
        assert said.status == 200, said.body
        return said.json

    def ask_model(self, name: str = "french") -> Any:
        return self.address.ask("GET", f"/v1/models/{name}").json

    def bars(self, panel: int = 1) -> list[tuple[str, float]]:
        """Word and probability of every bar of a panel, the others included."""
        script = (
            "return [...document.querySelectorAll(`.panel:nth-child(${arguments[0]}) .bar`)]"
            ".map((one) => [one.dataset.key, Number(one.dataset.p)])"
        )
        return [(key.removeprefix("word:"), p) for key, p in self.browser.script(script, panel)]

    def shows(self, answer: Any, panel: int = 1) -> None:
        """Wait until the bars are those of an answer of /v1/next; of words that tie with the last one, any will do."""
        wanted = [(one["word"], one["p"]) for one in answer["top"][:12]]

        def there() -> bool | None:
            bars = self.bars(panel)[: len(wanted)]
            close = [p for _, p in bars] == pytest.approx([p for _, p in wanted], abs=1e-6)
            return (close and clear_of_ties(bars) == clear_of_ties(wanted)) or None

        self.browser.until(there, f"the bars of {wanted}")

    def explains(self, title: str) -> None:
        self.browser.until(lambda: self.browser.texts(".why h3")[0] == title or None, title)

    def table(self, panel: int = 1) -> dict[str, float]:
        """The shares of the sum as they are written, by the names of the parts."""
        rows = f".panel:nth-child({panel}) table.sum tbody tr"
        names = self.browser.texts(f"{rows} th")
        return dict(zip(names, map(number, self.browser.texts(f"{rows} td.share")), strict=True))

    def sums_up_to(self, log_p: float, panel: int = 1) -> None:
        """Wait until the sum on show is that of an answer of /v1/explain."""
        self.browser.until(lambda: abs(self.total(panel) - log_p) < 6e-5 or None, f"the sum {log_p}")

    def total(self, panel: int = 1) -> float:
        return number(self.browser.text(f".panel:nth-child({panel}) table.sum td.total"))


def clear_of_ties(bars: list[tuple[str, float]]) -> set[str]:
    return {word for word, p in bars if p > bars[-1][1] + 1e-6}


def number(text: str) -> float:
    return float(text.replace("−", "-").replace("%", "").replace(",", ""))


@pytest.fixture(scope="module")
def models() -> list[Served]:
    require_browser()
    return served_models()


@pytest.fixture(scope="module")
def server(models: list[Served]) -> Iterator[Address]:
    with running(create_app(Engine(models))) as address:
        yield address


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    require_browser()
    with chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def page(server: Address, window: Browser) -> Iterator[Page]:
    window.resize(WIDE)
    window.prefer(color_scheme="light", reduced_motion="no-preference")
    window.complaints()  # those of the test before are its own
    page = Page(window, server)
    yield page
    left = [one for one in window.complaints() if not any(forgiven in one for forgiven in page.forgiven)]
    assert not left


# --- the first look ---------------------------------------------------------------------------------------------------


def test_it_opens_with_what_it_is_and_a_card_for_each_scene(page: Page) -> None:
    """Grammar, new words, and a text from values; no list, since no model has one."""
    page.open()
    example = page.address.ask("GET", "/v1/models").json["models"][0]["examples"][0]
    assert "says which word comes next" in page.browser.one("#intro .lead").text
    titles = ["It knows grammar", "It knows your words", "It says only what is true"]
    page.browser.until(lambda: page.browser.texts(".scene b") == titles or None, "three cards")
    page.shows(page.ask("next", prefix=example["prefix"]))  # it opens with the first of them
    assert page.browser.text("#model option") == f"french (French, {page.ask_model()['words']:,} words)"


SIZES = [WIDE, (390, 844)]


@pytest.mark.parametrize("size", SIZES)
def test_first_minute_grammar(page: Page, size: tuple[int, int]) -> None:
    """One click: a word and its other form, the feature that decides, and what the second model takes."""
    page.browser.resize(size)
    page.open()
    page.browser.click(".scene:nth-child(1)")
    one = next(one for one in page.ask_model()["examples"] if one["rival"] and one["feature"])
    page.explains(f"Why {one['word']}, and not {one['rival']}?")
    own, twin = (
        {
            found["word"]: found["p"]
            for found in page.ask("next", prefix=one["prefix"], model=name, words=words)["words"]
        }
        for words in [[one["word"], one["rival"]]]
        for name in ("french", "softmax")
    )
    likelier, other = sorted(own, key=lambda word: -own[word])
    ratio = own[likelier] / own[other]
    told = f"{likelier} is {ratio:.1f} times as likely as {other}."
    told += f" softmax takes {other} instead." if twin[other] > twin[likelier] else " So it is for softmax."
    page.browser.until(lambda: page.browser.text(".verdict").startswith(told) or None, told)
    page.browser.one(".moves .influence .lead")
    assert one["feature"] in page.browser.text(".moves .influence .lead")
    assert [number(text) for text in page.browser.texts(".bar.chosen .share span")] == [
        round(100 * p[one["word"]], 3) for p in (own, twin)
    ]
    assert visible(page, ".verdict")


@pytest.mark.parametrize("size", SIZES)
def test_first_minute_words(page: Page, size: tuple[int, int]) -> None:
    """One click: grenobloise is a word, with its probability and words like it; two more: another one."""
    page.browser.resize(size)
    page.open()
    page.browser.click(".scene:nth-child(2)")
    page.explains("Why grenobloise?")
    prefix = page.browser.one("#prefix").get_attribute("value") or ""
    asked = {"prefix": prefix, "new_words": ["grenobloise"]}
    (found,) = page.ask("next", words=["grenobloise"], **asked)["words"]
    assert "was added" in page.browser.text(".verdict")
    assert number(page.browser.text(".bar.chosen .own")) == round(100 * found["p"], 3)
    assert page.browser.texts(".alike .near") == page.ask("explain", word="grenobloise", **asked)["alike"]
    assert page.browser.texts(".alike .near")
    assert visible(page, ".verdict")
    page.browser.type("#add", "grenobloise, voiturette")
    page.explains("Why voiturette?")
    page.browser.type("#prefix", f"{prefix} grenobloise ")  # it may stand in a text, too
    page.shows(page.ask("next", prefix=f"{prefix} grenobloise", new_words=["grenobloise", "voiturette"]))
    assert not page.browser.messages()


@pytest.mark.parametrize("size", SIZES)
def test_first_minute_facts(page: Page, size: tuple[int, int]) -> None:
    """One click writes a text from values; a value is changed, and the text is that of the new condition."""
    page.browser.resize(size)
    page.open()
    page.browser.click(".scene:nth-child(3)")
    example = page.ask_model("waiter")["condition"]["example"]
    assert page.browser.one("#condition").get_attribute("value") == example
    written(page)
    page.browser.type("#slots [data-value='0']", "roma 7")
    condition = example.replace("la luna", "roma 7").replace("food=la", "food='roma 7'")
    page.browser.until(lambda: page.browser.one("#condition").get_attribute("value") != example or None, "another")
    condition = page.browser.one("#condition").get_attribute("value") or ""
    assert "'roma 7'" in condition
    (best,) = page.address.ask(
        "POST", "/v1/write", {"model": "waiter", "conditions": [condition], "max_words": 40}
    ).json["texts"][0]["best"]
    page.browser.until(lambda: written(page)[: len(best["words"])] == best["words"] or None, f"{best}")
    assert visible(page, "#cards")


@pytest.mark.parametrize("size", SIZES)
def test_first_minute_a_slip_is_told_what_is_near(page: Page, size: tuple[int, int]) -> None:
    page.browser.resize(size)
    page.open()
    page.browser.type("#prefix", "la maisonn est ")
    page.browser.until(lambda: "maison" in page.browser.texts(".left .near") or None, "what is near")
    assert "“maisonn” is not in the vocabulary" in page.browser.text(".left")
    page.browser.click(".left .near")
    page.browser.until(lambda: page.browser.one("#prefix").get_attribute("value") == "la maison est " or None, "it")


def visible(page: Page, selector: str) -> bool:
    """Whether an element stands on the screen now, without scrolling."""
    script = "const { top, bottom } = document.querySelector(arguments[0]).getBoundingClientRect();"
    return bool(page.browser.script(f"{script} return top >= 0 && bottom <= innerHeight", selector))


def test_what_is_turned_and_what_it_turns_stand_on_one_screen(page: Page) -> None:
    for size, where in (((1366, 768), "start"), ((390, 844), "end")):
        page.browser.resize(size)
        page.open(prefix=PREFIX, word="grande")
        page.browser.one(".slider")
        page.browser.until(lambda: not page.browser.all("[data-waiting]") or None, "all answers")
        target = "#text" if where == "start" else ".slider:nth-child(3)"
        page.browser.script(f"document.querySelector(arguments[0]).scrollIntoView({{ block: '{where}' }})", target)
        assert visible(page, ".slider:nth-child(3) input")
        assert visible(page, ".bar:nth-child(3)")


def test_a_part_is_explained_in_plain_words_to_the_pointer_and_to_the_keyboard(page: Page) -> None:
    page.open(prefix=PREFIX, word="grande")
    page.browser.one("table.sum button.feature")
    page.browser.until(lambda: not page.browser.all("[data-waiting]") or None, "all answers")
    page.browser.script("document.querySelector(arguments[0]).focus()", f'tr[data-part="term:{FEATURE}"] button')
    assert page.browser.one("#tip").text.startswith("Gender: feminine.")
    assert page.browser.script("return document.activeElement.getAttribute('aria-describedby')") == "tip"
    page.browser.press(Keys.ESCAPE)
    page.browser.until(lambda: not page.browser.all("#tip:not([hidden])") or None, "nothing")
    names = [
        one["name"] for one in page.address.ask("GET", "/v1/models/french/features?query=:&limit=200").json["features"]
    ]
    told = page.browser.driver.execute_async_script(
        "const [names, done] = arguments; import('/page/words.js').then((m) => done(names.map(m.meaningOf)))", names
    )
    assert [name for name, text in zip(names, told, strict=True) if "feature of the text so far" in text] == []


def test_what_is_on_show_is_there_as_code_that_runs(page: Page) -> None:
    page.open(prefix=PREFIX, word="grande", rival="grand", change=f"1,-2,{FEATURE}", add="grenobloise")
    page.explains("Why grande, and not grand?")
    page.browser.click("#code summary")
    curl, python, shell = page.browser.texts("#code code")
    said = subprocess.run(curl, shell=True, capture_output=True, text=True, check=True)
    page.sums_up_to(json.loads(said.stdout)["comparison"]["log_ratio"])
    printed = subprocess.run([sys.executable, "-c", python], capture_output=True, text=True, check=True)
    assert "grande" in printed.stdout
    assert "Gender:Fem" in printed.stdout
    words = shlex.split(shell, comments=True)
    assert words[:3] == ["llrnn", "explain", "french"]
    assert words[3:] == [
        "--tokenised",
        "--prefix",
        PREFIX,
        "--word",
        "grande",
        "--rival",
        "grand",
        "--change",
        "Gender:Fem=-2",
    ]


def test_a_telling_word_is_explained_where_none_is_chosen(page: Page) -> None:
    """A content word of several parts, and no sign or end of a sentence that is more probable."""
    prefixes = ["la maison est grande", "elle est", "le chat", "la"]
    answers = {prefix: page.ask("next", prefix=prefix) for prefix in prefixes}
    prefix = next(one for one in prefixes if answers[one]["top"][0]["word"] != answers[one]["telling"])
    page.open(prefix=prefix)
    word = answers[prefix]["telling"]
    page.explains(f"Why {word}?")
    found = page.ask("explain", prefix=prefix, word=word)["word"]["terms"]
    assert {term["name"] for term in found} & {"POS:NOUN", "POS:VERB", "POS:ADJ", "POS:PROPN"}
    assert len(found) >= 2
    page.browser.click(".bar .pick")
    page.browser.until(lambda: page.browser.texts(".views button") == ["choose a word for me"] or None, "a way back")
    page.browser.click(".views button")
    page.explains(f"Why {word}?")


@pytest.mark.slow  # how it looks; `.ci/run` looks
@pytest.mark.parametrize("size", [WIDE, PHONE])
def test_write_stands_at_the_text(page: Page, size: tuple[int, int]) -> None:
    page.browser.resize(size)
    page.open(prefix=PREFIX, most="4")
    page.browser.one(".bar")
    places = "return ['#prefix', '#write', '#panels'].map((one) => document.querySelector(one).getBoundingClientRect())"
    prefix, write, panels = page.browser.script(places)
    assert write["bottom"] <= size[1]  # without scrolling
    assert write["top"] - prefix["bottom"] < 20
    assert write["bottom"] < panels["top"]
    page.browser.click("#write")
    written(page)
    cards = page.browser.script("return document.getElementById('cards').getBoundingClientRect().bottom")
    assert cards < page.browser.script("return document.getElementById('panels').getBoundingClientRect().top")


@pytest.mark.slow  # how it looks; `.ci/run` looks
@pytest.mark.parametrize("size", [WIDE, (1600, 1000)])
def test_the_three_boxes_stand_side_by_side(page: Page, size: tuple[int, int]) -> None:
    page.browser.resize(size)
    page.open(prefix=PREFIX)
    page.browser.one("svg.waterfall")
    page.browser.one(".slider")
    page.browser.until(lambda: not page.browser.all("[data-waiting]") or None, "all answers")
    edges = page.browser.script("""
        const edge = (one) => document.querySelector(one).getBoundingClientRect();
        return [".next", ".why", ".steering"].map(edge).map(({ top, bottom }) => [top, bottom])""")
    assert all(edge == pytest.approx(edges[0], abs=2) for edge in edges)  # all begin and end at one line


@pytest.mark.slow  # how it looks; `.ci/run` looks
def test_the_completion_list_covers_nothing(page: Page) -> None:
    covered = """
        const list = [...document.querySelectorAll(".proposals")].find((one) => !one.hidden);
        const { left, right, top, bottom } = list.getBoundingClientRect();
        const beside = (one) => one.right <= left + 1 || one.left >= right - 1;
        const meets = (one) => !beside(one) && one.top < bottom - 1 && one.bottom > top + 1;
        return [...document.querySelectorAll("main *")]
          .filter((one) => !one.contains(list) && !list.contains(one) && one.checkVisibility({ opacityProperty: true }))
          .filter((one) => [...one.getClientRects()].some(meets)).map((one) => one.outerHTML.slice(0, 80))"""
    page.open(prefix=PREFIX)
    page.browser.one(".bar")
    top = "return document.getElementById('panels').getBoundingClientRect().top"
    before = page.browser.script(top)
    page.browser.type("#prefix", "la m")
    page.browser.one("#under .proposals li")
    assert page.browser.script(covered) == []
    assert page.browser.script(top) == before  # nor does it push anything away
    page.browser.type(".other input", "gran")
    page.browser.one(".other .proposals li")
    assert page.browser.script(covered) == []
    page.browser.type(".steering input[type=text]", "gender")
    page.browser.one(".steering .proposals li")
    assert page.browser.script(covered) == []


def test_the_model_line_is_in_words(page: Page) -> None:
    page.open(prefix=PREFIX)
    page.browser.one(".bar")
    line = page.browser.text(".panel .facts")
    model = page.address.ask("GET", "/v1/models").json["models"][0]
    assert line == model["about"]
    assert f"It knows {model['words']:,} French words" in line
    assert "An LSTM of 32 units says how much each feature counts" in line
    assert not re.search(r"[=()_]", line)
    assert page.browser.texts("#background option")[:3] == ["its own", "all words alike", "how frequent words are"]


@pytest.mark.slow  # how it looks; `.ci/run` looks
def test_for_against_prior_and_sum_have_the_colours_of_the_figures(page: Page) -> None:
    page.open(prefix=PREFIX, word="grande")
    page.explains("Why grande?")
    drawn = page.browser.script("""
        const fill = (one) => getComputedStyle(document.querySelector(`svg.waterfall .value.${one}`)).fill;
        return ["raises", "lowers", "background", "normaliser", "total"].map(fill)""")
    wanted = [rendering.FOR, rendering.AGAINST, rendering.PRIOR, rendering.PRIOR, rendering.SUM]
    assert drawn == [f"rgb{tuple(bytes.fromhex(one[1:]))}" for one in wanted]
    style = (FOLDER / "style.css").read_text(encoding="utf8")
    assert re.findall(r"--(?:for|against|prior|sum): (#\w+);", style) == [wanted[0], *wanted[1:3], wanted[4]]
    figures = [*Path(__file__).parents[2].glob("docs/pictures/*.svg"), FOLDER / "icon.svg"]
    paper = re.findall(r"#[0-9a-f]{3,6}", rendering.PAPER)  # and ink, light and dark
    allowed = {*wanted, *paper, *rendering.CURVES, "#fff", "#24315e"}
    for path in figures:
        assert set(re.findall(r"#[0-9a-f]{3,6}", path.read_text(encoding="utf8"))) <= allowed, path


# --- the next words ---------------------------------------------------------------------------------------------------


def test_typing_shows_the_next_words_and_they_add_up(page: Page) -> None:
    page.open(prefix="")
    page.browser.type("#prefix", PREFIX)
    answer = page.ask("next", top=12)
    page.shows(answer)
    bars = page.bars()
    assert [word for word, _ in bars[12:]] == ["others"]
    assert sum(p for _, p in bars) == pytest.approx(1.0, abs=1e-6)
    written = page.browser.texts(".bar .share")
    assert [number(text) for text in written[:12]] == [round(100 * one["p"], 3) for one in answer["top"]]
    assert page.browser.text(".next .total") == SUM


def test_the_word_being_typed_is_completed(page: Page) -> None:
    page.open(prefix="")
    page.browser.type("#prefix", "la maiso")
    page.browser.until(lambda: "maison" in page.browser.texts("#text .proposals span") or None, "a proposal")
    page.shows(page.ask("next", prefix="la"))  # what is no word yet is left out, and said
    assert "“maiso” is not in the vocabulary" in page.browser.text("#prefix-hint")
    page.browser.press(Keys.ARROW_DOWN, Keys.ENTER)
    assert page.browser.one("#prefix").get_attribute("value") == "la maison "
    page.shows(page.ask("next", prefix="la maison"))
    assert "vocabulary" not in page.browser.text("#prefix-hint")


def test_plus_appends_a_word(page: Page) -> None:
    page.open(prefix=PREFIX)
    answer = page.ask("next")
    page.shows(answer)
    word = next(one["word"] for one in answer["top"] if one["word"] != "</s>")
    page.browser.click(f'.bar[data-key="word:{word}"] .append')
    page.shows(page.ask("next", prefix=f"{PREFIX} {word}"))
    assert page.browser.one("#prefix").get_attribute("value") == f"{PREFIX} {word}"


def test_stale_answers_are_dropped(page: Page) -> None:
    """The answer about an earlier text is slow, and comes after that about the later one."""
    page.open(prefix="")
    page.shows(page.ask("next", prefix=""))
    page.browser.script("""
        const real = window.fetch; window.late = 0; window.seen = [];
        new MutationObserver(() => window.seen.push(document.querySelector(".bar")?.dataset.p))
          .observe(document.getElementById("panels"), { attributes: true, childList: true, subtree: true });
        window.fetch = async (path, options) => {
          const answer = real(path, options);
          if (path === "v1/read" || !String(options?.body).includes('"prefix":["la"],')) return answer;
          await new Promise((resolve) => setTimeout(resolve, 700));
          window.late += 1;
          return answer;
        };""")
    page.browser.type("#prefix", "la ")
    page.browser.until(lambda: "prefix=la" in page.browser.driver.current_url or None, "the first text")
    page.browser.one("#prefix").send_keys("maison")
    page.shows(page.ask("next", prefix="la maison"))
    page.browser.until(lambda: page.browser.script("return window.late") or None, "the late answer")
    page.shows(page.ask("next", prefix="la maison"))
    stale = page.ask("next", prefix="la")["top"][0]["p"]
    seen = [float(p) for p in page.browser.script("return window.seen") if p]
    assert seen
    assert not [p for p in seen if abs(p - stale) < 1e-6]


# --- the sum ----------------------------------------------------------------------------------------------------------


def test_the_parts_of_the_sum_add_up_to_what_the_api_says(page: Page) -> None:
    page.open(prefix=PREFIX)
    word = page.ask("next")["top"][1]["word"]
    page.browser.click(f'.bar[data-key="word:{word}"] .pick')
    page.explains(f"Why {word}?")
    found = page.ask("explain", word=word)["word"]
    while page.browser.all("button.fold[aria-expanded=false]"):
        page.browser.click("button.fold")
    table = page.table()
    assert list(table) == ["log b", *(term["name"] for term in found["terms"]), "− log Z"]
    assert math.fsum(table.values()) == pytest.approx(found["log_p"], abs=1e-4 * len(table))
    assert page.total() == pytest.approx(found["log_p"], abs=6e-5)
    assert number(page.browser.text("table.sum td.sum")) == pytest.approx(found["log_p"], abs=2e-4)
    assert number(page.browser.texts("table.sum td.running")[-1]) == pytest.approx(page.total(), abs=2e-4)
    drawn = [number(text) for text in page.browser.texts("svg.waterfall text.number")]
    assert drawn == pytest.approx([*table.values(), found["log_p"]], abs=6e-4)
    assert page.browser.texts("svg.waterfall > title") == [f"log p({word}) as a sum"]


@pytest.mark.slow  # how it looks; `.ci/run` looks
def test_smaller_terms_are_folded_and_counted(page: Page) -> None:
    page.open(prefix=PREFIX)
    words = [one["word"] for one in page.ask("next", top=300)["top"]]
    word, found = next((w, e) for w in words if len((e := page.ask("explain", word=w)["word"])["terms"]) > 9)
    page.open(prefix=PREFIX, word=word)
    page.explains(f"Why {word}?")
    folded = len(found["terms"]) - 8
    assert page.table()[f"{folded} smaller ones"] == pytest.approx(
        sum(term["share"] for term in found["terms"][8:]), abs=6e-5
    )
    assert math.fsum(page.table().values()) == pytest.approx(found["log_p"], abs=2e-3)
    page.browser.click("button.fold")
    page.browser.until(lambda: f"{folded} smaller ones" not in page.table() or None, "the smaller ones")
    assert list(page.table())[1:-1] == [term["name"] for term in found["terms"]]


def test_two_words_compared(page: Page) -> None:
    page.open(prefix=PREFIX)
    word, rival = (one["word"] for one in page.ask("next")["top"][:2])
    page.browser.click(f'.bar[data-key="word:{word}"] .pick')
    page.browser.click(f'.bar[data-key="word:{rival}"] .versus')
    page.explains(f"Why {word}, and not {rival}?")
    found = page.ask("explain", word=word, rival=rival)
    assert page.total() == pytest.approx(found["comparison"]["log_ratio"], abs=6e-5)
    assert math.fsum(page.table().values()) == pytest.approx(page.total(), abs=2e-3)
    page.browser.click(".views button:nth-child(3)")  # the rival by itself
    page.browser.until(lambda: "− log Z" in page.table() or None, "the sum of the rival")
    assert page.total() == pytest.approx(found["rival"]["log_p"], abs=6e-5)


def test_the_governor_of_a_word_is_named(page: Page) -> None:
    page.open(model="syntax", prefix="les maisons de le voisin", word="sont", rival="est")
    page.explains("Why sont, and not est?")
    told = page.browser.text(".verdict")
    both = "(Number:Plur, Person:3|Person:3, Number:Plur)"
    assert re.search(rf"sont agrees with maisons \({both}\), 4 words back\.", told)
    assert "est clashes with maisons (Number:Plur), 4 words back." in told
    found = page.ask("explain", model="syntax", prefix="les maisons de le voisin", word="sont")["word"]["remarks"]
    assert "agrees with maisons (Person:3), 4 words back" in [text for _, text in found]


# --- weights by hand --------------------------------------------------------------------------------------------------


def offset_of(page: Page, feature: str = FEATURE, kind: str = "offset") -> float:
    found = page.browser.one(f'input[aria-label="{kind} of {feature}"]').get_attribute("value")
    assert found is not None
    return float(found)


def test_a_slider_by_pointer_and_by_keys_changes_the_probabilities_as_the_api_says(page: Page) -> None:
    page.open(prefix=PREFIX, word="grande")
    before = dict(page.bars()) or None
    slider = f'input[aria-label="offset of {FEATURE}"]'
    page.browser.drag(slider, 20)
    dragged = offset_of(page)
    assert dragged > 0.3
    change = [{"feature": FEATURE, "scale": 1.0, "offset": dragged}]
    page.shows(page.ask("next", changes=change))
    assert page.browser.texts("output.total") == [SUM]
    page.browser.one(slider).send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert offset_of(page) == pytest.approx(dragged + 0.2)
    change[0]["offset"] = offset_of(page)
    answer = page.ask("next", changes=change, words=["grande"])
    page.shows(answer)
    assert page.browser.text(".next .total") == SUM
    assert page.ask("next", words=["grande"])["words"][0]["p"] < answer["words"][0]["p"] == dict(page.bars())["grande"]
    assert before != dict(page.bars())
    found = page.ask("explain", word="grande", changes=change)["word"]
    page.sums_up_to(found["log_p"])
    assert math.fsum(page.table().values()) == pytest.approx(found["log_p"], abs=2e-3)
    page.browser.click(f'button[aria-label="reset {FEATURE}"]')
    page.shows(page.ask("next"))
    assert offset_of(page) == 0


def test_while_a_slider_moves_one_request_is_on_its_way(page: Page) -> None:
    page.open(prefix=PREFIX, word="grande")
    page.explains("Why grande?")
    page.browser.script("""
        const real = window.fetch; window.now = 0; window.most = 0; window.all = 0;
        window.fetch = async (path, options) => {
          if (path !== "v1/next" || !options.body.includes('"feature"')) return real(path, options);
          window.now += 1; window.all += 1; window.most = Math.max(window.most, window.now);
          await new Promise((resolve) => setTimeout(resolve, 60));
          try { return await real(path, options); } finally { window.now -= 1; }
        };""")
    page.browser.one(f'input[aria-label="offset of {FEATURE}"]').send_keys(*[Keys.ARROW_RIGHT] * 15)
    page.shows(page.ask("next", changes=[{"feature": FEATURE, "offset": 1.5}]))
    assert page.browser.script("return window.most") == 1
    assert 2 <= page.browser.script("return window.all") <= 15


def test_a_slider_holds_on_to_the_word_that_is_explained(page: Page) -> None:
    page.open(prefix=PREFIX)
    word = page.ask("next")["telling"]
    page.explains(f"Why {word}?")
    page.browser.one(".slider input[type=range]").send_keys(Keys.HOME)
    (change,) = parse_qs(urlsplit(page.browser.driver.current_url).fragment)["change"]
    scale, offset, feature = change.split(",", 2)
    assert (scale, offset) == ("1", "-5")
    answer = page.ask("next", changes=[{"feature": feature, "offset": -5.0}])
    assert answer["telling"] != word
    page.shows(answer)
    page.sums_up_to(page.ask("explain", word=word, changes=[{"feature": feature, "offset": -5.0}])["word"]["log_p"])
    page.explains(f"Why {word}?")


def test_a_feature_is_found_by_name_and_an_expert_is_scaled(page: Page) -> None:
    page.open(prefix=PREFIX)
    page.browser.type(".steering input[type=text]", "number:pl")
    page.browser.until(lambda: "Number:Plur" in page.browser.texts(".proposals span") or None, "the feature")
    page.browser.press(Keys.ARROW_DOWN, Keys.ENTER)
    page.browser.until(
        lambda: page.browser.script("return document.activeElement.type") == "range" or None, "its slider"
    )
    page.browser.press(Keys.ARROW_LEFT)
    plural = {"feature": "Number:Plur", "scale": 1.0, "offset": -0.1}
    page.shows(page.ask("next", changes=[plural]))
    page.browser.type(".steering input[type=text]", EXPERT)
    page.browser.until(lambda: EXPERT in page.browser.texts(".proposals span") or None, "the expert")
    page.browser.press(Keys.ARROW_DOWN, Keys.ENTER)
    page.browser.one(f'input[aria-label="scale of {EXPERT}"]').send_keys(Keys.HOME)
    page.shows(page.ask("next", changes=[plural, {"feature": EXPERT, "scale": -1.0}]))
    page.browser.click(".steering .tools button")
    page.shows(page.ask("next"))
    page.browser.type(".steering input[type=text]", "Gender:*")
    page.browser.until(lambda: "Gender:*" in page.browser.texts(".proposals span") or None, "the pattern")
    page.browser.press(Keys.ARROW_DOWN, Keys.ENTER)
    page.browser.one('input[aria-label="offset of Gender:*"]').send_keys(Keys.END)
    page.shows(page.ask("next", changes=[{"feature": "Gender:*", "offset": 5.0}]))


# --- backgrounds, models, conditions ----------------------------------------------------------------------------------


def test_the_background_is_swapped(page: Page) -> None:
    page.open(prefix=PREFIX)
    page.browser.click("#how summary")
    page.browser.choose("#background", "uniform")
    page.shows(page.ask("next", background="uniform"))
    page.browser.choose("#background", "trigram")
    page.shows(page.ask("next", background="trigram"))


def test_a_second_model_has_its_bars_beside_the_first(page: Page) -> None:
    """Each word with both probabilities, and the words that the second one expects most."""
    page.open(prefix=PREFIX, word="grande")
    page.browser.choose("#model2", "softmax")
    own, other = page.ask("next"), page.ask("next", model="softmax", top=100)
    page.shows(own)
    p = {one["word"]: one["p"] for one in other["top"]}
    wanted = [p.get(one["word"]) for one in own["top"]]
    script = "return [...document.querySelectorAll('.bar .share .second')].map((one) => one.textContent)"
    page.browser.until(lambda: page.browser.script(script)[0] or None, "the second model")
    shown = page.browser.script(script)[:12]
    assert [None if text == "rare" else number(text) for text in shown] == [
        None if one is None else round(100 * one, 3) for one in wanted
    ]
    assert {one["word"] for one in other["top"][:3]} <= {word for word, _ in page.bars()}
    assert page.browser.texts(".names span") == ["french", "softmax"]
    found = page.ask("explain", word="grande")["word"]["log_p"]
    page.sums_up_to(found)
    assert math.fsum(page.table().values()) == pytest.approx(found, abs=2e-3)
    page.browser.choose("#model2", "")
    page.browser.until(lambda: not page.browser.all(".bars.beside") or None, "one model alone")


def test_a_condition_and_words_that_are_not_listed(page: Page) -> None:
    page.open(model="waiter", prefix="la", condition="")
    assert "writes from a condition" in page.browser.one(".panel .message").text
    page.browser.type("#condition", ACT)
    asked = {"model": "waiter", "prefix": "la", "condition": ACT}
    page.shows(page.ask("next", **asked))
    page.browser.type(".other input", "4711")
    page.browser.press(Keys.ENTER)
    page.explains("Why 4711?")
    found = page.ask("explain", **asked, word="4711")["word"]
    assert f"log share of {found['cell']}" in page.table()
    assert math.fsum(page.table().values()) == pytest.approx(found["log_p"], abs=2e-3)
    assert page.total() == pytest.approx(found["log_p"], abs=6e-5)


def test_a_cell_opens_to_show_strings_drawn_from_it(page: Page) -> None:
    page.open(model="waiter", prefix="la", condition=ACT)
    cells = [one for one in page.ask("next", model="waiter", prefix="la", condition=ACT)["top"] if one["cell"]]
    cell = cells[0]["word"]
    page.browser.click(f'.bar[data-key="cell:{cell}"] .pick')
    page.browser.one(".strings .near")
    asked = page.address.ask("GET", f"/v1/models/waiter/strings?{urlencode({'cell': cell, 'seed': 0})}").json["strings"]
    assert page.browser.texts(".strings .near") == [one["word"] for one in asked]
    (title,) = page.browser.values(".bar.cell .pick[aria-expanded=true]", "title")
    assert (title or "").endswith(", of all words of this kind that are not listed")
    drawn = asked[0]["word"]
    found = page.ask("explain", model="waiter", prefix="la", condition=ACT, word=drawn)["word"]
    assert found["cell"] == cell
    assert math.exp(found["log_p"]) == pytest.approx(cells[0]["p"] * asked[0]["share"], rel=1e-4)
    page.browser.click(".strings .text")
    others = page.address.ask("GET", f"/v1/models/waiter/strings?{urlencode({'cell': cell, 'seed': 1})}").json[
        "strings"
    ]
    page.browser.until(
        lambda: page.browser.texts(".strings .near") == [one["word"] for one in others] or None, "other strings"
    )
    page.browser.click(".strings .near")
    page.explains(f"Why {others[0]['word']}?")
    page.browser.click(f'.bar[data-key="cell:{cell}"] .pick')
    assert not page.browser.one(f'.bar[data-key="cell:{cell}"]').find_elements("css selector", ".strings:not([hidden])")


TELLING = "inform(name='la luna';food=thai)"


def test_a_model_of_conditions_opens_with_a_text_whose_slots_can_be_ticked(window: Browser) -> None:
    model = waiter()
    model.provenance["example"] = TELLING
    with running(create_app(Engine([Served("waiter", model)]))) as address:
        page = Page(window, address)
        page.open()

        def shows(condition: str) -> None:
            asked = address.ask("POST", "/v1/write", {"conditions": [condition], "max_words": 40})
            (best,) = asked.json["texts"][0]["best"]
            wanted = [*best["words"], *["end"] * best["finished"]]
            page.browser.until(
                lambda: (
                    [one.lower() for one in page.browser.texts("#cards .card .word")][: len(best["words"])]
                    == wanted[: len(best["words"])]
                    or None
                ),
                f"{wanted}",
            )

        assert page.browser.one("#condition").get_attribute("value") == TELLING
        assert page.browser.text("#how-now").startswith("beam search")
        shows(TELLING)
        assert [text.strip() for text in page.browser.texts("#slots label")] == ["name", "food"]
        page.browser.click("#slots [data-slot='1']")
        shows("inform(name='la luna')")
        assert page.browser.one("#condition").get_attribute("value") == "inform(name='la luna')"
        page.browser.click("#slots [data-slot='1']")
        shows(TELLING)
        assert len(page.browser.all("#slots label")) == 2
        page.browser.type("#condition", '{"act": "inform"')  # half typed: nothing to tick
        page.browser.until(lambda: not page.browser.all("#slots label") or None, "no slots")
        window.complaints()


def test_an_empty_condition_has_names_and_an_example(page: Page) -> None:
    page.open(model="waiter", prefix="la", condition="")
    assert "writes from a condition" in page.browser.one(".panel .message").text
    assert page.browser.text("#condition-hint").strip() == "Acts: inform. Slots: food, name."
    example = page.browser.one("#condition").get_attribute("placeholder") or ""
    assert page.browser.text("#condition-example") == f"Try {example}"
    page.browser.click("#condition-example")
    page.shows(page.ask("next", model="waiter", prefix="la", condition=example))
    assert page.browser.one("#condition").get_attribute("value") == example
    assert not page.browser.one("#condition-field").find_elements("css selector", "#condition-example:not([hidden])")


# --- influence --------------------------------------------------------------------------------------------------------


def test_a_feature_shows_which_words_moved_its_weight(page: Page) -> None:
    page.open(prefix=PREFIX, word="grande")
    page.explains("Why grande?")
    page.browser.click(f'tr[data-part="term:{FEATURE}"] button')
    found = page.ask("influence", feature=FEATURE)
    page.browser.one(".moved")
    assert f"{found['weight']:.3f}".replace("-", "−") in page.browser.text(".influence .lead")
    sums: dict[int, float] = {}
    for term in found["terms"]:
        sums[term["position"]] = sums.get(term["position"], 0.0) + term["share"]
    positions = [int(place or "") for place in page.browser.values(".moved > li", "data-position")]
    assert [number(text) for text in page.browser.texts(".moved .word .number")] == pytest.approx(
        [sums[place] for place in positions], abs=6e-4
    )
    assert page.browser.texts(".moved .word bdi") == ["start", *PREFIX.split()]
    best = max(sums, key=lambda place: abs(sums[place]))
    assert page.browser.values(".moved > .strongest", "data-position") == [str(best)]
    page.browser.click("svg.waterfall g.marked")  # by a click in the picture it goes again
    page.browser.until(lambda: not page.browser.all(".moved") or None, "nothing")


# --- a sentence -------------------------------------------------------------------------------------------------------


def written(page: Page) -> list[str]:
    """The words of a finished sentence."""
    page.browser.until(lambda: "log p = " in page.browser.text("#writing-summary") or None, "the end of the sentence")
    return [word or "" for word in page.browser.values("#cards .card", "data-word")]


def test_a_sentence_is_written_word_by_word_and_the_seed_decides(page: Page) -> None:
    page.open(prefix=PREFIX, most="12")
    page.browser.click("#how summary")
    page.browser.type("#seed", "3")
    page.browser.click("#write")
    first = written(page)
    request = {"seed": 3, "max_words": 12, "stream": False}
    answer = page.ask("generate", **request)
    end = ["</s>"] if answer["finished"] else []
    assert first == [one["word"] for one in answer["words"]] + end
    for card, one in zip(page.browser.all("#cards .card"), answer["words"], strict=False):
        assert card.text.split("\n")[2:] == one["features"]
        assert number(card.text.split("\n")[1]) == round(100 * one["p"], 3)
    page.browser.click("#write")
    assert written(page) == first
    page.browser.type("#seed", "4")
    page.browser.press(Keys.TAB)
    page.browser.click("#write")
    page.browser.until(lambda: written(page) != first or None, "another text")
    page.browser.click("#greedy")
    page.browser.click("#write")
    best = page.ask("generate", max_words=12, stream=False, greedy=True)["words"]
    page.browser.until(lambda: written(page)[: len(best)] == [one["word"] for one in best] or None, "the best words")


def test_a_word_of_the_sentence_is_explained_where_it_stands(page: Page) -> None:
    page.open(prefix=PREFIX, most="5")
    page.browser.one(".bar")
    page.browser.click("#write")
    words = written(page)
    before = " ".join([PREFIX, *words[:2]])
    page.browser.click("#cards .card:nth-child(6) button")
    page.explains(f"Why {words[2] if words[2] != '</s>' else 'end of sentence'}?")
    found = page.ask("explain", prefix=before, word=words[2])["word"]["log_p"]
    page.sums_up_to(found)
    assert page.browser.one("#prefix").get_attribute("value") == before
    assert float(page.browser.values("#cards .card", "data-p")[2] or "") == pytest.approx(math.exp(found), rel=1e-4)


def test_writing_can_be_stopped(page: Page) -> None:
    """Also where the rest of the sentence never comes."""
    page.open(prefix=PREFIX, most="500", change="1,-5,Word:</s>")
    page.browser.one(".bar")
    page.browser.script("""
        const real = window.fetch;
        window.fetch = (path, options) => real(path, options).then((answer) => {
          if (path !== "v1/generate") return answer;
          let parts = 0;
          const slow = new TransformStream({ async transform(part, out) {
            if (parts++) await new Promise((resolve) => setTimeout(resolve, 60000));
            out.enqueue(part);
          } });
          return new Response(answer.body.pipeThrough(slow), { status: answer.status });
        });""")
    page.browser.click("#write")
    page.browser.one("#cards .card")
    page.browser.click("#stop")
    page.browser.until(lambda: "Stopped after" in page.browser.text("#writing-summary") or None, "the end")
    assert page.browser.one("#write").is_enabled()


# --- a language model with lists -------------------------------------------------------------------------------------

EVERYTHING = """return [document.body.textContent, ...[...document.querySelectorAll("*")].flatMap((one) =>
  ["title", "aria-label", "aria-valuetext", "placeholder", "value"].map((name) => one.getAttribute(name)).concat(
    [one.value]))].filter(Boolean).join("\\n")"""


@pytest.fixture(scope="module")
def listing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    require_browser()
    with running(create_app(Engine([listed(tmp_path_factory.mktemp("lm"))]))) as address:
        yield address


def columns(page: Page) -> list[list[str]]:
    """The tokens of both columns, once they are written."""
    quiet = "return !document.querySelector('#columns [aria-busy=true]') && document.querySelector('#stop').disabled"
    page.browser.until(lambda: page.browser.script(quiet) or None, "both texts")
    return [[one or "" for one in page.browser.values(f"#{name} .card", "data-word")] for name in ("cards", "cards2")]


def greedily(page: Page, offset: float, scale: float = 1.0) -> list[str]:
    """What the API writes after `le` where the weights of the list are changed so."""
    names = [f"animals:{what}" for what in ("whole", "continues", "completes")]
    changes = [{"feature": name, "offset": offset, "scale": scale} for name in names]
    request = {"prefix": "le", "greedy": True, "max_words": 5, "stream": False, "changes": changes}
    return [one["word"] for one in page.ask("generate", model="listed", **request)["words"]]


@pytest.mark.slow
def test_a_slider_for_a_list_rewrites_the_text_beside_that_without_the_list(window: Browser, listing: Address) -> None:
    window.resize(WIDE)
    page = Page(window, listing)
    page.open(prefix="le", greedy="1", most="5")
    page.browser.one(".bar")
    page.browser.click("#write")
    alone = greedily(page, 0.0, 0.0)
    assert page.browser.until(lambda: columns(page) if columns(page)[1] else None, "texts") == [
        greedily(page, 0.0),
        alone,
    ]
    assert greedily(page, 0.0) != alone
    assert page.browser.texts("#columns h3") == ["With animals", "Without animals"]
    assert "a = 3.000" in page.browser.text(".slider.list .weight")
    slider = page.browser.one('input[aria-label="offset of animals"]')
    slider.send_keys(*[Keys.ARROW_LEFT] * 30)
    page.browser.until(lambda: columns(page) == [alone, alone] or None, "equal texts at weight 0")
    assert "a = 0.000" in page.browser.text(".slider.list .weight")
    changed = parse_qs(urlsplit(page.browser.driver.current_url).fragment)
    assert sorted(changed["change"]) == [f"1,-3,animals:{what}" for what in ("completes", "continues", "whole")]
    page.browser.click('button[aria-label="reset animals"]')
    page.browser.until(lambda: columns(page) == [greedily(page, 0.0), alone] or None, "the text with the list")
    assert not page.browser.all("#writing-stale:not([hidden])")


@pytest.mark.slow
@pytest.mark.parametrize("size", [WIDE, PHONE])
def test_tokens_are_shown_as_text(window: Browser, listing: Address, size: tuple[int, int]) -> None:
    window.resize(size)
    window.prefer(reduced_motion="reduce", color_scheme="light")
    page = Page(window, listing)
    page.open()
    page.browser.one(".bar")
    assert "Ġ" not in page.browser.script(EVERYTHING)  # examples, too
    page.open(prefix="Un été, le", most="4")
    page.browser.one(".bar")
    assert page.browser.texts(".bar bdi")
    page.browser.click("#write")
    page.browser.until(lambda: page.browser.text("#writing-summary2") or None, "the texts")
    columns(page)
    page.browser.type(".other input", "chat")
    page.browser.until(lambda: "chat" in page.browser.texts(".other .proposals span") or None, "the token")
    page.browser.press(Keys.ENTER)
    page.explains("Why chat?")
    assert page.ask("explain", model="listed", prefix="Un été, le", word=" chat")["word"]["log_p"] == pytest.approx(
        page.total(), abs=6e-5
    )
    assert "animals:whole" in page.table()
    page.browser.click("table.sum button.feature")
    page.browser.one(".moved")
    page.browser.click('.bar[data-key="word:Ġchat"] .append')
    assert page.browser.one("#prefix").get_attribute("value") == "Un été, le chat"
    page.browser.type("#prefix", "le ch")
    page.browser.one("#under .proposals li")
    assert "Ġ" not in page.browser.script(EVERYTHING)
    assert page.browser.script("return document.documentElement.scrollWidth") <= size[0]
    assert page.browser.serious_findings() == []


# --- links ------------------------------------------------------------------------------------------------------------


def everything(page: Page) -> tuple[list[Any], list[float]]:
    """All that the page shows, once it rests: texts and fields, and numbers."""
    browser = page.browser
    written(page)
    browser.one(".moved")
    browser.until(lambda: not browser.all("[data-waiting]") or None, "all answers")
    texts = [
        browser.texts(selector)
        for selector in (".bar.chosen bdi", ".why h3", "table.sum th", ".moved bdi", "#cards bdi", ".slider bdi", "h2")
    ]
    fields = browser.script(
        "return [...document.querySelectorAll('input:not(#link), select')].map((one) => [one.value, one.checked])"
    )
    places = (("[data-p]", "data-p"), ("[data-value]", "data-value"))
    numbers = [float(found or "nan") for place in places for found in browser.values(*place)]
    return [*texts, fields], numbers


def test_a_link_shows_the_same_in_another_window(page: Page) -> None:
    browser = page.browser
    page.open(prefix=PREFIX)
    browser.choose("#model2", "softmax")
    browser.click(".bar:nth-child(2) .pick")
    browser.click(".bar:nth-child(4) .versus")
    browser.click("#how summary")
    browser.choose("#background", "trigram")
    browser.one(".slider input[type=range]").send_keys(*[Keys.ARROW_RIGHT] * 7)
    browser.click("table.sum button.feature")
    browser.type("#seed", "5")
    browser.press(Keys.TAB)
    browser.type("#temperature", "0.8")
    browser.press(Keys.TAB)
    browser.type("#top_p", "0.9")
    browser.press(Keys.TAB)
    browser.click("#write")
    before = everything(page)
    browser.click("#copy")
    link = browser.script("return document.getElementById('link').value")
    assert link.startswith(f"http://127.0.0.1:{page.address.port}/#")
    assert "softmax" in link
    assert "%22top_p%22%3A0.9" in link  # the request that wrote the sentence
    here = browser.driver.current_window_handle
    browser.driver.switch_to.new_window("window")
    try:
        browser.resize(WIDE)
        browser.driver.get(link)
        settings = "seed 5, temperature 0.8, top p 0.9"
        browser.until(lambda: browser.text("#how-now").startswith(settings) or None, "the settings of the link")
        browser.until(lambda: everything(page)[0] == before[0] or None, "the same page")
        assert everything(page)[1] == pytest.approx(before[1], abs=1e-5)
        assert len(before[1]) > 60
    finally:
        browser.driver.close()
        browser.driver.switch_to.window(here)


def test_back_and_forward_go_through_the_steps(page: Page) -> None:
    page.open(prefix=PREFIX)
    answer = page.ask("next")
    first = answer["telling"]
    second = next(one["word"] for one in answer["top"] if one["word"] not in (first, "</s>"))
    page.explains(f"Why {first}?")
    page.browser.click(f'.bar[data-key="word:{second}"] .pick')
    page.explains(f"Why {second}?")
    page.browser.type("#prefix", "la")
    page.shows(page.ask("next", prefix="la"))
    page.browser.driver.back()
    page.shows(page.ask("next"))
    page.explains(f"Why {second}?")
    assert page.browser.one("#prefix").get_attribute("value") == PREFIX
    page.browser.driver.back()
    page.explains(f"Why {first}?")
    page.browser.driver.forward()
    page.explains(f"Why {second}?")


# --- what goes wrong --------------------------------------------------------------------------------------------------


def test_an_unknown_word_is_named_in_the_page(page: Page) -> None:
    """With near words to take in its place, and with what can be said without it."""
    page.open(prefix="la maisonn est")
    near = page.ask("read", prefix="la maisonn est")["unknown"][0]["near"]
    assert near[0] == "maison"
    assert "“maisonn” is not in the vocabulary, and is left out below." in page.browser.one(".left").text
    assert page.browser.texts(".left .near") == near
    assert page.browser.one("#prefix").get_attribute("aria-invalid") == "true"
    page.shows(page.ask("next", prefix="la est"))
    page.browser.click(".left .near")
    page.shows(page.ask("next"))
    assert page.browser.one("#prefix").get_attribute("value") == PREFIX
    assert not page.browser.messages()
    assert page.browser.one("#prefix").get_attribute("aria-invalid") is None


def test_a_word_that_the_model_does_not_have_is_not_explained(page: Page) -> None:
    page.open(prefix=PREFIX)
    page.browser.type(".other input", "grandee")
    page.browser.press(Keys.ENTER)
    assert page.browser.one(".lost").text.startswith("“grandee” is not in the vocabulary. Did you mean: grande")
    assert page.browser.texts(".lost .near")[0] == "grande"
    page.explains(f"Why {page.ask('next')['telling']}?")
    page.browser.click(".lost .near")
    page.explains("Why grande?")
    assert not page.browser.messages()


def test_a_busy_server_is_asked_again(page: Page) -> None:
    page.open(prefix=PREFIX)
    page.shows(page.ask("next"))
    page.browser.script("""
        const real = window.fetch; window.refused = 0;
        window.fetch = async (path, options) => {
          if (path !== "v1/next" || window.refused++) return real(path, options);
          const body = JSON.stringify({ code: "too_many_requests", message: "later" });
          return new Response(body, { status: 429, headers: { "Retry-After": "1" } });
        };""")
    page.browser.type("#prefix", "la ")
    page.shows(page.ask("next", prefix="la"))
    assert page.browser.script("return window.refused") == 2


def test_a_link_with_nonsense_in_it_does_no_harm(page: Page) -> None:
    page.forgiven = ["/v1/next", "/v1/explain", "/v1/influence", "/v1/generate"]
    page.open(
        prefix=PREFIX,
        model2="<b>no</b>",
        view="x",
        seed="-3",
        temperature="cold",
        top_p="7",
        change="x,y,z",
        written="{",
        most="1e9",
    )
    assert "“<b>no</b>”" in page.browser.one("#message").text
    page.browser.until(lambda: page.browser.messages()[1:] or None, "what the API says of the feature z")
    assert page.browser.script("return document.getElementById('seed').value") == "0"
    page.browser.click(".steering .tools button")  # the change is taken back
    page.shows(page.ask("next"))


def test_a_word_that_looks_like_html_is_text(page: Page) -> None:
    assert page.ask("next", prefix=BAIT)["top"][0]["word"] == HOSTILE
    page.open(prefix=BAIT, word=HOSTILE)
    page.explains(f"Why {HOSTILE}?")
    assert page.browser.texts(".bar bdi")[0] == HOSTILE
    page.browser.click(".bar:nth-child(2) .versus")
    page.browser.click(".bar:nth-child(1) .append")
    page.browser.until(lambda: HOSTILE in (page.browser.one("#prefix").get_attribute("value") or "") or None, "it")
    page.browser.click("#how summary")
    page.browser.click("#greedy")
    page.browser.type("#prefix", BAIT)
    page.shows(page.ask("next", prefix=BAIT))
    page.browser.click("#write")
    assert written(page)[0] == HOSTILE
    page.browser.type("#prefix", f"{BAIT} <img")
    page.browser.until(lambda: HOSTILE in page.browser.texts(".proposals span") or None, "a proposal")
    page.open(prefix=f"{BAIT} {HOSTILE}", word=HOSTILE)
    page.explains(f"Why {HOSTILE}?")
    page.browser.click("table.sum button.feature")
    page.browser.one(".moved")
    assert page.browser.driver.title == "llrnn playground"
    assert not page.browser.all("main img")


def test_a_server_that_is_gone_and_one_that_wants_a_token(page: Page, models: list[Served]) -> None:
    page.forgiven = ["401", "ERR_"]
    with running(create_app(Engine(models[:1]), token="s3cret-token")) as address:
        page = Page(page.browser, address)
        page.open(prefix=PREFIX)
        page.browser.type("#token", "wrong-token")
        page.browser.press(Keys.ENTER)
        page.browser.until(lambda: "did not take" in page.browser.text("#token-note") or None, "a refusal")
        page.browser.type("#token", "s3cret-token")
        page.browser.press(Keys.ENTER)
        page.browser.one(".bar")
        assert not page.browser.one("#prefix").get_attribute("aria-invalid")
        assert not page.browser.all("#token-box:not([hidden])")
        assert "s3cret-token" not in page.browser.driver.current_url
        assert page.browser.script("return localStorage.length") == 0
    page.browser.type("#prefix", "la ")
    assert "does not answer" in page.browser.one(".panel .message").text


@contextmanager
def behind_a_proxy(server: Address, root: str, host: str) -> Iterator[Address]:
    """A proxy that has put the server below a path, and passes a name of its own on."""

    class Passing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path.startswith(root), f"{self.path} is not below {root}"
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length) if length else None
            said = server.ask(self.command, self.path.removeprefix(root), body, Host=host, **self.kind())
            self.send_response(said.status)
            for name in ("content-type", "etag", "cache-control", "content-security-policy"):
                if name in said.headers:
                    self.send_header(name, said.headers[name])
            self.send_header("Content-Length", str(len(said.body)))
            self.end_headers()
            self.wfile.write(said.body)

        do_POST = do_GET  # noqa: N815 (as http.server looks for it)

        def kind(self) -> dict[str, str]:
            return {"Content_Type": self.headers["Content-Type"]} if self.headers["Content-Type"] else {}

        def log_message(self, *said: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Passing) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        yield Address(proxy.server_address[1])
        proxy.shutdown()
        thread.join()


def test_behind_a_proxy_below_a_path_and_under_a_name_of_its_own(page: Page, models: list[Served]) -> None:
    hosts = {"127.0.0.1", "models.example.org"}
    with (
        running(create_app(Engine(models[:1]), hosts=hosts)) as server,
        behind_a_proxy(server, "/models", "models.example.org") as proxy,
    ):
        page.browser.open(
            f"http://127.0.0.1:{proxy.port}/models/#{urlencode({'prefix': 'la maisonn est', 'most': '3'})}"
        )
        page.browser.one(".left .near")
        page.browser.click(".left .near")
        page.shows(page.ask("next"))
        page.browser.one("svg.waterfall")
        page.browser.click("table.sum button.feature")
        page.browser.one(".moved")
        page.browser.click("#write")
        written(page)
        assert server.ask("GET", "/v1/models", Host="other.example.org").status == 400


# --- everyone ---------------------------------------------------------------------------------------------------------


def focused(page: Page) -> str:
    return str(page.browser.script("const on = document.activeElement; return on.id || on.className || on.tagName"))


def tab_to(page: Page, wanted: str, most: int = 60) -> None:
    for _ in range(most):
        if page.browser.script("return document.activeElement.matches(arguments[0])", wanted):
            return
        page.browser.press(Keys.TAB)
    pytest.fail(f"{wanted} is not reached by the tab key; it stands at {focused(page)}")


def arrow_to(page: Page, wanted: str, key: str) -> None:
    for _ in range(15):
        if page.browser.script("return document.activeElement.matches(arguments[0])", wanted):
            return
        page.browser.press(key)
    pytest.fail(f"{wanted} is not reached by arrows")


def test_everything_by_keyboard_alone(page: Page) -> None:
    page.open(prefix="la maison")
    page.browser.one(".bar")
    page.browser.press(Keys.TAB)
    assert focused(page) == "skip"
    page.browser.press(Keys.ENTER)
    assert focused(page) == "prefix"
    page.browser.press(Keys.END, " est")
    answer = page.ask("next")
    page.shows(answer)
    tab_to(page, "#write")
    page.browser.press(Keys.ENTER)
    written(page)
    word, rival = [one["word"] for one in answer["top"] if one["word"] != "</s>"][1:3]
    tab_to(page, ".bar .pick")  # a list is one stop of the tab key
    arrow_to(page, f'.bar[data-key="word:{word}"] .pick', Keys.ARROW_DOWN)
    page.browser.press(Keys.ENTER)
    page.explains(f"Why {word}?")
    arrow_to(page, f'.bar[data-key="word:{rival}"] .pick', Keys.ARROW_DOWN)
    page.browser.press(Keys.ARROW_RIGHT)
    page.browser.press(Keys.SPACE)
    page.explains(f"Why {word}, and not {rival}?")
    tab_to(page, "table.sum button.feature")
    page.browser.press(Keys.ENTER)
    page.browser.one(".moved")
    assert page.browser.script("return document.activeElement.matches('table.sum button[aria-pressed=true]')")
    tab_to(page, ".slider input[type=range]")
    outline = page.browser.script("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"  # one sees where one is
    page.browser.press(Keys.ARROW_RIGHT)
    name = str(page.browser.script("return document.activeElement.ariaLabel")).removeprefix("offset of ")
    page.shows(page.ask("next", changes=[{"feature": name, "offset": 0.1}]))
    assert page.browser.script("return document.activeElement.ariaLabel") == f"offset of {name}"


def test_a_screen_reader_is_told_the_result_once(page: Page) -> None:
    page.open(prefix=PREFIX)
    answer = page.ask("next")
    best = answer["top"][0]
    said = f"french, next word: {best['word']} {100 * best['p']:.1f} %"
    page.browser.until(lambda: page.browser.text("#announce").startswith(said) or None, said)
    names = page.browser.script(
        "return [...document.querySelectorAll('.bar .pick')].map((one) => one.textContent.trim())"
    )
    explained = [one["word"] == answer["telling"] for one in answer["top"]]
    assert ["explained" in name for name in names[:12]] == explained
    assert sum(explained) == 1


@pytest.mark.parametrize(
    ("scheme", "size"),
    [
        ("light", WIDE),
        ("dark", PHONE),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in (("dark", WIDE), ("light", PHONE))),
    ],
)
def test_axe_finds_nothing_serious(page: Page, scheme: str, size: tuple[int, int]) -> None:
    page.browser.prefer(color_scheme=scheme, reduced_motion="reduce")
    page.browser.resize(size)
    page.open(prefix=PREFIX, word="grande", rival="grand", influence=FEATURE, change=f"1,1,{FEATURE}", model2="softmax")
    page.browser.one(".moved")
    page.browser.until(lambda: page.browser.all(".bars.beside") or None, "the second model")
    page.browser.click("#write")
    written(page)
    background = page.browser.script("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background))) > 600) == (scheme == "light")
    assert page.browser.serious_findings() == []
    page.browser.type("#prefix", "la m")
    page.browser.one("#text .proposals li")
    page.browser.press(Keys.ARROW_DOWN)
    assert page.browser.serious_findings() == []


def test_axe_finds_nothing_serious_on_a_phone_and_in_errors_and_the_button_turns_it_dark(page: Page) -> None:
    page.browser.resize(PHONE)
    page.browser.prefer(reduced_motion="reduce", color_scheme="light")
    page.open(prefix="maisonn est", word="grandee")
    page.browser.one(".left .near")
    page.browser.one(".lost .near")
    assert page.browser.serious_findings() == []
    page.browser.type("#prefix", PREFIX)
    page.browser.one(".bar")
    assert page.browser.text("#theme") == "Switch to dark"
    page.browser.click("#theme")
    try:
        assert page.browser.text("#theme") == "Switch to light"  # what it will do, not what it has done
        assert page.browser.script("return getComputedStyle(document.documentElement).colorScheme") == "dark"
        assert page.browser.serious_findings() == []
    finally:
        page.browser.script("localStorage.clear()")


@pytest.mark.parametrize("width", [360, 640])
def test_nothing_is_wider_than_the_screen(page: Page, width: int) -> None:
    """A phone, and an ordinary screen at 200 %."""
    page.browser.resize((width, 800))
    page.open(prefix=PREFIX, word="grande", rival="grand", influence=FEATURE, model2="softmax")
    page.browser.one(".moved")
    page.browser.until(lambda: page.browser.all(".bars.beside") or None, "the second model")
    assert page.browser.script("return document.documentElement.scrollWidth") <= width
    edges = page.browser.script("""
        return [...document.querySelectorAll('main button, main input, main td, main svg')]
          .filter((one) => one.checkVisibility() && one.getBoundingClientRect().right > innerWidth)
          .map((one) => one.outerHTML.slice(0, 120))""")
    assert edges == []


# --- the files --------------------------------------------------------------------------------------------------------


def test_the_files_hold_nothing_that_the_policy_forbids_or_that_needs_a_network() -> None:
    files = {path.name: path.read_text(encoding="utf8") for path in FOLDER.iterdir()}
    assert {"index.html", "style.css", "main.js", "icon.svg"} <= set(files)
    for name, text in files.items():
        elsewhere = re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"']*", text)
        assert set(elsewhere) <= {"http://www.w3.org/2000/svg"}, name
        forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|alert\("
        assert not re.search(forbidden, text), name
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", files["index.html"])


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.js")), ids=lambda path: path.name)
def test_modules_are_short_and_say_what_they_are(path: Path) -> None:
    lines = path.read_text(encoding="utf8").splitlines()
    assert lines[0].startswith("// ")
    assert len(lines) <= 300
    assert [n for n, line in enumerate(lines, 1) if len(line) > 120 or line != line.rstrip() or "\t" in line] == []


def test_a_text_is_typed_with_the_best_words_as_buttons(page: Page) -> None:
    """What is offered is what the API says; Tab takes the first, a click any."""
    page.open(model="french")
    browser = page.browser
    browser.one("#typed").send_keys("la maison est gr")
    words = [one["word"] for one in page.ask("complete", prefix="la maison est", letters="gr")["best"]]
    offered = "return [...document.querySelectorAll('#completions button')].map((one) => one.dataset.word)"
    browser.until(lambda: browser.script(offered) == words or None, "the best words")
    browser.until(lambda: browser.script("return !document.documentElement.dataset.waiting") or None, "quiet")
    browser.one("#typed").send_keys(Keys.TAB)
    text = "return document.getElementById('typed').value"
    assert browser.script(text) == f"la maison est {words[0]} "
    further = [one["word"] for one in page.ask("complete", prefix=f"la maison est {words[0]}")["best"]]
    browser.until(lambda: browser.script(offered) == further or None, "the next words")
    browser.click("#completions button:nth-child(2)")
    browser.until(lambda: browser.script(text) == f"la maison est {words[0]} {further[1]} " or None, "the text")
    assert "saved" in browser.text("#typing-summary")


def treebank(texts: dict[str, str]) -> str:
    """CoNLL-U of texts and their words, which say where blanks stand."""
    made = []
    for text, words in texts.items():
        made.append(f"# text = {text}")
        for number, word in enumerate(words.split(), 1):
            text = text.removeprefix(word)
            misc = "_" if text.startswith(" ") or not text else "SpaceAfter=No"
            made.append("\t".join([str(number), word, *["_"] * 7, misc]))
            text = text.lstrip()
        made.append("")
    return "\n".join(made) + "\n"


@pytest.mark.slow
def test_natural_text_is_typed(window: Browser, tmp_path: Path) -> None:
    """Capitals, apostrophes and full stops are read by the model's tokeniser."""
    texts = {
        "L'homme est parti.": "L' homme est parti .",
        "L'oie est là, dit l'homme.": "L' oie est là , dit l' homme .",
        "Il voit l'oie.": "Il voit l' oie .",
    }
    (tmp_path / "train.conllu").write_text(treebank(texts) * 30, encoding="utf8")
    model = Project.from_config(draft_config([tmp_path / "train.conllu"], out=tmp_path / "c.toml").config).model()
    with running(create_app(Engine([Served("french", model.eval())]))) as address:
        page = Page(window, address)
        page.open(prefix="", most="4")
        for typed, read in (("L'homme est", "l' homme est"), ("L'homme est parti.", "l' homme est parti .")):
            page.browser.type("#prefix", typed)
            page.shows(page.ask("next", prefix=read.split()))
            assert not page.browser.texts("#prefix[aria-invalid]")
        likeliest = page.bars()[0][0]
        page.browser.click(".panel .bar")
        page.explains(f"Why {'end of sentence' if likeliest == '</s>' else likeliest}?")
