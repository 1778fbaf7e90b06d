"""Minimal pairs in files: TSV, or JSON lines as BLiMP has them; `.gz` behind either.

    il dort .	il dorment .	verb-number	1	0

    {"sentence_good": "il dort .", "sentence_bad": "il dorment .", "UID": "verb-number", "distance": 1}

TSV columns: good, bad, group, and perhaps distance and distractors, empty or `_` where unknown; a first line that
begins with `good TAB bad` is a header. In JSON lines `group` wins over `UID`, `place` may be given, and other keys are
left alone: BLiMP has many. Sentences are split at whitespace.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from os import fspath
from pathlib import Path, PurePath
from typing import Literal, NoReturn

from llrnn.ground.errors import CorpusError
from llrnn.ground.files import write_atomically
from llrnn.inference.pairs.pair import Pair, Words
from llrnn.text.corpus.source import StrPath, read_lines

_HEADER = ("good", "bad", "group", "distance", "distractors")
_Numbers = tuple[int | None, int | None]
_EXTENSIONS: dict[str, Literal["tsv", "jsonl"]] = {".tsv": "tsv", ".jsonl": "jsonl"}


def read_pairs(path: StrPath) -> list[Pair]:
    """All pairs of a file, its format told by the extension; blank lines are skipped."""
    kind = _format_of(path)
    pairs = []
    for number, line in read_lines(path):
        if not line.strip() or (kind == "tsv" and number == 1 and line.split("\t")[:2] == list(_HEADER[:2])):
            continue
        row = _Columns(path, number, line) if kind == "tsv" else _Record(path, number, line)
        pairs.append(row.pair())
    if not pairs:
        raise CorpusError("at least one pair is required, but the file has none; was it written to the end?", path=path)
    return pairs


def write_pairs(path: StrPath, pairs: Iterable[Pair]) -> None:
    """Write what `read_pairs` reads, in the format of the extension. The file is there as a whole or not at all."""
    write = _tsv_line if _format_of(path) == "tsv" else _json_line
    lines = [write(pair) for pair in pairs]
    if not lines:
        raise CorpusError("at least one pair is required, found none; there is nothing to write", path=path)
    header = ["\t".join(_HEADER)] if _format_of(path) == "tsv" else []
    content = "".join(f"{line}\n" for line in [*header, *lines]).encode()
    if fspath(path).endswith(".gz"):
        content = gzip.compress(content, mtime=0)  # the same pairs, the same bytes
    try:
        write_atomically(Path(path), content)
    except OSError as cause:
        raise CorpusError(f"the file cannot be written: {cause.strerror or cause}", path=path) from cause


def _format_of(path: StrPath) -> Literal["tsv", "jsonl"]:
    name = PurePath(path).name.lower().removesuffix(".gz")
    for extension, kind in _EXTENSIONS.items():
        if name.endswith(extension):
            return kind
    known = " or ".join(_EXTENSIONS)
    raise CorpusError(
        f"pairs stand in a file {known} (or with .gz), found {PurePath(path).name!r}; rename it", path=path
    )


def _text(words: Sequence[str]) -> str:
    for word in words:
        if word.split() != [word]:
            raise CorpusError(f"a word with whitespace in it cannot be written, found {word!r}; leave its pair out")
    return " ".join(words)


def _tsv_line(pair: Pair) -> str:
    if any(character in pair.group for character in "\t\r\n"):
        raise CorpusError(f"the name of a group must stand on one line without TABs, found {pair.group!r}; rename it")
    known = ("_" if value is None else str(value) for value in (pair.distance, pair.distractors))
    return "\t".join((_text(pair.good), _text(pair.bad), pair.group, *known))


def _json_line(pair: Pair) -> str:
    fields: dict[str, object] = {"sentence_good": _text(pair.good), "sentence_bad": _text(pair.bad)}
    fields |= {"group": pair.group, "distance": pair.distance, "distractors": pair.distractors, "place": pair.place}
    return json.dumps({key: value for key, value in fields.items() if value is not None}, ensure_ascii=False)


class _Line:
    """One line of a file, with its place for messages."""

    def __init__(self, path: StrPath, number: int, line: str) -> None:
        self.path, self.number, self.line = path, number, line

    def fail(self, column: int, reason: str) -> NoReturn:
        raise CorpusError(reason, path=self.path, line=self.number, column=column)

    def words(self, text: str, column: int, name: str) -> Words:
        return tuple(text.split()) or self.fail(column, f"{name} must have a word, found none; write the sentence")

    def made(self, column: int, good: Words, bad: Words, group: str, numbers: _Numbers, place: int = -1) -> Pair:
        try:
            return Pair(good, bad, group, *numbers, place)
        except CorpusError as cause:
            self.fail(column, cause.reason)


class _Columns(_Line):
    """A line of TSV."""

    def pair(self) -> Pair:
        columns = self.line.split("\t")
        if not 3 <= len(columns) <= len(_HEADER):
            column = len("\t".join(columns[: len(_HEADER)])) + 1
            self.fail(
                column, f"3 to 5 columns separated by a TAB ({' '.join(_HEADER)}) are required, found {len(columns)}"
            )
        starts = [1 + sum(len(text) + 1 for text in columns[:index]) for index in range(len(columns))]
        good, bad = (self.words(columns[i], starts[i], _HEADER[i]) for i in range(2))
        known = [self.number_in(columns[i], starts[i], _HEADER[i]) for i in range(3, len(columns))]
        distance, distractors = [*known, None, None][:2]
        return self.made(starts[1], good, bad, columns[2].strip(), (distance, distractors))

    def number_in(self, text: str, column: int, name: str) -> int | None:
        if text.strip() in ("", "_"):
            return None
        if not (text.strip().isascii() and text.strip().isdigit() and len(text.strip()) <= 9):
            self.fail(column, f"{name} must be a whole number, or _ where it is unknown, found {text!r}; correct it")
        return int(text)


class _Record(_Line):
    """A line of JSON."""

    def pair(self) -> Pair:
        fields = self.decoded()
        good, bad = (self.sentence(fields, key) for key in ("sentence_good", "sentence_bad"))
        group = fields.get("group", fields.get("UID", ""))
        if not isinstance(group, str):
            self.fail(
                self.column("group" if "group" in fields else "UID"), f"the group must be a string, found {group!r}"
            )
        numbers = self.number_of(fields, "distance"), self.number_of(fields, "distractors")
        place = self.number_of(fields, "place")
        column = self.column("sentence_bad" if place is None else "place")
        return self.made(column, good, bad, group, numbers, place=-1 if place is None else place)

    def decoded(self) -> dict[str, object]:
        try:
            fields = json.loads(self.line)
        except json.JSONDecodeError as cause:
            self.fail(
                cause.pos + 1, f"JSON is required, found a line that is none ({cause.msg}); write one object a line"
            )
        except (RecursionError, ValueError):  # deep nesting, a number of thousands of digits
            self.fail(1, "JSON that Python can decode is required; simplify the line")
        if not isinstance(fields, dict):
            self.fail(1, 'an object such as {"sentence_good": "...", "sentence_bad": "..."} is required; wrap it')
        return fields

    def sentence(self, fields: dict[str, object], key: str) -> Words:
        if key not in fields:
            self.fail(1, f"{key} is required, found {', '.join(map(repr, fields)) or 'nothing'}; add it")
        text = fields[key]
        if not isinstance(text, str):
            self.fail(self.column(key), f"{key} must be a string, found {text!r}; correct it")
        return self.words(text, self.column(key), key)

    def number_of(self, fields: dict[str, object], key: str) -> int | None:
        value = fields.get(key)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            self.fail(self.column(key), f"{key} must be a whole number of at least 0, found {value!r}; correct it")
        return value

    def column(self, key: str) -> int:
        """The decoder forgets where a value stood, so this is where its key is written."""
        return max(self.line.find(json.dumps(key)), 0) + 1
