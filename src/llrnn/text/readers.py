"""Readers of corpus files: plain text, two columns, JSON lines and CoNLL-U; every fault is named by its place.

Files are UTF-8, gzip unpacked on the fly. Lines end with LF or CRLF and are handed out without it; a byte order mark is
dropped. Columns are counted in characters, from 1. A file is decoded block by block, which is faster than line by line;
only a block with a fault is gone through again, so that the lines before the fault are still handed out.
"""

from __future__ import annotations

import errno
import gzip
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from os import fspath
from sys import intern
from types import MappingProxyType
from typing import NoReturn

from llrnn.ground.errors import CorpusError, PlacedError
from llrnn.ground.files import STANDARD, StrPath, open_file, parse_json
from llrnn.text.conditions import Act, Conditions, check_conditions, map_texts, parse_act

_BLOCK = 1 << 20
_LONGEST = 256_000_000  # bytes of a line: a packed file of two megabytes may hold gigabytes without a line break
_SIGNATURE_BYTES = 512  # enough for every signature below
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
    """Yield (line number from 1, line without its end) for each line of a UTF-8 file, plain or gzip; "-" is stdin.

    A file that is missing, empty, no UTF-8 text or damaged raises `error`, with path and line.
    """
    done = 0
    try:
        with open_file(path) as file:
            # unpacked by its first bytes, because names lie
            stream: io.BufferedIOBase = gzip.GzipFile(fileobj=file) if file.peek(2)[:2] == _GZIP else file
            head = stream.read(_SIGNATURE_BYTES)
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
        raise _refused(cause, path, error, done or None) from cause


def require_file(path: StrPath, *, error: type[PlacedError] = CorpusError) -> None:
    """Raise `error`, with a message that names the path, if there is no readable file at `path`."""
    try:
        open_file(path).close()
    except OSError as cause:
        raise _refused(cause, path, error) from cause


def _refused(cause: OSError, path: StrPath, error: type[PlacedError], line: int | None = None) -> PlacedError:
    reason = _REASONS.get(type(cause), f"the file cannot be read: {cause.strerror or cause}")
    return error(reason, path=cause.filename or path, line=line)


def _check_head(head: bytes, path: StrPath, error: type[PlacedError]) -> None:
    if not head.removeprefix(_UTF8_MARK):
        if fspath(path) == STANDARD:
            raise error("text is required, but standard input is empty; pipe it, and give - once alone", path=path)
        raise error("text is required, but the file is empty; was it written to the end?", path=path)
    for offset, signature, what, remedy in _SIGNATURES:
        if head.startswith(signature, offset):
            raise error(f"text is required, but this looks like {what}; {remedy}", path=path, line=1, column=1)


def _blocks_of_lines(block: bytes, stream: io.BufferedIOBase) -> Iterator[bytes]:
    """Yield the content of a file in large blocks of whole lines; `block`: its beginning, which was already read.

    stream      the open file, from behind `block` on

    The last block may lack the line end. An OSError for a line of more than 256 MB; after the block that was read with
    a NUL byte in it, reading stops.
    """
    unfinished, length = list[bytes](), 0
    while block:
        cut = block.rfind(b"\n") + 1
        if cut:
            yield b"".join((*unfinished, block[:cut]))
            unfinished = []
        unfinished.append(block[cut:])
        length = len(block) - cut + (0 if cut else length)
        if length > _LONGEST:
            raise OSError(errno.EFBIG, f"a line has at most {_LONGEST:,} bytes, but one is longer; is it text?")
        if b"\0" in block:  # no text: stop before an endless line of zeros fills the memory
            break
        block = stream.read1(_BLOCK)  # read1, not read: what precedes the damage in a gzip file is not lost
    last = b"".join(unfinished).removesuffix(b"\r")
    if last:
        yield last


