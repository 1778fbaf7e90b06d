"""What the tags of analysers and dictionaries mean in the names of Universal Dependencies: a TOML file for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources

from llrnn.ground.files import parse_toml
from llrnn.text.morphology import attribute_value


@cache
def tag_table(name: str, table: str = "tags") -> dict[str, str]:
    """Return tag -> attributes (separated by spaces) from a table of `NAME.toml`; a key there may list several tags.

    For example:

        tag_table("estonian", "classes")["S"]          # "POS:NOUN"
    """
    read = parse_toml(resources.files(__name__).joinpath(f"{name}.toml").read_text("utf-8"))[table]
    return {tag: meaning for tags, meaning in read.items() for tag in tags.split()}


def attributes_of(table: Mapping[str, str], tags: Iterable[str], *, unknown: str = "") -> list[str]:
    """Return the attributes of tags; others become `UNKNOWN:tag` with the name `unknown`, or are left out."""
    found: list[str] = []
    for tag in tags:
        if tag in table:
            found += table[tag].split()
        elif unknown:
            found.append(f"{unknown}:{attribute_value(tag)}")
    return found
