"""Names: those of a gazetteer, and any other string, as a spelling weighs it.

    q(x) = share · g(x) + (1 − share) · s(x)            g: the gazetteer, normalised;  s: the spelling, normalised

A name of the gazetteer is in the cell of its attributes, finite and summed up; all other strings stay in the cells of
the spelling, from which the names of the gazetteer have left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import DomainError
from llrnn.languages.domains.spelling import Spelling
from llrnn.text.automata import DFA, check_string
from llrnn.text.domain import Cell, Domain, log_mass_left


class Names(Domain):
    """A gazetteer mixed with a spelling: `Names({"Rome": ["City"], "Anna": ["Person"]}, Spelling(words))`.

    gazetteer   name -> attributes
    spelling    the domain of all other names
    weights     name -> how much it counts for; 1 if nothing is said
    share       of the gazetteer in the whole mass, between 0 and 1
    """

    def __init__(
        self,
        gazetteer: Mapping[str, Sequence[str]],
        spelling: Spelling,
        *,
        weights: Mapping[str, float] | None = None,
        share: float = 0.5,
        name: str = "name",
    ) -> None:
        if not 0 < share < 1:
            raise DomainError(f"the share of the gazetteer of {name!r} must lie between 0 and 1, found {share}")
        self._name, self._spelling, self._share = name, spelling, share
        self._gazetteer = {entry: tuple(sorted(shown)) for entry, shown in sorted(gazetteer.items())}
        self._weights = np.array([(weights or {}).get(entry, 1.0) for entry in self._gazetteer], dtype=np.float64)
        self._check()

    def _check(self) -> None:
        if not self._gazetteer:
            raise DomainError(f"the gazetteer of {self._name!r} is empty; a spelling alone needs no Names")
        for entry in self._gazetteer:
            problem = check_string(entry)
            if problem is not None:
                raise DomainError(f"the gazetteer of {self._name!r} holds {entry!r}, which is no symbol: {problem}")
            if self._spelling.language.label(entry) < 0:
                raise DomainError(
                    f"the gazetteer of {self._name!r} holds {entry!r}, which was taken out of its spelling: "
                    "take it out of both, or give the spelling as it was (a vocabulary cuts it by itself)"
                )
        if not (np.isfinite(self._weights).all() and (self._weights > 0).all()):
            raise DomainError(f"the weights of the gazetteer of {self._name!r} must be finite and above 0")

    @cached_property
    def _kinds(self) -> tuple[tuple[str, ...], ...]:
        """The distinct sets of attributes in the gazetteer."""
        return tuple(sorted(set(self._gazetteer.values())))

    @cached_property
    def _entries(self) -> dict[str, tuple[int, float]]:
        """Each name with its cell and its q."""
        mine = list(self._gazetteer)
        spelled = np.exp(self._spelling.locate(mine)[1] - self._log_spelled)
        q = self._share * self._weights / self._weights.sum() + (1 - self._share) * spelled
        cell = {kind: number for number, kind in enumerate(self._kinds)}
        return {entry: (cell[self._gazetteer[entry]], float(own)) for entry, own in zip(mine, q, strict=True)}

    @cached_property
    def _log_spelled(self) -> float:
        """log of the whole mass of the spelling."""
        return float(np.logaddexp.reduce(self._spelling.log_mass))

    @property
    def name(self) -> str:
        return self._name

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        own = tuple(
            Cell(f"{self._name}:{'+'.join(kind) or 'listed'}", (f"Name:{self._name}", *kind)) for kind in self._kinds
        )
        spelled, source = self._spelling.cells, self._spelling.name  # nobody knows that those are names
        return (*own, *(Cell(f"{self._name}:{cell.name}", cell.attributes, source) for cell in spelled))

    @cached_property
    def log_mass(self) -> Floats:
        own = np.zeros(len(self._kinds))
        for cell, q in self._entries.values():
            own[cell] += q
        rest = log_mass_left(self._spelling, list(self._gazetteer)) - self._log_spelled + np.log(1 - self._share)
        return np.concatenate([np.log(own), rest])

    @property
    def language(self) -> DFA:
        return self._spelling.language

    def locate(self, strings: Sequence[str]) -> tuple[Ints, Floats]:
        cells, log_q = self._spelling.locate(strings)
        cells = np.where(cells >= 0, cells + len(self._kinds), cells)
        log_q = log_q - self._log_spelled + np.log(1 - self._share)
        for i, string in enumerate(strings):
            own = self._entries.get(string)
            if own is not None:
                cells[i], log_q[i] = own[0], np.log(own[1])
        return cells, log_q

    def draw(self, cell: int, count: int, rng: np.random.Generator) -> list[str]:
        if cell < len(self._kinds):
            mine = [(entry, q) for entry, (own, q) in self._entries.items() if own == cell]
            weights = np.array([q for _, q in mine])
            return [mine[i][0] for i in rng.choice(len(mine), size=count, p=weights / weights.sum())]
        drawn: list[str] = []
        while len(drawn) < count:  # names of the gazetteer have left the cells of the spelling
            more = self._spelling.draw(cell - len(self._kinds), count - len(drawn), rng)
            drawn += [string for string in more if string not in self._entries]
        return drawn

    def members(self, cell: int) -> Sequence[str] | None:
        if cell >= len(self._kinds):
            return None
        return [entry for entry, (own, _) in self._entries.items() if own == cell]

    def without(self, language: DFA) -> Domain:
        kept = {entry: shown for entry, shown in self._gazetteer.items() if language.label(entry) < 0}
        weights = dict(zip(self._gazetteer, self._weights.tolist(), strict=True))
        return Names(kept, self._spelling.without(language), weights=weights, share=self._share, name=self._name)

    def described(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        plain, arrays = self._spelling.described()
        fields = {
            "kind": "names",
            "name": self._name,
            "share": self._share,
            "gazetteer": {entry: list(shown) for entry, shown in self._gazetteer.items()},
            "spelling": plain,
        }
        return fields, {**{f"spelling.{k}": array for k, array in arrays.items()}, "weights": self._weights}

    @classmethod
    def restored(cls, plain: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Names:
        """The inverse of `described`."""
        own = {k.removeprefix("spelling."): array for k, array in arrays.items() if k.startswith("spelling.")}
        weights = dict(zip(sorted(plain["gazetteer"]), arrays["weights"].tolist(), strict=True))
        spelling = Spelling.restored(plain["spelling"], own)
        return cls(plain["gazetteer"], spelling, weights=weights, share=plain["share"], name=plain["name"])

    def __repr__(self) -> str:
        return f"Names({len(self._gazetteer)} entries, {self._spelling!r})"
