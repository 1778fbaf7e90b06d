"""Real-valued features over an infinite set: the head is written out, the tail is bounded.

    head: all strings of up to L characters, each a cell of its own, so that a feature may have any value on it
    tail: the cells of the domain without the head, with at most `tolerance` of its mass

On the tail a real-valued feature takes the middle of its bounds (`features.Bounded`). With that the model is exact; how
far it is from one with the true values everywhere, `inference.bounds` reports as an interval of log Z.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import DomainError
from llrnn.languages.domains.regular import Regular
from llrnn.text.automata import Automaton
from llrnn.text.domain import Cell, Domain, log_mass_left


class Headed(Domain):
    """A regular domain with its shorter strings written out, until no more than `tolerance` of its mass is left."""

    def __init__(self, domain: Regular, *, tolerance: float = 1e-3, most: int = 100_000) -> None:
        if not 0 < tolerance < 1:
            raise DomainError(f"the tolerance of a head must lie between 0 and 1, found {tolerance}")
        self._domain, self._tolerance, self._most = domain, tolerance, most
        length = domain.length_that_leaves(tolerance)
        self._head = domain.strings_up_to(length, most)
        self._place = {string: number for number, string in enumerate(self._head)}
        self._located = domain.locate(self._head)

    @property
    def name(self) -> str:
        return self._domain.name

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        whole = self._domain.cells
        own = [
            Cell(f"{self.name}={string}", whole[cell].attributes, whole[cell].source)
            for string, cell in zip(self._head, self._located[0].tolist(), strict=True)
        ]
        return (*own, *(Cell(cell.name, cell.attributes, cell.source, tail=True) for cell in whole))

    @cached_property
    def log_mass(self) -> Floats:
        return np.concatenate([self._located[1], log_mass_left(self._domain, self._head)])

    @property
    def language(self) -> Automaton:
        return self._domain.language

    @property
    def tail_share(self) -> float:
        """How much of the domain's mass is in the tail."""
        left = np.logaddexp.reduce(self.log_mass[len(self._head) :])
        return float(np.exp(left - np.logaddexp.reduce(self._domain.log_mass)))

    def locate(self, strings: Sequence[str]) -> tuple[Ints, Floats]:
        cells, log_q = self._domain.locate(strings)
        cells = np.where(cells >= 0, cells + len(self._head), cells)
        for i, string in enumerate(strings):
            cells[i] = self._place.get(string, cells[i])
        return cells, log_q

    def draw(self, cell: int, count: int, rng: np.random.Generator) -> list[str]:
        if cell < len(self._head):
            return [self._head[cell]] * count
        drawn: list[str] = []
        while len(drawn) < count:
            more = self._domain.draw(cell - len(self._head), count - len(drawn), rng)
            drawn += [string for string in more if string not in self._place]
        return drawn

    def members(self, cell: int) -> Sequence[str] | None:
        if cell < len(self._head):
            return [self._head[cell]]
        whole = self._domain.members(cell - len(self._head))
        return None if whole is None else [string for string in whole if string not in self._place]

    def described(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        plain, arrays = self._domain.described()
        return {"kind": "headed", "tolerance": self._tolerance, "most": self._most, "domain": plain}, arrays

    @classmethod
    def restored(cls, plain: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Headed:
        """The inverse of `described`."""
        return cls(Regular.restored(plain["domain"], arrays), tolerance=plain["tolerance"], most=plain["most"])

    def __repr__(self) -> str:
        return f"Headed({self._domain!r}, {len(self._head)} strings, {self.tail_share:.1e} of the mass in the tail)"
