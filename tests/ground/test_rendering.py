"""What terminals, notebooks and pictures show of explanations, trainings and evaluations."""

from __future__ import annotations

import dataclasses
import io
import json
import math
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from helpers import small_corpus, small_model
from llrnn import LLRNN, LSTM, Records, Vocabulary, contextual, evaluate, explain, features, train
from llrnn.cli import show
from llrnn.cli.options import print_json
from llrnn.ground.errors import CheckpointError, TrainingError
from llrnn.ground.rendering import (
    AT_MOST,
    Bar,
    BarChart,
    Breakdown,
    Chartable,
    Faint,
    LineChart,
    Part,
    Renderable,
    Sheet,
    Strong,
    Term,
    TextTable,
    log_text,
    svg,
    ticks,
    visible,
)
from llrnn.inference.explanation import Comparison, Explanation, compare
from llrnn.inference.pairs import Pair, PairScores
from llrnn.knowledge.backgrounds import Mask, Unigram
from llrnn.training.runs import Record
from strategies import draws

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "\"><script>alert('x')</script>",
    "&amp;",
    "</svg>",
    "[bold]x[/bold]",
    "$\\frac{$",
]
LONG = "un-mot-composé-" * 20
EMPTY = {"line", "circle", "rect", "polyline"}


class Page(HTMLParser):
    """The rows of all tables, the texts of all charts, and every tag; refuses what is not closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.rows: list[list[str]] = []
        self.drawn: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag == "text":
            self.drawn.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in EMPTY
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data
        elif "text" in self.open and "title" not in self.open:
            self.drawn[-1] += data


def page_of(shown: Renderable) -> Page:
    """Self-contained, in every case: nothing runs, nothing is fetched, nothing but what we write is a tag."""
    html = shown._repr_html_()
    page = Page(html)
    allowed = {"div", "b", "span", "table", "tr", "th", "td", "svg", "text", "title", *EMPTY}
    assert {*page.tags} <= allowed
    names = {name for name, _ in page.attributes}
    assert not {name for name in names if name.startswith("on")} | (
        names & {"href", "xlink:href", "src", "class", "id"}
    )
    assert not re.search(
        r"url\(|@import|javascript:|expression\(", " ".join(value or "" for _, value in page.attributes)
    )
    return page


def printed(shown: Renderable | Record, width: int = 200) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, emoji=False).print(shown)
    return out.getvalue()


def explained(
    word: str = "grande", *, log_b: float = -6.5, prefix: tuple[str, ...] = ("la", "maison"), terms: int = 4
) -> Explanation:
    parts = tuple(Term(f"Feature:{i}", (-1) ** i * (terms - i) / 3, 1.0 if i % 2 else 0.5) for i in range(terms))
    total = log_b + sum(term.share for term in parts) - 1.25
    factors = (("Mask", log_b), ("Unigram", -2.0)) if math.isinf(log_b) else ()
    return Explanation(prefix, word, total, log_b, 1.25, parts, factors=factors)


@pytest.fixture(scope="module")
def model() -> LLRNN:
    return small_model(context=[contextual.Repeated(6)])


@pytest.fixture(scope="module")
def words(model: LLRNN) -> list[str]:
    return [word for word in model.vocabulary.words if word.isalpha()]


# --- explanations --------------------------------------------------------------------------------------------------


def number(cell: str) -> float:
    return float(cell)


def test_the_table_of_an_explanation_adds_up(model: LLRNN, words: list[str]) -> None:
    found = explain(model, prefix=" ".join(words[:2]), word=words[5])
    page = page_of(found)
    header, *rows, total = page.rows
    assert header == ["part", "weight a", "value φ", "share"]
    assert [row[0] for row in rows] == ["log b (background)", *(t.name for t in found.terms), "− log Z (normalisation)"]
    assert sum(number(row[3]) for row in rows) == pytest.approx(found.log_p, abs=1e-3)
    assert total == ["sum", "", "", f"{found.total:+.4f}"]
    for row, term in zip(rows[1:], found.terms, strict=False):
        assert number(row[1]) * number(row[2]) == pytest.approx(term.share, abs=1e-3)
    for said in (*words[:2], words[5], f"log p = {found.log_p:.4f}"):
        assert said in page.text


def test_what_a_terminal_shows_is_what_a_notebook_shows(model: LLRNN, words: list[str]) -> None:
    for found in (explain(model, word=words[3]), explain(model, word=words[3], rival=words[8])):
        text, page = printed(found), page_of(found)
        for row in page.rows:
            assert re.search(r"\s+".join(re.escape(cell.strip()) for cell in row if cell), text), row


def test_the_waterfall_ends_at_log_p(model: LLRNN, words: list[str]) -> None:
    found = explain(model, prefix=words[0], word=words[5])
    *parts, total = found.chart().bars
    at = 0.0
    for bar in parts:
        assert bar.start == at
        at = bar.end
    assert at == pytest.approx(found.log_p, abs=1e-4)
    assert (total.name, total.start, total.value, total.is_sum) == ("log p", 0.0, found.total, True)
    assert [bar.value for bar in parts] == [found.log_b, *(term.share for term in found.terms), -found.log_z]
    drawn = page_of(found).drawn
    for bar in found.chart().bars:
        assert log_text(bar.value) in drawn


def rectangles(html: str) -> list[tuple[float, float]]:
    """(left, right) of every bar."""
    found = re.findall(r'<rect x="([\d.-]+)" y="[\d.]+" width="([\d.]+)"', html)
    return [(float(x), float(x) + float(width)) for x, width in found]


def test_bars_are_drawn_where_they_are(model: LLRNN, words: list[str]) -> None:
    """Each bar of the SVG touches the next, and all lengths are to one scale."""
    found = explain(model, prefix=words[0], word=words[5])
    bars = found.chart().bars
    spans = rectangles(found._repr_html_())
    assert len(spans) == len(bars)
    scale = (spans[-1][1] - spans[-1][0]) / abs(bars[-1].value)
    for bar, (left, right) in zip(bars, spans, strict=True):
        assert right - left == pytest.approx(max(1.0, abs(bar.value) * scale), abs=0.2)
        assert 210 <= left < right <= 640
    for (bar, below), (ours, theirs) in zip(pairwise(bars[:-1]), pairwise(spans[:-1]), strict=True):
        end = ours[1] if bar.value >= 0 else ours[0]
        start = theirs[0] if below.value >= 0 else theirs[1]
        assert end == pytest.approx(start, abs=1.1)


def test_a_comparison_adds_up_and_leans_to_its_sides(model: LLRNN, words: list[str]) -> None:
    found = explain(model, prefix=words[0], word=words[5], rival=words[9])
    header, *rows, total = page_of(found).rows
    assert header[2] == "Δφ"
    assert sum(number(row[3]) for row in rows) == pytest.approx(found.log_ratio, abs=1e-3)
    assert total[3] == f"{found.total:+.4f}"
    bars, spans = found.chart().bars, rectangles(found._repr_html_())
    assert all(bar.start == 0.0 for bar in bars)
    zero = next(left for bar, (left, _) in zip(bars, spans, strict=True) if bar.value > 0.1)
    for bar, (left, right) in zip(bars, spans, strict=True):
        assert (left if bar.value >= 0 else right) == pytest.approx(zero, abs=1.1)
    assert any(bar.value > 0 for bar in bars)
    assert any(bar.value < 0 for bar in bars)


@pytest.mark.parametrize("terms", [AT_MOST, AT_MOST + 1, AT_MOST + 30])
def test_small_terms_are_shown_as_one_and_still_add_up(terms: int) -> None:
    found = explained(terms=terms)
    rows = page_of(found).rows
    others = [row for row in rows if "smaller ones" in row[0]]
    assert len(others) == (terms > AT_MOST)
    assert sum(number(row[3]) for row in rows[1:-1]) == pytest.approx(found.log_p, abs=1e-2)
    assert sum(bar.value for bar in found.chart().bars[:-1]) == pytest.approx(found.log_p)
    if others:
        assert others[0][0] == f"{terms - AT_MOST} smaller ones"


def test_a_cell_and_its_string_have_their_own_parts() -> None:
    found = dataclasses.replace(explained("4711"), cell="‹number:digits4›", log_inside=-9.0)
    rows = {row[0]: row[3] for row in page_of(found).rows}
    assert rows["log b of ‹number:digits4›"] == "+2.5000"
    assert rows["4711 among its strings"] == "-9.0000"
    assert found.chart().bars[1].end == pytest.approx(found.log_b)
    other = compare(found, explained("la"))
    assert "4711 is not listed: a string of the cell ‹number:digits4›" in printed(other)
    assert "4711 is not listed" in page_of(other).text


# --- forbidden words -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def masked(words: list[str]) -> LLRNN:
    return small_model(background=Mask(forbidden=words[3:5]) * Unigram.from_corpus(small_corpus()))


def test_a_forbidden_word_is_shown_as_such(masked: LLRNN, words: list[str]) -> None:
    found = explain(masked, word=words[3])
    assert found.total == -math.inf
    page, text = page_of(found), printed(found)
    for shown in (page.text, text):
        assert f"{words[3]}: forbidden by Mask(forbidden=2 symbols), p = 0" in shown
        assert "nan" not in shown
        assert "-inf" not in shown
    assert page.rows[-1] == ["sum", "", "", "forbidden"]
    assert [row[3] for row in page.rows if row[0].strip() == "of it Mask(forbidden=2 symbols)"] == ["forbidden"]
    bars = found.chart().bars
    assert [bar.bounded for bar in bars] == [False, *(True for _ in bars[1:-1]), False]
    assert all(math.isfinite(bar.start) for bar in bars)
    html = found._repr_html_()
    assert "nan" not in html
    assert html.count("stroke-dasharray") == 2
    assert page.drawn.count("forbidden") == 2


def test_comparisons_with_the_forbidden(masked: LLRNN, words: list[str]) -> None:
    possible = explain(masked, word=words[0], rival=words[3])
    assert possible.total == math.inf
    assert page_of(possible).drawn.count("rival forbidden") == 2
    assert f"{words[3]} is forbidden by" in printed(possible)
    impossible = explain(masked, word=words[3], rival=words[0])
    assert page_of(impossible).rows[-1][3] == "forbidden"
    neither = explain(masked, word=words[3], rival=words[4])
    assert math.isfinite(neither.total)
    assert "both are forbidden" in page_of(neither).text
    for found in (possible, impossible, neither):
        assert "nan" not in found._repr_html_()
        assert "nan" not in printed(found)


# --- hostile words -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", [*HOSTILE, LONG, "\x1b[31mrouge\x07", "a\u202egnol", "\ud800", "日本語", "", "👩‍🚀"])
def test_no_word_becomes_markup(word: str) -> None:
    """In the word, the prefix, the rival, a feature, a factor, a cell: everywhere that a name may stand."""
    term = Term(word, 1.0, 2.0)
    hostile = dataclasses.replace(
        explained(word, prefix=(word, "b")), terms=(term, term), cell=word, factors=((word, -math.inf), (word, -1.0))
    )
    rival = dataclasses.replace(explained("sage"), cell=None)
    for found in (hostile, compare(hostile, rival), compare(rival, hostile)):
        page, text = page_of(found), printed(found, width=500)
        assert visible(word) in page.text
        assert visible(word) in text
        assert "\x1b" not in text + page.text
        found._repr_html_().encode("utf8")


@settings(max_examples=draws(30))
@given(
    st.text(max_size=12), st.lists(st.floats(-1e6, 1e6), max_size=4), st.sampled_from([-1e300, -40.0, 0.0, -math.inf])
)
def test_any_name_and_any_number_can_be_shown(name: str, shares: list[float], log_b: float) -> None:
    terms = tuple(Term(name, share, 1.0) for share in shares)
    found = Explanation((name,), name, log_b, log_b, 0.0, terms, factors=((name, log_b),))
    html = found._repr_html_()
    assert "nan" not in html.replace(visible(name), "")
    page_of(found)
    assert printed(found)


# --- charts --------------------------------------------------------------------------------------------------------


def test_nothing_to_draw_is_drawn_all_the_same() -> None:
    for chart in (
        Breakdown((), (), (), 0.0).waterfall("sum", ""),
        Breakdown((Part("a", 0.0),), (), (), 0.0).balance("", ""),
    ):
        assert "nan" not in svg(chart)
        Page(svg(chart))


def test_one_point_is_a_curve() -> None:
    drawn = svg(LineChart({"train": [(1.0, 4.5)]}, "t", "epoch", "nats"))
    assert "nan" not in drawn
    assert drawn.count("<circle") == 1


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.0), (3.9, 5.5), (-8.1, 0.0), (4.0219, 4.0224), (0.0, 123456.0), (1.0, 300.0)]
)
def test_ticks_are_round_and_inside(low: float, high: float) -> None:
    found = ticks(low, high)
    assert 4 <= len(found) <= 11
    assert low <= found[0] < found[-1] <= high
    steps = {round((b - a) / (found[1] - found[0]), 6) for a, b in pairwise(found)}
    assert steps == {1.0}


def test_a_long_name_is_cut_but_can_be_read() -> None:
    drawn = svg(BarChart((Bar(LONG, 1.0),), "", ""))
    page = Page(drawn)
    assert LONG in page.text  # in the title of the label
    assert len(page.drawn[0]) == 25


# --- training ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Records, Path]:
    """A real training, with the folder that it left."""
    folder = tmp_path_factory.mktemp("run") / "x"
    model, text = small_model(loud=0.1), small_corpus()
    batches = {"kind": "sentences", "words": 150}
    records = train(model, text[:40], valid=text[40:], epochs=3, folder=folder, log_every=1, batches=batches)
    return Records(records), folder


def test_records_of_a_run_come_back_from_its_log(run: tuple[Records, Path]) -> None:
    records, folder = run
    assert isinstance(records[0], Record)
    assert Records.read(folder / "log.jsonl") == records
    assert Records.read(str(folder)) == records
    assert [record.event for record in records.epochs] == ["epoch"] * 3
    assert isinstance(records[2:4], Records)
    assert records[-1].event == "end"


def test_learning_curves_are_those_of_the_epochs(run: tuple[Records, Path]) -> None:
    records, _ = run
    losses = [(record.train, record.valid) for record in records.epochs]
    assert records.curves["train"] == [(i + 1.0, train) for i, (train, _) in enumerate(losses)]
    assert records.curves["valid"] == [(i + 1.0, valid) for i, (_, valid) in enumerate(losses)]
    header, *rows = page_of(records).rows
    assert [row[0] for row in rows] == ["epoch 1", "epoch 2", "epoch 3"]
    for row, (loss, valid) in zip(rows, losses, strict=True):
        assert row[header.index("train")] == f"{loss:.4f}"
        assert row[header.index("valid")] == f"{valid:.4f}"
        assert all(cell in printed(records) for cell in row)
    best = min(range(3), key=lambda i: losses[i][1] or 0.0)
    assert records.best == records.epochs[best]
    assert f"best valid {losses[best][1]:.4f} in epoch {best + 1}" in printed(records)
    bold = re.findall(r"<b>(epoch \d)</b>", records._repr_html_())
    assert bold == [f"epoch {best + 1}"]


def test_a_run_that_is_young_shows_its_steps(run: tuple[Records, Path]) -> None:
    records, _ = run
    young = Records(record for record in records if record.event == "step" and record.epoch == 0)
    assert len(young) >= 2
    assert young.curves == {"train": [(record.position / record.batches, record.train) for record in young]}
    assert "batch 1 of" in page_of(young).rows[1][0]
    assert young.best is None
    young.picture()


def test_of_a_long_training_some_epochs_are_shown_the_best_and_the_last_among_them(run: tuple[Records, Path]) -> None:
    first = run[0].epochs[0]
    losses = [abs(i - 57) / 10 + 3 for i in range(100)]
    long = Records(dataclasses.replace(first, epoch=i, valid=loss) for i, loss in enumerate(losses))
    rows = [row[0] for row in page_of(long).rows[1:]]
    assert len(rows) <= 22
    assert {"epoch 1", "epoch 58", "epoch 100"} <= {*rows}
    assert len(long.curves["valid"]) == 100


def test_no_records_are_shown_and_not_drawn() -> None:
    empty = Records()
    assert "no records" in printed(empty)
    assert page_of(empty).rows == []
    with pytest.raises(TrainingError, match="found none among 0 records"):
        empty.picture()


def test_one_record_is_one_line(run: tuple[Records, Path]) -> None:
    records, _ = run
    epoch = records.epochs[0]
    for record in (
        records[0],
        epoch,
        records[-1],
        dataclasses.replace(epoch, event="interrupted", train=None, valid=None),
    ):
        line = printed(record)
        assert line == f"{record}\n"
        assert page_of(record).text == str(record)
    assert str(epoch).startswith(f"epoch 1, train {epoch.train:.4f}, valid {epoch.valid:.4f}, ")
    assert str(records[0]).startswith("epoch 1, batch 1 of ")
    assert str(records[-1]).startswith(f"end, 3 epochs, best {records[-1].best:.4f}")


def test_training_without_validation_has_one_curve() -> None:
    records = Records(train(small_model(loud=0.1), small_corpus()[:20], epochs=2))
    assert list(records.curves) == ["train"]
    assert records.best == records.epochs[-1]
    assert page_of(records).rows[1][3] == ""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{broken", "found no JSON"),
        (b"[]", "a record of training is required"),
        (b"{}", "event: Field required"),
        (b"\xff\xfe", "not UTF-8"),
        (b'{"event": "epoch", "epoch": "two"}', "epoch: Input should be a valid integer"),
    ],
)
def test_a_bad_line_is_named(run: tuple[Records, Path], tmp_path: Path, line: bytes, said: str) -> None:
    good = (run[1] / "log.jsonl").read_bytes().splitlines()[:2]
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"\n".join([*good, line, good[0], b""]))
    with pytest.raises(CheckpointError, match=rf"log\.jsonl:3: .*{re.escape(said)}"):
        Records.read(path)


def test_the_line_that_a_running_training_is_writing_is_left_out(run: tuple[Records, Path], tmp_path: Path) -> None:
    records, folder = run
    data = (folder / "log.jsonl").read_bytes()
    (tmp_path / "log.jsonl").write_bytes(data[:-20])
    assert Records.read(tmp_path) == records[:-1]


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"log\.jsonl: no such file; give the log"):
        Records.read(tmp_path)


# --- evaluation ----------------------------------------------------------------------------------------------------


def test_an_evaluation_is_shown_with_its_audit(model: LLRNN) -> None:
    found = evaluate(model, small_corpus())
    page, text = page_of(found), printed(found, width=500)
    for said in (f"log-perplexity {found.log_perplexity:.4f}", "Σp = 1 within", *found.audit.problems()):
        assert said in page.text
        assert said in text
    bands = {row[0]: row[1:] for row in page.rows}
    for name, part in found.by_frequency.items():
        assert bands[name] == [f"{part.words:,}", f"{part.log_perplexity:.3f}"]
    assert found.audit.problems()
    assert "warning" in page.text


def test_a_sheet_is_what_was_put_in() -> None:
    sheet = Sheet(
        (("plain ", Strong("strong"), Faint(" faint")), TextTable(("a", "b"), (("1", "2"),))), warnings=("beware",)
    )
    html = sheet._repr_html_()
    assert "<b>strong</b>" in html
    assert "opacity" in html
    assert Page(html).rows == [["a", "b"], ["1", "2"]]
    assert Page(html).text.endswith("warning: beware")


# --- figures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", [*HOSTILE, LONG, "a\u202egnol", "x\ny"])
def test_a_picture_is_an_xml_file_of_its_own(word: str, run: tuple[Records, Path]) -> None:
    hostile = dataclasses.replace(explained(word, prefix=(word,)), terms=(Term(word, 1.0, 1.0),))
    for found in (hostile, compare(hostile, explained("sage")), run[0]):
        assert isinstance(found, Chartable)
        picture = ElementTree.fromstring(found.picture())
        assert picture.tag == "{http://www.w3.org/2000/svg}svg"
        (style,) = picture.findall("{http://www.w3.org/2000/svg}style")
        picture.remove(style)  # its own colours, no word of anybody's
        assert "".join(picture.itertext()).strip() == "".join(ElementTree.fromstring(svg(found.chart())).itertext())


def test_data_stays_data() -> None:
    """Showing adds no field: JSON, equality and copies are as before."""
    found = explained()
    assert set(json.loads(json.dumps(dataclasses.asdict(found)))) >= {"word", "log_p", "terms"}
    assert found == explained()
    assert not isinstance(found, Comparison)


NASTY = ["\x1b]0;owned\x07", "\x1b[2J", "\x9b2J", "\x85", "a\u202eb\u2066c", "\r\x08\x7f"]


@pytest.mark.parametrize("word", NASTY)
def test_what_a_terminal_would_obey_is_shown_as_text(word: str) -> None:
    """Colours are rich's own; of the word nothing is left that is no visible character."""
    for said in (
        word,
        f"[bold]{escape(word)}[/]",
        Text(word, "bold"),
        Sheet(((word,), TextTable((word,), ((word,),)))),
    ):
        file = io.StringIO()
        console = show.VisibleConsole(file=file, force_terminal=True, color_system="standard", highlight=False)
        console.print(said, soft_wrap=True)
        left = re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue()).replace("\n", "")
        assert visible(left) == left
        assert all(sign in left for sign in word if sign.isalnum())


