"""Figures of README.md and docs, held to the files of docs/results: python scripts/figures.py [FOLDER]

A figure that was measured stands in a page in one of three ways, and tests/test_figures.py holds each to its file:

- between `<!-- table: NAME -->` and `<!-- end of table -->` is a table that TABLES makes;
- between `<!-- rows: FILE SUITES -->` and `<!-- end of rows -->` are rows of `llrnn bench` (`llrnn_lab.bench.report`);
- everywhere else it is part of a sentence or of a cell that `statements.py` makes from the file.

What has no file is listed in `statements.WITHOUT_A_FILE`, with the reason. A cell of a table with a number that none of
these knows is an error. This command makes the tables anew and tells what else a page has to say. With the folder of a
run (`llrnn bench --out FOLDER`), its bench.json and pictures are taken into docs/results first.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import gpu_tables
import study_tables
from llrnn_lab.bench.report import filled as with_rows
from results import DOCS, RESULTS, ROOT
from statements import NOT_MEASURED, STATEMENTS, WITHOUT_A_FILE

TAKEN = ("bench.json", "bench.png", "bench-vocabulary.png")
TABLES: dict[str, Callable[..., str]] = {
    name.replace("_", "-"): getattr(module, name)
    for module, names in (
        (study_tables, study_tables.SHOWN),
        (gpu_tables, gpu_tables.SHOWN),
    )
    for name in names
}
_TABLE = re.compile(r"(<!-- table: (?P<name>[^>]*?) -->\n).*?(<!-- end of table -->)", re.DOTALL)
_MADE = re.compile(r"<!-- (table|rows): [^>]*-->.*?<!-- end of \1 -->", re.DOTALL)
_FIGURE = re.compile(r"(?<![\w:.])(\d+[.,]\d|\d{2,}|\d ?%)")  # not test1, Person:3, "1 if"
_CODE = re.compile(r"`[^`]*`|\]\([^)]*\)")


def pages() -> dict[str, Path]:
    """README.md and all of docs, by name."""
    return {"README.md": ROOT / "README.md"} | {
        str(path.relative_to(DOCS)): path for path in sorted(DOCS.rglob("*.md"))
    }


def filled(text: str) -> str:
    """The page with its tables made anew."""

    def made(found: re.Match[str]) -> str:
        name, *arguments = found["name"].split()
        return f"{found[1]}\n{TABLES[name](*arguments).strip()}\n\n{found[3]}"

    return with_rows(_TABLE.sub(made, text), RESULTS)


def missing(text: str, stated: Iterable[str]) -> list[str]:
    """What the page does not say, wherever it breaks its lines."""
    shown = _one_line(text)
    return [one for one in stated if _one_line(one) not in shown]


def without_a_source(text: str, stated: Iterable[str]) -> Iterator[str]:
    """Lines of tables with a number that neither a made table nor a statement gives."""
    known = [*map(_one_line, stated)]
    for line in _MADE.sub("", text).splitlines():
        if line.startswith("|") and _FIGURE.search(_CODE.sub("", _without(_one_line(line), known))):
            yield line


def _without(line: str, known: Iterable[str]) -> str:
    """The line, blank where it says what is known; statements may share the bar between two cells."""
    left = [*line]
    for one in known:
        for found in re.finditer(re.escape(one), line):
            left[found.start() : found.end()] = " " * len(one)
    return "".join(left)


def complaints() -> Iterator[str]:
    """Everything in the pages that the files do not say."""
    for name, path in pages().items():
        text = path.read_text(encoding="utf8")
        stated, alone = [*STATEMENTS.get(name, list)()], [*WITHOUT_A_FILE.get(name, {})]
        if filled(text) != text:
            yield f"{name}: its tables are not those of docs/results; python scripts/figures.py makes them anew"
        for one in missing(text, stated):
            yield f"{name}: does not say what the files say: {one}"
        for one in missing(text, alone):
            yield f"{name}: no longer says what has no file (statements.WITHOUT_A_FILE): {one}"
        if name not in NOT_MEASURED:
            for line in without_a_source(text, [*stated, *alone]):
                yield f"{name}: a figure without a file (see scripts/figures.py): {line}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def main() -> None:
    for folder in sys.argv[1:2]:
        for name in TAKEN:
            shutil.copyfile(Path(folder) / name, RESULTS / name)
    for path in pages().values():
        text = path.read_text(encoding="utf8")
        path.write_text(filled(text), encoding="utf8")
    sys.exit("\n".join(complaints()) or None)


if __name__ == "__main__":
    main()
