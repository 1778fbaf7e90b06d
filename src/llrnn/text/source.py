"""A text file as numbered lines: UTF-8, gzip unpacked on the fly, every fault named by its place; tokens and sentences.

Lines end with LF or CRLF and are handed out without it; a byte order mark is dropped. Columns are counted in
characters, from 1. The file is decoded block by block, which is faster than line by line; only a block with a
fault is gone through again, line by line, so that the lines before the fault are still handed out.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from os import fspath
from types import MappingProxyType
from typing import NoReturn

from llrnn.ground.errors import CorpusError, PlacedError
from llrnn.ground.files import StrPath, open_file

_BLOCK = 1 << 20
_HEAD = 512  # enough for every signature below
_GZIP = b"\x1f\x8b"
_UTF8_MARK = b"\xef\xbb\xbf"
_NOTHING: Mapping[str, str] = MappingProxyType({})

# (offset, signature, what it is, what to do)
_SIGNATURES = (
    (0, b"PK\x03\x04", "a zip archive", "unpack it first"),
    (0, b"PK\x05\x06", "a zip archive", "unpack it first"),
    (0, _GZIP, "a gzip file inside a gzip file", "unpack it once first"),
    (4, b"1AY&SY", "a bzip2 file", "unpack it first (bunzip2)"),
    (0, b"\xfd7zXZ\x00", "an xz file", "unpack it first (unxz)"),
    (0, b"\x28\xb5\x2f\xfd", "a zstd file", "unpack it first (unzstd)"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it first"),
    (0, b"Rar!\x1a\x07", "a rar archive", "unpack it first"),
    (257, b"ustar", "a tar archive", "unpack it first"),
    (0, b"%PDF-", "a PDF document", "extract its text first"),
    (0, b"{\\rtf", "an RTF document", "save it as plain text first"),
    (0, b"\xd0\xcf\x11\xe0", "an old Office document", "save it as plain text first"),
    (0, b"\x89PNG", "a PNG image", "give a text file"),
    (0, b"\xff\xd8\xff", "a JPEG image", "give a text file"),
    (0, b"GIF8", "a GIF image", "give a text file"),
    (0, b"\x7fELF", "a program", "give a text file"),
    (0, b"SQLite format 3", "an SQLite database", "export it as text first"),
    (0, b"\x93NUMPY", "a NumPy array", "give a text file"),
    (0, b"\xff\xfe\x00\x00", "UTF-32 text", "convert it first: iconv -f UTF-32 -t UTF-8"),
    (0, b"\xff\xfe", "UTF-16 text", "convert it first: iconv -f UTF-16 -t UTF-8"),
    (0, b"\xfe\xff", "UTF-16 text", "convert it first: iconv -f UTF-16 -t UTF-8"),
)

_REASONS: dict[type[OSError], str] = {
    FileNotFoundError: "a file is required, but there is none of this name; check the path",
    IsADirectoryError: "a file is required, but this is a folder; name a file in it",
    PermissionError: "permission denied: this user may not read the file; change its mode or owner",
}
_FAULTS = {
    b"\0": "text is required, but here is a NUL byte; is it a binary file, or UTF-16 (convert with iconv)?",
    b"\r": "lines must end with LF or CRLF, but here is a carriage return alone; convert the line ends",
}


def read_lines(path: StrPath, *, error: type[PlacedError] = CorpusError) -> Iterator[tuple[int, str]]:
    """(line number from 1, line) for each line of the file at `path`; a fault is raised as an `error`."""
    done = 0
    try:
        with open_file(path) as file:
            # unpacked by its first bytes, because names lie
            stream: io.BufferedIOBase = gzip.GzipFile(fileobj=file) if file.peek(2)[:2] == _GZIP else file
            head = stream.read(_HEAD)
            _check_head(head, path, error)
            for block in _blocks_of_lines(head.removeprefix(_UTF8_MARK), stream):
                lines = _decoded(block)
                if lines is None:
                    yield from _lines_until_fault(block, done, path, error)
                else:
                    yield from enumerate(lines, done + 1)
                    done += len(lines)
    except (EOFError, zlib.error, gzip.BadGzipFile) as cause:
        reason = "a whole gzip file is required, but this one is"
        state = "cut short" if isinstance(cause, EOFError) else f"damaged ({cause})"
        raise error(f"{reason} {state}; fetch or compress it anew", path=path, line=done + 1) from cause
    except OSError as cause:
        reason = _REASONS.get(type(cause), f"the file cannot be read: {cause.strerror or cause}")
        raise error(reason, path=cause.filename or path, line=done or None) from cause


def _check_head(head: bytes, path: StrPath, error: type[PlacedError]) -> None:
    if not head.removeprefix(_UTF8_MARK):
        raise error("text is required, but the file is empty; was it written to the end?", path=path)
    for offset, signature, what, remedy in _SIGNATURES:
        if head.startswith(signature, offset):
            raise error(f"text is required, but this looks like {what}; {remedy}", path=path, line=1, column=1)


def _blocks_of_lines(block: bytes, stream: io.BufferedIOBase) -> Iterator[bytes]:
    """The content cut into large blocks of whole lines; `block` is what was already read of it."""
    unfinished: list[bytes] = []
    while block:
        cut = block.rfind(b"\n") + 1
        if cut:
            yield b"".join((*unfinished, block[:cut]))
            unfinished = []
        unfinished.append(block[cut:])
        if b"\0" in block:  # no text: stop before an endless line of zeros fills the memory
            break
        block = stream.read1(_BLOCK)  # read1, not read: what precedes the damage in a gzip file is not lost
    last = b"".join(unfinished).removesuffix(b"\r")
    if last:
        yield last


def _decoded(block: bytes) -> list[str] | None:
    """The lines of a block, or None if one of them has a fault."""
    if b"\0" in block:
        return None
    try:
        text = block.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if "\r" in text:
        text = text.replace("\r\n", "\n")
        if "\r" in text:
            return None
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def _lines_until_fault(block: bytes, done: int, path: StrPath, error: type[PlacedError]) -> Iterator[tuple[int, str]]:
    for number, raw in enumerate(block.replace(b"\r\n", b"\n").split(b"\n"), done + 1):
        faults = [(found.start(), _FAULTS[found[0]]) for found in re.finditer(rb"[\0\r]", raw)]
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as cause:
            reason = f"UTF-8 is required, but here is the byte 0x{raw[cause.start]:02x} ({cause.reason}; column in "
            remedy = "characters); convert the file: iconv -f LATIN1 -t UTF-8, or whatever its encoding is"
            faults.append((cause.start, reason + remedy))
        if faults:
            offset, reason = min(faults)
            raise error(reason, path=path, line=number, column=len(raw[:offset].decode("utf-8")) + 1)
        yield number, text


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file, with its place for messages."""

    path: StrPath
    number: int
    text: str
    error: type[PlacedError] = CorpusError

    @property
    def name(self) -> str:
        return f"{fspath(self.path)}:{self.number}"

    def fail(self, reason: str, at: int | str = 1) -> NoReturn:
        """Raise the error at a column, or where a part of the line first stands by itself, or at all."""
        if isinstance(at, str):
            alone = re.search(rf"(?<![^\s/,]){re.escape(at)}(?![^\s/,])", self.text) if at else None
            at = (alone.start() if alone else max(self.text.find(at), 0)) + 1
        raise self.error(reason, path=self.path, line=self.number, column=at)

    def two_columns(self, wanted: str, remedy: str = "keep these two") -> tuple[str, str]:
        """What stands before the TAB and behind it."""
        columns = self.text.split("\t")
        if len(columns) != 2:
            reason = f"2 columns ({wanted}) are required, found {len(columns)}; {remedy}"
            self.fail(reason, len("\t".join(columns[:2])) + 1)
        return columns[0], columns[1]


