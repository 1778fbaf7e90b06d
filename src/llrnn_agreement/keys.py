"""The keys of `kind = "agreement"` in [[contextual]] and [[contextual_inputs]], and `llrnn data agreement`."""

from __future__ import annotations

from typing import Self

from pydantic import AliasChoices, Field, model_validator

from llrnn.config.keys import Strict, refuse_unused


class AgreementKeys(Strict):
    """Whether a word agrees with who governs it; as an input, who that is."""

    file: str | None = Field(None, description="what `llrnn data agreement` wrote, instead of the other keys")
    rules: str = Field("", description="french, estonian, turkish, or a file .toml of one's own")
    treebanks: list[str] = Field([], description="CoNLL-U files with readings, and what comes after what")
    readings: list[str] = Field([], description="files of readings, form TAB weight TAB attributes")
    name: str = Field("agreement", min_length=1, description="what explanations and --expert call it")
    context_independent: bool = Field(
        False,
        validation_alias=AliasChoices("context_independent", "steady"),
        description="features count the same in every context",
    )

    @model_validator(mode="after")
    def _somebody_knows_words(self) -> Self:
        if self.file is not None:
            refuse_unused(
                self, ["rules", "treebanks", "readings"], "is to be estimated from", "file = ..., which has it"
            )
        elif not self.rules:
            raise ValueError('agreement needs rules = "french", say, or file = ... that `llrnn data agreement` wrote')
        elif not (self.treebanks or self.readings):
            raise ValueError("agreement needs treebanks = [...] or readings = [...], which say what words can be")
        return self
