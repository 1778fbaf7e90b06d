"""Rescoring n-best lists: a model chooses among what a recogniser thought possible.

    lists = read_nbest("nbest.tsv")                                     or read_kaldi("nbest.txt", ["ac.txt", "lm.txt"])
    scored = add_scores(lists, {"llrnn": ModelScorer(model)})           each distinct prefix is scored once
    weights = tune(scored_dev, read_references("dev.txt")).weights      fewest word errors on a development set
    result = rescore(lists, {"llrnn": ModelScorer(model)}, weights)     result.best["utt7"], result.lists

log p of every hypothesis, its end included:

    log p(h) = Σ_t log p(h_t | h_1 … h_{t-1})           il ─┬─ dort ─── EOS        5 steps for 3 hypotheses
                                                                └─ dors ─┬─ EOS        of 10 words and ends
                                                                         └─ bien ── EOS

The hypotheses of a list differ in a few words, so their prefixes form a slim tree. It is walked level by level: the
rows of a level are the distinct prefixes of that length, `ModelState.select` hands the parents' states down, and one
`model.step` feeds all of them. Lists that are scored together share one tree.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import ConfigError, CorpusError, UnknownWordError, warn
from llrnn.inference.nbest import WORDS, Errors, NBest, NBestLists, References, Words, errors_of_lists
from llrnn.layer.loglinear import Distribution
from llrnn.layer.numerics import MINUS_INFINITY, require_numbers
from llrnn.model.network import LLRNN
from llrnn.text.vocabulary import EOS

__all__ = [
    "ModelScorer",
    "Rescored",
    "SharedScores",
    "Tuned",
    "Weights",
    "add_scores",
    "rescore",
    "score_lists",
    "tune",
]

_Node = tuple[int, int]  # the row of its parent in the level above, and the word that leads here


class Scorer(Protocol):
    """Whatever gives each hypothesis a logarithm: a model, an n-gram, a dictionary."""

    def __call__(self, lists: Sequence[NBest], /) -> list[list[float]]:
        """One score for each hypothesis of each list."""


@dataclass(frozen=True)
class SharedScores:
    """log p of every hypothesis of every list, and what sharing saved."""

    log_probs: list[list[float]]
    steps: int  # distinct prefixes
    steps_without_sharing: int  # words and ends

    @property
    def saved(self) -> float:
        """The share of the steps that was not needed."""
        return 1.0 - self.steps / self.steps_without_sharing if self.steps_without_sharing else 0.0


@dataclass(frozen=True)
class ModelScorer:
    """A model as a scorer."""

    model: LLRNN
    rows: int = 1024

    def __call__(self, lists: Sequence[NBest], /) -> list[list[float]]:
        return score_lists(self.model, lists, rows=self.rows).log_probs


@torch.no_grad()
def score_lists(model: LLRNN, lists: Sequence[NBest], *, rows: int = 1024) -> SharedScores:
    """Score lists, as many together as have about `rows` hypotheses.

    An impossible hypothesis has log p = −infinity. Words are written small first where the model was trained so; one
    that the vocabulary does not list is an UnknownWordError, unless it has a symbol for such words.
    """
    if rows < 1:
        raise ConfigError(f"rows must be 1 or more, found {rows}")
    _look_up(model, lists)
    log_probs: list[list[float]] = [[] for _ in lists]
    steps = steps_without_sharing = 0
    for group in _groups(lists, rows):
        sentences = [_ids(model, lists[i].utterance, h.words) for i in group for h in lists[i].hypotheses]
        tree = _Tree.of(sentences)
        found = iter(_walk(model, tree))
        for i in group:
            log_probs[i] = [next(found) + _inside(model, h.words) for h in lists[i].hypotheses]
        steps += sum(len(level) for level in tree.levels)
        steps_without_sharing += sum(len(sentence) + 1 for sentence in sentences)
    return SharedScores(log_probs, steps, steps_without_sharing)


def _groups(lists: Sequence[NBest], rows: int) -> Iterator[list[int]]:
    """Which lists are scored together: those of similar length, so that all levels of a tree have many rows."""
    group: list[int] = []
    filled = 0
    for i in sorted(range(len(lists)), key=lambda i: max((len(h.words) for h in lists[i].hypotheses), default=0)):
        if group and filled + len(lists[i].hypotheses) > rows:
            yield group
            group, filled = [], 0
        group.append(i)
        filled += len(lists[i].hypotheses)
    if group:
        yield group


def _look_up(model: LLRNN, lists: Sequence[NBest]) -> None:
    """Refuse words that have no symbol, all at once, or say how many share that of unknown words."""
    if model.vocabulary.is_open:
        return
    places: dict[str, str] = {}
    for one in lists:
        for word in (word for hypothesis in one.hypotheses for word in _as_read(model, hypothesis.words)):
            places.setdefault(word, one.utterance)
    missing = [word for word in places if word not in model.vocabulary]
    if missing and model.vocabulary.unknown is None:
        where = f"utterance {places[missing[0]]}"
        raise UnknownWordError(missing[0], size=len(model.vocabulary), place=where, others=missing[1:])
    if missing:
        listed = ", ".join(map(repr, missing[:4])) + (", ..." if len(missing) > 4 else "")
        warn(
            f"{len(missing):,} of {len(places):,} distinct words of the hypotheses are not in the vocabulary and count "
            f"as {model.vocabulary.unknown}: {listed}; list them with `llrnn words add`, or take a model with domains"
        )


def _ids(model: LLRNN, utterance: str, words: Sequence[str]) -> list[int]:
    if EOS in words:
        raise CorpusError(f"utterance {utterance}: {EOS} marks the end of a sentence, found it as a word; take it out")
    return model.vocabulary.ids(_as_read(model, words), place=f"utterance {utterance}")


def _as_read(model: LLRNN, words: Sequence[str]) -> Sequence[str]:
    return [word.lower() for word in words] if model.reads_lowercase else words


def _inside(model: LLRNN, words: Sequence[str]) -> float:
    """What words that are not listed cost beyond their cells, in an open vocabulary."""
    return float(model.vocabulary.locate(_as_read(model, words))[1].sum()) if model.vocabulary.is_open else 0.0


@dataclass(frozen=True)
class _Tree:
    """The distinct prefixes of some sentences: level t lists those of t words, and `ends` where sentences end."""

    levels: list[list[_Node]]
    ends: list[tuple[int, int]]  # for each sentence, its level and its row there

    @classmethod
    def of(cls, sentences: Sequence[Sequence[int]]) -> _Tree:
        levels: list[dict[_Node, int]] = [{(0, 0): 0}]  # the empty prefix; its word does not matter
        levels += [{} for _ in range(max(map(len, sentences), default=0))]
        ends = []
        for sentence in sentences:
            row = 0
            for level, word in zip(levels[1:], sentence, strict=False):
                row = level.setdefault((row, word), len(level))
            ends.append((len(sentence), row))
        return cls([list(level) for level in levels], ends)


def _walk(model: LLRNN, tree: _Tree) -> list[float]:
    """log p of each sentence of the tree."""
    ended: list[list[float]] = []
    device, eos = model.device, model.vocabulary.eos
    log_p = torch.zeros(1, dtype=torch.float64, device=device)  # of the prefixes of this level
    distribution, state = model.step(model.start(), [eos])
    for nodes in [*tree.levels[1:], []]:
        parents, words = [parent for parent, _ in nodes], [word for _, word in nodes]
        here = torch.arange(len(log_p), device=device)
        position = torch.cat([here, torch.tensor(parents, dtype=torch.long, device=device)])
        word = torch.cat([torch.full_like(here, eos), torch.tensor(words, dtype=torch.long, device=device)])
        reached = log_p[position] + _log_prob(distribution, position, word)
        ended.append(reached[: len(here)].tolist())
        log_p = reached[len(here) :]
        if nodes:
            distribution, state = model.step(state.select(parents), words)
    return [ended[level][row] for level, row in tree.ends]


def _log_prob(distribution: Distribution, position: Tensor, word: Tensor) -> Tensor:
    """log p of any words at any positions, (E,) -> (E,) float64; `Distribution.log_prob` takes one a position."""
    require_numbers(distribution.log_z)
    log_b = distribution.prior.at(position, word)
    score = distribution.scores[position, distribution.classes.class_of[word]]
    if distribution.values:
        values = distribution.context_values(word, position)
        score = score + (distribution.context_adaptor[position] * values).sum(-1)
    log_p = score.double() + log_b - distribution.log_z[position].double()
    return log_p.masked_fill(log_b == MINUS_INFINITY, MINUS_INFINITY)  # also where nothing at all can follow


# Weights of several scores, chosen so that a development set has the fewest word errors.
#
#     total(h) = Σ_i w_i · score_i(h) + words · |h|                        the hypothesis of the highest total is chosen
#
# As one weight x moves and the others stay, the total of a hypothesis is a line a + b·x, and what is chosen is the
# upper envelope of the lines of its list. The errors are therefore constant between the crossings, and their sum over
# all lists is known exactly for every x at once (Och 2003, minimum error rate training). Weights are improved one after
# the other until none helps, from several starts. Scores keep weights of at least 0, as higher is better; `words` may
# be anything.


FLOOR = -1e6  # the score of what is impossible: below any other, but a number that can be weighed
_NARROW = 1e-9  # an interval that rounding could miss
_SWEEPS = 100

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Weights:
    """A weight for each named score, and what one word more is worth."""

    names: tuple[str, ...]
    values: tuple[float, ...]
    words: float = 0.0

    def __post_init__(self) -> None:
        if len(self.names) != len(self.values) or len(set(self.names)) != len(self.names):
            raise ConfigError(f"one weight for each name is required, found {self.names} and {self.values}")
        if not all(map(math.isfinite, (*self.values, self.words))):
            raise ConfigError(f"weights must be finite numbers, found {self}")

    @classmethod
    def equal(cls, names: Sequence[str]) -> Weights:
        """Weight 1 for every score."""
        return cls(tuple(names), (1.0,) * len(names))

    @classmethod
    def only(cls, name: str, names: Sequence[str]) -> Weights:
        """One score alone."""
        return cls(tuple(names), tuple(float(other == name) for other in names))

    @classmethod
    def parse(cls, text: str) -> Weights:
        """From `am=1,lm=0.5,words=0.1`."""
        found: dict[str, float] = {}
        for part in text.split(","):
            name, sign, value = (piece.strip() for piece in part.partition("="))
            try:
                number = float(value)
            except ValueError:
                number = math.nan
            if not (name and sign and math.isfinite(number)) or name in found:
                raise ConfigError(f"weights are written am=1,lm=0.5,{WORDS}=0.1, each once, found {part!r} in {text!r}")
            found[name] = number
        words = found.pop(WORDS, 0.0)
        return cls(tuple(found), tuple(found.values()), words)

    def __str__(self) -> str:
        pairs = (*zip(self.names, self.values, strict=True), (WORDS, self.words))
        return ",".join(f"{name}={value:.6g}" for name, value in pairs)

    def for_scores(self, names: Sequence[str]) -> Weights:
        """The same weights in the order of `names`; a score without a weight, or the reverse, is refused."""
        if {*names} != {*self.names}:
            raise ConfigError(
                f"a weight for each score is required ({', '.join(names)}), found {', '.join(self.names) or 'none'}; "
                "0 leaves a score out"
            )
        value = dict(zip(self.names, self.values, strict=True))
        return Weights(tuple(names), tuple(value[name] for name in names), self.words)

    def vector(self) -> Floats:
        return np.array([*self.values, self.words])

    def totals(self, entry: NBest) -> Floats:
        """The total of each hypothesis of a list."""
        return np.asarray(_rows(entry) @ self.vector(), dtype=np.float64)

    def choose(self, entry: NBest) -> int:
        """Which hypothesis has the highest total; the first of equals."""
        return int(self.totals(entry).argmax())


def _rows(entry: NBest) -> Floats:
    """Scores and the number of words of each hypothesis, (N, F)."""
    rows = np.array([[*h.scores, float(len(h.words))] for h in entry.hypotheses])
    floored: Floats = np.maximum(rows, FLOOR)
    return floored


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Lists as arrays: L lists of at most N hypotheses, F numbers for each; the number of words is the last."""

    values: Floats  # (L, N, F)
    errors: Ints  # (L, N)
    listed: Mask  # (L, N): the rest is padding
    names: tuple[str, ...]

    @classmethod
    def of(cls, lists: NBestLists, errors: Sequence[Sequence[Errors]]) -> ScoreTable:
        L, N = len(lists), max(len(entry.hypotheses) for entry in lists)
        values = np.zeros((L, N, len(lists.names) + 1))
        counts, listed = np.zeros((L, N), dtype=np.int64), np.zeros((L, N), dtype=np.bool_)
        for index, (entry, own) in enumerate(zip(lists, errors, strict=True)):
            n = len(entry.hypotheses)
            values[index, :n], counts[index, :n] = _rows(entry), [one.total for one in own]
            listed[index, :n] = True
        return cls(values, counts, listed, lists.names)

    def errors_at(self, weights: Floats) -> int:
        """The errors of the hypotheses that these weights choose."""
        chosen = np.where(self.listed, self.values @ weights, -np.inf).argmax(1)
        return int(self.errors[np.arange(len(chosen)), chosen].sum())

    def along(self, weights: Floats, coordinate: int) -> StepFunction:
        """The errors as this one weight moves and the others stay."""
        others = weights.copy()
        others[coordinate] = 0.0
        return errors_along(self.values @ others, self.values[:, :, coordinate], self.errors, self.listed)