def _decoded(block: bytes) -> list[str] | None:
    """Return the lines of a block of UTF-8 bytes, without line ends; None if it has a fault.

    Faults are NUL bytes, bytes that are no UTF-8, and carriage returns without a line feed behind them. Lines end with
    LF or CRLF; the last one need not.
    """
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
    """One line of a file: `path`, `number` (from 1), `text`, and the class of `error` that faults in it raise.

    `name` is `path:number`.
    """

    path: StrPath
    number: int
    text: str
    error: type[PlacedError] = CorpusError

    @property
    def name(self) -> str:
        return f"{fspath(self.path)}:{self.number}"

    def fail(self, reason: str, at: int | str = 1) -> NoReturn:
        """Raise the line's error with this reason, and the path, line and column.

        `at`: the column, from 1; or a part of the line, of which the column of the first occurrence between blanks,
        commas or slashes is meant, else of the first one, else column 1.
        """
        if isinstance(at, str):
            alone = re.search(rf"(?<![^\s/,]){re.escape(at)}(?![^\s/,])", self.text) if at else None
            at = (alone.start() if alone else max(self.text.find(at), 0)) + 1
        raise self.error(reason, path=self.path, line=self.number, column=at)

    def two_columns(self, wanted: str, remedy: str = "keep these two") -> tuple[str, str]:
        """Return the texts before and after the only TAB of the line; another number of columns raises its error.

        `wanted`: what the columns are, and `remedy`: what to do, for the message.
        """
        columns = self.text.split("\t")
        if len(columns) != 2:
            reason = f"2 columns ({wanted}) are required, found {len(columns)}; {remedy}"
            self.fail(reason, len("\t".join(columns[:2])) + 1)
        return columns[0], columns[1]


def read_entries(path: StrPath, *, error: type[PlacedError] = CorpusError) -> Iterator[Line]:
    """Return an iterator over the non-blank lines of a text file, plain or gzip, as `Line` objects.

    Faults in the file raise `error`, which is also the class of error of the lines.
    """
    return (Line(path, number, text, error) for number, text in read_lines(path, error=error) if text.strip())


@dataclass(frozen=True, slots=True)
class Token:
    """One word of a sentence, with its annotation where the source has one.

    form        the word
    lemma, pos  lemma and part of speech, None if unknown
    feats       morphology by name, as in the treebank: `{"Gender": "Fem", "Number": "Sing"}`; several values of a name
                are comma-separated (`"Acc,Nom"`)
    head        1-based index of the governor among the sentence's tokens, 0 for the root, None if unknown
    relation    the dependency relation to the governor, such as `nsubj`; None if unknown

        Token("maisons", "maison", "NOUN", {"Gender": "Fem", "Number": "Plur"})
    """

    form: str
    lemma: str | None = None
    pos: str | None = None
    feats: Mapping[str, str] = field(default_factory=lambda: _NOTHING, hash=False)
    head: int | None = None
    relation: str | None = None

    def attributes(self) -> frozenset[str]:
        """Return the token's annotation as attributes such as `POS:NOUN` and `Gender:Fem`, empty without annotation.

        They are of `pos` and `feats`; a feature with several values gives one attribute for each. Lemma, head and
        relation are not among them.
        """
        found = {f"{name}:{value}" for name, values in self.feats.items() for value in values.split(",") if value}
        return frozenset(found | ({f"POS:{self.pos}"} if self.pos else set()))


