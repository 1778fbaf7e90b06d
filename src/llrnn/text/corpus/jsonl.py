"""JSON lines: one object a line, a target and what it is generated from.

    {"target": "the cost was 37 euros", "condition": {"price": 37}}
    {"target": ["the", "cost"]}
    {"tokens": ["the", "cost"], "condition": "anything that JSON can say"}

A target that is a string is split at whitespace. Blank lines are skipped; an empty target is an error. With
`conditions="act"` every condition must be a dialog act, "inform(food=thai)", and is read as one.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from os import fspath
from typing import NoReturn

from llrnn.ground.errors import CorpusError
from llrnn.text.corpus.acts import Act, Conditions, act_at, check_conditions, lowercased
from llrnn.text.corpus.source import StrPath, read_lines
from llrnn.text.corpus.text import PlainTokens
from llrnn.text.corpus.types import Sentence

__all__ = ["read_jsonl"]

_KEYS = ("target", "tokens", "condition")
_CONDITION = re.compile(r'"condition"\s*:\s*"')  # a string cannot hold it: its quotes would be escaped


def read_jsonl(path: StrPath, *, lowercase: bool = False, conditions: Conditions = "plain") -> Iterator[Sentence]:
    """The sentences of a JSON lines file; `lowercase` writes the targets small, and the texts in conditions."""
    check_conditions(conditions)
    tokens = PlainTokens()
    for number, line in read_lines(path):
        if not line.strip():
            continue
        record = _Record(path, number, line)
        words = record.words()
        if lowercase:
            words = [word.lower() for word in words]
        name = f"{fspath(path)}:{number}"
        condition = record.act() if conditions == "act" else record.fields.get("condition")
        condition = lowercased(condition) if lowercase else condition
        yield Sentence(tuple([tokens[word] for word in words]), condition, name)


class _Record:
    """One line, decoded, with its place for messages."""

    def __init__(self, path: StrPath, number: int, line: str) -> None:
        self.path, self.number, self.line = path, number, line
        self.fields = self.checked(self.decoded())

    def decoded(self) -> object:
        try:
            return json.loads(self.line, object_pairs_hook=self.unrepeated, parse_constant=self.refuse_constant)
        except json.JSONDecodeError as cause:
            found = f"JSON is required, found a line that is none ({cause.msg}); write one object a line"
            raise CorpusError(found, path=self.path, line=self.number, column=cause.pos + 1) from cause
        except RecursionError:
            self.fail(None, "JSON that Python can decode is required, found too deep nesting; flatten it")
        except ValueError as cause:  # a number of thousands of digits
            self.fail(None, f"JSON that Python can decode is required ({cause}); write long numbers as strings")

    def unrepeated(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            times = Counter(key for key, _ in pairs)
            twice = next(key for key, _ in pairs if times[key] > 1)
            self.fail(twice, f"each key may stand once in an object, found {twice!r} again; remove one")
        return fields

    def refuse_constant(self, constant: str) -> NoReturn:
        column = self.line.find(constant) + 1
        reason = f"JSON is required, found {constant}, which JSON does not have; write null or a number"
        raise CorpusError(reason, path=self.path, line=self.number, column=column)

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

    def words(self) -> list[str]:
        key = "target" if "target" in self.fields else "tokens"
        value = self.fields[key]
        if isinstance(value, str) and key == "target":
            words = value.split()
        elif isinstance(value, list):
            words = value
        else:
            wanted = "a string or a list of words" if key == "target" else "a list of words"
            self.fail(key, f"{key} must be {wanted}, found {_kind(value)}; correct it")
        if not words:
            self.fail(key, f"{key} must have a word, found none; add it or remove the line")
        for index, word in enumerate(words):
            self.check_word(key, index, word)
        return words

    def check_word(self, key: str, index: int, word: object) -> None:
        if not isinstance(word, str):
            self.fail(key, f"{key}[{index}] must be a string, found {_kind(word)}; quote it")
        if word.split() != [word]:
            self.fail(key, f"{key}[{index}] must be a word without whitespace, found {word!r}; split or remove it")
        if not word.isascii() and any("\ud800" <= character <= "\udfff" for character in word):
            self.fail(key, f"{key}[{index}] must be text, found half a surrogate pair in {word!r}; correct it")

    def act(self) -> Act:
        """The condition as an act; its columns can be told where the string is written without escapes."""
        given = self.fields.get("condition")
        if not isinstance(given, str) or not given.strip():
            found = (
                "a blank string" if isinstance(given, str) else _kind(given) if "condition" in self.fields else "none"
            )
            self.fail(
                "condition", f'a dialog act is required, "condition": "inform(food=thai)", found {found}; give one'
            )
        begun = _CONDITION.search(self.line)
        if begun is not None and self.line.startswith(f'{given}"', begun.end()):
            return act_at(given, self.path, self.number, begun.end() + 1)
        return act_at(given, self.path, self.number, self.column("condition"), inside=False)

    def column(self, key: str) -> int:
        """The decoder forgets where a value stood, so the column is where its key is written."""
        return max(self.line.find(json.dumps(key, ensure_ascii=False)), 0) + 1

    def fail(self, key: str | None, reason: str) -> NoReturn:
        column = 1 if key is None else self.column(key)
        raise CorpusError(reason, path=self.path, line=self.number, column=column)


def _kind(value: object) -> str:
    """The JSON name of a value's type."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
