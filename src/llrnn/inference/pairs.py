"""Minimal pairs, a sentence and the same sentence with one thing wrong: does a model prefer the grammatical one?

pairs = make_pairs(treebank, vocabulary=model.vocabulary)        or read_pairs("blimp.jsonl")
scores = score_pairs(model, pairs)
scores.overall.accuracy, scores.by_group["verb-number"], scores.by_distance["5+"]
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from os import fspath
from pathlib import Path, PurePath
from statistics import fmean, stdev
from typing import Any, Literal, NoReturn

import numpy as np
import torch

from llrnn.ground.errors import CorpusError
from llrnn.ground.files import StrPath, write_atomically
from llrnn.model.batches import Sentences
from llrnn.model.network import LLRNN
from llrnn.model.scoring import walk
from llrnn.text.ids import EncodedText
from llrnn.text.source import read_lines

__all__ = ["Accuracy", "Pair", "PairComparison", "PairScores", "compare", "read_pairs", "score_pairs", "write_pairs"]

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sentences, the first of them grammatical.

    `group` names what is wrong with the second (`verb-number`), `distance` how many words away the word is that decides
    (1 for the neighbour), `distractors` how many words between the two suggest the wrong form, and `place` the index of
    the first word that differs. A model is right where it finds the first sentence more probable.
    """

    good: Words
    bad: Words
    group: str = ""
    distance: int | None = None
    distractors: int | None = None
    place: int = -1  # found by comparing, where it is not given

    def __post_init__(self) -> None:
        if not self.good or not self.bad:
            raise CorpusError(f"both sentences of a pair must have a word, found {self.good!r} and {self.bad!r}")
        if self.good == self.bad:
            raise CorpusError(f"the sentences of a pair must differ, found {' '.join(self.good)!r} twice; correct one")
        for name in ("distance", "distractors"):
            value = getattr(self, name)
            if value is not None and value < (1 if name == "distance" else 0):
                raise CorpusError(f"{name} must not be that small, found {value}; correct it or leave it out")
        if self.place == -1:
            object.__setattr__(self, "place", first_difference(self.good, self.bad))
        if not 0 <= self.place <= min(len(self.good), len(self.bad)):
            raise CorpusError(f"place must be the index of a word, found {self.place}; correct it or leave it out")


def first_difference(good: Words, bad: Words) -> int:
    """The index of the first word that differs; where one sentence begins the other, the length of the shorter."""
    pairs = enumerate(zip(good, bad, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(good), len(bad)))


# Minimal pairs in files: TSV, or JSON lines as BLiMP has them; `.gz` behind either.
#
#     il dort .	il dorment .	verb-number	1	0
#
#     {"sentence_good": "il dort .", "sentence_bad": "il dorment .", "UID": "verb-number", "distance": 1}
#
# TSV columns: good, bad, group, and perhaps distance and distractors, empty or `_` where unknown; a first line that
# begins with `good TAB bad` is a header. In JSON lines `group` wins over `UID`, `place` may be given, and other keys
# are left alone: BLiMP has many. Sentences are split at whitespace.


_HEADER = ("good", "bad", "group", "distance", "distractors")
_Numbers = tuple[int | None, int | None]
_EXTENSIONS: dict[str, Literal["tsv", "jsonl"]] = {".tsv": "tsv", ".jsonl": "jsonl"}


def read_pairs(path: StrPath) -> list[Pair]:
    """All pairs of a file, its format told by the extension; blank lines are skipped."""
    kind = _format_of(path)
    pairs = []
    for number, line in read_lines(path):
        if not line.strip() or (kind == "tsv" and number == 1 and line.split("\t")[:2] == list(_HEADER[:2])):
            continue
        row = _TsvLine(path, number, line) if kind == "tsv" else _JsonLine(path, number, line)
        pairs.append(row.pair())
    if not pairs:
        raise CorpusError("at least one pair is required, but the file has none; was it written to the end?", path=path)
    return pairs


