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
from itertools import takewhile
from pathlib import PurePath
from statistics import fmean, stdev
from typing import Any

from llrnn.ground.errors import CorpusError
from llrnn.ground.files import StrPath, write_lines
from llrnn.inference.nbest import Words, join_words
from llrnn.inference.rescoring import score_sentences
from llrnn.model.network import LLRNN
from llrnn.text.source import Line, read_lines

__all__ = ["Accuracy", "Pair", "PairComparison", "PairScores", "compare", "read_pairs", "score_pairs", "write_pairs"]


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
            same = takewhile(lambda words: words[0] == words[1], zip(self.good, self.bad, strict=False))
            object.__setattr__(self, "place", len([*same]))
        if not 0 <= self.place <= min(len(self.good), len(self.bad)):
            raise CorpusError(f"place must be the index of a word, found {self.place}; correct it or leave it out")


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


def read_pairs(path: StrPath) -> list[Pair]:
    """All pairs of a file, its format told by the extension; blank lines are skipped."""
    is_tsv = _is_tsv(path)
    pairs = []
    for number, text in read_lines(path):
        if text.strip() and not (is_tsv and number == 1 and text.split("\t")[:2] == list(_HEADER[:2])):
            line = Line(path, number, text)
            pairs.append(_read_pair(line, _read_tsv(line) if is_tsv else _read_json(line)))
    if not pairs:
        raise CorpusError("at least one pair is required, but the file has none; was it written to the end?", path=path)
    return pairs


def write_pairs(path: StrPath, pairs: Iterable[Pair]) -> None:
    """Write what `read_pairs` reads, in the format of the extension. The file is there as a whole or not at all."""
    is_tsv = _is_tsv(path)
    lines = [_tsv_line(pair) if is_tsv else _json_line(pair) for pair in pairs]
    if not lines:
        raise CorpusError("at least one pair is required, found none; there is nothing to write", path=path)
    write_lines(path, ["\t".join(_HEADER), *lines] if is_tsv else lines)


def _is_tsv(path: StrPath) -> bool:
    """By the extension; otherwise it is JSON lines."""
    name = PurePath(path).name
    extension = PurePath(name.lower().removesuffix(".gz")).suffix
    if extension not in (".tsv", ".jsonl"):
        raise CorpusError(f"pairs stand in a file .tsv or .jsonl (or with .gz), found {name!r}; rename it", path=path)
    return extension == ".tsv"


def _tsv_line(pair: Pair) -> str:
    if any(character in pair.group for character in "\t\r\n"):
        raise CorpusError(f"the name of a group must stand on one line without TABs, found {pair.group!r}; rename it")
    known = ("_" if value is None else str(value) for value in (pair.distance, pair.distractors))
    return "\t".join((join_words(pair.good), join_words(pair.bad), pair.group, *known))


def _json_line(pair: Pair) -> str:
    values = (join_words(pair.good), join_words(pair.bad), pair.group, pair.distance, pair.distractors, pair.place)
    fields = {key: value for key, value in zip(_KEYS, values, strict=True) if value is not None}
    return json.dumps(fields, ensure_ascii=False)


_Fields = dict[str, tuple[object, int]]  # values, and the columns that they stand in


def _read_tsv(line: Line) -> _Fields:
    texts = line.text.split("\t")
    if not 3 <= len(texts) <= len(_HEADER):
        names, column = " ".join(_HEADER), len("\t".join(texts[: len(_HEADER)])) + 1
        line.fail(f"3 to 5 columns separated by a TAB ({names}) are required, found {len(texts)}", column)
    starts = [1 + sum(len(text) + 1 for text in texts[:index]) for index in range(len(texts))]
    values: list[object] = [*texts[:2], texts[2].strip(), *map(_number, texts[3:])]
    return dict(zip(_KEYS, zip(values, starts, strict=True), strict=False))


def _read_json(line: Line) -> _Fields:
    try:
        fields = json.loads(line.text)
    except json.JSONDecodeError as cause:
        line.fail(f"JSON is required, found a line that is none ({cause.msg}); write one object a line", cause.pos + 1)
    except (RecursionError, ValueError):  # deep nesting, a number of thousands of digits
        line.fail("JSON that Python can decode is required; simplify the line")
    if not isinstance(fields, dict):
        line.fail('an object such as {"sentence_good": "...", "sentence_bad": "..."} is required; wrap it')
    # the decoder forgets where a value stood: this is where its key is written
    placed = {key: (value, max(line.text.find(json.dumps(key)), 0) + 1) for key, value in fields.items()}
    return {"group": placed["UID"], **placed} if "UID" in placed else placed


def _read_pair(line: Line, fields: _Fields) -> Pair:
    good, bad = (_words(line, fields, key) for key in _KEYS[:2])
    group, column = fields.get("group", ("", 1))
    if not isinstance(group, str):
        line.fail(f"the group must be a string, found {group!r}; correct it", column)
    distance, distractors, place = (_count(line, fields, key) for key in _KEYS[3:])
    try:
        return Pair(good, bad, group, distance, distractors, -1 if place is None else place)
    except CorpusError as cause:
        line.fail(cause.reason, fields["sentence_bad" if place is None else "place"][1])


def _words(line: Line, fields: _Fields, key: str) -> Words:
    if key not in fields:
        line.fail(f"{key} is required, found {', '.join(map(repr, fields)) or 'nothing'}; add it")
    text, column = fields[key]
    if not isinstance(text, str):
        line.fail(f"{key} must be a string, found {text!r}; correct it", column)
    return tuple(text.split()) or line.fail(f"{key} must have a word, found none; write the sentence", column)


def _count(line: Line, fields: _Fields, key: str) -> int | None:
    value, column = fields.get(key, (None, 1))
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        line.fail(f"{key} must be a whole number of at least 0, found {value!r}; leave it out", column)
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
        return self.by(lambda pair: _band(pair.distance, _BANDS))

    @property
    def by_distractors(self) -> dict[str, Accuracy]:
        """0, 1 and 2+ words in between that suggest the wrong form; pairs of unknown number are left out."""
        return self.by(lambda pair: _band(pair.distractors, _DISTRACTORS))

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


def _band(value: int | None, bands: Sequence[tuple[int, float, str]]) -> str | None:
    return None if value is None else next(name for low, high, name in bands if low <= value <= high)


def _credit(good: float, bad: float) -> float:
    if good == bad or abs(good - bad) <= TIE:  # the first also for two impossible sentences
        return 0.5
    return float(good > bad)


def score_pairs(model: LLRNN, pairs: Sequence[Pair], *, rows: int = 1024) -> PairScores:
    """Score both sentences of every pair, about `rows` sentences in a batch.

    An impossible sentence has log p = −infinity: a grammar as background may well know that the bad one is. A word that
    the vocabulary does not list is an UnknownWordError.

        score_pairs(model, read_pairs("pairs.tsv")).overall.accuracy
    """
    if not pairs:
        raise CorpusError("at least one pair is required to score a model on, found none; give some")
    named = [(f"pair {number}", (pair.good, pair.bad)) for number, pair in enumerate(pairs, 1)]
    good, bad = zip(*score_sentences(model, named, rows=rows).log_probs, strict=True)
    return PairScores(tuple(pairs), good, bad)


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
    """2 · P(at most min of n fair coins)."""
    n = wins + losses
    return min(1.0, 2 * sum(math.comb(n, k) for k in range(min(wins, losses) + 1)) / (1 << n))