@dataclass(frozen=True, eq=False)
class StepFunction:
    """A piecewise constant function: `errors[i]` between `edges[i - 1]` and `edges[i]`, the outer ones open."""

    edges: Floats  # (E,) rising
    errors: Ints  # (E + 1,)

    def lowest(self, least: float = -math.inf) -> tuple[float, int] | None:
        """A place at or above `least` amid the widest interval of the fewest errors, and those errors."""
        edges = np.maximum(self.edges, least)
        low = np.concatenate([[max(least, edges[0] - 2.0) if len(edges) else max(least, -1.0)], edges])
        high = np.concatenate([edges, [low[-1] + 2.0]])
        wide = high - low > _NARROW * np.maximum(1.0, np.abs(low))
        if not wide.any():
            return None
        fewest = self.errors[wide].min()
        best = int(np.where(wide & (self.errors == fewest), high - low, -np.inf).argmax())
        return float((low[best] + high[best]) / 2), int(fewest)


def errors_along(a: Floats, b: Floats, errors: Ints, listed: Mask) -> StepFunction:
    """The summed errors of the highest lines a + b·x as x goes from −∞ to ∞; all arguments are (L, N).

    All envelopes are followed at once: from the line that is highest at −∞ to the one of greater slope that crosses it
    first, and on from there.
    """
    every = np.arange(len(a))
    slope = np.where(listed, b, np.inf)
    flattest = slope == slope.min(1, keepdims=True)
    line = np.where(flattest & listed, a, -np.inf).argmax(1)
    at = np.full(len(a), -np.inf)
    start, places, changes = int(errors[every, line].sum()), [], []
    while True:
        rise = np.where(listed, b - b[every, line][:, None], 0.0)
        gap = a[every, line][:, None] - a
        with np.errstate(over="ignore"):  # all but parallel: they cross at infinity
            crossing = np.divide(gap, rise, out=np.full_like(gap, np.inf), where=rise > 0)
        first = crossing.min(1)
        going = np.flatnonzero(first < np.inf)
        if not len(going):
            break
        after = crossing.argmin(1)  # where several cross in one place, the others follow there
        at[going] = np.maximum(at[going], first[going])  # rounding must not send x back
        places.append(at[going].copy())
        changes.append(errors[going, after[going]] - errors[going, line[going]])
        line[going] = after[going]
    edges, where = np.unique(np.concatenate([[], *places]), return_inverse=True)
    change = np.zeros(len(edges), dtype=np.int64)
    np.add.at(change, where, np.concatenate([np.zeros(0, np.int64), *changes]))
    return StepFunction(edges, start + np.concatenate([[0], np.cumsum(change)]))