def write_pairs(path: StrPath, pairs: Iterable[Pair]) -> None:
    """Write what `read_pairs` reads, in the format of the extension. The file is there as a whole or not at all."""
    write = _tsv_line if _format_of(path) == "tsv" else _json_line
    lines = [write(pair) for pair in pairs]
    if not lines:
        raise CorpusError("at least one pair is required, found none; there is nothing to write", path=path)
    header = ["\t".join(_HEADER)] if _format_of(path) == "tsv" else []
    content = "".join(f"{line}\n" for line in [*header, *lines]).encode()
    if fspath(path).endswith(".gz"):
        content = gzip.compress(content, mtime=0)  # the same pairs, the same bytes
    try:
        write_atomically(Path(path), content)
    except OSError as cause:
        raise CorpusError(f"the file cannot be written: {cause.strerror or cause}", path=path) from cause


def _format_of(path: StrPath) -> Literal["tsv", "jsonl"]:
    name = PurePath(path).name.lower().removesuffix(".gz")
    for extension, kind in _EXTENSIONS.items():
        if name.endswith(extension):
            return kind
    known = " or ".join(_EXTENSIONS)
    raise CorpusError(
        f"pairs stand in a file {known} (or with .gz), found {PurePath(path).name!r}; rename it", path=path
    )


def _text(words: Sequence[str]) -> str:
    for word in words:
        if word.split() != [word]:
            raise CorpusError(f"a word with whitespace in it cannot be written, found {word!r}; leave its pair out")
    return " ".join(words)


def _tsv_line(pair: Pair) -> str:
    if any(character in pair.group for character in "\t\r\n"):
        raise CorpusError(f"the name of a group must stand on one line without TABs, found {pair.group!r}; rename it")
    known = ("_" if value is None else str(value) for value in (pair.distance, pair.distractors))
    return "\t".join((_text(pair.good), _text(pair.bad), pair.group, *known))


def _json_line(pair: Pair) -> str:
    fields: dict[str, object] = {"sentence_good": _text(pair.good), "sentence_bad": _text(pair.bad)}
    fields |= {"group": pair.group, "distance": pair.distance, "distractors": pair.distractors, "place": pair.place}
    return json.dumps({key: value for key, value in fields.items() if value is not None}, ensure_ascii=False)


class _PairLine:
    """One line of a file, with its place for messages."""

    def __init__(self, path: StrPath, number: int, line: str) -> None:
        self.path, self.number, self.line = path, number, line

    def fail(self, column: int, reason: str) -> NoReturn:
        raise CorpusError(reason, path=self.path, line=self.number, column=column)

    def words(self, text: str, column: int, name: str) -> Words:
        return tuple(text.split()) or self.fail(column, f"{name} must have a word, found none; write the sentence")

    def made(self, column: int, good: Words, bad: Words, group: str, numbers: _Numbers, place: int = -1) -> Pair:
        try:
            return Pair(good, bad, group, *numbers, place)
        except CorpusError as cause:
            self.fail(column, cause.reason)


class _TsvLine(_PairLine):
    """A line of TSV."""

    def pair(self) -> Pair:
        columns = self.line.split("\t")
        if not 3 <= len(columns) <= len(_HEADER):
            column = len("\t".join(columns[: len(_HEADER)])) + 1
            self.fail(
                column, f"3 to 5 columns separated by a TAB ({' '.join(_HEADER)}) are required, found {len(columns)}"
            )
        starts = [1 + sum(len(text) + 1 for text in columns[:index]) for index in range(len(columns))]
        good, bad = (self.words(columns[i], starts[i], _HEADER[i]) for i in range(2))
        known = [self.number_in(columns[i], starts[i], _HEADER[i]) for i in range(3, len(columns))]
        distance, distractors = [*known, None, None][:2]
        return self.made(starts[1], good, bad, columns[2].strip(), (distance, distractors))

    def number_in(self, text: str, column: int, name: str) -> int | None:
        if text.strip() in ("", "_"):
            return None
        if not (text.strip().isascii() and text.strip().isdigit() and len(text.strip()) <= 9):
            self.fail(column, f"{name} must be a whole number, or _ where it is unknown, found {text!r}; correct it")
        return int(text)


