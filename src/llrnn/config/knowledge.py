"""What a configuration says of backgrounds and of features of the context."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from llrnn.config.features import Strict

Part = Literal["train", "valid", "test"]


class NGramConfig(Strict):
    """An n-gram model: estimated on parts of the corpus or on other texts, or read from an ARPA file."""

    order: int = Field(5, ge=1, le=20, description="n-grams: how many words, the predicted one included")
    min_counts: list[int] = Field([], description="n-grams: the least count of each order; rarer ones are pruned")
    parts: list[Part] = Field(["train"], min_length=1, description="the parts of the corpus that are counted")
    files: list[str] = Field([], description="n-grams: other texts to count instead of parts of the corpus")
    folds: int = Field(10, ge=0, description="n-grams: cross-fit on the training text in so many folds; 0: do not")
    arpa: str | None = Field(None, description="n-grams: an ARPA file instead, plain or gzip")
    restrict: bool = Field(False, description="n-grams: leave out words of the file that the vocabulary does not list")

    @model_validator(mode="after")
    def _one_source(self) -> NGramConfig:
        if self.arpa is not None and self.files:
            raise ValueError("give either arpa = file or files = [texts]")
        if self.folds == 1:
            raise ValueError("folds = 1 would leave nothing to count: 2 or more, or 0 for none")
        return self


class BackgroundConfig(NGramConfig):
    """What is likely before the network has its say."""

    kind: Literal["uniform", "unigram", "discounted", "ngram"] = Field(
        "uniform", description="uniform, unigram, discounted (unigram with room for new words) or ngram"
    )
    frequencies: str | None = Field(
        None, description="unigram: a frequency file instead; discounted: how likely which new word is"
    )
    smoothing: float = Field(0.0, ge=0, description="unigram: added to every count")

    @model_validator(mode="after")
    def _keys_fit_the_kind(self) -> BackgroundConfig:
        if self.kind != "ngram" and (self.arpa is not None or self.files or self.min_counts):
            raise ValueError(f"arpa, files and min_counts are for kind = 'ngram', found kind = {self.kind!r}")
        return self


class RepeatedConfig(Strict):
    """Whether the word occurred before."""

    kind: Literal["repeated"]
    window: int = Field(50, ge=1, description="how far back")


class ExpertConfig(NGramConfig):
    """An n-gram model that the network listens to, more or less, at every step."""

    kind: Literal["expert"]
    name: str = Field("kn", min_length=1, description="what explanations and --expert call it")


AnyContextual = Annotated[RepeatedConfig | ExpertConfig, Field(discriminator="kind")]
