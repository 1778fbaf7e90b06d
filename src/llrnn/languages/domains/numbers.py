"""Numbers as they are written: every number has a probability, and none has to be listed.

    q(x) ∝ ρ^length / 10^digits            within a cell: geometric in the length, any digits alike

Cells: how many digits, what reads like a year, decimals, percentages, ordinals, groups of thousands, what is joined by
signs (dates, scores). Which cell is likely after which words is for the network to learn.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from llrnn.ground.errors import DomainError
from llrnn.languages.domains.regular import Regular
from llrnn.text.automata import Automaton, pattern

_ORDINALS = {
    "fr": "(er|re|e|è|ère|ème|eme|nd|nde|ers|es)",
    "en": "(st|nd|rd|th)",
    "de": r"\.",
    "et": r"\.",
    "tr": r"('?(inci|ıncı|uncu|üncü|nci|ncı|ncu|ncü)|\.)",
}
_ORDINALS["any"] = f"({'|'.join(_ORDINALS.values())})"
_SMALL, _LONG = 2, 7  # digits
_SEPARATORS = " .,\u00a0\u202f'"
_RATIO = 0.3


class Numbers(Regular):
    """Numbers of a language: `fr`, `en`, `de`, `et`, `tr`; `any` has the ordinals of all, any other has none."""

    def __init__(self, language: str = "en", *, ratio: float = _RATIO, name: str = "number") -> None:
        if not 0 < ratio < 1:
            raise DomainError(
                f"the ratio of {name!r} must lie between 0 and 1, found {ratio}: longer numbers must be rarer, "
                "or the cell of long numbers, '10000000' among them, has no finite mass"
            )
        cells = _cells(language)
        weights = dict.fromkeys("0123456789", ratio / 10) | dict.fromkeys(_signs(cells), ratio)
        shown = {cell: _attributes(cell) for cell in cells}
        super().__init__(cells, weights, attributes=shown, name=name)
        # to begin with, all cells have equal mass: there are more long numbers, but nobody writes them more often
        balanced = self.rescaled(np.full(len(cells), -np.log(len(cells))))
        self.__dict__.update(balanced.__dict__)

    def counted(self, counts: Mapping[str, float]) -> Regular:
        """Cells weighted by how often numbers of each were seen, one more each."""
        words = list(counts)
        located, _ = self.locate(words)
        seen = np.ones(len(self.cells))
        for word, cell in zip(words, located.tolist(), strict=True):
            if cell >= 0:
                seen[cell] += counts[word]
        return self.rescaled(np.log(seen / seen.sum()))


def _cells(language: str) -> dict[str, Automaton]:
    """Patterns of cells; what could be read in two ways belongs to the one that stands first."""
    digits = {f"digits{n}": rf"[1-9]\d{{{n - 1}}}" for n in range(2, _LONG)}
    patterns = {
        "year": r"1\d{3}|20\d{2}",
        "digits1": r"\d",
        **digits,
        "long": rf"[1-9]\d{{{_LONG - 1},}}",
        "padded": r"0\d+",
        "grouped": rf"[1-9]\d{{0,2}}([{_SEPARATORS}]\d{{3}})+",
        "decimal": r"\d+[.,]\d+",
        "percentage": "\\d+([.,]\\d+)?[ \u00a0\u202f]?%",
        "joined": r"\d{1,4}([-/:x]\d{1,4})+",
    }
    if language in _ORDINALS:
        patterns["ordinal"] = r"\d+" + _ORDINALS[language]
    cells: dict[str, Automaton] = {}
    for name, text in patterns.items():
        automaton = pattern(text)
        for earlier in cells.values():
            automaton = automaton.minus(earlier)
        cells[name] = automaton
    return cells


def _signs(cells: Mapping[str, Automaton]) -> list[str]:
    return sorted({c for automaton in cells.values() for c in automaton.characters if not "0" <= c <= "9"})


def _attributes(cell: str) -> tuple[str, ...]:
    small = ("small",) if cell in {f"digits{n}" for n in range(1, _SMALL + 1)} else ()
    return tuple(f"Numeral:{shown}" for shown in ("any", cell, *small))
