"""log p of every hypothesis, its end included, with each distinct prefix scored once.

    log p(h) = Σ_t log p(h_t | h_1 … h_{t-1})           il ─┬─ dort ─── EOS        5 steps for 3 hypotheses
                                                                └─ dors ─┬─ EOS        of 10 words and ends
                                                                         └─ bien ── EOS

The hypotheses of a list differ in a few words, so their prefixes form a slim tree. It is walked level by level: the
rows of a level are the distinct prefixes of that length, `ModelState.select` hands the parents' states down, and one
`model.step` feeds all of them. Lists that are scored together share one tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from llrnn.ground.errors import ConfigError, CorpusError, UnknownWordError, warn
from llrnn.inference.rescoring.nbest import NBest
from llrnn.layer.expectations import require_numbers
from llrnn.layer.loglinear import Distribution
from llrnn.model.network import LLRNN
from llrnn.text.vocabulary import EOS

__all__ = ["ModelScorer", "Scorer", "SharedScores", "score_lists"]

MINUS_INFINITY = float("-inf")

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