@dataclass(frozen=True)
class Tuned:
    """The weights that were found, and the errors that they leave on the lists that they were found on."""

    weights: Weights
    errors: Errors


def tune(lists: NBestLists, references: References, *, seed: int = 0, restarts: int = 8) -> Tuned:
    """The best weights from each score alone, from all of them alike, and from `restarts` places drawn by the seed.

    tune(add_scores(lists, {"llrnn": ModelScorer(model)}), read_references("dev.txt")).weights
    """
    counted = errors_of_lists(lists, references)
    table = ScoreTable.of(lists, counted)
    found = [_improved(table, start) for start in _starts(table, np.random.default_rng(seed), restarts)]
    best = min(found, key=table.errors_at)
    weights = Weights(lists.names, tuple(best[:-1].tolist()), float(best[-1]))
    chosen = (own[weights.choose(entry)] for entry, own in zip(lists, counted, strict=True))
    return Tuned(weights, sum(chosen, Errors()))


def _starts(table: ScoreTable, rng: np.random.Generator, restarts: int) -> list[Floats]:
    F = table.values.shape[2]
    alone = list(np.eye(F)[: F - 1])
    alike = np.array([*[1.0] * (F - 1), 0.0])
    spread = _spread(table)
    drawn = [np.exp(rng.normal(size=F)) / spread for _ in range(restarts)]
    for weights in drawn:
        weights[-1] *= rng.normal()  # a penalty has either sign
    return [_scaled(weights) for weights in [*alone, alike, *drawn] if weights[:-1].any()]


