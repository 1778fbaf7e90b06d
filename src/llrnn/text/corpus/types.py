"""What a corpus is made of: tokens in sentences, with whatever annotation the source had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

_NOTHING: Mapping[str, str] = MappingProxyType({})


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
