"""CoNLL-U, the format of Universal Dependencies: https://universaldependencies.org/format.html

One word a line in ten columns separated by a TAB, an empty line after each sentence, comments from `#`.

- Words are the *syntactic* words (1, 2, 3...); the line of a multiword token (`3-4 du`) is skipped. With
  `multiword="surface"` the multiword token stands for its words instead, see `merge_tokens`; positions shift
  then, so no token has a head.
- Empty nodes (`5.1`) are skipped once their number is checked: they are not words of the text.
- `_` means nothing in LEMMA, UPOS, FEATS, HEAD and DEPREL; in FORM it is the word `_`. XPOS, DEPS and MISC
  are not read.
- A sentence is named by its `sent_id` comment, or by `path:line` of its first word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from os import fspath
from sys import intern
from typing import Literal, NoReturn

from llrnn.ground.errors import CorpusError
from llrnn.text.corpus.morphology import FeatsCache, merge_tokens
from llrnn.text.corpus.source import StrPath, read_lines
from llrnn.text.corpus.types import Sentence, Token

__all__ = ["Multiword", "read_conllu"]

Multiword = Literal["words", "surface"]

_COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
_ID, _FORM, _LEMMA, _UPOS, _FEATS, _HEAD, _DEPREL = 0, 1, 2, 3, 5, 6, 7

_NUMBER = r"(0|[1-9][0-9]{0,8})"  # nine digits: more is no sentence, and Python refuses to convert thousands
_HEAD_ID = re.compile(_NUMBER)
_RANGE_ID = re.compile(rf"{_NUMBER}-{_NUMBER}")
_EMPTY_ID = re.compile(rf"{_NUMBER}\.{_NUMBER}")
_BROKEN_TAG = re.compile(r"[\s,|]")


def read_conllu(path: StrPath, *, lowercase: bool = False, multiword: Multiword = "words") -> Iterator[Sentence]:
    """The sentences of a CoNLL-U file; `lowercase` lowercases the forms and leaves the lemmas."""
    if multiword not in ("words", "surface"):
        raise CorpusError(f"multiword must be 'words' or 'surface', found {multiword!r}; choose one")
    reader = _Reader(path, lowercase=lowercase, surface=multiword == "surface")
    rows: list[_Row] = []
    name = ""
    for number, line in read_lines(path):
        if not line:
            if rows:
                yield reader.sentence(rows, name)
            rows, name = [], ""
        elif line.startswith("#"):
            key, _, value = line[1:].partition("=")
            name = value.strip() if key.strip() == "sent_id" else name
        else:
            columns = line.split("\t")
            if len(columns) != len(_COLUMNS):
                _fail_on_count(path, number, line)
            rows.append((number, columns))
    if rows:
        yield reader.sentence(rows, name)


_Row = tuple[int, list[str]]  # line number, columns


def _fail_on_count(path: StrPath, number: int, line: str) -> NoReturn:
    columns = line.split("\t")
    wanted = len(_COLUMNS)
    reason = f"{wanted} columns separated by a TAB are required, found {len(columns)}"
    if not line.strip():
        reason += " (whitespace only); a sentence ends with an empty line"
    elif len(columns) == 1:
        reason += "; is it CoNLL-U at all, or were its TABs turned into spaces?"
    else:
        reason += f"; they are {' '.join(_COLUMNS)}"
    column = len("\t".join(columns[:wanted])) + 1
    raise CorpusError(reason, path=path, line=number, column=column)


@dataclass(slots=True)
class _MultiwordToken:
    first: int
    last: int
    row: _Row


def _headless(token: Token) -> Token:
    # Not dataclasses.replace, which takes longer than reading the line.
    return Token(token.form, token.lemma, token.pos, token.feats, None, token.relation)


class _Reader:
    """Turns the rows of one sentence after another into sentences, sharing what they have in common."""

    def __init__(self, path: StrPath, *, lowercase: bool, surface: bool) -> None:
        self.path, self.lowercase, self.surface = path, lowercase, surface
        self.feats = FeatsCache()
        self.tags: dict[str, str | None] = {"_": None}

    def sentence(self, rows: list[_Row], name: str) -> Sentence:
        words: list[Token] = []
        word_rows: list[_Row] = []
        ranges: list[_MultiwordToken] = []
        empty_nodes = 0  # since the last word
        for row in rows:
            columns = row[1]
            if columns[_ID] == str(len(words) + 1):
                words.append(self.word(row))
                word_rows.append(row)
                empty_nodes = 0
            elif "-" in columns[_ID]:
                ranges.append(self.multiword_token(row, len(words), ranges[-1].last if ranges else 0))
            else:
                empty_nodes += 1
                self.check_empty_node(row, len(words), empty_nodes)
        self.check_whole(rows, words, word_rows, ranges)
        if self.surface:
            words = self.merged(words, ranges)
        return Sentence(tuple(words), name=name or f"{fspath(self.path)}:{rows[0][0]}")

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
            intern(form.lower() if self.lowercase else form),
            None if lemma == "_" else intern(lemma),
            self.tags[pos] if pos in self.tags else self.new_tag(row),
            features,
            None if head == "_" else self.head(row),
            None if relation == "_" else intern(relation),
        )

    def new_tag(self, row: _Row) -> str:
        tag = row[1][_UPOS]
        if _BROKEN_TAG.search(tag):
            self.fail(
                row,
                _UPOS,
                f"UPOS must be one tag without spaces, commas or bars, found {tag!r}; write one tag",
            )
        self.tags[tag] = tag
        return tag

    def head(self, row: _Row) -> int:
        head = row[1][_HEAD]
        if _HEAD_ID.fullmatch(head) is None:
            self.fail(row, _HEAD, f"HEAD must be _, 0 or the ID of a word, found {head!r}; correct it")
        return int(head)

    def multiword_token(self, row: _Row, words: int, covered: int) -> _MultiwordToken:
        """A multiword token, which must begin at the next word, outside the multiword token before it."""
        match = _RANGE_ID.fullmatch(row[1][_ID])
        if match is None:
            self.fail_on_id(row, words)
        first, last = int(match[1]), int(match[2])
        if first != words + 1 or last < first or first <= covered:
            self.fail_on_id(row, words)
        if not row[1][_FORM]:
            self.fail_on_empty_column(row)
        return _MultiwordToken(first, last, row)

    def check_empty_node(self, row: _Row, words: int, number: int) -> None:
        match = _EMPTY_ID.fullmatch(row[1][_ID])
        if match is None or (int(match[1]), int(match[2])) != (words, number):
            self.fail_on_id(row, words)

    def check_whole(
        self, rows: list[_Row], words: list[Token], word_rows: list[_Row], ranges: list[_MultiwordToken]
    ) -> None:
        """What can only be told at the end of the sentence."""
        count = len(words)
        if not words:
            self.fail(
                rows[0],
                _ID,
                "a sentence must have a word, found empty nodes only; add the words or remove it",
            )
        for word, row in zip(words, word_rows, strict=True):
            if word.head is not None and word.head > count:
                self.fail(row, _HEAD, f"HEAD must be between 0 and {count} here, found {word.head}; correct it")
        if ranges and ranges[-1].last > count:
            reason = f"the multiword token must cover words of its sentence, found {ranges[-1].row[1][_ID]!r}"
            self.fail(ranges[-1].row, _ID, f"{reason} where the last word is {count}; correct the range")

    def merged(self, words: list[Token], ranges: list[_MultiwordToken]) -> list[Token]:
        tokens: list[Token] = []
        done = 0
        for span in ranges:
            tokens += words[done : span.first - 1]
            form, lemma = span.row[1][_FORM], span.row[1][_LEMMA]
            form = intern(form.lower() if self.lowercase else form)
            tokens.append(merge_tokens(form, None if lemma in ("_", "") else lemma, words[span.first - 1 : span.last]))
            done = span.last
        tokens += words[done:]
        return [_headless(token) for token in tokens]

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