def _spread(table: ScoreTable) -> Floats:
    """How far each number differs within lists: weights are drawn so that each score has its say."""
    counts = table.listed.sum(1)[:, None]
    inside = table.listed[:, :, None]
    mean = np.where(inside, table.values, 0.0).sum(1) / counts
    square = np.where(inside, table.values - mean[:, None], 0.0) ** 2
    found: Floats = np.sqrt((square.sum(1) / counts).mean(0))
    return np.where(found > 0, found, 1.0)


def _scaled(weights: Floats) -> Floats:
    """The largest weight of a score as 1: only ratios matter."""
    largest = weights[:-1].max()
    return weights / largest if largest > 0 else weights


def _improved(table: ScoreTable, weights: Floats) -> Floats:
    """Move one weight after the other to where the errors are fewest, until no move helps."""
    errors = table.errors_at(weights)
    for _ in range(_SWEEPS):
        before = errors
        for coordinate in range(len(weights)):
            found = table.along(weights, coordinate).lowest(-math.inf if coordinate == len(weights) - 1 else 0.0)
            if found is None or found[1] >= errors:
                continue
            moved = weights.copy()
            moved[coordinate] = found[0]
            moved = _scaled(moved)
            reached = table.errors_at(moved)
            if reached < errors:  # what the lines promise, rounding could break
                weights, errors = moved, reached
        if errors == before:
            break
    return weights


