"""A learnt channel: how likely a line of text is, given what a recogniser saw at each column.

    p(outcomes | line) = Π_t p(e_t | t) · p(i_t | t)       e_t: a character, nothing ("") or OTHER; i_t: one more, or ""
    p(e | t) ∝ exp(Σ_f w_f f(e, t))                         over the outcomes that are offered at column t
    p(text | line) = Σ over outcomes that spell the text    = the sum over alignments, by the forward algorithm

Features are named: the confidence and the rank of a choice, whether it is what the recogniser wrote, which character is
taken for which, blanks, deletion, insertion. Offered are the choices of the column, what was often meant where such a
character was written, nothing, and OTHER, which is any other character, all of them alike. What is confused over two
columns (`rn`, `m`) is a confusion that looks at the next character written, with a deletion that looks at the last one.

Training climbs the likelihood of true texts: outcomes are weighed by their posterior, given the text, and the weights
are fitted to that (EM with a convex step, so that the likelihood never falls).
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.resources import files
from itertools import chain
from pathlib import Path

import numpy as np
import torch

from llrnn.ground.arrays import Floats
from llrnn.ground.errors import ConfigError, CorpusError, quoted
from llrnn.ground.files import StrPath, parse_json, read_file, sealed_json, write_atomically
from llrnn.inference.reading.hocr import Column, PrintedLine

OTHER = "\ufffd"  # any character that is not offered
_BOUNDS = (0.0, 0.5, 2.0, 6.0, 15.0, 30.0, 50.0, 70.0, 80.0, 88.0, 93.0, 96.0, 98.0)
_QUALITIES = (0.06, 0.15)  # of a line: the share of its columns where the best choice is not nearly certain
_RANKS = 4
_OFFERED, _SEEN = 6, 2.0  # confusions of a character, and how often one must have been meant
_RIDGE, _ROUNDS, _STEPS = 0.05, 4, 25
_LEAST = 1e-300
_BEGINNING = {"written": 5.0, "nothing written": 3.0, "added": -5.0, "other": -2.0, "no choice": -1.0}

Outcome = tuple[str, tuple[tuple[str, float], ...]]  # what comes of a column, and its features


@dataclass(frozen=True)
class Outcomes:
    """What may come of a column, with log p of each: `texts` (a character, "" or OTHER), and `log_p`, which add to 1.

    `inserted`, `log_inserted`: what may come behind it besides, "" for nothing.
    """

    texts: tuple[str, ...]
    log_p: Floats
    inserted: tuple[str, ...]
    log_inserted: Floats

    @cached_property
    def log_of(self) -> dict[str, float]:
        return dict(zip(self.texts, self.log_p.tolist(), strict=True))

    @cached_property
    def log_inserted_of(self) -> dict[str, float]:
        return dict(zip(self.inserted, self.log_inserted.tolist(), strict=True))


@dataclass(frozen=True)
class Channel:
    """A log-linear model of what is meant by what was seen. `weights`: {name of a feature: number}.

    `confusions`: {character written: characters often meant}; `insertions`: characters that may be added behind a
    column; `characters`: how many characters OTHER stands for. `Channel.fit(pairs)` learns one, `read_channel` reads
    one, `Channel.default()` is one that comes with the library.

        Channel.default().outcomes(line)
    """

    weights: Mapping[str, float]
    confusions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    insertions: Sequence[str] = (" ",)
    characters: int = 150

    @classmethod
    def default(cls) -> Channel:
        return read_channel(Path(str(files("llrnn.inference.reading") / "channel.json")))

    @classmethod
    def fit(cls, pairs: Sequence[tuple[PrintedLine, str]]) -> Channel:
        """Learn a channel from lines and what truly stands there.

        `Channel.fit([(line, "Sinek uçtu.")])`
        """
        given = [(line, text) for line, text in pairs if line.columns and text]
        if not given:
            raise CorpusError("lines of print with their true text are required to fit a channel, found none")
        characters = len(set("".join(text for _, text in given)))
        plain = cls({}, characters=max(characters, 50))
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

    def outcomes(self, line: PrintedLine) -> list[Outcomes]:
        """Return what may come of each column of a line, normalised column by column."""
        found = []
        for own, added in self._options(line):
            texts, log_p = self._normalised(own)
            more, log_more = self._normalised(added)
            found.append(Outcomes(texts, log_p, more, log_more))
        return found

    def _normalised(self, options: Sequence[Outcome]) -> tuple[tuple[str, ...], Floats]:
        get = self.weights.get
        scores = np.array([sum([get(name, 0.0) * value for name, value in own]) for _, own in options])
        return tuple(text for text, _ in options), scores - np.logaddexp.reduce(scores)

    def _options(self, line: PrintedLine) -> list[tuple[list[Outcome], list[Outcome]]]:
        """Return for each column its outcomes with their features, and those of what may be added behind it."""
        columns = line.columns
        doubtful = sum(column.choices[0][1] < _BOUNDS[8] for column in columns) / max(1, len(columns))
        quality = f"page {int(np.searchsorted(_QUALITIES, doubtful))}"
        written = ["^", *(column.written for column in columns), "$"]
        return [
            (
                self._of_column(column, written[t], written[t + 2], quality),
                self._behind(column, written[t + 2], quality),
            )
            for t, column in enumerate(columns)
        ]

    def _of_column(self, column: Column, before: str, after: str, quality: str) -> list[Outcome]:
        own, found = column.written, dict[str, list[tuple[str, float]]]()
        best = max(log_confidence(confidence) for _, confidence in column.choices)
        for rank, (text, confidence) in enumerate(column.choices):
            if len(text) == 1 and text not in found:
                other = max((c for one, c in column.choices if one != text), default=-1.0)
                found[text] = [
                    (f"rank {min(rank, _RANKS)}", 1.0),
                    (f"confidence {bucket(confidence)}", 1.0),
                    ("log confidence", log_confidence(confidence)),
                    ("below the best", best - log_confidence(confidence)),
                    (f"rival {bucket(other)}" + (" written" if text == own else ""), 1.0),
                ]
        for text in (own, *self.confusions.get(own, ())):
            if text and text not in found:
                found[text] = [("no choice", 1.0)]
        for text, features in found.items():
            features.append((f"{own}>{text}", 1.0))
            if text == own:
                sure = next((bucket(c) for one, c in column.choices if one == text), "none")
                features += [("written", 1.0), (f"written {sure}", 1.0), (f"written {quality}", 1.0)]
            else:
                features += [(f"{own}{after}>{text}", 1.0), (f"{before}|{own}>{text}", 1.0)]
            if text == " ":
                features += [("blank", 1.0), ("blank" + (" written" if own == " " else " not written"), 1.0)]
        sure = bucket(column.choices[0][1])
        none = [
            ("nothing", 1.0),
            ("nothing" + (" of what is written" if own else " written"), 1.0),
            (f"nothing {sure}" + (" written" if own else ""), 1.0),
            (f"{own}>", 1.0),
            (f"{before}|{own}>", 1.0),
            (f"nothing {quality}", 1.0),
        ]
        rest = [("other", 1.0), (f"other {sure}", 1.0), (f"other {quality}", 1.0)]
        return [*((text, tuple(own)) for text, own in found.items()), ("", tuple(none)), (OTHER, tuple(rest))]

    def _behind(self, column: Column, after: str, quality: str) -> list[Outcome]:
        own = column.written
        added = [
            (text, (("added", 1.0), (f"added {text}", 1.0), (f"{own}+{text}", 1.0), (f"added {quality}", 1.0)))
            for text in self.insertions
            if text != " " or (own != " " and after not in " $")
        ]
        return [("", ()), *added, (OTHER, (("added", 1.0), ("added other", 1.0)))]

    def log_prob(self, line: PrintedLine, text: str) -> float:
        """Return log p(text | line): the sum over all alignments of its characters with the columns."""
        return _forward(self.outcomes(line), text, self._other)[1]

    def log_best(self, line: PrintedLine, text: str) -> float:
        """Return log p of the best alignment of a text with the columns of a line."""
        outcomes, reached = self.outcomes(line), np.full(len(text) + 1, -np.inf)
        reached[0] = 0.0
        for one in outcomes:
            own, added = self._emissions(one, text)
            reached = np.maximum(reached + one.log_of[""], _shifted(reached + own))
            reached = np.maximum(reached + one.log_inserted_of[""], _shifted(reached + added))
        return float(reached[-1])

    @property
    def _other(self) -> float:
        return -math.log(self.characters)

    def _emissions(self, one: Outcomes, text: str) -> tuple[Floats, Floats]:
        """Return log p of each character of a text (and of nothing behind it) at a column, and behind the column."""
        rest, more = one.log_of[OTHER] + self._other, one.log_inserted_of[OTHER] + self._other
        own = np.array([*(one.log_of.get(c, rest) for c in text), -np.inf])
        return own, np.array([*(one.log_inserted_of.get(c, more) for c in text), -np.inf])

    def save(self, path: StrPath) -> None:
        own = {"kind": "channel", "characters": self.characters, "insertions": list(self.insertions)}
        confusions = {one: list(meant) for one, meant in self.confusions.items()}
        kept = {name: round(weight, 4) for name, weight in sorted(self.weights.items()) if abs(weight) >= 5e-4}
        write_atomically(Path(path), sealed_json({**own, "confusions": confusions, "weights": kept}))


def read_channel(path: StrPath) -> Channel:
    """Return the channel in a file that `Channel.save` wrote. Raises ConfigError for any other file, or one changed."""
    try:
        data = parse_json(read_file(path, limit=50_000_000))
        seal = data.pop("seal")
        same = sealed_json(data).endswith(f'"seal": "{seal}"\n}}'.encode())
        made = Channel(
            {str(name): float(weight) for name, weight in data["weights"].items()},
            {str(one): [str(other) for other in meant] for one, meant in data["confusions"].items()},
            tuple(map(str, data["insertions"])),
            int(data["characters"]),
        )
        fine = (
            same
            and data["kind"] == "channel"
            and made.characters > 0
            and all(map(math.isfinite, made.weights.values()))
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        fine = False
    if not fine:
        raise ConfigError(
            f"{path}: a channel is required as `llrnn read --fit` writes it, found something else; fit it anew"
        )
    return made


def bucket(confidence: float) -> str:
    """Return the range that a confidence is in, by its number."""
    return f"{int(np.searchsorted(_BOUNDS, confidence))}" if confidence >= 0 else "none"


def log_confidence(confidence: float) -> float:
    return math.log((confidence + 0.5) / 100.5)


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


def _forward(outcomes: Sequence[Outcomes], text: str, rest: float) -> tuple[list[tuple[Floats, Floats]], float]:
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
    before, log_p = _forward(outcomes, text, rest)
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
            for options in chain.from_iterable(channel._options(line)):
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
            yield posteriors(outcomes, text, self.channel._other)

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
    from difflib import SequenceMatcher

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


def quoted_outcome(text: str) -> str:
    return {"": "nothing", " ": "a blank", OTHER: "another character"}.get(text, quoted(text))
