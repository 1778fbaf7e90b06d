"""A controller that looks at the condition while it follows the prefix.

    below_t = f(ψ_t, below_{t-1})                       what was said so far
    α_t = softmax_i( (Q below_t)·m_i / √D )             where to look in the memory of the condition
    h_t = g([below_t; Σ_i α_ti m_i], h_{t-1})           what was said, and what was looked at, then and before

The look stands between two recurrent networks, so a whole sequence is one call of each; the one above remembers what
was looked at, as it would if the last look were fed in again (Luong et al. 2015 call that input feeding).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from llrnn.ground.errors import ConfigError
from llrnn.model.controllers.base import Controller, Hidden, draw_first
from llrnn.model.controllers.encoders import Encoder


class Attentive(Controller):
    """One controller below, a look at the condition, and one controller above."""

    reads_conditions = True

    def __init__(self, below: Controller, encoder: Encoder, above: Controller) -> None:
        super().__init__()
        if above.inputs != below.hidden + encoder.size:
            raise ConfigError(
                f"the controller above must take {below.hidden} + {encoder.size} inputs (what is below, and a row of "
                f"the memory), found {above.inputs}"
            )
        self.below, self.encoder, self.above = below, encoder, above
        self.inputs, self.hidden = below.inputs, above.hidden
        self.query = nn.Parameter(torch.zeros(encoder.size, below.hidden))  # Q
        draw_first(self, [("query", self.query)])

    def unknown_names(self, condition: object) -> list[str]:
        return self.encoder.unknown_names(condition)

    @property
    def known_names(self) -> frozenset[str]:
        return self.encoder.known_names

    @property
    def state_size(self) -> int:
        return 2 + self.below.state_size + self.above.state_size

    def initial(self, conditions: Sequence[object], *, generator: torch.Generator | None = None) -> Hidden:
        memory, counts = self.encoder(conditions, generator)
        own = (part.initial(conditions, generator=generator) for part in (self.below, self.above))
        return memory, counts, *(tensor for state in own for tensor in state)

    def scan(self, psi: Tensor, state: Hidden, *, generator: torch.Generator | None = None) -> tuple[Tensor, Hidden]:
        memory, counts, *own = state
        width = self.below.state_size
        below, below_after = self.below.scan(psi, tuple(own[:width]), generator=generator)
        seen = self.weights(below, memory, counts) @ memory
        h, above_after = self.above.scan(torch.cat([below, seen], -1), tuple(own[width:]), generator=generator)
        return h, (memory, counts, *below_after, *above_after)

    def weights(self, below: Tensor, memory: Tensor, counts: Tensor) -> Tensor:
        """α: how much each row of the memory is looked at, (B, T, S)."""
        scores = (below @ self.query.t()) @ memory.transpose(1, 2) / math.sqrt(self.encoder.size)
        return scores.masked_fill(~counts.unsqueeze(1), float("-inf")).softmax(-1)

    def settings(self) -> dict[str, Any]:
        return {
            "kind": "attentive",
            "below": self.below.settings(),
            "encoder": self.encoder.settings(),
            "above": self.above.settings(),
        }

    def __repr__(self) -> str:
        return f"Attentive({self.below!r}, {self.encoder!r}, {self.above!r})"