def read_entries(path: StrPath, *, error: type[PlacedError] = CorpusError) -> Iterator[Line]:
    """The lines that are not blank, each with its place."""
    return (Line(path, number, text, error) for number, text in read_lines(path, error=error) if text.strip())


@dataclass(frozen=True, slots=True)
class Token:
    """One word of a sentence.

    `feats` holds the morphology by name, as written in the treebank: `{"Gender": "Fem", "Number": "Sing"}`; a name with
    several values keeps them comma-separated (`"Acc,Nom"`). `head` is the 1-based index of the governor among the
    sentence's tokens, 0 for the root, None where the source does not say.
    """

    form: str
    lemma: str | None = None
    pos: str | None = None
    feats: Mapping[str, str] = field(default_factory=lambda: _NOTHING, hash=False)
    head: int | None = None
    relation: str | None = None

    def attributes(self) -> frozenset[str]:
        """`POS:NOUN`, `Gender:Fem`, ...; a name with several values gives one attribute for each."""
        found = {f"{name}:{value}" for name, values in self.feats.items() for value in values.split(",") if value}
        return frozenset(found | ({f"POS:{self.pos}"} if self.pos else set()))


@dataclass(frozen=True, slots=True)
class Sentence:
    """Tokens in order, with an optional condition (what the sentence is generated from) and a name for messages."""

    tokens: tuple[Token, ...]
    condition: object = None
    name: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(token.form for token in self.tokens)
