"""Any string at all: a character n-gram model, cut into cells by what a string shows.

    q(x) = Π_t p(x_t | last characters) · p(end | last characters)
    Q(look, band) = Σ_{t in band} Σ_{states of that look} α_t(state) · p(end | state)
    α_{t+1}(state') = Σ_{state, character → state'} α_t(state) · p(character | state)              α_0 = the beginning

The sum runs over the product of the model and of the automaton that reads looks off, for all strings at once and length
by length, until no mass is alive that a float64 could show. `Forward` keeps α, so that strings of a cell can be drawn,
exactly, from their end to their beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import DomainError
from llrnn.languages.domains.characters import Bands, CharacterModel, Look, common_endings, looks_automaton, shapes_of
from llrnn.languages.grammars.patterns import pattern
from llrnn.text.automata import DFA, paired
from llrnn.text.domain import MOST_MEMBERS, OUTSIDE, Cell, Domain

# The product of a character model and an automaton: how much mass stands where after t characters.
#
#     α_t(p): the probability that a string has t characters or more and its first t lead to the product state p
#     ended[t, l] = Σ_{p of label l} α_t(p) · p(end | p)
#
# A string of a label is drawn backwards: its length and last state by what ended there, then each state before it with
# probability ∝ α_{t-1}(p') · p(character | p'). The last character of every state is known, so the ways into a state
# are found in one sorted column.


_NOTHING = 1e-16  # of the whole mass: what a float64 sum does not show
_LONGEST = 2000  # characters; a model whose words do not end by then does not end


@dataclass(frozen=True, eq=False)
class Forward:
    """α for every length, over the P product states that can be reached."""

    model: CharacterModel
    state: Ints  # (P,) the model's state
    label: Ints  # (P,)
    moves: NDArray[np.int32]  # (P, A)
    alpha: list[Floats]  # for t = 0, 1, ...: (P,)
    ended: Floats  # (T + 1, labels)
    _sorted: dict[int, tuple[Ints, Ints]] = field(default_factory=dict)

    @classmethod
    def of(cls, model: CharacterModel, automaton: DFA, labels: int) -> Forward:
        state, other, pairs = paired(model.moves, automaton.moves)
        label, moves = automaton.labels[other], pairs.astype(np.int32)
        alpha = [np.zeros(len(state))]
        alpha[0][0] = 1.0
        step, end = _forward_step(model.prob[state], moves), model.prob[state, -1]
        ended = []
        while alpha[-1].sum() > _NOTHING:
            if len(alpha) > _LONGEST:
                raise DomainError(
                    f"a spelling must end, but {alpha[-1].sum():.1e} of its mass is longer than {_LONGEST} characters; "
                    "give it words to learn from that end, or a lower order"
                )
            inside = label >= 0
            ended.append(np.bincount(label[inside], weights=(alpha[-1] * end)[inside], minlength=labels))
            alpha.append(step(alpha[-1]))
        return cls(model, state, label, moves, alpha, np.stack(ended))

    def draw(
        self, labels: Ints, in_band: Callable[[Ints], NDArray[np.bool_]], count: int, rng: np.random.Generator
    ) -> list[str]:
        """Strings of some labels whose length is in a band, with probability ∝ q(x)."""
        weights = np.where(in_band(np.arange(len(self.ended))), self.ended[:, labels].sum(1), 0.0)
        length = _choose(weights, count, rng)
        columns = np.full((count, int(length.max(initial=0))), -1)
        at = np.zeros(count, dtype=np.int64)
        members = np.concatenate([self._members[label] for label in labels.tolist()])
        end = self.model.prob[self.state[members], -1]
        for t in range(int(length.max(initial=0)), 0, -1):
            new = np.flatnonzero(length == t)
            if len(new):
                at[new] = members[_choose(self.alpha[t][members] * end, len(new), rng)]
            going = np.flatnonzero(length >= t)
            columns[going, t - 1] = self.model.last[self.state[at[going]]]
            self._step_back(at, going, t, rng)
        draw = self.model.alphabet.draw
        return ["".join(draw(int(column), rng) for column in row[row >= 0]) for row in columns]

    @cached_property
    def _members(self) -> list[Ints]:
        """The states of each label."""
        order = np.argsort(self.label, kind="stable")
        first = np.searchsorted(self.label[order], np.arange(self.ended.shape[1] + 1))
        return [order[first[i] : first[i + 1]] for i in range(self.ended.shape[1])]

    def _step_back(self, at: Ints, going: Ints, t: int, rng: np.random.Generator) -> None:
        """Replace the state after t characters of each string by the one before; equal states are handled together."""
        states, which = np.unique(at[going], return_inverse=True)
        for number, state in enumerate(states.tolist()):
            mine = going[which == number]
            column = int(self.model.last[self.state[state]])
            before = self._ways_into(state, column)
            weights = self.alpha[t - 1][before] * self.model.prob[self.state[before], column]
            at[mine] = before[_choose(weights, len(mine), rng)]

    def _ways_into(self, state: int, column: int) -> Ints:
        """The states from which a character leads to this one."""
        if column not in self._sorted:
            order = np.argsort(self.moves[:, column], kind="stable")
            self._sorted[column] = order, self.moves[order, column].astype(np.int64)
        order, targets = self._sorted[column]
        first, last = np.searchsorted(targets, [state, state + 1])
        return np.asarray(order[first:last], dtype=np.int64)


def _choose(weights: Floats, count: int, rng: np.random.Generator) -> Ints:
    """Places drawn with probability ∝ weight, (count,); a place without weight is never drawn."""
    ends = weights.cumsum()
    drawn = np.searchsorted(ends, rng.random(count) * ends[-1], side="right")
    chosen: Ints = np.minimum(drawn, np.flatnonzero(weights)[-1])
    return chosen


def _forward_step(prob: Floats, moves: NDArray[np.int32]) -> Callable[[Floats], Floats]:
    """What takes α_t to α_{t+1}: all moves sorted by where they lead, so that each sum is over neighbours."""
    P, A = moves.shape
    order = np.argsort(moves, axis=None, kind="stable")
    # nothing leads back to the beginning, state 0; every other state was reached by some move
    first = np.searchsorted(moves.ravel()[order], np.arange(1, P))
    source, by_target = (order // A).astype(np.int32), prob[:, :A].ravel()[order]
    return lambda alpha: np.concatenate([[0.0], np.add.reduceat(alpha[source] * by_target, first)])


class Spelling(Domain):
    """All strings, as a model of characters weighs them: `Spelling(["house", "houses", "garden"])`.

    words       the word types that the model is estimated on
    order       how many characters an n-gram has at most
    endings     how many endings, of up to `longest` characters, have cells of their own
    lengths     the edges of bands of length, which have cells of their own
    min_counts  by order: rarer n-grams are pruned
    cells       False: one cell for all strings
    """

    name = "spelling"

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
        types = sorted(set(words))
        if not types:
            raise DomainError("a spelling needs words to learn from, found none")
        self.name, self._bands = name, Bands(tuple(lengths) if cells else ())
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
    def _automaton(self) -> DFA:
        """The automaton of looks, over all characters that the model tells apart."""
        return self._looks_of.refined(self._model.alphabet.characters)

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
            return Cell(self.name)
        return Cell(f"{self.name}:{named}:{length}", (*look.attributes(self._endings), f"Length:{length}"))

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
    def language(self) -> DFA:
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

    def without(self, language: DFA) -> Spelling:
        if not hasattr(self, "_source"):
            raise DomainError(f"{self!r} comes from a model folder and cannot be cut any further; make it anew")
        made = Spelling.__new__(Spelling)
        for name in ("name", "_bands", "_looks", "_endings", "_source"):
            setattr(made, name, getattr(self, name))
        made._looks_of = self._looks_of.minus(language)
        return made

    def described(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        plain, arrays = self._model.described()
        fields = {
            "kind": "spelling",
            "name": self.name,
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
        made.name, made._bands = plain["name"], Bands(tuple(plain["lengths"]))
        made._looks = tuple(Look(shape, ending) for shape, ending in plain["looks"])
        made._endings = frozenset(plain["endings"])
        made._looks_of = DFA.restored(plain["automaton"])
        own = {name: array for name, array in arrays.items() if name != "log_mass"}
        made.__dict__["_model"] = CharacterModel.restored(plain["model"], own)
        made.__dict__["log_mass"] = np.array(arrays["log_mass"], dtype=np.float64)
        return made

    def __repr__(self) -> str:
        return f"Spelling({self._model.n_states} contexts, {len(self.cells)} cells)"
