"""Configurations: read from TOML, changed by `--set`, checked."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from pydantic import ValidationError

from llrnn.config.keys import Config
from llrnn.ground.errors import ConfigError
from llrnn.ground.files import map_values, parse_toml, read_file
from llrnn.training.settings import problems

_DEEPEST = 20  # levels of tables and lists


def read_config(
    path: str | PathLike[str], changes: Sequence[str] = (), *, data: str | PathLike[str] = "data"
) -> Config:
    """Read a TOML configuration, apply changes, and validate it; raises ConfigError with all mistakes and their lines.

    `changes`: strings `key.key=value`, values in TOML or plain text, which replace those of the file. `{data}` in any
    text of the file stands for the folder `data`.

        config = read_config("configs/embedded.toml", ["training.epochs=5"])
    """
    try:
        text = read_file(path, limit=4_000_000).decode("utf-8")
        content = parse_toml(text)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; give a TOML configuration") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start}); give a TOML configuration") from None
    except tomllib.TOMLDecodeError as error:
        advice = "a TOML configuration is required here; `llrnn init TEXT --out CONFIG` writes one for a text"
        raise ConfigError(f"{path}: not TOML: {error}; {advice}") from None
    _require_flat(content, str(path))
    for change in changes:
        _apply(content, change)
    lines = key_lines(text)
    for changed in (re.sub(r"\s", "", change.partition("=")[0]) for change in changes):
        lines = {key: line for key, line in lines.items() if not key.startswith(f"{changed}.")} | {changed: 0}
    given = map_values(content, lambda one: one.replace("{data}", str(data)) if isinstance(one, str) else one)
    return parse_config(given, str(path), lines)


_TABLE = re.compile(r"\s*\[(\[?)([^\[\]]+)\]")
_KEY = re.compile(r"""\s*([\w.\-"' ]+?)\s*=\s*(\[\s*(?:#.*)?$)?""")


def key_lines(text: str) -> dict[str, int]:
    """Return the line number (from 1) of each key of a TOML text, by dotted name with list indices: `domains.0.kind`.

    An inline table that stands on a line of its own in a list is listed as `output.0`; keys within it are not.
    """
    found: dict[str, int] = {}
    table, listed, items, counts = "", "", 0, Counter[str]()
    for number, line in enumerate(text.splitlines(), 1):
        header, key = _TABLE.match(line), None if listed else _KEY.match(line)
        if listed and line.lstrip().startswith("]"):
            listed = ""
        elif listed and line.lstrip().startswith("{"):
            found[f"{listed}.{items}"] = number
            items += 1
        elif header and not listed:
            table = "".join(header[2].split())
            if header[1]:
                counts[table] += 1
                table = f"{table}.{counts[table] - 1}"
            found[table] = number
        elif key:
            place = f"{table}.{key[1].strip()}" if table else key[1].strip()
            found[place] = number
            listed, items = (place, 0) if key[2] else ("", 0)
    return found


def _line_of(place: str, lines: Mapping[str, int]) -> str:
    """Return `:12` for the dotted key `place` in line 12, or for the innermost table around it that is in the file.

    Empty where neither is in `lines`, or its line is 0 (set on the command line).
    """
    while place and place not in lines:
        place = place.rpartition(".")[0]
    return f":{lines[place]}" if lines.get(place) else ""


def _require_flat(content: dict[str, Any], place: str) -> None:
    """Raise ConfigError where tables and lists are nested over 20 deep, which would exhaust the stack.

    `place`: the file, for the message.
    """
    level: list[Any] = [content]
    for _ in range(_DEEPEST):
        level = [
            inner
            for value in level
            for inner in (value.values() if isinstance(value, dict) else value)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise ConfigError(f"{place}: tables and lists may be nested {_DEEPEST} deep, found deeper ones; write it flatter")


def parse_config(data: dict[str, Any], place: str, lines: Mapping[str, int] | None = None) -> Config:
    """Validate the content of a configuration and return it; raises ConfigError that names all mistakes, a line each.

    `data`: the parsed TOML; `place`: the file's name in messages; `lines`: line numbers of keys, from `key_lines`.

        config = parse_config(parse_toml(text), "mine.toml")
    """
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        found = problems(error, Config)
        said = (f"{place}{_line_of(key, lines or {})}: {key or 'configuration'}: {what}" for key, what in found)
        raise ConfigError(*said) from None


def _apply(data: dict[str, Any], change: str) -> None:
    key, equals, text = change.partition("=")
    if not equals or not all(part.strip() for part in key.split(".")):
        raise ConfigError(f"--set needs key=value, such as training.epochs=5, found {change!r}")
    *above, last = (part.strip() for part in key.split("."))
    if len(above) > _DEEPEST:
        raise ConfigError(f"--set {key[:40]}...: keys are nested {_DEEPEST} deep at most, found {len(above)} dots")
    for part in above:
        data = data.setdefault(part, {})
        if not isinstance(data, dict):
            raise ConfigError(f"--set {change}: {part} is not a table, so nothing can be set below it")
    data[last] = _value(text)


def _value(text: str) -> Any:
    """Return the value that `text` is in TOML, such as 5 or ["a"]; the text itself where it is no TOML value."""
    try:
        read = parse_toml(f"value = {text}")
        _require_flat(read, f"--set value {text[:40]}")
    except ValueError:
        return text
    return read["value"] if len(read) == 1 else text  # more than one: there was a line break in it
