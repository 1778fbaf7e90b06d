"""A condition as a memory that a network can look at.

    e_i = Σ_{f fires on symbol i of C} E_f                  the symbols of C with their input features
    m_1..S = the states of a network that reads e_1..S in both directions, or e_1..S themselves

A `ConditionTokenizer` says what the symbols of a condition are (`text.conditions`). A category is one symbol: its
memory is one row, a learned vector, and to look at it is to read that vector. So conditions of a fixed size need
nothing else.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from llrnn.ground.caches import ByteCache
from llrnn.ground.errors import ConfigError, quoted
from llrnn.model.controllers.recurrent import (
    Controller,
    Hidden,
    TorchLSTM,
    init_part,
    variational_dropout,
    without_init,
)
from llrnn.text.conditions import Act, ConditionTokenizer, Token, fields_of, make_tokenizer

_OTHER = "Other"  # fires on a symbol of which nothing is known
_END: Token = ("End",)  # behind the last symbol, so that there is always something to look at
_NETWORKS: dict[str, type[nn.RNNBase]] = {"lstm": TorchLSTM, "gru": nn.GRU}
_KNOWN_BYTES = 64 * 2**20  # of conditions whose symbols are kept
_BYTES_A_SYMBOL, _BYTES_A_COLUMN = 80, 8  # of a list, and of a place in it; small numbers are shared


class Encoder(nn.Module):
    """From conditions to their memories; `names` are the features that it knows, all others are silent."""

    def __init__(
        self,
        reading: ConditionTokenizer,
        names: Sequence[str],
        size: int = 128,
        *,
        kind: str = "lstm",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if kind not in ("none", *_NETWORKS) or size < 1 or (kind != "none" and size % 2):
            raise ConfigError(
                "an encoder is lstm, gru (of an even size: half for each direction) or none, of a size of 1 or more; "
                f"found {quoted(kind)} of size {size}"
            )
        self.reading, self.size, self.kind, self.dropout = reading, size, kind, dropout
        self.names = tuple(dict.fromkeys((_OTHER, *_END, *names)))
        self._column = {name: column for column, name in enumerate(self.names)}
        self._known: ByteCache[str, list[list[int]]] = ByteCache(_KNOWN_BYTES, _bytes_of)
        self.weight = nn.Parameter(torch.zeros(len(self.names), size))
        self.network = None if kind == "none" else without_init(_NETWORKS[kind], size, size // 2, bidirectional=True)
        init_part(self, list(self.named_parameters()))

    @classmethod
    def for_conditions(
        cls,
        reading: ConditionTokenizer,
        conditions: Iterable[object],
        size: int = 128,
        *,
        min_count: int = 1,
        **options: Any,
    ) -> Encoder:
        """An encoder that knows the features that fire `min_count` times or more on these conditions."""
        counts = Counter(name for condition in conditions for token in reading.tokens(condition) for name in token)
        return cls(reading, sorted(name for name, n in counts.items() if n >= min_count), size, **options)

    def forward(self, conditions: Sequence[object], generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """The memories side by side, (B, S, size), and which of their rows count, (B, S)."""
        rows = [self._columns(condition) for condition in conditions]
        lengths = torch.tensor([len(row) for row in rows])
        counts = torch.arange(int(lengths.max())) < lengths[:, None]
        symbols = self._embedded([symbol for row in rows for symbol in row])
        padded = symbols.new_zeros(*counts.shape, self.size)
        counts = counts.to(symbols.device)
        padded[counts] = symbols
        memory = self._read(variational_dropout(padded, self.dropout, generator), lengths)
        return variational_dropout(memory, self.dropout, generator), counts

    def _embedded(self, symbols: list[list[int]]) -> Tensor:
        device = self.weight.device
        offsets = torch.tensor([0, *accumulate(len(symbol) for symbol in symbols)][:-1], device=device)
        columns = torch.tensor([column for symbol in symbols for column in symbol], device=device)
        return F.embedding_bag(columns, self.weight, offsets, mode="sum")

    def _read(self, symbols: Tensor, lengths: Tensor) -> Tensor:
        if self.network is None:
            return symbols
        packed = pack_padded_sequence(symbols, lengths, batch_first=True, enforce_sorted=False)
        memory, _ = pad_packed_sequence(self.network(packed)[0], batch_first=True)
        return memory

    def _columns(self, condition: object) -> list[list[int]]:
        """The known features of each symbol of a condition, by number."""
        if condition is None:
            raise ConfigError("this model writes from a condition, and none was given; give one to every sequence")
        key = condition if isinstance(condition, str) else repr(condition)
        return self._known.get(key, lambda: self._looked_up(condition))

    def _looked_up(self, condition: object) -> list[list[int]]:
        tokens = self.reading.tokens(condition)
        tokens = [*tokens, _END] if self.reading.ends or not tokens else tokens
        known = [[self._column[name] for name in token if name in self._column] for token in tokens]
        return [columns or [self._column[_OTHER]] for columns in known]

    def unknown_names(self, condition: object) -> list[str]:
        """The act and the slots of a condition that it ignores: no condition that it was made for had them."""
        if not isinstance(condition, Act | Mapping):
            return []
        given = [*([condition.name] if isinstance(condition, Act) else []), *(slot for slot, _ in fields_of(condition))]
        return [name for name in dict.fromkeys(given) if name and name not in self.known_names]

    @cached_property
    def known_names(self) -> frozenset[str]:
        """Whatever an act or a slot may be called: it is a feature, part of one, or for others to look at."""
        named = {name.partition(":")[2] for name in self.names if name.startswith(("Act:", "Slot:", "Word:"))}
        return frozenset({*named, *(name.partition("=")[0] for name in self.names), *self.reading.passed_over})

    def settings(self) -> dict[str, Any]:
        """What it was made with."""
        return {
            "reading": self.reading.settings(),
            "names": list(self.names),
            "size": self.size,
            "kind": self.kind,
            "dropout": self.dropout,
        }

    def __repr__(self) -> str:
        return f"Encoder({self.reading.kind}, {len(self.names)} features, size={self.size}, kind={self.kind!r})"


def _bytes_of(key: str, symbols: list[list[int]]) -> int:
    return sys.getsizeof(key) + sum(_BYTES_A_SYMBOL + _BYTES_A_COLUMN * len(columns) for columns in symbols)


def make_encoder(settings: dict[str, Any]) -> Encoder:
    """An encoder from what `settings()` says."""
    given = dict(settings)
    names = given.get("names")
    wrong = [name for name in names if not isinstance(name, str)] if isinstance(names, list | tuple) else [names]
    if wrong:
        raise ConfigError(f"the features of an encoder must be a list of their names, found {quoted(wrong[0])}")
    return Encoder(make_tokenizer(given.pop("reading")), **given)


# A controller that looks at the condition while it follows the prefix.
#
#     below_t = f(ψ_t, below_{t-1})                       what was said so far
#     α_t = softmax_i( (Q below_t)·m_i / √D )             where to look in the memory of the condition
#     h_t = g([below_t; Σ_i α_ti m_i], h_{t-1})           what was said, and what was looked at, then and before
#
# The look stands between two recurrent networks, so a whole sequence is one call of each; the one above remembers what
# was looked at, as it would if the last look were fed in again (Luong et al. 2015 call that input feeding).


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
        init_part(self, [("query", self.query)])

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
