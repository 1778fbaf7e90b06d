"""Sets of strings that nobody can list: numbers, names, any spelling.

    a domain is a countable set of strings with finite mass              q(x) ≥ 0,  Σ_x q(x) < ∞
    it is cut into finitely many cells c of equal features               Q(c) = Σ_{x∈c} q(x), in closed form
    listed words leave their cell, so that nothing is counted twice      Q'(c) = Q(c) − Σ_{x∈c, listed} q(x)

    p(x | K) = p(c | K) · q(x) / Q'(c)                                   for a string x of cell c that is not listed

To the log-linear layer a cell is one more symbol, and which string of the cell it was does not depend on the context.
So an infinite vocabulary costs as much as its cells. This file is the seam; `llrnn.domains` holds the domains.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import DomainError
from llrnn.text.automata import DFA, check_string

OUTSIDE = -1
_SAFE_SHARE = 1e-9  # of a cell's mass: less than that is lost in rounding when it is what a subtraction leaves
MOST_MEMBERS = 2_000_000  # of a cell whose strings are listed one by one
_WITNESSES = 2  # strings of each cell that a new domain is tried on


@dataclass(frozen=True)
class Cell:
    """Strings of equal features: `attributes` is what they show, as listed words of the same look do."""

    name: str
    attributes: tuple[str, ...] = ()
    source: str = ""  # what its strings are new as (`New:spelling`); the name of the domain if nothing is said
    tail: bool = False  # what is left when shorter strings were written out: real-valued features are bounded on it


class Domain(ABC):
    """A set of strings with finite mass, cut into cells."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What reports call it."""

    @property
    @abstractmethod
    def cells(self) -> tuple[Cell, ...]:
        """All cells; every string of the domain is in exactly one."""

    @property
    @abstractmethod
    def log_mass(self) -> Floats:
        """log Q(c) of every cell, listed words included, (C,)."""

    @property
    @abstractmethod
    def language(self) -> DFA:
        """The automaton that knows which strings belong to the domain: label 0 or more."""

    @abstractmethod
    def locate(self, strings: Sequence[str]) -> tuple[Ints, Floats]:
        """The cell of each string, `OUTSIDE` if it is not in the domain, and log q(x): (n,) and (n,)."""

    @abstractmethod
    def draw(self, cell: int, count: int, rng: np.random.Generator) -> list[str]:
        """Strings of a cell, exactly with probability q(x) / Q(c)."""

    def members(self, cell: int) -> Sequence[str] | None:
        """All strings of a cell, where there are `MOST_MEMBERS` or fewer; None for a larger or infinite one."""
        return None

    def without(self, language: DFA) -> Domain:
        """The same domain without the strings of a language that another domain has taken."""
        taken = self.language.both(language).witness()
        raise DomainError(
            f"two domains hold the string {taken!r}: {self.name!r} and one before it; "
            "let their cells be disjoint, or put a spelling last, which leaves to others what is theirs"
        )

    @abstractmethod
    def described(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Plain data (with its `kind`) and arrays from which `llrnn.domains.restore` makes it again."""


def check(domain: Domain) -> None:
    """Refuse a domain that is none: without finite mass, or with strings that are no symbols or not in their cell."""
    names = [cell.name for cell in domain.cells]
    times = Counter(names)
    repeated = [name for name in names if times[name] > 1]
    if repeated or not names or len(domain.log_mass) != len(names):
        raise DomainError(f"{domain.name!r} needs cells of different names with a mass each, found {repeated or names}")
    rng = np.random.default_rng(0)
    for number, (cell, log_mass) in enumerate(zip(domain.cells, domain.log_mass.tolist(), strict=True)):
        if not log_mass < np.inf:
            shown = domain.members(number)
            example = f", such as {shown[0]!r}" if shown else ""
            raise DomainError(
                f"the cell {cell.name!r} of {domain.name!r} must have finite mass, found {np.exp(log_mass)}{example}: "
                "its strings must grow rarer with their length, a uniform weight over infinitely many has no sum"
            )
        if log_mass > -np.inf:
            _check_strings(domain, number, domain.draw(number, _WITNESSES, rng))


def _check_strings(domain: Domain, cell: int, strings: list[str]) -> None:
    name = domain.cells[cell].name
    located, log_q = domain.locate(strings)
    for string, found, log in zip(strings, located.tolist(), log_q.tolist(), strict=True):
        problem = check_string(string)
        if problem is not None:
            raise DomainError(f"the cell {name!r} of {domain.name!r} holds {string!r}, which is no symbol: {problem}")
        if found != cell:
            other = "no cell at all" if found < 0 else f"the cell {domain.cells[found].name!r}"
            raise DomainError(f"{string!r} is drawn from the cell {name!r} of {domain.name!r}, but located in {other}")
        if not -np.inf < log <= domain.log_mass[cell] + 1e-9:
            raise DomainError(
                f"log q of {string!r} must be finite and at most that of its cell {name!r}, "
                f"{domain.log_mass[cell]:.6g}, found {log:.6g}"
            )


def log_mass_left(domain: Domain, listed: Sequence[str]) -> Floats:
    """log Q'(c): what is left of each cell when the listed words have left it, (C,); minus infinity if nothing is."""
    located, log_q = domain.locate(listed)
    own = located >= 0
    gone = np.bincount(located[own], weights=np.exp(log_q[own]), minlength=len(domain.cells))
    whole = np.exp(domain.log_mass)
    left = np.where(gone > 0, whole - gone, whole)
    for cell in np.flatnonzero((gone > 0) & (left < _SAFE_SHARE * whole)).tolist():
        # too little to be had by subtraction: what the other strings of the cell weigh
        taken, members = {listed[i] for i in np.flatnonzero(located == cell).tolist()}, domain.members(cell)
        if members is None:
            raise DomainError(
                f"the listed words take all but a billionth of the cell {domain.cells[cell].name!r} of {domain.name!r},"
                f" {min(taken)!r} among them, too much to tell what is left; make its cells larger, or list fewer words"
            )
        others = [string for string in members if string not in taken]
        left[cell] = np.exp(domain.locate(others)[1]).sum() if others else 0.0
    with np.errstate(divide="ignore"):
        log_left: Floats = np.where(gone > 0, np.log(np.maximum(left, 0.0)), domain.log_mass)
    return log_left
