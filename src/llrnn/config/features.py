"""Feature groups as configuration: `{ kind = "suffixes", longest = 3, min_count = 20 }`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field

from llrnn.knowledge import features
from llrnn.knowledge.features import Features
from llrnn.text.lexicon import Lexicon


class Strict(BaseModel):
    """Unknown keys are errors, and so is a text or a truth value where a number is meant."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def refuse_unused(table: BaseModel, keys: Iterable[str], purpose: str, found: str, place: str = "") -> None:
    """Keys that do nothing beside what else is given must be left at their defaults."""
    for key in keys:
        if getattr(table, key) != type(table).model_fields[key].default:
            raise ValueError(f"{place}{key} {purpose}, found {found}; leave it out")


def by_kind(sources: Mapping[str, Sequence[str]], default: str | None = None) -> Discriminator:
    """Which model a table is of: its kind and, where `sources` has keys for that kind, the first of them it gives.

    "ngram", "ngram with arpa": every model has exactly the keys that count, and messages name it so.
    """

    def named(table: Any) -> str | None:
        given = table if isinstance(table, dict) else vars(table) if isinstance(table, BaseModel) else {}
        kind = given.get("kind", default)
        if kind is None:
            return None
        return next((f"{kind} with {key}" for key in sources.get(str(kind), ()) if key in given), str(kind))

    return Discriminator(named)


class FeatureConfig(Strict):
    """Scale of any group."""

    scale: float = Field(1.0, gt=0, description="how loud the group is")
    balanced: bool = Field(False, description="divide by the root mean square norm of the group")
    shared: int | None = Field(None, ge=1, description="only features that at least so many types share")
    listed: bool = Field(False, description="only on listed words: strings of domains have none of the group")

    def make(self, lexicon: Lexicon) -> Features:
        made = self.bare(lexicon)
        made = made.of_listed() if self.listed else made
        made = made if self.shared is None else made.frequent(min_count=self.shared)
        made = made.balanced() if self.balanced else made
        return made if self.scale == 1.0 else made.scaled(self.scale)

    def bare(self, lexicon: Lexicon) -> Features:
        raise NotImplementedError


class IdentityConfig(FeatureConfig):
    """Which word it is, for the most frequent ones."""

    kind: Literal["identity"]
    top: int | None = Field(None, ge=0, description="how many words; all by default")
    without: list[str] = Field([], description="attributes of the lexicon: words that have one are not told apart")

    def bare(self, lexicon: Lexicon) -> Features:
        without = {form for form in lexicon.forms() if lexicon(form) & {*self.without}} if self.without else set()
        return features.Identity(self.top, without=without)


class AttributesConfig(FeatureConfig):
    """What the lexicon says."""

    kind: Literal["attributes"]

    def bare(self, lexicon: Lexicon) -> Features:
        return features.Attributes(lexicon)


class TableConfig(FeatureConfig):
    """Attributes from a table of one's own, beside the lexicon: clusters, lemmas, topics."""

    kind: Literal["table"]
    tsv: str = Field(description="a table of form and attributes")
    name: str = Field("Table", description="the group's name in reports")

    def bare(self, lexicon: Lexicon) -> Features:
        return features.Function(Lexicon.from_tsv(self.tsv), name=self.name)


class AffixConfig(FeatureConfig):
    """Beginnings or endings."""

    kind: Literal["prefixes", "suffixes"]
    longest: int = Field(3, ge=1, description="longest length")
    min_count: int = Field(2, ge=1, description="types that must share it")
    top: int | None = Field(None, ge=1, description="only the commonest")

    def bare(self, lexicon: Lexicon) -> Features:
        made = features.Prefixes if self.kind == "prefixes" else features.Suffixes
        return made(self.longest, min_count=self.min_count, top=self.top)


class ShapeConfig(FeatureConfig):
    """Capitals, digits, other signs."""

    kind: Literal["shape"]

    def bare(self, lexicon: Lexicon) -> Features:
        return features.Shape()


class ShownConfig(FeatureConfig):
    """What a string shows as the domains see it: for open vocabularies."""

    kind: Literal["shown"]

    def bare(self, lexicon: Lexicon) -> Features:
        return features.Shown()


class NumericConfig(FeatureConfig):
    """Numbers, small numbers, years."""

    kind: Literal["numeric"]
    small: float = Field(100.0, gt=0, description="where small numbers end")

    def bare(self, lexicon: Lexicon) -> Features:
        return features.Numeric(small=self.small)


AnyFeature = Annotated[
    IdentityConfig | AttributesConfig | TableConfig | AffixConfig | ShapeConfig | ShownConfig | NumericConfig,
    Field(discriminator="kind"),
]
