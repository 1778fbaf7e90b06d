"""Figures of README.md and docs: each is that of a file in docs/results, or is listed as one without a file."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import figures
import results
from statements import WITHOUT_A_FILE

AT_MOST = 14  # figures without a file: more of them belong into a file, or out of the page


@pytest.fixture(autouse=True)
def _files_are_read_again() -> Iterator[None]:
    yield
    results.read.cache_clear()


def test_the_pages_say_what_the_files_say() -> None:
    assert not [*figures.complaints()], "python scripts/figures.py makes the tables anew, and tells what else to change"


def test_figures_without_a_file_are_few_and_say_why() -> None:
    listed = {text: why for page in WITHOUT_A_FILE.values() for text, why in page.items()}
    assert len(listed) <= AT_MOST, listed
    assert all(listed.values())


def test_a_file_that_says_something_else_is_told() -> None:
    """By the tables, and by the sentences that quote the same figure."""
    for run in results.read("table4.json")["best"]:
        run["tests"]["test1"]["log_perplexity"] += 0.1
    told = "\n".join(figures.complaints())
    assert "experiments.md: its tables are not those of docs/results" in told
    assert "measured.md: does not say what the files say: | 4.98 against 5.51 (test1, three seeds)" in told
    assert "morphology.md: does not say what the files say: | French (test1, three seeds) | 5.513 | 4.978" in told


def test_a_page_that_says_something_else_is_told() -> None:
    page = "it takes 1.23\nseconds"
    assert figures.missing(page, ["it takes 1.23 seconds"]) == []
    assert figures.missing(page, ["it takes 1.24 seconds"]) == ["it takes 1.24 seconds"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("| a | 1.5 times faster |", True),
        ("| a | 12 |", True),
        ("| a | 7 % |", True),
        ("| 3.5 | 4.5 |", False),  # the statements share the bar between the cells
        ("| 3.5 | 4.5 | 5.5 |", True),
        ("| test1 | Person:3 | `--rows 64` | 1 if it is so |", False),
        ("not a table: 17.3", False),
    ],
)
def test_a_cell_with_a_figure_needs_a_source(line: str, told: bool) -> None:
    assert [*figures.without_a_source(f"words\n{line}\n", ["| 3.5 |", "| 4.5 |"])] == [line] * told


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


def test_every_mark_is_closed_and_every_file_of_results_is_there() -> None:
    for name, path in figures.pages().items():
        text = path.read_text(encoding="utf8")
        for kind in ("table", "rows"):
            begun, ended = (
                re.findall(rf"^<!-- {mark}", text, re.MULTILINE) for mark in (f"{kind}: ", f"end of {kind}")
            )
            assert len(begun) == len(ended), name
        for file in re.findall(r"docs/results/([\w-]+\.\w+)", text):
            assert (results.RESULTS / file).is_file(), f"{name}: {file}"


def test_every_file_of_results_stands_in_a_page() -> None:
    pages = "".join(path.read_text(encoding="utf8") for path in figures.pages().values())
    for path in results.RESULTS.iterdir():
        assert path.name in pages, f"{path.name} is in no page: name it there, or remove it"


def test_pages_that_name_the_benchmark_say_of_which_version_it_is() -> None:
    for name, path in figures.pages().items():
        text = path.read_text(encoding="utf8")
        if re.search(r"\bbench(-xeon)?\.json", text):
            assert results.version() in text, f"{name}: bench.json is of version {results.version()}"