@dataclass(frozen=True)
class Rescored:
    """Lists with the new scores, the hypothesis of the highest total first."""

    lists: NBestLists
    weights: Weights

    @property
    def best(self) -> dict[str, Words]:
        """The chosen hypothesis of each utterance."""
        return {entry.utterance: entry.hypotheses[0].words for entry in self.lists}

    def errors(self, references: References) -> Errors:
        """The word errors of what was chosen."""
        chosen = [NBest(entry.utterance, entry.hypotheses[:1]) for entry in self.lists]
        return sum((own[0] for own in errors_of_lists(chosen, references)), Errors())


def add_scores(lists: NBestLists, scorers: Mapping[str, Scorer]) -> NBestLists:
    """The lists with a score of each scorer, under its name."""
    for name, scorer in scorers.items():
        lists = lists.with_scores(name, scorer(lists.lists))
    return lists


def rescore(lists: NBestLists, scorers: Mapping[str, Scorer], weights: Weights | None = None) -> Rescored:
    """Score, combine and rank anew; every score has weight 1 unless weights are given.

    `lists` come from `read_nbest` or `read_kaldi`, `weights` from `tune` or `Weights.parse`.

        rescore(read_nbest("nbest.tsv"), {"llrnn": ModelScorer(model)}).best["utt7"]
    """
    scored = add_scores(lists, scorers)
    weights = (weights or Weights.equal(scored.names)).for_scores(scored.names)
    return Rescored(NBestLists(scored.names, tuple(_ranked(entry, weights) for entry in scored)), weights)


def _ranked(entry: NBest, weights: Weights) -> NBest:
    order = np.argsort(-weights.totals(entry), kind="stable")
    return NBest(entry.utterance, tuple(entry.hypotheses[index] for index in order))
