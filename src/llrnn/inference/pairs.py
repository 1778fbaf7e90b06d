"""Minimal pairs, a sentence and the same sentence with one thing wrong: does a model prefer the grammatical one?

pairs = make_pairs(treebank, vocabulary=model.vocabulary)        or read_pairs("blimp.jsonl")
scores = score_pairs(model, pairs)
scores.overall.accuracy, scores.by_group["verb-number"], scores.by_distance["5+"]
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePath
from statistics import fmean, stdev
from typing import Any, Literal, NoReturn

import numpy as np
import torch

from llrnn.ground.errors import CorpusError
from llrnn.ground.files import StrPath, write_lines
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
_KEYS = ("sentence_good", "sentence_bad", "group", "distance", "distractors", "place")  # of JSON lines
_EXTENSIONS: dict[str, Literal["tsv", "jsonl"]] = {".tsv": "tsv", ".jsonl": "jsonl"}


def read_pairs(path: StrPath) -> list[Pair]:
    """All pairs of a file, its format told by the extension; blank lines are skipped."""
    kind = _format_of(path)
    pairs = []
    for number, line in read_lines(path):
        if line.strip() and not (kind == "tsv" and number == 1 and line.split("\t")[:2] == list(_HEADER[:2])):
            placed = _PairLine(path, number, line)
            pairs.append(placed.pair(placed.tsv() if kind == "tsv" else placed.json()))
    if not pairs:
        raise CorpusError("at least one pair is required, but the file has none; was it written to the end?", path=path)
    return pairs


def write_pairs(path: StrPath, pairs: Iterable[Pair]) -> None:
    """Write what `read_pairs` reads, in the format of the extension. The file is there as a whole or not at all."""
    kind = _format_of(path)
    lines = [_tsv_line(pair) if kind == "tsv" else _json_line(pair) for pair in pairs]
    if not lines:
        raise CorpusError("at least one pair is required, found none; there is nothing to write", path=path)
    write_lines(path, ["\t".join(_HEADER), *lines] if kind == "tsv" else lines)


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
    values = (_text(pair.good), _text(pair.bad), pair.group, pair.distance, pair.distractors, pair.place)
    fields = {key: value for key, value in zip(_KEYS, values, strict=True) if value is not None}
    return json.dumps(fields, ensure_ascii=False)


_Fields = dict[str, tuple[object, int]]  # values, and the columns that they stand in


@dataclass(frozen=True)
class _PairLine:
    """One line of a file, with its place for messages."""

    path: StrPath
    number: int
    line: str

    def fail(self, column: int, reason: str) -> NoReturn:
        raise CorpusError(reason, path=self.path, line=self.number, column=column)

    def tsv(self) -> _Fields:
        texts = self.line.split("\t")
        if not 3 <= len(texts) <= len(_HEADER):
            column = len("\t".join(texts[: len(_HEADER)])) + 1
            names = " ".join(_HEADER)
            self.fail(column, f"3 to 5 columns separated by a TAB ({names}) are required, found {len(texts)}")
        starts = [1 + sum(len(text) + 1 for text in texts[:index]) for index in range(len(texts))]
        values: list[object] = [*texts[:2], texts[2].strip(), *map(_number, texts[3:])]
        return dict(zip(_KEYS, zip(values, starts, strict=True), strict=False))

    def json(self) -> _Fields:
        try:
            fields = json.loads(self.line)
        except json.JSONDecodeError as cause:
            reason = f"JSON is required, found a line that is none ({cause.msg}); write one object a line"
            self.fail(cause.pos + 1, reason)
        except (RecursionError, ValueError):  # deep nesting, a number of thousands of digits
            self.fail(1, "JSON that Python can decode is required; simplify the line")
        if not isinstance(fields, dict):
            self.fail(1, 'an object such as {"sentence_good": "...", "sentence_bad": "..."} is required; wrap it')
        # the decoder forgets where a value stood: this is where its key is written
        placed = {key: (value, max(self.line.find(json.dumps(key)), 0) + 1) for key, value in fields.items()}
        return {"group": placed["UID"], **placed} if "UID" in placed else placed

    def pair(self, fields: _Fields) -> Pair:
        good, bad = (self._words(fields, key) for key in _KEYS[:2])
        group, column = fields.get("group", ("", 1))
        if not isinstance(group, str):
            self.fail(column, f"the group must be a string, found {group!r}; correct it")
        distance, distractors, place = (self._count(fields, key) for key in _KEYS[3:])
        try:
            return Pair(good, bad, group, distance, distractors, -1 if place is None else place)
        except CorpusError as cause:
            self.fail(fields["sentence_bad" if place is None else "place"][1], cause.reason)

    def _words(self, fields: _Fields, key: str) -> Words:
        if key not in fields:
            self.fail(1, f"{key} is required, found {', '.join(map(repr, fields)) or 'nothing'}; add it")
        text, column = fields[key]
        if not isinstance(text, str):
            self.fail(column, f"{key} must be a string, found {text!r}; correct it")
        return tuple(text.split()) or self.fail(column, f"{key} must have a word, found none; write the sentence")

    def _count(self, fields: _Fields, key: str) -> int | None:
        value, column = fields.get(key, (None, 1))
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
            self.fail(column, f"{key} must be a whole number of at least 0, found {value!r}; leave it out")
        return value


def _number(text: str) -> object:
    """A column of TSV, None where it says that nothing is known; what is no number is left as it is, to be refused."""
    text = text.strip()
    if text in ("", "_"):
        return None
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else text


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
            **{
                name: {group: asdict(share) for group, share in getattr(self, name).items()}
                for name in ("by_group", "by_distance", "by_distractors")
            },
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

        score_pairs(model, read_pairs("pairs.tsv")).overall.accuracy
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
