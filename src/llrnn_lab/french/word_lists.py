"""The words of the grammar, from `words.toml`: plain lists, and tables by kind."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files

_LISTS: dict[str, str] = tomllib.loads(files("llrnn_lab.french").joinpath("words.toml").read_text("utf8"))


def text(name: str) -> str:
    """A list as it is written."""
    return _LISTS[name]


def words(name: str) -> list[str]:
    """The words of a list."""
    return text(name).split()


def rows(name: str) -> list[tuple[str, str]]:
    """(key, words) for each row of a table."""
    parted = (row.partition(":") for row in re.split(r"\n(?! )", text(name).strip()))
    return [(key.strip(), words.strip()) for key, _, words in parted]
