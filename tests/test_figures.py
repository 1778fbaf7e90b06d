"""Figures of README.md and docs: each is that of a file in docs/results, or is listed as one without a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

import figures

AT_MOST = 14  # figures without a file: more of them belong into a file, or out of the page


@pytest.fixture
def table4() -> Iterator[Any]:
    """A file that a test may change: it is read again afterwards."""
    yield figures.names()["table4"]
    figures.read.cache_clear()
    figures.names.cache_clear()


def test_the_pages_say_what_the_files_say() -> None:
    """Every page is as the files fill it, every cell with a number has a source, every name and file is used."""
    assert not [*figures.complaints()], "python scripts/figures.py fills the pages, and tells what else to change"


def test_figures_without_a_file_are_few_and_say_why() -> None:
    listed = {text: why for page in figures.written("figures")["without_a_file"].values() for text, why in page.items()}
    assert len(listed) <= AT_MOST, listed
    assert all(listed.values())


def test_a_file_that_says_something_else_is_told(table4: Any) -> None:
    """By the tables, and by the sentences that quote the same figure."""
    for run in table4["best"]:
        run["tests"]["test1"]["log_perplexity"] += 0.1
    told = "\n".join(figures.complaints())
    assert re.search("^results/french.md: not as the files have it: .*table4", told, re.MULTILINE)
    assert re.search("^results/index.md: not as the files have it: french.best;", told, re.MULTILINE)
    assert re.search("^morphology.md: not as the files have it: french.best3;", told, re.MULTILINE)
    assert figures.filled("| <!--=french.best-->4.88<!--=--> |") == "| <!--=french.best-->4.98<!--=--> |"


def test_words_that_are_no_longer_true_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ("training.adaptive-n1", "< 1") in [(name, law) for name, _, law in figures.figures()]
    monkeypatch.setattr(figures, "figure", lambda name: "1.07")
    assert any(line.startswith("figures.toml: training.adaptive-n1 is 1.07") for line in figures.broken_laws())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "<!--=french.bets-->4.88<!--=-->",
            "french.bets: figures.toml has no 'french.bets'; near it are: .*french.best",
        ),
        ("a\n<!-- table: nolg -->\n<!-- end of table -->", "nolg: there is no 'nolg', there are: .*nlg"),
        ("in <!--=layer.version-->0.0<!--=-->", "not as the files have it: layer.version;"),
        ("<!--=layer.version-->0.1.0<!--=--> is it", "a mark begins a line"),
    ],
)
def test_what_is_wrong_with_a_mark_is_one_line(text: str, told: str) -> None:
    assert any(re.match(told, line) for line in figures.of_page("index.md", text))


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("{table4.worst}", "there is no 'worst', there are: .*best"),
        ("{row(bench, 'layer').ratio}", "0 rows have {'name': 'layer'}, one should"),
        ("{one(experts.rows, name='experts').valid}", "3 rows have .*, one should"),
        ("{mean(table4.best)}", "TypeError: .*, in "),
    ],
)
def test_an_expression_without_a_value_says_what_there_is(expression: str, told: str) -> None:
    with pytest.raises(figures.FigureError, match=told):
        figures.evaluated(f"f'''{expression}'''", figures.names())


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("| a | 1.5 times faster |", True),
        ("| a | 12 |", True),
        ("| a | 7 % |", True),
        ("| <!--=a.b-->3.5<!--=--> | listed: 4.5 |", False),
        ("| <!--=a.b-->3.5<!--=--> | 5.5 |", True),
        ("| test1 | Person:3 | `--rows 64` | 1 if it is so |", False),
        ("not a table: 17.3", False),
    ],
)
def test_a_cell_with_a_figure_needs_a_source(line: str, told: bool) -> None:
    assert [*figures.without_a_source(f"words\n{line}\n", ["listed: 4.5"])] == [line] * told


def test_tables_between_the_marks_are_made() -> None:
    text = "above\n<!-- table: adaptation 1018 -->\n| old | 99.9 |\n<!-- end of table -->\nbelow\n"
    made = figures.filled(text)
    assert made.startswith("above\n<!-- table: adaptation 1018 -->\n\n| words of the domain |")
    assert made.endswith("\n\n<!-- end of table -->\nbelow\n")
    assert "| 1,018 | 5.486 |" in made
    assert "99.9" not in made
    assert "2,020" not in made
    assert figures.filled(made) == made
    assert not [*figures.without_a_source(made, [])]


def test_a_name_or_a_file_that_nothing_uses_is_told() -> None:
    told = [*figures.unused("")]
    assert "figures.toml: no page has french.best" in told
    assert "tables.toml: no page has adaptation-rivals" in told
    assert "docs/results/bench.png: nothing uses it" in told


def test_every_mark_is_closed_and_every_file_of_results_is_there() -> None:
    for name, path in figures.pages().items():
        text = path.read_text(encoding="utf8")
        for begun, ended in (
            ("<!--=[^-]", "<!--=-->"),
            ("^<!-- table: ", "^<!-- end of table"),
            ("^<!-- rows: ", "^<!-- end of rows"),
        ):
            assert len(re.findall(begun, text, re.MULTILINE)) == len(re.findall(ended, text, re.MULTILINE)), name
        for file in re.findall(r"docs/results/([\w-]+\.\w+)", text):
            assert (figures.RESULTS / file).is_file(), f"{name}: {file}"


def test_pages_that_name_the_benchmark_say_of_which_version_it_is() -> None:
    version = figures.figure("layer.version")
    assert version == figures.read("bench_xeon").machine.llrnn
    for name, path in figures.pages().items():
        text = path.read_text(encoding="utf8")
        if re.search(r"\bbench(-xeon)?\.json", text):
            assert version in text, f"{name}: bench.json is of version {version}"
