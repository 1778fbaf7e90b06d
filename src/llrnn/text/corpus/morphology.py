"""The FEATS column of CoNLL-U: `_`, or `Name=Value|Name=Value1,Value2`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from llrnn.text.corpus.types import Token

__all__ = ["FeatsCache", "merge_tokens"]

# Whitespace, commas and bars separate attributes wherever they are written down, so none may hold one.
_FEATURE = re.compile(r"([^\s=,|]+)=([^\s=,|]+(?:,[^\s=,|]+)*)")


class FeatsCache(dict[str, Mapping[str, str]]):
    """FEATS string -> features by name, parsed once: a treebank has few, and its tokens share the result.

    A malformed string raises a ValueError whose arguments are the reason and the offset in the string.
    """

    def __missing__(self, feats: str) -> Mapping[str, str]:
        parsed = self[feats] = MappingProxyType({} if feats == "_" else _parse(feats))
        return parsed


def _parse(feats: str) -> dict[str, str]:
    found: dict[str, str] = {}
    offset = 0
    for part in feats.split("|"):
        match = _FEATURE.fullmatch(part)
        if match is None:
            raise ValueError(f"FEATS must be _ or Name=Value|Name=Value1,Value2, found {part!r}; correct it", offset)
        name, values = match.groups()
        if name in found:
            raise ValueError(
                f"FEATS must give each name once, found {name!r} again; write {name}={found[name]},{values}",
                offset,
            )
        found[name] = values
        offset += len(part) + 1
    return found


def merge_tokens(form: str, lemma: str | None, parts: Iterable[Token]) -> Token:
    """One token for several words (`du` for `de` + `le`), whose attributes are the union of theirs.

    Its `pos` is that of the first part; where the parts differ, all of theirs stand in `feats` under the name
    POS, since a token has one `pos` only. Values of a name are sorted and comma-separated. It has no head and
    no relation.
    """
    parts = tuple(parts)
    values: dict[str, set[str]] = {}
    for part in parts:
        for name, value in part.feats.items():
            values.setdefault(name, set()).update(value.split(","))
    tags = {part.pos for part in parts if part.pos}
    if len(tags) > 1 or parts[0].pos not in tags:
        values.setdefault("POS", set()).update(tags)
    feats = {name: ",".join(sorted(values[name])) for name in sorted(values) if values[name]}
    return Token(form, lemma, parts[0].pos, MappingProxyType(feats))