@dataclass(frozen=True, slots=True)
class Sentence:
    """Tokens in order, with an optional condition (the input that the sentence is generated from) and a name.

    `tokens`: a tuple; `condition`: None if there is none; `name`: for messages, such as `file:line`; `text`: the
    sentence as it is written, "" if unknown.

    For example:

        Sentence((Token("elle"), Token("sort")), condition={"subject": "elle"})
    """

    tokens: tuple[Token, ...]
    condition: object = None
    name: str = ""
    text: str = ""  # as it is written, where the source says so

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the sentence in order: the forms of its tokens."""
        return tuple(token.form for token in self.tokens)


_KEYS = ("target", "tokens", "condition")
_CONDITION = re.compile(r'"condition"\s*:\s*"')  # a string cannot hold it: its quotes would be escaped

# Whitespace, commas and bars separate attributes wherever they are written down, so none may hold one.
_FEATURE = re.compile(r"([^\s=,|]+)=([^\s=,|]+(?:,[^\s=,|]+)*)")
_BROKEN_TAG = re.compile(r"[\s,|]")
_COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
_ID, _FORM, _LEMMA, _UPOS, _FEATS, _HEAD, _DEPREL = 0, 1, 2, 3, 5, 6, 7
_NUMBER = r"(0|[1-9][0-9]{0,8})"  # nine digits: more is no sentence, and Python refuses to convert thousands
_HEAD_ID = re.compile(_NUMBER)
_RANGE_ID = re.compile(rf"{_NUMBER}-{_NUMBER}")
_EMPTY_ID = re.compile(rf"{_NUMBER}\.{_NUMBER}")


class PlainTokens(dict[str, Token]):
    """A dict form -> Token without annotation, which makes missing tokens, so that occurrences of a form share one.

    `PlainTokens()["chat"]` is Token("chat"), and the same object when it is asked for again.
    """

    def __missing__(self, form: str) -> Token:
        token = self[form] = Token(intern(str(form)))
        return token


Cut = Callable[[str], Iterable[Sequence[str]]]  # the sentences of a line, in words
Lowercase = bool | Callable[[str], str]  # whether words are lowercased, or the function that does it


def lowering(lowercase: Lowercase) -> Callable[[str], str]:
    """Return the function to lowercase words by: `str.lower` for True, the function given, or `str` for False.

    `str` leaves words as they are.
    """
    return str.lower if lowercase is True else lowercase or str


def read_words(
    path: StrPath, *, lowercase: Lowercase = False, cut: Cut | None = None
) -> Iterator[tuple[str, list[str]]]:
    """Yield (`path:line`, words) for each sentence of a text file, one a line; blank lines are skipped.

    Words are split at white space; `cut`: a function that splits a line into sentences, each a sequence of words,
    instead; `lowercase`: whether words are lowercased, or the function that does it. Faults raise a CorpusError.
    """
    place, lower = fspath(path), lowering(lowercase)
    for number, line in read_lines(path):
        found = [lower(line).split()] if cut is None else [[*map(lower, words)] for words in cut(line)]
        yield from ((f"{place}:{number}", words) for words in found if words)


def read_text(path: StrPath, *, lowercase: Lowercase = False, cut: Cut | None = None) -> Iterator[Sentence]:
    """Yield the sentences of a text file, one a line, split at white space; blank lines are skipped.

    White space is as in Unicode, the no-break space included. `lowercase`: whether words are lowercased, or the
    function that does it; `cut`: a function that splits a line into sentences and words instead, such as
    `Tokeniser.sentences`. Faults raise a CorpusError with path and line.

        for sentence in read_text("corpus.txt"): print(sentence.words)
    """
    tokens = PlainTokens()
    for place, words in read_words(path, lowercase=lowercase, cut=cut):
        yield Sentence(tuple([tokens[word] for word in words]), name=place)


def read_tsv(
    path: StrPath, *, lowercase: Lowercase = False, conditions: Conditions = "plain", cut: Cut | None = None
) -> Iterator[Sentence]:
    """Yield the sentences of a file with two columns, `condition TAB target`.

        formal  could you help me
        inform(name=x;food=thai)        x serves thai food

    path        the file, plain or gzip
    lowercase   whether conditions and targets are lowercased
    conditions  "plain": conditions are texts; "act": every one must be a dialog act, and is parsed
    cut         a function from a text to sentences of words, such as `Tokeniser.sentences`, that splits targets and
                texts in conditions; their sentences become one. None: at white space

    A sentence is the target, its condition the input that it is generated from. Targets are split at white space; an
    empty one is an error. An empty condition means none. Blank lines are skipped. Faults raise a CorpusError.
    """
    return _conditioned(path, _tsv_record, lowercase, conditions, cut)


def read_jsonl(
    path: StrPath, *, lowercase: Lowercase = False, conditions: Conditions = "plain", cut: Cut | None = None
) -> Iterator[Sentence]:
    """Yield the sentences of a JSON lines file; the condition is the input that the target is generated from.

        {"target": "the cost was 37 euros", "condition": {"price": 37}}
        {"target": ["the", "cost"]}
        {"tokens": ["the", "cost"], "condition": "anything that JSON can say"}

    path        the file, plain or gzip
    lowercase   whether targets, and texts in conditions, are lowercased
    conditions  "plain": any JSON value; "act": every one must be a dialog act, "inform(food=thai)", and is parsed
    cut         a function from a text to sentences of words, such as `Tokeniser.sentences`, that splits targets that
                are strings and texts in conditions; their sentences become one. None: at white space

    A target that is a string is split at white space; an empty one is an error. Blank lines are skipped. Faults raise a
    CorpusError.
    """
    return _conditioned(path, _json_record, lowercase, conditions, cut)


Record = tuple[str | list[str], object]  # a target or its words, and its condition


def _conditioned(
    path: StrPath,
    read: Callable[[Line, bool], Record | None],
    lowercase: Lowercase,
    conditions: Conditions,
    cut: Cut | None,
) -> Iterator[Sentence]:
    """Yield one sentence for each line of a file, with its condition (the input that it is generated from).

    `read(line, as_act)` returns (target, condition) of a line, None for a blank one, which is skipped; `as_act` is
    whether `conditions` is "act"; the target is a text, or a list of words, which is not cut. `lowercase`: whether
    words and texts in conditions are lowercased, or the function that does it; `conditions`: "act" if they are dialogue
    acts, else "plain"; `cut`: splits targets and texts in conditions into sentences of words, which become one
    sentence; None: at white space.
    """
    check_conditions(conditions)
    tokens, lower = PlainTokens(), lowering(lowercase)
    split = str.split if cut is None else lambda text: [word for words in cut(text) for word in words]
    for number, text in read_lines(path):
        line = Line(path, number, text)
        record = read(line, conditions == "act")
        if record is not None:
            target, condition = record
            if cut is not None:
                condition = map_texts(condition, lambda text: " ".join(split(text)))
            words = split(target) if isinstance(target, str) else target
            condition = map_texts(condition, lower) if lowercase else condition
            yield Sentence(tuple([tokens[lower(word)] for word in words]), condition, line.name)


def _tsv_record(line: Line, as_act: bool) -> Record | None:
    if "\t" not in line.text and not line.text.strip():
        return None
    text, target = line.two_columns("condition TAB target")
    if not target.strip():
        line.fail("the target must have a word, found none; write it behind the TAB, or remove the line", len(text) + 2)
    if not as_act:
        return target, text.strip() or None
    if not text.strip():
        line.fail("a dialog act is required before the TAB, such as inform(food=thai), found none; give one")
    return target, _act_at(line, text, 1)


def _json_record(line: Line, as_act: bool) -> Record | None:
    if not line.text.strip():
        return None
    record = _JsonRecord(line)
    return record.target(), record.act() if as_act else record.fields.get("condition")


def _act_at(line: Line, text: str, column: int, *, inside: bool = True) -> Act:
    """Return the dialogue act that `text` describes, a part of a line which begins at `column` (from 1).

    A fault raises the line's error. `inside`: whether the text stands in the line letter by letter, so that the error
    has the exact column of the fault; else it has `column`, and its message names the column within `text`.
    """
    try:
        return parse_act(text)
    except CorpusError as fault:
        offset = (fault.column or 1) - 1
        where = "" if inside else f" at column {offset + 1} of the act"
        reason = f"a dialog act such as inform(food=thai) is required{where}: {fault.reason}; correct it"
        line.fail(reason, column + (offset if inside else 0))


class _JsonRecord:
    """One line of a JSON lines file, decoded and checked: an object with `target` or `tokens`, and perhaps `condition`.

    `_JsonRecord(line)` parses it; `fields` is the object as a dict, `target()` and `act()` return its parts. A line
    that is no such object, or has another or a repeated key, raises the line's error, a CorpusError with its place.
    """

    def __init__(self, line: Line) -> None:
        self.line = line
        self.fields = self.checked(self.decoded())

    def decoded(self) -> object:
        try:
            return parse_json(self.line.text, object_pairs_hook=self.unrepeated, parse_constant=self.refuse_constant)
        except json.JSONDecodeError as cause:
            reason = f"JSON is required, found a line that is none ({cause.msg}); write one object a line"
            self.line.fail(reason, cause.pos + 1)

    def unrepeated(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            times = Counter(key for key, _ in pairs)
            twice = next(key for key, _ in pairs if times[key] > 1)
            self.fail(twice, f"each key may stand once in an object, found {twice!r} again; remove one")
        return fields

    def refuse_constant(self, constant: str) -> NoReturn:
        reason = f"JSON is required, found {constant}, which JSON does not have; write null or a number"
        self.line.fail(reason, self.line.text.find(constant) + 1)

    def checked(self, value: object) -> dict[str, object]:
        if not isinstance(value, dict):
            self.fail(None, f'an object such as {{"target": "..."}} is required, found {_kind(value)}; wrap it')
        for key in value:
            if key not in _KEYS:
                self.fail(key, f"the keys are {', '.join(_KEYS)}, found {key!r}; remove or rename it")
        if ("target" in value) == ("tokens" in value):
            found = "both" if "target" in value else "neither"
            self.fail(None, f"one of target and tokens is required, found {found}; give one")
        return value

    def target(self) -> str | list[str]:
        """Return the target of the line as it is written: a string, or a list of words.

        A CorpusError if it is neither, has no word, or a word has white space or half a surrogate pair.
        """
        key = "target" if "target" in self.fields else "tokens"
        value = self.fields[key]
        words = value.split() if isinstance(value, str) and key == "target" else value
        if not isinstance(words, list):
            wanted = "a string or a list of words" if key == "target" else "a list of words"
            self.fail(key, f"{key} must be {wanted}, found {_kind(value)}; correct it")
        if not words:
            self.fail(key, f"{key} must have a word, found none; add it or remove the line")
        for index, word in enumerate(words):
            if not isinstance(word, str):
                self.fail(key, f"{key}[{index}] must be a string, found {_kind(word)}; quote it")
            if word.split() != [word]:
                self.fail(key, f"{key}[{index}] must be a word without whitespace, found {word!r}; split or remove it")
            if not word.isascii() and any("\ud800" <= character <= "\udfff" for character in word):
                self.fail(key, f"{key}[{index}] must be text, found half a surrogate pair in {word!r}; correct it")
        return value if isinstance(value, str) else words

    def act(self) -> Act:
        """Return the condition of the line, the input that its text is generated from, as a dialogue act.

        A CorpusError if it is none, with the exact column of the fault where the JSON string has no escapes.
        """
        given = self.fields.get("condition")
        if not isinstance(given, str) or not given.strip():
            found = _kind(given) if "condition" in self.fields else "none"
            found = "a blank string" if isinstance(given, str) else found
            wanted = 'a dialog act is required, "condition": "inform(food=thai)"'
            self.fail("condition", f"{wanted}, found {found}; give one")
        begun = _CONDITION.search(self.line.text)
        if begun is not None and self.line.text.startswith(f'{given}"', begun.end()):
            return _act_at(self.line, given, begun.end() + 1)
        return _act_at(self.line, given, self.column("condition"), inside=False)

    def column(self, key: str) -> int:
        """Return the column (from 1) of the line at which a JSON key is written, 1 if it is not found; for errors."""
        return max(self.line.text.find(json.dumps(key, ensure_ascii=False)), 0) + 1

    def fail(self, key: str | None, reason: str) -> NoReturn:
        self.line.fail(reason, 1 if key is None else self.column(key))


def _kind(value: object) -> str:
    """Return the JSON name of a value's type for messages, such as "an object" or "a number"."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


