"""Fitting the channel of print: the likelihood of true texts, summed over all alignments with what was seen.

    p(text | line) = Σ over outcomes of the columns that spell the text                           the forward algorithm

Outcomes are weighed by their posterior, given the text, and the weights of features are fitted to that: EM with a
convex step, so that the likelihood does not fall. What is often meant where another character is written, and what is
missing, comes from a first round in which only choices are offered.

    llrnn experiment channel page1.png page2.png --lang tur --truth texts --out channel.json
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import chain
from typing import TypeVar

import numpy as np
import torch

from llrnn.ground.arrays import Floats
from llrnn.ground.errors import CorpusError
from llrnn.inference.reading.channel import OTHER, Channel, Outcomes
from llrnn.inference.reading.decoding import Decoder
from llrnn.inference.reading.hocr import PrintedLine

R = TypeVar("R")

_OFFERED, _SEEN = 6, 2.0  # confusions of a character, and how often one must have been meant
_RIDGE, _ROUNDS, _STEPS = 0.05, 4, 25
_LEAST = 1e-300
_BEGINNING = {"written": 5.0, "nothing written": 3.0, "added": -5.0, "other": -2.0, "no choice": -1.0}


def fit_channel(pairs: Sequence[tuple[PrintedLine, str]]) -> Channel:
    """Learn a channel from lines and what truly stands there.

    `fit_channel([(line, "Sinek uçtu.")])`
    """
    given = [(line, text) for line, text in pairs if line.columns and text]
    if not given:
        raise CorpusError("lines of print with their true text are required to fit a channel, found none")
    characters = len(set("".join(text for _, text in given)))
    plain = Channel({}, characters=max(characters, 50))
    design = _Design(plain, given)
    meant = design.meant(design.round(design.beginning))
    ranked = sorted((pair for pair, n in meant.items() if n >= _SEEN), key=lambda pair: -meant[pair])
    offered = defaultdict[str, list[str]](list)
    for written, one in ranked:
        if written is not None and len(offered[written]) < _OFFERED:
            offered[written].append(one)
    added = dict.fromkeys((" ", *(one for written, one in ranked if written is None)))
    made = replace(plain, confusions=dict(offered), insertions=tuple(added)[: _OFFERED + 1])
    design = _Design(made, given)
    weights = design.beginning
    for _ in range(_ROUNDS):
        weights = design.round(weights)
    return replace(made, weights=dict(zip(design.names, weights.tolist(), strict=True)))


def log_prob(channel: Channel, line: PrintedLine, text: str) -> float:
    """Return log p(text | line): the sum over all alignments of its characters with the columns."""
    return forward(channel.outcomes(line), text, channel.log_other)[1]


def log_best(channel: Channel, line: PrintedLine, text: str) -> float:
    """Return log p of the best alignment of a text with the columns of a line."""
    reached = np.full(len(text) + 1, -np.inf)
    reached[0] = 0.0
    for one in channel.outcomes(line):
        rest, more = one.log_of[OTHER] + channel.log_other, one.log_inserted_of[OTHER] + channel.log_other
        own = np.array([*(one.log_of.get(c, rest) for c in text), -np.inf])
        added = np.array([*(one.log_inserted_of.get(c, more) for c in text), -np.inf])
        reached = np.maximum(reached + one.log_of[""], _shifted(reached + own))
        reached = np.maximum(reached + one.log_inserted_of[""], _shifted(reached + added))
    return float(reached[-1])


def score_of(decoder: Decoder[R], lines: Sequence[PrintedLine], texts: Sequence[str]) -> float:
    """Return the score of given texts of lines, each by its best alignment: what a search may not miss."""
    seen = sum(log_best(decoder.channel, line, text) for line, text in zip(lines, texts, strict=True) if line.columns)
    return seen + decoder.score_alone(lines, texts)


def _shifted(values: Floats) -> Floats:
    """Return the values one place later, −∞ first."""
    return np.concatenate([[-np.inf], values[:-1]])


# --- sums over alignments


def _steps(one: Outcomes, text: str, rest: float) -> tuple[float, Floats, float, Floats]:
    """Return, as probabilities: nothing and each character of a text at a column, and the same behind it."""
    other, more = one.log_of[OTHER] + rest, one.log_inserted_of[OTHER] + rest
    own = np.exp([one.log_of.get(c, other) for c in text])
    added = np.exp([one.log_inserted_of.get(c, more) for c in text])
    return math.exp(one.log_of[""]), own, math.exp(one.log_inserted_of[""]), added


def forward(outcomes: Sequence[Outcomes], text: str, rest: float) -> tuple[list[tuple[Floats, Floats]], float]:
    """Return (before a column, between it and what is added) scaled sums for each, and log p of the text."""
    reached, log_scale, found = np.zeros(len(text) + 1), 0.0, list[tuple[Floats, Floats]]()
    reached[0] = 1.0
    for one in outcomes:
        none, own, still, added = _steps(one, text, rest)
        middle = reached * none
        middle[1:] += reached[:-1] * own
        after = middle * still
        after[1:] += middle[:-1] * added
        found.append((reached, middle))
        scale = max(float(after.max()), _LEAST)
        reached, log_scale = after / scale, log_scale + math.log(scale)
    last = float(reached[-1])
    return found, math.log(last) + log_scale if last > 0 else -math.inf


def posteriors(
    outcomes: Sequence[Outcomes], text: str, rest: float
) -> list[tuple[dict[str, float], dict[str, float]]] | None:
    """Return for each column {outcome: its posterior, given the text}, and the same of what is added behind it.

    `rest`: log p of a character given OTHER. Characters that are not offered count as OTHER, and by themselves, too,
    under the name OTHER + character. None for a text that cannot be.
    """
    before, log_p = forward(outcomes, text, rest)
    if log_p == -math.inf:
        return None
    later, found = np.zeros(len(text) + 1), list[tuple[dict[str, float], dict[str, float]]]()
    later[-1] = 1.0
    for one, (reached, middle) in zip(reversed(outcomes), reversed(before), strict=True):
        none, own, still, added = _steps(one, text, rest)
        ahead = later * still
        ahead[:-1] += added * later[1:]
        here = {"": float((reached * none * ahead).sum())}
        _add(here, text, reached[:-1] * own * ahead[1:], one.log_of)
        behind = {"": float((middle * still * later).sum())}
        _add(behind, text, middle[:-1] * added * later[1:], one.log_inserted_of)
        found.append((_scaled_to_one(here), _scaled_to_one(behind)))
        back = ahead * none
        back[:-1] += own * ahead[1:]
        later = back / max(float(back.max()), _LEAST)
    return found[::-1]


def _add(found: dict[str, float], text: str, mass: Floats, offered: Mapping[str, float]) -> None:
    for place in np.flatnonzero(mass > 0).tolist():
        name = text[place] if text[place] in offered else OTHER + text[place]
        found[name] = found.get(name, 0.0) + float(mass[place])


def _scaled_to_one(found: dict[str, float]) -> dict[str, float]:
    whole = sum(found.values())
    return {name: mass / whole for name, mass in found.items()}


class _Design:
    """All outcomes of all columns of some lines as one sparse matrix of features, so that a round of EM is a product.

    A column has two groups of rows: what may come of it, and what may be added behind it.
    """

    def __init__(self, channel: Channel, pairs: Sequence[tuple[PrintedLine, str]]) -> None:
        self.channel, self.pairs = channel, pairs
        numbers, indices, values = dict[str, int](), array("q"), array("d")
        sizes, starts, self.texts = array("q"), [0], list[tuple[str, ...]]()
        for line, _ in pairs:
            for options in chain.from_iterable(channel.options(line)):
                self.texts.append(tuple(text for text, _ in options))
                starts.append(starts[-1] + len(options))
                for _, features in options:
                    sizes.append(len(features))
                    indices.extend([numbers.setdefault(name, len(numbers)) for name, _ in features])
                    values.extend([value for _, value in features])
        self.starts = np.array(starts)
        feature, row = (
            np.frombuffer(indices, np.int64),
            np.repeat(np.arange(len(sizes)), np.frombuffer(sizes, np.int64)),
        )
        often = np.bincount(feature, minlength=len(numbers)) >= _SEEN
        place, kept = np.cumsum(often) - 1, often[feature]
        self.names = [name for name, seen in zip(numbers, often.tolist(), strict=True) if seen]
        self.row, self.feature, self.value = row[kept], place[feature[kept]], np.frombuffer(values, np.float64)[kept]
        self.group = np.repeat(np.arange(len(self.texts)), np.diff(self.starts))

    @property
    def beginning(self) -> Floats:
        """Weights to begin with: what is written is mostly right. Where all alignments are alike, EM learns nothing."""
        return np.array([_BEGINNING.get(name, 0.0) for name in self.names])

    def log_p(self, weights: Floats) -> Floats:
        """Return the log-probability of each outcome in its group."""
        scores = np.bincount(self.row, self.value * weights[self.feature], minlength=len(self.group))
        terms = np.exp(scores - np.maximum.reduceat(scores, self.starts[:-1])[self.group])
        found: Floats = np.log(terms / np.add.reduceat(terms, self.starts[:-1])[self.group])
        return found

    def posteriors(self, weights: Floats) -> Iterator[list[tuple[dict[str, float], dict[str, float]]] | None]:
        """Yield `posteriors` of each line and its text."""
        log_p, group = self.log_p(weights), 0
        parts = np.split(log_p, self.starts[1:-1])
        for line, text in self.pairs:
            outcomes = []
            for _ in line.columns:
                outcomes.append(Outcomes(self.texts[group], parts[group], self.texts[group + 1], parts[group + 1]))
                group += 2
            yield posteriors(outcomes, text, self.channel.log_other)

    def round(self, weights: Floats) -> Floats:
        """Return the weights after one round of EM."""
        target, group = np.zeros(len(self.group)), 0
        for (line, _), found in zip(self.pairs, self.posteriors(weights), strict=True):
            for given in chain.from_iterable(found or ()):
                place = {text: i for i, text in enumerate(self.texts[group], self.starts[group])}
                for name, mass in given.items():
                    target[place[name[:1]]] += mass
                group += 1
            group += 0 if found else 2 * len(line.columns)
        return self._regressed(target, weights)

    def _regressed(self, target: Floats, begin: Floats) -> Floats:
        """Return the weights of a multinomial logistic regression on weighed outcomes, with a small ridge."""
        weights = torch.from_numpy(begin.copy())
        counts = np.add.reduceat(target, self.starts[:-1])[self.group]
        search = torch.optim.LBFGS([weights], max_iter=_STEPS, line_search_fn="strong_wolfe")

        def loss() -> float:
            own = weights.numpy()
            log_p = self.log_p(own)
            wrong = counts * np.exp(log_p) - target
            slope = np.bincount(self.feature, self.value * wrong[self.row], minlength=len(own)) + _RIDGE * own
            weights.grad = torch.from_numpy(slope)
            return float(-(target @ log_p) + 0.5 * _RIDGE * own @ own)

        search.step(loss)  # type: ignore[no-untyped-call]
        return weights.numpy()

    def meant(self, weights: Floats) -> dict[tuple[str | None, str], float]:
        """Return how often which character was meant where which was written, and, for None, was added."""
        found = defaultdict[tuple[str | None, str], float](float)
        for (line, _), given in zip(self.pairs, self.posteriors(weights), strict=True):
            for column, (own, added) in zip(line.columns, given or (), strict=False):
                for name, mass in own.items():
                    if name and name[-1] != column.written:
                        found[column.written, name[-1]] += mass
                for name, mass in added.items():
                    if name:
                        found[None, name[-1]] += mass
        return dict(found)


def paired(lines: Sequence[PrintedLine], truth: Sequence[str]) -> list[tuple[PrintedLine, str]]:
    """Return the lines of a page with the lines of its true text that they are, in order; others are left out."""

    least, n, m = 0.5, len(lines), len(truth)
    alike = [
        [
            max(SequenceMatcher(None, line.text, text, autojunk=False).ratio() - least, 0.0) if abs(i - j) <= 3 else 0.0
            for j, text in enumerate(truth)
        ]
        for i, line in enumerate(lines)
    ]
    best = np.zeros((n + 1, m + 1))
    for i in range(n - 1, -1, -1):
        for j in range(m - 1, -1, -1):
            best[i, j] = max(best[i + 1, j], best[i, j + 1], best[i + 1, j + 1] + alike[i][j])
    found, i, j = list[tuple[PrintedLine, str]](), 0, 0
    while i < n and j < m:
        if alike[i][j] > 0 and best[i, j] == best[i + 1, j + 1] + alike[i][j]:
            found.append((lines[i], truth[j]))
            i, j = i + 1, j + 1
        elif best[i, j] == best[i + 1, j]:
            i += 1
        else:
            j += 1
    return found
