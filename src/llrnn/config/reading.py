"""A configuration is read from TOML, changed by `--set`, and checked."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any

from pydantic import BaseModel, ValidationError

from llrnn.config.keys import Config
from llrnn.ground.errors import ConfigError
from llrnn.ground.files import read_file
from llrnn.training.settings import first_problem, models_by_kind

_DEEPEST = 20  # levels of tables and lists


def described_keys(model: type[BaseModel] = Config, prefix: str = "") -> Iterator[str]:
    """Every key with what it means, for `llrnn train --help`; the keys of tables in a list stand below its own."""
    for name, field in model.model_fields.items():
        if field.description:
            yield f"{prefix}{name}: {field.description}"
        for below in dict.fromkeys(models_by_kind(field.annotation).values()):
            yield from described_keys(below, f"{prefix}{name}.")


def read_config(
    path: str | PathLike[str], changes: Sequence[str] = (), *, data: str | PathLike[str] = "data"
) -> Config:
    """Read a TOML file, apply `key.key=value` changes (values in TOML, or plain text), and check everything.

    `{data}` in any text of the file stands for the folder `data`.

        config = read_config("configs/embedded.toml", ["training.epochs=5"])
    """
    try:
        content = tomllib.loads(read_file(path, limit=4_000_000).decode("utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; give a TOML configuration") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start}); give a TOML configuration") from None
    except (ValueError, RecursionError) as error:  # tomllib lets some faults of its parts through as they are
        raise ConfigError(f"{path}: not TOML: {error}") from None
    _require_flat(content, str(path))
    for change in changes:
        _apply(content, change)
    return parse_config(_filled_in(content, str(data)), str(path))


def _require_flat(content: dict[str, Any], place: str) -> None:
    """No configuration is nested deeply; what is would exhaust the stack of whatever walks through it."""
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


def _filled_in(value: Any, data: str) -> Any:
    """The same with `{data}` replaced in every text."""
    if isinstance(value, dict):
        return {key: _filled_in(inner, data) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled_in(inner, data) for inner in value]
    return value.replace("{data}", data) if isinstance(value, str) else value


def parse_config(data: dict[str, Any], place: str) -> Config:
    """Check a configuration that was read; `place` is named in messages.

    config = parse_config(tomllib.loads(text), "mine.toml")
    """
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        raise ConfigError(f"{place}: {first_problem(error, Config)}") from None


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
    """As TOML reads it; what is not TOML is plain text."""
    try:
        read = tomllib.loads(f"value = {text}")
        _require_flat(read, f"--set value {text[:40]}")
    except (ValueError, RecursionError):
        return text
    return read["value"] if len(read) == 1 else text  # more than one: there was a line break in it