class FeatsCache(dict[str, Mapping[str, str]]):
    """A dict from a FEATS column of CoNLL-U (`Gender=Fem|Number=Sing`) to its features by name, parsed when missing.

    The value is {"Gender": "Fem", "Number": "Sing"}, read-only and shared by equal tokens; several values of a name
    stay one text, `Acc,Nom`; {} for `_`. A malformed string raises a ValueError whose arguments are the reason and the
    offset in the string.
    """

    def __missing__(self, feats: str) -> Mapping[str, str]:
        found: dict[str, str] = {}
        offset = 0
        for part in () if feats == "_" else feats.split("|"):
            match = _FEATURE.fullmatch(part)
            if match is None:
                wanted = "FEATS must be _ or Name=Value|Name=Value1,Value2"
                raise ValueError(f"{wanted}, found {part!r}; correct it", offset)
            name, values = match.groups()
            if name in found:
                again = f"FEATS must give each name once, found {name!r} again; write {name}={found[name]},{values}"
                raise ValueError(again, offset)
            found[name] = values
            offset += len(part) + 1
        parsed = self[feats] = MappingProxyType(found)
        return parsed


def merge_tokens(form: str, lemma: str | None, parts: Sequence[Token]) -> Token:
    """Return one token for several words (`du` for `de` + `le`), whose attributes are the union of theirs.

    `form`, `lemma`: of the whole (None: unknown); `parts`: the words. Its `feats` have all values of the parts, sorted
    and comma-separated. Its `pos` is that of the first part; where the parts differ, all of theirs stand in `feats`
    under the name POS, since a token has one `pos` only. It has no head and no relation.
    """
    values: dict[str, set[str]] = {}
    for part in parts:
        for name, value in part.feats.items():
            values.setdefault(name, set()).update(value.split(","))
    tags = {part.pos for part in parts if part.pos}
    if len(tags) > 1 or parts[0].pos not in tags:
        values.setdefault("POS", set()).update(tags)
    feats = {name: ",".join(sorted(values[name])) for name in sorted(values) if values[name]}
    return Token(form, lemma, parts[0].pos, MappingProxyType(feats))


