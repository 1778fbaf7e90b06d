"""Figures of README.md and docs, filled from the files of docs/results.

    python scripts/figures.py              fill every page, and tell what is wrong with it
    python scripts/figures.py FOLDER       the same, after taking what `llrnn bench --out FOLDER` wrote
    python scripts/figures.py NAME ...     print a figure (`french.best`), a table (`nlg`, `open-vocabulary fr test1`)
                                           or rows of `llrnn bench` (`bench.json layer`)

A figure that was measured stands in a page in one of three ways, and whoever reads the page without this sees the last
value:

- `<!--=french.best-->4.88<!--=-->` is a figure of docs/results/figures.toml, by its name (no blanks inside the mark, so
  that it is one word with its value; not at the beginning of a line, where Markdown would take it for a block);
- between `<!-- table: NAME -->` and `<!-- end of table -->` is a table of docs/results/tables.toml;
- between `<!-- rows: FILE SUITES -->` and `<!-- end of rows -->` are rows of `llrnn bench` (`llrnn_lab.bench.report`).

Both TOML files hold text with `{expression:format}`, as Python's f-strings do. A name in an expression is a file of
docs/results (`bench_xeon` for bench-xeon.json), a function of FUNCTIONS or a shorthand of figures.toml; `.key` and
`["key"]` go down. A table is written as it will look: its head, and rows; lines before a row say for what it stands
(`for name, runs in nlg.items()`) or give something a name (`fine = coarsening.full.fine`).
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import pkgutil
import re
import shutil
import statistics
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from llrnn_lab.bench.report import filled as with_rows
from llrnn_lab.bench.report import times
from llrnn_lab.studies.tables import mean_and_spread, share_cell

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
RESULTS = DOCS / "results"
TAKEN = ("bench.json", "bench.png", "bench-vocabulary.png")
_MARK = re.compile(r"(<!--=(?P<name>[\w.-]+)-->)(?P<shown>.*?)(<!--=-->)", re.DOTALL)
_TABLE = re.compile(r"(<!-- table: (?P<name>[^>]*?) -->\n).*?(<!-- end of table -->)", re.DOTALL)
_MADE = re.compile(r"<!-- (table|rows): [^>]*-->.*?<!-- end of \1 -->", re.DOTALL)
_FIGURE = re.compile(r"(?<![\w:.])(\d+[.,]\d|\d{2,}|\d ?%)")  # not test1, Person:3, "1 if"
_CODE = re.compile(r"`[^`]*`|\]\([^)]*\)")
_GIVEN_A_NAME = re.compile(r"(\w+) = (.*)")


class FigureError(ValueError):
    """A mark that cannot be filled."""


class Part(dict[str, Any]):
    """A part of a file: `.key` is `["key"]`."""

    def __getattr__(self, key: str) -> Any:
        return self[key]

    def __missing__(self, key: str) -> Any:
        raise FigureError(f"there is no {key!r}, there are: {', '.join(self)}")


# --- what an expression may use --------------------------------------------------------------------------------------


def one(rows: Iterable[Any], **wanted: object) -> Any:
    """The only row that has these values."""
    found = [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]
    if len(found) != 1:
        raise FigureError(f"{len(found)} rows have {wanted}, one should")
    return found[0]


def row(of: Any, name: str) -> Any:
    """A row of a run of `llrnn bench`, by its name."""
    return one((found for suite in of.suites.values() for found in suite.rows), name=name)


def span(values: Iterable[float], digits: int = 2) -> str:
    given = [*values]
    return f"{min(given):.{digits}f} to {max(given):.{digits}f}"


def joined(values: Iterable[float], form: str, by: str = ", ") -> str:
    return by.join(format(value, form) for value in values)


def cells(values: Iterable[object]) -> str:
    return " | ".join(map(str, values))


def spread(values: Iterable[float], digits: int = 3) -> str:
    """The mean, ± the standard deviation where values differ."""
    return mean_and_spread([*values], digits)


FUNCTIONS: dict[str, Any] = {
    **{function.__name__: function for function in (one, row, span, joined, cells, spread, times, share_cell)},
    "mean": statistics.fmean,
    "sd": statistics.stdev,
    "median": statistics.median,
    "exp": math.exp,
    "DOCS": DOCS,
}


@functools.cache
def read(name: str) -> Any:
    """A file of docs/results, by the name that expressions give it."""
    return json.loads((RESULTS / f"{name.replace('_', '-')}.json").read_text(encoding="utf8"), object_hook=Part)


@functools.cache
def written(name: str) -> Part:
    """figures.toml, tables.toml."""
    return Part(tomllib.loads((RESULTS / f"{name}.toml").read_text(encoding="utf8")))


@functools.cache
def names() -> dict[str, Any]:
    """Whatever an expression can name."""
    files = {path.stem.replace("-", "_") for path in RESULTS.glob("*.json")}
    found = FUNCTIONS | {name: read(name) for name in files}
    for name, text in written("figures")["shorthand"].items():
        found[name] = eval(text, found)
    return found


def evaluated(expression: str, known: dict[str, Any]) -> Any:
    try:
        return eval(expression, known)
    except FigureError:
        raise
    except Exception as error:
        raise FigureError(f"{type(error).__name__}: {error}, in {expression}") from None


# --- figures and tables ----------------------------------------------------------------------------------------------


def figures() -> Iterator[tuple[str, str, str]]:
    """Name, text and law ("> 1", or nothing) of each figure."""
    for group, members in written("figures")["figures"].items():
        for name, given in members.items():
            yield f"{group}.{name}", *((given, "") if isinstance(given, str) else (given["of"], given["law"]))


def figure(name: str) -> str:
    """What a mark shows."""
    found = {one: text for one, text, _ in figures()}
    if name not in found:
        raise FigureError(f"figures.toml has no {name!r}; near it are: {', '.join(_near(name, found))}")
    return str(evaluated(f"rf'''{found[name]}'''", names()))


def _near(name: str, known: Iterable[str]) -> list[str]:
    group = name.partition(".")[0]
    return [one for one in known if one.startswith(f"{group}.")] or sorted({one.partition(".")[0] for one in known})


def table(asked: str) -> str:
    """A table of tables.toml; words behind its name are `given` to it, or name rows of one that a function makes."""
    name, *given = asked.split()
    template = written("tables")[name]
    if isinstance(template, dict):
        lines = pkgutil.resolve_name(template["function"])(names()[template["of"]]).strip().splitlines()
        return "\n".join(line for n, line in enumerate(lines) if n < 2 or not given or _begins(line, given))
    known, loop, lines = names() | {"given": given}, "", list[str]()
    for line in template.strip().splitlines():
        if line.startswith("|"):
            lines += evaluated(f"[rf'''{line}''' {loop}]", known)
            loop = ""
        elif naming := _GIVEN_A_NAME.fullmatch(line):
            known[naming[1]] = evaluated(naming[2], known)
        else:
            loop += f" {line}"
    return "\n".join([lines[0], "|" + " --- |" * (lines[0].count(" | ") + 1), *lines[1:]])


def _begins(line: str, given: list[str]) -> bool:
    """Whether the first cell of a row is one of these, with - for blanks."""
    return line.split(" | ")[0].removeprefix("| ").replace(" ", "-") in given


def filled(text: str) -> str:
    """The page with its figures and tables as the files have them."""
    text = _MARK.sub(lambda found: f"{found[1]}{_of_mark(found, figure)}{found[4]}", text)
    text = _TABLE.sub(lambda found: f"{found[1]}\n{_of_mark(found, table)}\n\n{found[3]}", text)
    return with_rows(text, RESULTS)


def _of_mark(found: re.Match[str], made: Any) -> str:
    try:
        return str(made(found["name"]))
    except FigureError as error:
        raise FigureError(f"{found['name']}: {error}") from None


def marked(name: str) -> str:
    """What a page holds where a table, or rows of `llrnn bench`, shall stand."""
    kind = "rows" if ".json" in name else "table"
    return f"<!-- {kind}: {name} -->\n<!-- end of {kind} -->\n"


def plain(text: str) -> str:
    """The page as it is read: without the marks."""
    return _MARK.sub(r"\g<shown>", text)


# --- what is wrong ---------------------------------------------------------------------------------------------------


def pages() -> dict[str, Path]:
    """README.md and all of docs, by name."""
    return {"README.md": ROOT / "README.md"} | {
        str(path.relative_to(DOCS)): path for path in sorted(DOCS.rglob("*.md"))
    }


def complaints() -> Iterator[str]:
    """Everything in the pages that the files do not say, and names that no page needs."""
    texts = {name: path.read_text(encoding="utf8") for name, path in pages().items()}
    for name, text in texts.items():
        yield from (f"{name}: {what}" for what in of_page(name, text))
    yield from broken_laws()
    yield from unused("".join(texts.values()))


def of_page(name: str, text: str) -> Iterator[str]:
    try:
        if filled(text) != text:
            yield f"not as the files have it: {', '.join(changed(text))}; python scripts/figures.py fills it"
    except FigureError as error:
        yield str(error)
    for line in re.findall(r"^<!--=.*", text, re.MULTILINE):
        yield f"a mark begins a line, which Markdown takes for a block: {line}"
    listed = written("figures")["without_a_file"].get(name, {})
    for given in listed:
        if _one_line(given) not in _one_line(text):
            yield f"no longer says what has no file (figures.toml): {given}"
    if name not in written("figures")["not_measured"]:
        yield from (f"a figure without a mark: {line}" for line in without_a_source(text, listed))


def changed(text: str) -> list[str]:
    """Marks whose value is another one now."""
    marks = {found["name"] for found in _MARK.finditer(text) if figure(found["name"]) != found["shown"]}
    tables = {found["name"] for found in _TABLE.finditer(text) if table(found["name"]) not in found[0]}
    return [*sorted(marks), *sorted(tables)] or ["rows of llrnn bench"]


def without_a_source(text: str, listed: Iterable[str]) -> Iterator[str]:
    """Lines of tables with a number that no mark, made table or code gives, and that is not listed either."""
    for line in _MADE.sub("", text).splitlines():
        left = _CODE.sub("", _MARK.sub("", line))
        for given in (*listed, *written("figures")["settings"]):
            left = left.replace(given, "")
        if line.startswith("|") and _FIGURE.search(left):
            yield line


def broken_laws() -> Iterator[str]:
    """Figures of which the words around them are no longer true."""
    for name, _, law in figures():
        with contextlib.suppress(FigureError):  # which its pages are told
            if law and not eval(f"{figure(name)} {law}"):
                yield f"figures.toml: {name} is {figure(name)}, and what pages say of it is true of {law} only"


def unused(pages_together: str) -> Iterator[str]:
    """Names that no page has, files that nothing reads."""
    marks, tables = ({found["name"] for found in mark.finditer(pages_together)} for mark in (_MARK, _TABLE))
    yield from (f"figures.toml: no page has {name}" for name, _, _ in figures() if name not in marks)
    shown = {name.split()[0] for name in (*tables, *written("tables").get("site", ()))}
    yield from (f"tables.toml: no page has {name}" for name in written("tables") if name not in {*shown, "site"})
    expressions = "".join((RESULTS / f"{name}.toml").read_text(encoding="utf8") for name in ("figures", "tables"))
    for path in RESULTS.iterdir():
        named = path.suffix == ".json" and re.search(rf"\b{path.stem.replace('-', '_')}\b", expressions)
        if path.name not in pages_together and not named:
            yield f"docs/results/{path.name}: nothing uses it"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def printed(asked: str) -> str:
    """A figure, a table or rows, by the name that a page has for it."""
    name = asked.split()[0]
    if "." in name and not name.endswith(".json"):
        return figure(name)
    return "\n".join(filled(marked(asked)).splitlines()[2:-2])


def main() -> None:
    asked = sys.argv[1:]
    if asked and not Path(asked[0]).is_dir():
        try:
            print(printed(" ".join(asked)))  # noqa: T201
        except FigureError as error:
            sys.exit(str(error))
        return
    for name in TAKEN if asked else ():
        shutil.copyfile(Path(asked[0]) / name, RESULTS / name)
    for path in pages().values():
        with contextlib.suppress(FigureError):  # which is among the complaints
            path.write_text(filled(path.read_text(encoding="utf8")), encoding="utf8")
    sys.exit("\n".join(complaints()) or None)


if __name__ == "__main__":
    main()