class _JsonLine(_PairLine):
    """A line of JSON."""

    def pair(self) -> Pair:
        fields = self.decoded()
        good, bad = (self.sentence(fields, key) for key in ("sentence_good", "sentence_bad"))
        group = fields.get("group", fields.get("UID", ""))
        if not isinstance(group, str):
            self.fail(
                self.column("group" if "group" in fields else "UID"), f"the group must be a string, found {group!r}"
            )
        numbers = self.number_of(fields, "distance"), self.number_of(fields, "distractors")
        place = self.number_of(fields, "place")
        column = self.column("sentence_bad" if place is None else "place")
        return self.made(column, good, bad, group, numbers, place=-1 if place is None else place)

    def decoded(self) -> dict[str, object]:
        try:
            fields = json.loads(self.line)
        except json.JSONDecodeError as cause:
            self.fail(
                cause.pos + 1, f"JSON is required, found a line that is none ({cause.msg}); write one object a line"
            )
        except (RecursionError, ValueError):  # deep nesting, a number of thousands of digits
            self.fail(1, "JSON that Python can decode is required; simplify the line")
        if not isinstance(fields, dict):
            self.fail(1, 'an object such as {"sentence_good": "...", "sentence_bad": "..."} is required; wrap it')
        return fields

    def sentence(self, fields: dict[str, object], key: str) -> Words:
        if key not in fields:
            self.fail(1, f"{key} is required, found {', '.join(map(repr, fields)) or 'nothing'}; add it")
        text = fields[key]
        if not isinstance(text, str):
            self.fail(self.column(key), f"{key} must be a string, found {text!r}; correct it")
        return self.words(text, self.column(key), key)

    def number_of(self, fields: dict[str, object], key: str) -> int | None:
        value = fields.get(key)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            self.fail(self.column(key), f"{key} must be a whole number of at least 0, found {value!r}; correct it")
        return value

    def column(self, key: str) -> int:
        """The decoder forgets where a value stood, so this is where its key is written."""
        return max(self.line.find(json.dumps(key)), 0) + 1


# How often a model finds the grammatical sentence of a pair more probable.
#
#     right where log p(good, EOS) > log p(bad, EOS)      whole sentences, teacher-forced; a tie counts as half
#
# Shares come with Wilson's 95 % interval. Pairs of one sentence are not independent, which no interval here knows.


TIE = 1e-5  # nats: less is the rounding of single precision, not an opinion
_Z = 1.959963984540054  # 95 % of a normal distribution lie within
_BANDS = ((1, 1, "1"), (2, 4, "2-4"), (5, math.inf, "5+"))
_DISTRACTORS = ((0, 0, "0"), (1, 1, "1"), (2, math.inf, "2+"))


@dataclass(frozen=True)
class Accuracy:
    """A share of `count` pairs that were right, with its 95 % interval."""

    count: int
    accuracy: float
    low: float
    high: float

    @classmethod
    def of(cls, credits: Sequence[float]) -> Accuracy:
        """Wilson's interval: it stays within 0 and 1, and holds for few pairs."""
        n, share = len(credits), fmean(credits)
        centre = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
        half = _Z / (1 + _Z**2 / n) * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
        return cls(n, share, max(0.0, centre - half), min(1.0, centre + half))


@dataclass(frozen=True)
class PairScores:
    """log p of both sentences of every pair, and what follows from it."""

    pairs: tuple[Pair, ...]
    log_p_good: tuple[float, ...]
    log_p_bad: tuple[float, ...]

    @property
    def credits(self) -> tuple[float, ...]:
        """1 for a pair that is right, 0 for one that is wrong, one half for a tie."""
        return tuple(_credit(good, bad) for good, bad in zip(self.log_p_good, self.log_p_bad, strict=True))

    @property
    def overall(self) -> Accuracy:
        return Accuracy.of(self.credits)

    @property
    def by_group(self) -> dict[str, Accuracy]:
        return self.by(lambda pair: pair.group)

    @property
    def by_distance(self) -> dict[str, Accuracy]:
        """1, 2-4 and 5+ words between the two words that agree; pairs of unknown distance are left out."""
        return self._banded(lambda pair: pair.distance, _BANDS)

    @property
    def by_distractors(self) -> dict[str, Accuracy]:
        """0, 1 and 2+ words in between that suggest the wrong form; pairs of unknown number are left out."""
        return self._banded(lambda pair: pair.distractors, _DISTRACTORS)

    def summary(self) -> dict[str, Any]:
        """All shares as plain data, for JSON."""
        return {
            "overall": asdict(self.overall),
            "by_group": {name: asdict(share) for name, share in self.by_group.items()},
            "by_distance": {name: asdict(share) for name, share in self.by_distance.items()},
            "by_distractors": {name: asdict(share) for name, share in self.by_distractors.items()},
        }

    def by(self, key: Callable[[Pair], str | None]) -> dict[str, Accuracy]:
        """A share for every answer of `key`, sorted; pairs for which it answers None are left out."""
        parts: dict[str, list[float]] = {}
        for pair, credit in zip(self.pairs, self.credits, strict=True):
            name = key(pair)
            if name is not None:
                parts.setdefault(name, []).append(credit)
        return {name: Accuracy.of(parts[name]) for name in sorted(parts)}

    def _banded(
        self, number: Callable[[Pair], int | None], bands: Sequence[tuple[int, float, str]]
    ) -> dict[str, Accuracy]:
        def band(pair: Pair) -> str | None:
            value = number(pair)
            return None if value is None else next(name for low, high, name in bands if low <= value <= high)

        return self.by(band)