def read_conllu(path: StrPath, *, lowercase: Lowercase = False, surface: bool = False) -> Iterator[Sentence]:
    """Return the sentences of a CoNLL-U file with lemmas, parts of speech, morphology and dependencies.

    path        the file, plain or gzip
    lowercase   whether forms are lowercased; lemmas stay
    surface     whether words are the tokens as they are written (`du`), with `Sentence.text`; else `text` is ""

    The format of Universal Dependencies, https://universaldependencies.org/format.html: one word a line in ten columns
    separated by a TAB, an empty line after each sentence, comments from `#`.

    - Words are the *syntactic* words (1, 2, 3...); the line of a multiword token (`3-4 du`) is skipped
      once its range is checked. With `surface` it stands for its words instead (`merge_tokens`); positions
      shift then, so no token has a head. The text is the comment `# text`, or made by SpaceAfter.
    - Empty nodes (`5.1`) are skipped once their number is checked: they are not words of the text.
    - `_` means nothing in LEMMA, UPOS, FEATS, HEAD and DEPREL; in FORM it is the word `_`. XPOS, DEPS and, but for
      SpaceAfter, MISC are not read.
    - A sentence is named by its `sent_id` comment, or by `path:line` of its first word.

        for sentence in read_conllu("train.conllu"): print(sentence.words)
    """
    reader = _ConlluReader(path, lowercase, surface)
    rows: list[_Row] = []
    name = text = ""
    for number, line in chain(read_lines(path), [(0, "")]):
        if not line:
            if rows:
                yield reader.sentence(rows, name, text)
            rows, name, text = [], "", ""
        elif line.startswith("#"):
            key, _, value = line[1:].partition("=")
            name = value.strip() if key.strip() == "sent_id" else name
            text = value if key.strip() == "text" else text
        else:
            columns = line.split("\t")
            if len(columns) != len(_COLUMNS):
                _fail_on_count(Line(path, number, line))
            rows.append((number, columns))


