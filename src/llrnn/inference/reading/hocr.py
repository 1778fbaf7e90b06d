"""What Tesseract saw: hOCR with the choices of its characters, as columns.

    tesseract page.png page -l tur --psm 6 -c lstm_choice_mode=2 hocr

    line -> words -> columns (`lstm_choices`) -> choices (`x_confs`)         S i n e k
                                                                             5 l     h

A column is a place at which Tesseract saw a character. Its confidences are no probabilities, and the first choice need
not be what it wrote: its text is aligned with the columns, so that each says what was written of it, if anything. The
space before a word is a column too, so that words may be joined and cut. A word without choices keeps its characters.

The file is read as a stream, and bounded: bytes, depth, lines, columns; entities of its own are refused.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from xml.parsers import expat
from xml.sax.saxutils import escape

from llrnn.ground.errors import ConfigError, CorpusError, quoted
from llrnn.ground.files import StrPath, read_file

MOST_BYTES = 200_000_000  # a page of a book has half a million
_DEEPEST, _MOST_LINES, _MOST_COLUMNS, _MOST_CHOICES, _LONGEST = 60, 100_000, 2_000, 200, 8
_LINES = frozenset({"ocr_line", "ocr_header", "ocr_caption", "ocr_textfloat"})
_WORD = r"""(<span[^<>]*class=["']ocrx_word["'][^<>]*>(?:<(?:strong|em)>)*)[^<]*?(?=\s*<)"""
_CERTAIN, _SECONDS = 100.0, 600.0  # of a character without a choice; for a page


@dataclass(frozen=True)
class PrintColumn:
    """A place of a line at which a character was seen: choices (character, confidence from 0 to 100) as they stand.

    `written`: what the recogniser's own text has of it, a character or "".

        PrintColumn((("S", 99.1), ("5", 12.0)), "S")
    """

    choices: tuple[tuple[str, float], ...]
    written: str = ""


@dataclass(frozen=True)
class PrintedLine:
    """A line of print: the recogniser's own `text`, and its columns, which are empty where it gave no choices.

    `ends`: for each of its words the number of the column behind its last one; `name`: its id in the file.
    """

    text: str
    columns: tuple[PrintColumn, ...] = ()
    ends: tuple[int, ...] = ()
    name: str = ""


def read_hocr(path: StrPath) -> list[PrintedLine]:
    """Return the lines of a file of hOCR, in order. Raises CorpusError, in one line, for a file that is none.

    `read_hocr("page.hocr")[0].columns[0].choices`
    """
    reader = _Reader(path)
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.CharacterDataHandler, parser.EntityDeclHandler = reader.characters, reader.entity
    try:
        parser.Parse(read_file(path, limit=MOST_BYTES), True)
    except expat.ExpatError as error:
        raise CorpusError(f"hOCR as Tesseract writes it is required, found {error}; is it one?", path=path) from None
    if not reader.is_hocr:
        raise CorpusError("hOCR as Tesseract writes it is required, found no page in it; is it one?", path=path)
    return reader.lines


class _Reader:
    """The handlers of a parser: they keep the open line, word and column, and what is above them as a path of roles."""

    def __init__(self, path: StrPath) -> None:
        self.path, self.lines, self.is_hocr = path, list[PrintedLine](), False
        self._roles: list[str] = []
        self._words: list[tuple[str, list[list[tuple[str, float]]]]] = []
        self._name, self._text, self._columns, self._confidence = "", "", list[list[tuple[str, float]]](), 0.0
        self._choice = ""

    def entity(self, *declared: object) -> None:
        self._fail(f"a file without entities of its own is required, found {quoted(str(declared[0]))}")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        kind, role = attributes.get("class", ""), ""
        if kind == "ocr_page":
            self.is_hocr = True
        elif kind in _LINES:
            role, self._name, self._words = "line", attributes.get("id", ""), []
        elif kind == "ocrx_word":
            role, self._text, self._columns = "word", "", []
        elif kind == "ocrx_cinfo":
            said = re.search(r"x_confs +(\S+)", attributes.get("title", ""))
            role = "choice" if said else "column"
            if said is None:
                self._columns.append([])
            else:
                self._confidence, self._choice = self._number(said[1]), ""
        if len(self._roles) >= _DEEPEST or len(self._columns) > _MOST_COLUMNS or len(self.lines) >= _MOST_LINES:
            self._fail("a page of print is required, found one that is too deep, too long or too wide")
        self._roles.append(role)

    def characters(self, text: str) -> None:
        within = next((role for role in reversed(self._roles) if role), "")
        if within == "choice":
            self._choice += text
        elif within == "word":
            self._text += text

    def end(self, tag: str) -> None:
        role = self._roles.pop()
        if role == "choice" and self._columns:
            if len(self._choice) > _LONGEST or len(self._columns[-1]) >= _MOST_CHOICES:
                self._fail("choices of a character are required, found too many, or too long ones")
            self._columns[-1].append((self._choice, self._confidence))
        elif role == "word":
            self._words.append((" ".join(self._text.split()), self._columns))
            if sum(len(columns) for _, columns in self._words) > _MOST_COLUMNS:
                self._fail("a line of print is required, found one that is too wide")
            self._columns = []
        elif role == "line":
            self.lines.append(printed_line(self._words, self._name))

    def _number(self, text: str) -> float:
        try:
            found = float(text)
        except ValueError:
            found = math.nan
        if not 0 <= found <= 1000:
            self._fail(f"confidences from 0 to 100 are required, found {quoted(text)}")
        return min(found, _CERTAIN)

    def _fail(self, reason: str) -> None:
        raise CorpusError(f"{reason}; correct it, or leave it out", path=self.path)


def printed_line(words: Sequence[tuple[str, Sequence[Sequence[tuple[str, float]]]]], name: str = "") -> PrintedLine:
    """Return the line of some words, each its text and its columns of choices.

    printed_line([("Sinek", [[("S", 99.0), ("5", 12.0)], [("l", 60.0), ("i", 58.0)]])])
    """
    text = " ".join(word for word, _ in words)
    columns, ends = list[PrintColumn](), list[int]()
    for number, (word, seen) in enumerate(words):
        shown = f" {word}" if number else word
        given = [[one for one in column if one[0]] for column in seen]
        given = [column for column in given if column]
        if not given:  # nothing to choose from
            given = [[(character, _CERTAIN)] for character in shown]
        written = _written(shown, given)
        columns += [PrintColumn(tuple(column), own) for column, own in zip(given, written, strict=True)]
        ends.append(len(columns))
    without = all(not column for _, seen in words for column in seen)
    return PrintedLine(text, () if without else tuple(columns), tuple(ends), name)


def _written(text: str, columns: Sequence[Sequence[tuple[str, float]]]) -> list[str]:
    """Return what each column has of a text, a character or "", by the cheapest alignment."""
    worst = 9.0
    cost = [[worst * (i + j) for j in range(len(columns) + 1)] for i in range(len(text) + 1)]
    for i, j in ((i, j) for i in range(len(text) + 1) for j in range(len(columns) + 1) if i or j):
        cost[i][j] = min(one for one, *_ in _moves(cost, text, columns, i, j))
    found, i, j = [""] * len(columns), len(text), len(columns)
    while i or j:
        _, i, j, column, character = min(_moves(cost, text, columns, i, j))
        if column >= 0:
            found[column] = character
    return found


def _moves(
    cost: Sequence[Sequence[float]], text: str, columns: Sequence[Sequence[tuple[str, float]]], i: int, j: int
) -> Iterator[tuple[float, int, int, int, str]]:
    if i:
        yield cost[i - 1][j] + 1.0, i - 1, j, -1, ""
    if j:
        yield cost[i][j - 1] + (0.2 if columns[j - 1][0][0] == " " else 0.6), i, j - 1, j - 1, ""
    if i and j:
        rank = next((r for r, (one, _) in enumerate(columns[j - 1]) if one == text[i - 1]), None)
        yield cost[i - 1][j - 1] + (0.7 if rank is None else 0.01 * rank), i - 1, j - 1, j - 1, text[i - 1]


# --- running Tesseract


def recognise(image: Path, language: str, out: Path, *, words: Path | None = None) -> Path:
    """Run Tesseract on the picture of a page, and return the file of hOCR with choices that it writes into `out`.

    `language`: Tesseract's name of it, such as tur, or several as tur+eng; `words`: a list for its own dictionary.
    Raises ConfigError, naming the package, where Tesseract or its language is not installed.

        recognise(Path("page.png"), "tur", Path("out"))
    """
    if not re.fullmatch(r"[A-Za-z][\w/]*(\+[A-Za-z][\w/]*)*", language):
        raise ConfigError(
            f"--lang has Tesseract's names of languages, such as tur or tur+eng, found {quoted(language)}"
        )
    if not image.is_file():
        raise ConfigError(f"{image}: a picture of a page is required, but there is no such file; check the path")
    program = shutil.which("tesseract")
    if program is None:
        packages = " ".join(f"tesseract-ocr-{one}" for one in language.split("+"))
        raise ConfigError(
            f"the program tesseract is not on the path; install it: apt-get install tesseract-ocr {packages}"
        )
    made = out / image.stem
    listed = [] if words is None else ["--user-words", str(words)]
    command = [program, str(image), str(made), "-l", language, "--psm", "6", *listed]
    command += ["-c", "lstm_choice_mode=2", "hocr"]
    try:
        alone = {**os.environ, "OMP_THREAD_LIMIT": "1"}  # its threads wait for one another
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False, env=alone
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(f"{image}: Tesseract found no end in {_SECONDS:.0f} s; leave the page out") from None
    found = made.with_name(made.name + ".hocr")
    if done.returncode or not found.exists():
        said = " ".join(done.stderr.split())
        if lacking := re.search(r"/([\w-]+)\.traineddata", said):
            raise ConfigError(
                f"Tesseract does not know {lacking[1]}; install it: apt-get install tesseract-ocr-{lacking[1]}"
            )
        raise ConfigError(f"{image}: a picture of a page is required; Tesseract said: {quoted(said)}")
    return found


# --- hOCR with other words


def corrected(path: StrPath, words: Sequence[Sequence[str]]) -> str:
    """Return a file of hOCR with these words in the places of its own, line by line; choices stay as they are."""
    text, new = read_file(path, limit=MOST_BYTES).decode(errors="replace"), iter(chain.from_iterable(words))
    return re.sub(_WORD, lambda found: found[1] + escape(next(new, "")), text)
