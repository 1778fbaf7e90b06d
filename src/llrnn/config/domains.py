"""Domains as configuration: `[[domains]] kind = "numbers", language = "fr"`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from llrnn.config.features import Strict, refuse_unused
from llrnn.languages.domains import Names, Numbers, Spelling
from llrnn.text.domain import Domain
from llrnn.text.lexicon import Lexicon


class NumbersConfig(Strict):
    """Numbers as they are written."""

    kind: Literal["numbers"]
    language: str = Field("en", description="whose ordinals: fr, en, de, et, tr, or any of these; another has none")
    ratio: float = Field(0.3, gt=0, lt=1, description="how much rarer a number is with one digit more; below about 0.4")

    def make(self, counts: Mapping[str, int]) -> Domain:
        return Numbers(self.language, ratio=self.ratio).counted(counts)


class SpellingConfig(Strict):
    """Any string, by a model of characters."""

    kind: Literal["spelling"]
    order: int = Field(5, ge=2, le=12, description="characters: how many, the predicted one included")
    min_counts: list[int] = Field([0, 0, 0, 2], description="the least count of character n-grams of each order")
    endings: int = Field(200, ge=0, description="how many endings are told apart")
    longest: int = Field(4, ge=1, description="the longest ending")
    lengths: list[int] = Field([4, 8], description="where one band of lengths ends and the next begins")
    one_cell: bool = Field(False, description="no cells: all strings are alike to the network")
    seen_at_most: int | None = Field(None, ge=1, description="learn from words that were seen so often or less")

    @model_validator(mode="after")
    def _one_cell_has_no_kinds(self) -> Self:
        if self.one_cell:
            refuse_unused(self, ["endings", "longest", "lengths"], "tells cells apart", "one_cell = true")
        return self

    def make(self, counts: Mapping[str, int]) -> Domain:
        return self.spelling(counts)

    def spelling(self, counts: Mapping[str, int]) -> Spelling:
        at_most = self.seen_at_most
        return Spelling(
            [word for word, count in counts.items() if at_most is None or count <= at_most],
            order=self.order,
            min_counts=self.min_counts,
            endings=self.endings,
            longest=self.longest,
            lengths=self.lengths,
            cells=not self.one_cell,
        )


class NamesConfig(SpellingConfig):
    """The names of a gazetteer, and any other string."""

    kind: Literal["names"]  # type: ignore[assignment]
    tsv: str = Field(description="the gazetteer: a table of name and attributes")
    share: float = Field(0.5, gt=0, lt=1, description="how much of the mass the gazetteer has")

    def make(self, counts: Mapping[str, int]) -> Domain:
        listed = Lexicon.from_tsv(self.tsv)
        gazetteer = {form: sorted(listed(form)) for form in listed.forms()}
        return Names(gazetteer, self.spelling(counts), share=self.share)


AnyDomain = Annotated[NumbersConfig | SpellingConfig | NamesConfig, Field(discriminator="kind")]