_Row = tuple[int, list[str]]  # line number, columns
_Range = tuple[int, int, _Row]  # a multiword token: its first and last word


def _fail_on_count(line: Line) -> NoReturn:
    columns, wanted = line.text.split("\t"), len(_COLUMNS)
    reason = f"{wanted} columns separated by a TAB are required, found {len(columns)}"
    if not line.text.strip():
        reason += " (whitespace only); a sentence ends with an empty line"
    elif len(columns) == 1:
        reason += "; is it CoNLL-U at all, or were its TABs turned into spaces?"
    else:
        reason += f"; they are {' '.join(_COLUMNS)}"
    line.fail(reason, len("\t".join(columns[:wanted])) + 1)


class _ConlluReader:
    """Turns the rows of CoNLL-U sentences of the file `path` into Sentences, in which equal strings are shared.

    `lowercase`: whether forms are lowercased, or the function that does it; `surface`: whether multiword tokens stand
    for their words. `sentence(rows, name, text)` makes one, where a row is (line number, ten columns). Faults raise a
    CorpusError with line and column.
    """

    def __init__(self, path: StrPath, lowercase: Lowercase, surface: bool = False) -> None:
        self.path, self.lower, self.surface = path, lowering(lowercase), surface
        self.feats = FeatsCache()
        self.tags: dict[str, str | None] = {"_": None}

    def sentence(self, rows: list[_Row], name: str, text: str = "") -> Sentence:
        words: list[Token] = []
        word_rows: list[_Row] = []
        ranges: list[_Range] = []
        empty_nodes = 0  # since the last word
        for row in rows:
            columns = row[1]
            if columns[_ID] == str(len(words) + 1):
                words.append(self.word(row))
                word_rows.append(row)
                empty_nodes = 0
            elif "-" in columns[_ID]:
                ranges.append(self.multiword_token(row, len(words), ranges[-1][1] if ranges else 0))
            else:
                empty_nodes += 1
                match = _EMPTY_ID.fullmatch(columns[_ID])
                if match is None or (int(match[1]), int(match[2])) != (len(words), empty_nodes):
                    self.fail_on_id(row, len(words))
        self.check_whole(rows, words, word_rows, ranges)
        name = name or f"{fspath(self.path)}:{rows[0][0]}"
        if not self.surface:
            return Sentence(tuple(words), name=name)
        text = " ".join((text or _text_of(word_rows, ranges)).split())
        return Sentence(tuple(self.merged(words, ranges)), name=name, text=text)

    def merged(self, words: list[Token], ranges: list[_Range]) -> list[Token]:
        """Return the tokens of a sentence in which each multiword token (`du`) replaces its words (`de`, `le`).

        `words`: the tokens of the syntactic words; `ranges`: (first word, last word, row) of each multiword token,
        words counted from 1, where a row is (line number, columns). Heads are dropped, since positions shift.
        """
        tokens: list[Token] = []
        done = 0
        for first, last, (_, columns) in ranges:
            form, lemma = columns[_FORM], columns[_LEMMA]
            form = intern(self.lower(form))
            whole = merge_tokens(form, None if lemma in ("_", "") else lemma, words[first - 1 : last])
            tokens += [*words[done : first - 1], whole]
            done = last
        # not dataclasses.replace, which takes longer than reading the line
        return [Token(t.form, t.lemma, t.pos, t.feats, None, t.relation) for t in (*tokens, *words[done:])]

    def word(self, row: _Row) -> Token:
        _, form, lemma, pos, _, feats, head, relation, _, _ = row[1]
        if not (form and lemma and pos and feats and head and relation):
            self.fail_on_empty_column(row)
        try:
            features = self.feats[feats]
        except ValueError as cause:
            reason, offset = cause.args
            self.fail(row, _FEATS, reason, offset)
        return Token(
            intern(self.lower(form)),
            None if lemma == "_" else intern(lemma),
            self.tags[pos] if pos in self.tags else self.new_tag(row),
            features,
            None if head == "_" else self.head(row),
            None if relation == "_" else intern(relation),
        )

    def new_tag(self, row: _Row) -> str:
        tag = row[1][_UPOS]
        if _BROKEN_TAG.search(tag):
            self.fail(row, _UPOS, f"UPOS must be one tag without spaces, commas or bars, found {tag!r}; write one tag")
        self.tags[tag] = tag
        return tag

    def head(self, row: _Row) -> int:
        head = row[1][_HEAD]
        if _HEAD_ID.fullmatch(head) is None:
            self.fail(row, _HEAD, f"HEAD must be _, 0 or the ID of a word, found {head!r}; correct it")
        return int(head)

    def multiword_token(self, row: _Row, words: int, covered: int) -> _Range:
        """Return (first word, last word, row) of the multiword token of a row, such as `3-4 du`; words count from 1.

        `row`: (line number, columns); `words`: how many words of the sentence came before; `covered`: the last word of
        the multiword token before, or 0. A CorpusError if it does not begin at the next word, overlaps the one before,
        or has no form.
        """
        match = _RANGE_ID.fullmatch(row[1][_ID])
        first, last = (0, 0) if match is None else (int(match[1]), int(match[2]))
        if first != words + 1 or last < first or first <= covered:
            self.fail_on_id(row, words)
        if not row[1][_FORM]:
            self.fail_on_empty_column(row)
        return first, last, row

    def check_whole(self, rows: list[_Row], words: list[Token], word_rows: list[_Row], ranges: list[_Range]) -> None:
        """Raise a CorpusError unless the sentence has words, and its heads and multiword tokens lie within it.

        `rows`: all its lines as (line number, columns), `word_rows`: those of `words`, for the place of the error;
        `ranges`: (first word, last word, row) of each multiword token, words counted from 1.
        """
        count = len(words)
        if not words:
            self.fail(rows[0], _ID, "a sentence must have a word, found empty nodes only; add the words or remove it")
        for word, row in zip(words, word_rows, strict=True):
            if word.head is not None and word.head > count:
                self.fail(row, _HEAD, f"HEAD must be between 0 and {count} here, found {word.head}; correct it")
        if ranges and ranges[-1][1] > count:
            row = ranges[-1][2]
            reason = f"the multiword token must cover words of its sentence, found {row[1][_ID]!r}"
            self.fail(row, _ID, f"{reason} where the last word is {count}; correct the range")

    def fail_on_id(self, row: _Row, words: int) -> NoReturn:
        following = words + 1
        self.fail(
            row,
            _ID,
            f"the ID must be {following} here, a range from it (as {following}-{following + 1}, outside "
            f"others) or the next empty node (as {words}.1), found {row[1][_ID]!r}; is a line missing, "
            "or the empty line before a sentence?",
        )

    def fail_on_empty_column(self, row: _Row) -> NoReturn:
        read = (_FORM, _LEMMA, _UPOS, _FEATS, _HEAD, _DEPREL)
        column = next(column for column in read if not row[1][column])
        remedy = "write the word" if column == _FORM else "write _ for nothing"
        self.fail(row, column, f"{_COLUMNS[column]} must not be empty; {remedy}")

    def fail(self, row: _Row, column: int, reason: str, offset: int = 0) -> NoReturn:
        number, columns = row
        before = sum(len(text) + 1 for text in columns[:column])
        raise CorpusError(reason, path=self.path, line=number, column=before + offset + 1)


