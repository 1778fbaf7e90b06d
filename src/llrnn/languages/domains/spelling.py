"""Any string at all: a character n-gram model, cut into cells by what a string shows.

    q(x) = Π_t p(x_t | last characters) · p(end | last characters)
    Q(look, band) = Σ_{t in band} Σ_{states of that look} α_t(state) · p(end | state)
    α_{t+1}(state') = Σ_{state, character → state'} α_t(state) · p(character | state)              α_0 = the beginning

The sum runs over the product of the model and of the automaton that reads looks off, for all strings at once and length
by length, until no mass is alive that a float64 could show. `Forward` keeps α, so that strings of a cell can be drawn,
exactly, from their end to their beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import DomainError
from llrnn.languages.domains.characters import CharacterModel
from llrnn.languages.domains.forward import Forward
from llrnn.languages.domains.looks import Bands, Look, common_endings, looks_automaton, shapes_of
from llrnn.text.automata import Automaton, pattern
from llrnn.text.domain import MOST_MEMBERS, OUTSIDE, Cell, Domain


class Spelling(Domain):
    """All strings, as a model of characters estimated on word types weighs them."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        order: int = 5,
        endings: int = 200,
        longest: int = 4,
        lengths: Sequence[int] = (4, 8),
        min_counts: Sequence[int] = (0, 0, 0, 2),
        cells: bool = True,
        name: str = "spelling",
    ) -> None:
        """From word types. `endings`: how many, of up to `longest` characters; `cells=False`: one cell for all."""
        types = sorted(set(words))
        if not types:
            raise DomainError("a spelling needs words to learn from, found none")
        self._name, self._bands = name, Bands(tuple(lengths) if cells else ())
        found = common_endings(types, longest=longest, top=endings) if cells else ()
        automaton, self._looks = looks_automaton(shapes_of(types) if cells else ("mixed",), found)
        self._endings = frozenset(found)
        self._source = (types, order, tuple(min_counts))
        self._looks_of = automaton

    @cached_property
    def _model(self) -> CharacterModel:
        types, order, min_counts = self._source
        apart = self._looks_of.characters
        return CharacterModel.estimated(types, order=order, min_counts=min_counts, told_apart=apart)

    @cached_property
    def _automaton(self) -> Automaton:
        """The automaton of looks, over all characters that the model tells apart."""
        return self._looks_of.refined(self._model.alphabet.characters)

    @property
    def name(self) -> str:
        return self._name

    @cached_property
    def _kinds(self) -> tuple[tuple[Look, int], ...]:
        """The look and the band of every cell: endings are not told apart in the shortest band, of few letters each."""
        found = [(self._in_band(look, band), band) for look in self._looks for band in range(len(self._bands))]
        return tuple(dict.fromkeys(found))

    def _in_band(self, look: Look, band: int) -> Look:
        return Look(look.shape, "") if band == 0 and len(self._bands) > 1 else look

    @cached_property
    def _number(self) -> Ints:
        """The cell of a look in a band, (looks, bands)."""
        place = {kind: number for number, kind in enumerate(self._kinds)}
        bands = range(len(self._bands))
        return np.array([[place[self._in_band(look, band), band] for band in bands] for look in self._looks])

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        return tuple(self._cell(look, band) for look, band in self._kinds)

    def _cell(self, look: Look, band: int) -> Cell:
        named, length = look.shape + (f"-{look.ending}" if look.ending else ""), self._bands.name(band)
        if len(self._kinds) == 1:
            return Cell(self._name)
        return Cell(f"{self._name}:{named}:{length}", (*look.attributes(self._endings), f"Length:{length}"))

    @cached_property
    def log_mass(self) -> Floats:
        by_length = self._forward.ended  # (T + 1, looks)
        cell = self._number[:, self._bands.of(np.arange(len(by_length)))].T
        mass = np.bincount(cell.ravel(), weights=by_length.ravel(), minlength=len(self._kinds))
        with np.errstate(divide="ignore"):
            return np.log(mass)

    @cached_property
    def _forward(self) -> Forward:
        return Forward.of(self._model, self._automaton, len(self._looks))

    @property
    def language(self) -> Automaton:
        return self._looks_of

    def locate(self, strings: Sequence[str]) -> tuple[Ints, Floats]:
        looks = self._automaton.label_all(strings)
        bands = self._bands.of(np.array([len(string) for string in strings], dtype=np.int64))
        log_q = np.where(looks >= 0, self._model.log_prob(strings), -np.inf)
        return np.where(looks >= 0, self._number[looks, bands], OUTSIDE), log_q

    def draw(self, cell: int, count: int, rng: np.random.Generator) -> list[str]:
        looks, bands = np.nonzero(self._number == cell)
        return self._forward.draw(looks, lambda lengths: self._bands.of(lengths) == bands[0], count, rng)

    def members(self, cell: int) -> Sequence[str] | None:
        looks, bands = np.nonzero(self._number == cell)
        of_length = self._looks_of.both(pattern(f".{{{self._bands.pattern(int(bands[0]))}}}"))
        sizes = [of_length.count(look) for look in looks.tolist()]
        if None in sizes or sum(size for size in sizes if size is not None) > MOST_MEMBERS:
            return None
        return [s for look, size in zip(looks.tolist(), sizes, strict=True) for s in of_length.strings(look, size or 0)]

    def without(self, language: Automaton) -> Spelling:
        if not hasattr(self, "_source"):
            raise DomainError(f"{self!r} comes from a model folder and cannot be cut any further; make it anew")
        made = Spelling.__new__(Spelling)
        for name in ("_name", "_bands", "_looks", "_endings", "_source"):
            setattr(made, name, getattr(self, name))
        made._looks_of = self._looks_of.minus(language)
        return made

    def described(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        plain, arrays = self._model.described()
        fields = {
            "kind": "spelling",
            "name": self._name,
            "looks": [[look.shape, look.ending] for look in self._looks],
            "endings": sorted(self._endings),
            "lengths": list(self._bands.edges),
            "automaton": self._looks_of.described(),
            "model": plain,
        }
        return fields, {**arrays, "log_mass": self.log_mass}

    @classmethod
    def restored(cls, plain: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Spelling:
        """The inverse of `described`."""
        made = cls.__new__(cls)
        made._name, made._bands = plain["name"], Bands(tuple(plain["lengths"]))
        made._looks = tuple(Look(shape, ending) for shape, ending in plain["looks"])
        made._endings = frozenset(plain["endings"])
        made._looks_of = Automaton.restored(plain["automaton"])
        own = {name: array for name, array in arrays.items() if name != "log_mass"}
        made.__dict__["_model"] = CharacterModel.restored(plain["model"], own)
        made.__dict__["log_mass"] = np.array(arrays["log_mass"], dtype=np.float64)
        return made

    def __repr__(self) -> str:
        return f"Spelling({self._model.n_states} contexts, {len(self.cells)} cells)"
