"""Lines of dictionary files: decoded as the `.aff` file says, and able to name the place of a fault.

Hunspell dictionaries come in many encodings, named by the line `SET` of the `.aff` file. UTF-8 is read as every text
of this library is; any other is decoded here.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from llrnn.ground.errors import LexiconError
from llrnn.ground.files import read_file
from llrnn.text.corpus.source import StrPath, read_lines

__all__ = ["Line", "encoding_of", "read_encoded"]

_SET = re.compile(rb"^(?:\xef\xbb\xbf)?SET[ \t]+([^\s#]+)", re.MULTILINE)
# Python knows encodings that are no text at all (hex, rot13): only those that dictionaries use are taken.
_KNOWN = re.compile(r"utf-8|us-ascii|iso-?8859-\d{1,2}|koi8-[ru]|cp125\d|tis620-2533")
_PYTHON_NAMES = {"us-ascii": "ascii", "tis620-2533": "tis-620"}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file, with its place."""

    path: StrPath
    number: int
    text: str

    def fail(self, reason: str, part: str = "") -> NoReturn:
        """Raise the error for this line, at the first place where `part` stands by itself, or at all."""
        alone = re.search(rf"(?<![^\s/,]){re.escape(part)}(?![^\s/,])", self.text) if part else None
        column = (alone.start() if alone else max(self.text.find(part), 0)) + 1
        raise LexiconError(reason, path=self.path, line=self.number, column=column)


def encoding_of(path: StrPath) -> str:
    """The Python name of the encoding that an `.aff` file declares; ASCII if it declares none."""
    declared = _SET.search(_content(path))
    if declared is None:
        return "ascii"
    name = declared[1].decode("latin-1")
    normal = name.lower().removeprefix("microsoft-")
    python_name = _PYTHON_NAMES.get(normal, normal)
    try:
        if not _KNOWN.fullmatch(normal):
            raise LookupError
        return "".encode(python_name).decode() or python_name
    except LookupError:
        line = _content(path)[: declared.start(1)].count(b"\n") + 1
        reason = f"an encoding of dictionaries is required after SET, found {name!r}; convert the files to UTF-8"
        raise LexiconError(reason, path=path, line=line, column=5) from None


def read_encoded(path: StrPath, encoding: str) -> Iterator[Line]:
    """The lines of the file."""
    numbered = read_lines(path, error=LexiconError) if encoding == "utf-8" else _decoded(path, encoding)
    for number, text in numbered:
        yield Line(path, number, text)


def _decoded(path: StrPath, encoding: str) -> Iterator[tuple[int, str]]:
    for number, raw in enumerate(_content(path).removesuffix(b"\n").split(b"\n"), 1):
        try:
            yield number, raw.removesuffix(b"\r").decode(encoding)
        except UnicodeDecodeError as cause:
            declared = "no SET line declares its encoding" if encoding == "ascii" else f"SET declares {encoding}"
            reason = f"here is the byte 0x{raw[cause.start]:02x}, but {declared}; correct the line SET of the .aff file"
            raise LexiconError(reason, path=path, line=number, column=cause.start + 1) from cause


def _content(path: StrPath) -> bytes:
    try:
        content = read_file(path)
        return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    except (OSError, ValueError, EOFError, zlib.error):
        for _ in read_lines(path, error=LexiconError):  # says what is wrong in the words used everywhere
            pass
        raise LexiconError("the file cannot be read", path=path) from None