@pytest.mark.parametrize("word", NASTY)
def test_json_says_the_same_and_steers_nothing(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"word": word, "é": "日本"})
    written = capsys.readouterr().out
    assert json.loads(written) == {"word": word, "é": "日本"}
    assert visible(written.replace("\n", "")) == written.replace("\n", "")
    assert "日本" in written


def test_the_consoles_of_the_command_line_are_such() -> None:
    assert isinstance(show.out, show.VisibleConsole)
    assert isinstance(show.err, show.VisibleConsole)


def test_print_shows_what_the_terminal_shows() -> None:
    """`print(explanation)` printed the fields of a dataclass; a word of a corpus never moves the cursor."""
    found = explained("gran\x1b[2Jde")
    assert str(found).split() == printed(found, 120).replace("\x1b", "\ufffd").split()
    assert "log b (background)" in str(found)
    assert "\x1b" not in str(found)
    assert repr(found).startswith("Explanation(")


def test_a_model_shows_as_a_table_of_what_it_is() -> None:
    corpus = small_corpus()
    vocabulary = Vocabulary.from_corpus(corpus)
    own = {"background": Unigram.from_corpus(corpus), "contextual": [contextual.Repeated()]}
    model = LLRNN(vocabulary, output_features=features.Suffixes(2), controller=LSTM(4), **own)  # type: ignore[arg-type]
    page = Page(model._repr_html_())
    told = dict(page.rows[1:])
    assert told["words"].startswith(f"{len(vocabulary.words):,} in {model.output_features.n_classes:,} classes")
    assert told["features"] == f"{len(model.output_features.names):,} Suffixes"
    assert told["background"] == repr(model.background)
    assert told["contextual"] == repr(model.contextual[0])
    assert told["parameters"] == f"{sum(one.numel() for one in model.parameters()):,}"
    assert "domains" not in told  # where there is none, nothing is said


def test_minimal_pairs_show_their_accuracies_as_text_and_as_html(capsys: pytest.CaptureFixture[str]) -> None:
    pairs = (Pair(("a",), ("b",), "<b>", 1), Pair(("c",), ("d",), "other", 7))
    scores = PairScores(pairs, (-1.0, -2.0), (-2.0, -1.0), left_out=pairs[:1])
    html = scores._repr_html_()
    rows = [row[0] for row in Page(html).rows]
    assert rows == ["group", "<b>", "other", "distance", "1", "5+"]
    assert "1 pairs have words that the vocabulary does not list" in html
    show.pairs("own", scores)
    printed = capsys.readouterr().out
    assert printed.startswith("own: the grammatical sentence is preferred in 50.0%")
    assert str(scores).partition("\n")[2] == printed.partition("\n")[2].rstrip("\n")
