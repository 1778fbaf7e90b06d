"""Domains of which some strings are listed, in cells of their own in front; all others stay in the cells they have.

q(x) = what the list says of x                    for a listed string, which has left its cell of the domain
q(x) = rest · q_domain(x)                         for any other string
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import DomainError
from llrnn.languages.domains.regular import Regular
from llrnn.languages.domains.spelling import Spelling
from llrnn.text.automata import DFA, check_string
from llrnn.text.domain import Cell, Domain, log_mass_left


class PartlyListed(Domain):
    """A domain with listed strings: a subclass says which cell each is in, and its log q."""

    _domain: Domain  # of all other strings
    _n_own: int  # cells of listed strings

    @cached_property
    @abstractmethod
    def _listed(self) -> dict[str, tuple[int, float]]:
        """The cell and log q of each listed string."""

    @property
    def _log_rest(self) -> float:
        """log of the factor of all strings that are not listed."""
        return 0.0

    @cached_property
    def log_mass(self) -> Floats:
        own = np.full(self._n_own, -np.inf)
        for cell, log_q in self._listed.values():
            own[cell] = np.logaddexp(own[cell], log_q)
        return np.concatenate([own, log_mass_left(self._domain, list(self._listed)) + self._log_rest])

    @property
    def language(self) -> DFA:
        return self._domain.language

    def locate(self, strings: Sequence[str]) -> tuple[Ints, Floats]:
        cells, log_q = self._domain.locate(strings)
        cells, log_q = np.where(cells >= 0, cells + self._n_own, cells), log_q + self._log_rest
        for i, string in enumerate(strings):
            cells[i], log_q[i] = self._listed.get(string, (cells[i], log_q[i]))
        return cells, log_q

    def draw(self, cell: int, count: int, rng: np.random.Generator) -> list[str]:
        if cell < self._n_own:
            mine = self._members(cell)
            weights = np.exp([self._listed[string][1] for string in mine])
            return [mine[i] for i in rng.choice(len(mine), size=count, p=weights / weights.sum())]
        drawn: list[str] = []
        while len(drawn) < count:  # listed strings have left the cells of the domain
            more = self._domain.draw(cell - self._n_own, count - len(drawn), rng)
            drawn += [string for string in more if string not in self._listed]
        return drawn

    def _members(self, cell: int) -> list[str]:
        return [string for string, (own, _) in self._listed.items() if own == cell]

    def members(self, cell: int) -> Sequence[str] | None:
        if cell < self._n_own:
            return self._members(cell)
        whole = self._domain.members(cell - self._n_own)
        return None if whole is None else [string for string in whole if string not in self._listed]


class Names(PartlyListed):
    """A gazetteer mixed with a spelling: `Names({"Rome": ["City"], "Anna": ["Person"]}, Spelling(words))`.

        q(x) = share · g(x) + (1 − share) · s(x)        g: the gazetteer, normalised;  s: the spelling, normalised

    gazetteer   name -> attributes; a name is in the cell of its attributes, finite and summed up
    spelling    the domain of all other names
    weights     name -> how much it counts for; 1 if nothing is said
    share       of the gazetteer in the whole mass, between 0 and 1
    """

    name = "name"

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
        self.name, self._domain, self._spelling, self._share = name, spelling, spelling, share
        self._gazetteer = {entry: tuple(sorted(shown)) for entry, shown in sorted(gazetteer.items())}
        self._weights = np.array([(weights or {}).get(entry, 1.0) for entry in self._gazetteer], dtype=np.float64)
        self._kinds = sorted(set(self._gazetteer.values()))  # the distinct sets of attributes
        self._n_own = len(self._kinds)
        self._check()

    def _check(self) -> None:
        if not self._gazetteer:
            raise DomainError(f"the gazetteer of {self.name!r} is empty; a spelling alone needs no Names")
        for entry in self._gazetteer:
            problem = check_string(entry)
            if problem is not None:
                raise DomainError(f"the gazetteer of {self.name!r} holds {entry!r}, which is no symbol: {problem}")
            if self.language.label(entry) < 0:
                raise DomainError(
                    f"the gazetteer of {self.name!r} holds {entry!r}, which was taken out of its spelling: "
                    "take it out of both, or give the spelling as it was (a vocabulary cuts it by itself)"
                )
        if not (np.isfinite(self._weights).all() and (self._weights > 0).all()):
            raise DomainError(f"the weights of the gazetteer of {self.name!r} must be finite and above 0")

    @cached_property
    def _log_rest(self) -> float:
        return float(np.log(1 - self._share) - np.logaddexp.reduce(self._domain.log_mass))

    @cached_property
    def _listed(self) -> dict[str, tuple[int, float]]:
        spelled = np.exp(self._domain.locate(list(self._gazetteer))[1] + self._log_rest)
        log_q = np.log(self._share * self._weights / self._weights.sum() + spelled).tolist()
        cells = [self._kinds.index(shown) for shown in self._gazetteer.values()]
        return dict(zip(self._gazetteer, zip(cells, log_q, strict=True), strict=True))

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        own = (Cell(f"{self.name}:{'+'.join(kind) or 'listed'}", (f"Name:{self.name}", *kind)) for kind in self._kinds)
        spelled, source = self._domain.cells, self._domain.name  # nobody knows that those are names
        return (*own, *(Cell(f"{self.name}:{cell.name}", cell.attributes, source) for cell in spelled))

    def without(self, language: DFA) -> Domain:
        kept = {entry: shown for entry, shown in self._gazetteer.items() if language.label(entry) < 0}
        weights = dict(zip(self._gazetteer, self._weights.tolist(), strict=True))
        return Names(kept, self._spelling.without(language), weights=weights, share=self._share, name=self.name)

    def described(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        plain, arrays = self._domain.described()
        fields = {
            "kind": "names",
            "name": self.name,
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
        return f"Names({len(self._gazetteer)} entries, {self._domain!r})"


class Headed(PartlyListed):
    """A regular domain with its shorter strings written out, each a cell of its own: `Headed(domain, tolerance=0.05)`.

    tolerance   how much of the mass may be left to longer strings
    most        how many strings are written out at most

    So a real-valued feature may have any value on the head; on the tail it takes the middle of its bounds
    (`features.Bounded`). With that the model is exact; how far it is from one with the true values everywhere,
    `inference.bounds` reports as an interval of log Z.
    """

    def __init__(self, domain: Regular, *, tolerance: float = 1e-3, most: int = 100_000) -> None:
        if not 0 < tolerance < 1:
            raise DomainError(f"the tolerance of a head must lie between 0 and 1, found {tolerance}")
        self._domain, self._tolerance, self._most = domain, tolerance, most
        self._head = domain.strings_up_to(domain.length_that_leaves(tolerance), most)
        self._n_own = len(self._head)
        self._located = domain.locate(self._head)

    @property
    def name(self) -> str:
        return self._domain.name

    @cached_property
    def _listed(self) -> dict[str, tuple[int, float]]:
        return dict(zip(self._head, enumerate(self._located[1].tolist()), strict=True))

    def _members(self, cell: int) -> list[str]:
        return [self._head[cell]]

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        whole = self._domain.cells
        own = [
            Cell(f"{self.name}={string}", whole[cell].attributes, whole[cell].source)
            for string, cell in zip(self._head, self._located[0].tolist(), strict=True)
        ]
        return (*own, *(Cell(cell.name, cell.attributes, cell.source, tail=True) for cell in whole))

    @property
    def tail_share(self) -> float:
        """How much of the domain's mass is in the tail."""
        left = np.logaddexp.reduce(self.log_mass[self._n_own :])
        return float(np.exp(left - np.logaddexp.reduce(self._domain.log_mass)))

    def described(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        plain, arrays = self._domain.described()
        return {"kind": "headed", "tolerance": self._tolerance, "most": self._most, "domain": plain}, arrays

    @classmethod
    def restored(cls, plain: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Headed:
        """The inverse of `described`."""
        return cls(Regular.restored(plain["domain"], arrays), tolerance=plain["tolerance"], most=plain["most"])

    def __repr__(self) -> str:
        return f"Headed({self._domain!r}, {self._n_own} strings, {self.tail_share:.1e} of the mass in the tail)"