def _credit(good: float, bad: float) -> float:
    if good == bad or abs(good - bad) <= TIE:  # the first also for two impossible sentences
        return 0.5
    return float(good > bad)


def score_pairs(model: LLRNN, pairs: Sequence[Pair], *, words: int = 1024) -> PairScores:
    """Score both sentences of every pair, about `words` words in a batch.

    An impossible sentence has log p = −infinity: a grammar as background may well know that the bad one is. A word that
    the vocabulary does not list is an UnknownWordError.
    """
    if not pairs:
        raise CorpusError("at least one pair is required to score a model on, found none; give some")
    sentences = {sentence: i for i, pair in enumerate(pairs, 1) for sentence in (pair.good, pair.bad)}
    log_p = _log_probs(model, sentences, words)
    return PairScores(tuple(pairs), tuple(log_p[p.good] for p in pairs), tuple(log_p[p.bad] for p in pairs))


@torch.no_grad()
def _log_probs(model: LLRNN, sentences: dict[Words, int], words: int) -> dict[Words, float]:
    """log p of each sentence, its end included; `sentences` says in which pair it stands, for messages."""
    # By length, which is the order of the batches, so that rows and sentences come in step.
    ordered = sorted(sentences, key=len)
    ids = (model.vocabulary.ids(sentence, place=f"pair {sentences[sentence]}") for sentence in ordered)
    arrays = tuple(np.array(row, dtype=np.int64) for row in ids)
    text = EncodedText(arrays, (None,) * len(arrays), model.vocabulary.eos)
    sums: list[float] = []
    for batch, distribution in walk(model, text, Sentences(words)):
        log_p = torch.zeros(batch.mask.shape, dtype=torch.float64, device=batch.mask.device)
        log_p[batch.mask] = distribution.log_prob(batch.picked(batch.targets)).double()
        sums += log_p.sum(-1).tolist()
    return dict(zip(ordered, sums, strict=True))


@dataclass(frozen=True)
class PairComparison:
    """Two models on the same pairs: who is right where the other is not."""

    count: int
    only_first: int
    only_second: int
    difference: float  # accuracy of the first minus that of the second
    low: float  # 95 % interval of the difference, from the spread over the pairs
    high: float
    p_value: float  # McNemar's exact test, two-sided


def compare(first: PairScores, second: PairScores) -> PairComparison:
    """Compare two models pair by pair; the test counts the pairs on which they differ, half credits by their sign."""
    if first.pairs != second.pairs:
        raise CorpusError("two models can only be compared on the same pairs in the same order; score both on one list")
    differences = [one - other for one, other in zip(first.credits, second.credits, strict=True)]
    n, mean = len(differences), fmean(differences)
    half = _Z * stdev(differences) / math.sqrt(n) if n > 1 else 1.0
    wins, losses = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    return PairComparison(n, wins, losses, mean, max(-1.0, mean - half), min(1.0, mean + half), _mcnemar(wins, losses))


def _mcnemar(wins: int, losses: int) -> float:
    """2 · P(at most min of n fair coins), in logarithms: n may be thousands."""
    n = wins + losses
    tail = sum(
        math.exp(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - n * math.log(2))
        for k in range(min(wins, losses) + 1)
    )
    return min(1.0, 2 * tail)