def _text_of(rows: list[_Row], ranges: list[_Range]) -> str:
    """Return the text of a CoNLL-U sentence: its tokens with a blank behind each, except after `SpaceAfter=No`.

    There may be a blank at the end. `rows`: the lines of its words as (line number, columns); `ranges`: its multiword
    tokens as (first word, last word, row), words counted from 1, which stand for their words.
    """
    inside = {place: (first, row) for first, last, row in ranges for place in range(first, last + 1)}
    tokens = [inside.get(place, (place, row)) for place, row in enumerate(rows, 1)]
    return "".join(
        row[1][_FORM] + " " * ("SpaceAfter=No" not in row[1][-1])
        for place, (first, row) in enumerate(tokens, 1)
        if place == first
    )


def conllu_lines(sentences: Iterable[Sentence]) -> Iterator[str]:
    """Yield the lines of a CoNLL-U file of sentences, without line ends; a blank line ends each sentence.

    Each begins with the comments `# sent_id` (its name, or its number from 1) and `# text`. Unknown columns are `_`;
    blanks in the text are put by French rules: none before `,` and `.`, and none after an apostrophe.
    """
    for number, sentence in enumerate(sentences, start=1):
        spaced = list(zip(sentence.tokens, _spaces_after(sentence.tokens), strict=True))
        yield f"# sent_id = {sentence.name or number}"
        yield f"# text = {''.join(token.form + ' ' * space for token, space in spaced).rstrip()}"
        for index, (token, space) in enumerate(spaced, start=1):
            # sorted by name without regard to case, as CoNLL-U asks
            feats = "|".join(f"{name}={token.feats[name]}" for name in sorted(token.feats, key=str.lower))
            columns = (token.form, token.lemma, token.pos, None, feats, token.head, token.relation, None)
            written = ("_" if column in (None, "") else str(column) for column in columns)
            yield "\t".join((str(index), *written, "_" if space else "SpaceAfter=No"))
        yield ""


def _spaces_after(tokens: Sequence[Token]) -> list[bool]:
    """Return for each token whether a blank follows it, by French rules.

    No blank stands before `,` and `.`, and none after an apostrophe (`'`); one follows the last token.
    """
    following = [token.form in (",", ".") for token in tokens[1:]] + [False]
    return [not token.form.endswith("'") and not close for token, close in zip(tokens, following, strict=True)]
