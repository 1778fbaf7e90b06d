"""What a configuration says of conditions: how they are read, and the network that reads them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field, model_validator

from llrnn.config.features import Strict
from llrnn.model.controllers import Attentive, Controller, Encoder, make_controller
from llrnn.text.conditions import Reading, Slots, Spelled, Whole, Words


class ControllerConfig(Strict):
    """The recurrent network."""

    kind: Literal["elman", "gru", "lstm"] = "lstm"
    hidden: int = Field(256, ge=1, le=2**20, description="units of each layer")
    layers: int = Field(1, ge=1, le=1000, description="layers")
    inputs: int | None = Field(None, ge=1, le=2**20, description="size of ψ's embedding; as many as hidden by default")
    dropout: float = Field(0.0, ge=0, lt=1, description="variational dropout, one mask a sequence")

    def make(self) -> Controller:
        return make_controller(self.model_dump())


class ConditionConfig(Strict):
    """A network that reads the condition, and attention between the first layer of the controller and the others."""

    reading: Literal["words", "slots", "spelled", "whole"] = Field(
        "words",
        description="word by word; words with their slots as features; the same by characters; or one symbol, such as "
        "a category",
    )
    unread: list[str] = Field([], description="slots: those whose words are not read, only that they have a value")
    ignored: list[str] = Field([], description="slots: those that the network does not read at all")
    encoder: Literal["lstm", "gru", "none"] = Field("lstm", description="reads in both directions; none: vectors alone")
    size: int = Field(128, ge=1, le=2**20, description="size of the memory's rows")
    min_count: int = Field(1, ge=1, description="features of conditions that fire less often in training are not known")

    @model_validator(mode="after")
    def _keys_fit(self) -> ConditionConfig:
        if (self.unread or self.ignored) and self.reading != "slots":
            raise ValueError(f"unread and ignored are for reading = 'slots', found reading = {self.reading!r}")
        if self.encoder != "none" and self.size % 2:
            raise ValueError(f"size must be even, half for each direction of the encoder, found {self.size}")
        return self

    def _reading(self) -> Reading:
        if self.reading == "slots":
            return Slots(self.unread, self.ignored)
        plain: dict[str, type[Words | Spelled | Whole]] = {"words": Words, "spelled": Spelled, "whole": Whole}
        return plain[self.reading]()

    def controller(self, own: ControllerConfig, conditions: Iterable[object]) -> Controller:
        """One layer below the look at the condition, the others, at least one, above."""
        encoder = Encoder.for_conditions(
            self._reading(), conditions, self.size, min_count=self.min_count, kind=self.encoder, dropout=own.dropout
        )
        below = own.model_copy(update={"layers": 1}).make()
        above = own.model_copy(update={"layers": max(1, own.layers - 1), "inputs": below.hidden + self.size})
        return Attentive(below, encoder, above.make())
