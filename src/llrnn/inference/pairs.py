"""Minimal pairs, a sentence and the same sentence with one thing wrong: does a model prefer the grammatical one?

    scores = score_pairs(model, read_pairs("blimp.jsonl"))
    scores.overall.accuracy, scores.by_group["verb-number"], scores.by_distance["5+"]

In files they are TSV, or JSON lines as BLiMP has them; `.gz` behind either:

    il dort .	il dorment .	verb-number	1	0

    {"sentence_good": "il dort .", "sentence_bad": "il dorment .", "UID": "verb-number", "distance": 1}

TSV columns: good, bad, and perhaps group, distance and distractors, empty or `_` where unknown; a first line that
begins with `good TAB bad` is a header. In JSON lines `group` wins over `UID`, `place` may be given, and other keys are
left alone: BLiMP has many. Sentences are split at whitespace; a list of sentences are readings of one.

    right where log p(good, EOS) > log p(bad, EOS)      whole sentences, teacher-forced, in float64; a tie is wrong
    p(sentence) = Σ_{readings r} p(r)                   where it has several: `des` is an article, or `de les`

Sentences that stop in the middle are scored without EOS. Shares come with Wilson's 95 % interval. Pairs of one
sentence are not independent, which no interval here knows.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain, takewhile
from pathlib import PurePath
from statistics import fmean
from typing import Any, TypeVar

from llrnn.ground.errors import CorpusError
from llrnn.ground.files import StrPath, parse_json
from llrnn.ground.rendering import Line as TextLine
from llrnn.ground.rendering import Renderable, Sheet, Strong, TextTable
from llrnn.inference.nbest import Words
from llrnn.inference.rescoring import read_again, score_sentences
from llrnn.model.network import LLRNN
from llrnn.text.readers import Line, read_entries, require_file

K = TypeVar("K")
Readings = tuple[Words, ...]
Fields = dict[str, tuple[object, int]]  # values, and the columns that they stand in
Band = tuple[int, float, str]
BANDS: tuple[Band, ...] = ((1, 1, "1"), (2, 4, "2-4"), (5, math.inf, "5+"))

__all__ = ["Accuracy", "Pair", "PairScores", "read_pairs", "score_pairs"]


@dataclass(frozen=True, slots=True)
class Pair:
    """A minimal pair: a grammatical sentence `good`, and an ungrammatical one `bad` that differs in one thing.

    `good`, `bad`: tuples of words; `group`: what is wrong with the second (`verb-number`); `distance`: how many words
    before the difference the word stands that decides it (1: the neighbour); `distractors`: how many words between the
    two suggest the wrong form; `place`: the index of the first word that differs, found by comparing if it is −1. If
    not `complete`, both stop in the middle, and no end of sentence is scored. `readings`: for each of the two, other
    ways to cut it into words, whose probabilities are added.

        Pair(("elle", "dort"), ("elle", "dorment"), group="verb-number", distance=1)
    """

    good: Words
    bad: Words
    group: str = ""
    distance: int | None = None
    distractors: int | None = None
    place: int = -1  # found by comparing, where it is not given
    complete: bool = True
    readings: tuple[Readings, Readings] = ((), ())

    def __post_init__(self) -> None:
        if not self.good or not self.bad:
            raise CorpusError(f"both sentences of a pair must have a word, found {self.good!r} and {self.bad!r}")
        for name in ("distance", "distractors"):
            value = getattr(self, name)
            if value is not None and value < (1 if name == "distance" else 0):
                raise CorpusError(f"{name} must not be that small, found {value}; correct it or leave it out")
        if self.place == -1:
            same = takewhile(lambda words: words[0] == words[1], zip(self.good, self.bad, strict=False))
            object.__setattr__(self, "place", len([*same]))
        if not 0 <= self.place <= min(len(self.good), len(self.bad)):
            raise CorpusError(f"place must be the index of a word, found {self.place}; correct it or leave it out")


HEADER = ("good", "bad", "group", "distance", "distractors")
_ROW = (*HEADER[:3], "log_p_good", "log_p_bad", "right")
KEYS = ("sentence_good", "sentence_bad", "group", "distance", "distractors", "place", "complete")


def read_pairs(path: StrPath) -> list[Pair]:
    """Return the minimal pairs in a file .tsv or .jsonl, also with .gz; blank lines are skipped.

    TSV has the columns good, bad, group and, if known, distance and distractors; JSON lines have BLiMP's keys,
    `sentence_good`, `sentence_bad`, `UID` or `group`. Raises CorpusError, with the line, for anything else, and for a
    file without a pair.

        pairs = read_pairs("pairs.tsv.gz")
    """
    require_file(path)
    tsv = is_tsv(path)
    lines = [line for line in read_entries(path) if not (tsv and _is_header(line))]
    pairs = [read_pair(line, _read_tsv(line) if tsv else _read_json(line)) for line in lines]
    if not pairs:
        raise CorpusError("at least one pair is required, but the file has none; was it written to the end?", path=path)
    return pairs


def is_tsv(path: StrPath) -> bool:
    """Return True for a file name .tsv and False for .jsonl, with or without .gz; raise CorpusError for others."""
    name = PurePath(path).name
    extension = PurePath(name.lower().removesuffix(".gz")).suffix
    if extension not in (".tsv", ".jsonl"):
        raise CorpusError(
            f"pairs stand in a file .tsv or .jsonl (or with .gz), found {name!r}; write them as .tsv, a TAB between "
            "the good sentence and the bad one",
            path=path,
        )
    return extension == ".tsv"


def _is_header(line: Line) -> bool:
    return line.number == 1 and line.text.split("\t")[:2] == list(HEADER[:2])


def _read_tsv(line: Line) -> Fields:
    texts = line.text.split("\t")
    if not 2 <= len(texts) <= len(HEADER):
        names, column = " ".join(HEADER), len("\t".join(texts[: len(HEADER)])) + 1
        line.fail(f"2 to 5 columns separated by a TAB ({names}) are required, found {len(texts)}", column)
    starts = [1 + sum(len(text) + 1 for text in texts[:index]) for index in range(len(texts))]
    values: list[object] = [*texts[:2], *map(str.strip, texts[2:3]), *map(_number, texts[3:])]
    return dict(zip(KEYS, zip(values, starts, strict=True), strict=False))


def _read_json(line: Line) -> Fields:
    try:
        fields = parse_json(line.text)
    except json.JSONDecodeError as cause:
        line.fail(f"JSON is required, found a line that is none ({cause.msg}); write one object a line", cause.pos + 1)
    if not isinstance(fields, dict):
        line.fail('an object such as {"sentence_good": "...", "sentence_bad": "..."} is required; wrap it')
    # the decoder forgets where a value stood: this is where its key is written
    placed = {key: (value, max(line.text.find(json.dumps(key)), 0) + 1) for key, value in fields.items()}
    return {"group": placed["UID"], **placed} if "UID" in placed else placed


def read_pair(line: Line, fields: Fields) -> Pair:
    """Return the minimal pair that one line of a file describes.

    `line`: for the place in error messages; `fields`: {key: (value, column in the line)} with the keys of JSON lines,
    `sentence_good`, `sentence_bad`, `group`, `distance`, `distractors`, `place`, `complete`, of which the first two are
    needed: strings whose words stand between blanks, or lists of them, further ways to cut the sentence. The others
    are "", None, None, −1 (found by comparing) and True where missing. Raises CorpusError where a field is missing or
    wrong.
    """
    (good, *more), (bad, *others) = (_sentences(line, fields, key) for key in KEYS[:2])
    if good == bad:
        text = " ".join(good)
        line.fail(f"the sentences of a pair must differ, found {text!r} twice; correct one", fields["sentence_bad"][1])
    group, column = fields.get("group", ("", 1))
    if not isinstance(group, str):
        line.fail(f"the group must be a string, found {group!r}; correct it", column)
    distance, distractors, place = (_count(line, fields, key) for key in KEYS[3:6])
    place, complete = -1 if place is None else place, fields.get("complete", (True, 1))[0] is not False
    try:
        return Pair(good, bad, group, distance, distractors, place, complete, (tuple(more), tuple(others)))
    except CorpusError as cause:
        line.fail(cause.reason, fields["sentence_bad" if place == -1 else "place"][1])


def _sentences(line: Line, fields: Fields, key: str) -> list[Words]:
    if key not in fields:
        line.fail(f"{key} is required, found {', '.join(map(repr, fields)) or 'nothing'}; add it")
    given, column = fields[key]
    found = []
    for text in given if isinstance(given, list) and given else [given]:
        if not isinstance(text, str):
            line.fail(f"{key} must be a string, found {text!r}; correct it", column)
        words = tuple(text.split())
        found.append(words or line.fail(f"{key} must have a word, found none; write the sentence", column))
    return found


def _count(line: Line, fields: Fields, key: str) -> int | None:
    value, column = fields.get(key, (None, 1))
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        line.fail(f"{key} must be a whole number of at least 0, found {value!r}; leave it out", column)
    return value


def _number(text: str) -> object:
    """Return the whole number in a TSV column, None where it is empty or `_`, other text as it is, to be refused."""
    text = text.strip()
    if text in ("", "_"):
        return None
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else text


TIE = 1e-9  # nats: less is the rounding of double precision, not an opinion
_Z = 1.959963984540054  # 95 % of a normal distribution lie within
_DISTRACTORS: tuple[Band, ...] = ((0, 0, "0"), (1, 1, "1"), (2, math.inf, "2+"))


@dataclass(frozen=True)
class Accuracy:
    """The share of `count` minimal pairs on which a model prefers the grammatical sentence, with its 95 % interval.

    `accuracy`, and the interval's ends `low` and `high`, are from 0 to 1.

        score_pairs(model, pairs).overall.accuracy
    """

    count: int
    accuracy: float
    low: float
    high: float

    @classmethod
    def of(cls, right: Sequence[bool]) -> Accuracy:
        """Return the share of True in `right` with Wilson's 95 % interval, which holds for few values too.

        `right`: for each minimal pair whether the model prefers the grammatical sentence; one value at least.
        """
        n, share = len(right), fmean(right)
        centre = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
        half = _Z / (1 + _Z**2 / n) * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
        return cls(n, share, max(0.0, centre - half), min(1.0, centre + half))

    def __str__(self) -> str:
        return f"{self.accuracy:.1%} [{self.low:.1%}, {self.high:.1%}] of {self.count:,} pairs"


@dataclass(frozen=True)
class PairScores(Renderable):
    """log p (nats) of both sentences of every minimal pair, and accuracies overall, by group, distance and distractors.

    `pairs`, `log_p_good`, `log_p_bad`: tuples of the same length; `left_out`: pairs with words outside a closed
    vocabulary, which no accuracy counts; `bands`: how distances are grouped, as tuples (least, most, name), both ends
    included. `overall` is an `Accuracy`, `by_group` a dict of them by name.

        score_pairs(model, read_pairs("pairs.tsv")).overall.accuracy
    """

    pairs: tuple[Pair, ...]
    log_p_good: tuple[float, ...]
    log_p_bad: tuple[float, ...]
    left_out: tuple[Pair, ...] = ()
    bands: tuple[Band, ...] = BANDS  # of distances

    @cached_property
    def right(self) -> tuple[bool, ...]:
        """For each minimal pair whether the grammatical sentence is more probable; a tie (up to 1e-9 nats) is False."""
        both = zip(self.log_p_good, self.log_p_bad, strict=True)
        return tuple(good > bad and not _is_tie(good, bad) for good, bad in both)

    @property
    def ties(self) -> int:
        """Number of minimal pairs whose two sentences are equally probable, within 1e-9 nats."""
        return sum(map(_is_tie, self.log_p_good, self.log_p_bad))

    @property
    def equal(self) -> int:
        """Number of minimal pairs whose two sentences have the same words."""
        return sum(pair.good == pair.bad for pair in self.pairs)

    @property
    def overall(self) -> Accuracy:
        return Accuracy.of(self.right)

    @property
    def mean_of_groups(self) -> float:
        """The mean of the accuracies of the groups of pairs, each group counted alike, from 0 to 1."""
        return fmean(share.accuracy for share in self.by_group.values())

    @property
    def by_group(self) -> dict[str, Accuracy]:
        return self.by(lambda pair: pair.group)

    @property
    def by_distance(self) -> dict[str, Accuracy]:
        """Accuracies by distance, {band: accuracy}: how many words before the difference the deciding word stands.

        The bands are `1`, `2-4` and `5+`, unless `bands` says otherwise. Pairs of unknown distance, and bands without a
        pair, are left out.
        """
        return self.by(lambda pair: _band(pair.distance, self.bands))

    @property
    def by_distractors(self) -> dict[str, Accuracy]:
        """Accuracies by distractors, {band: accuracy}: how many words suggest the wrong form, `0`, `1` or `2+`.

        Pairs of unknown number, and bands without a pair, are left out.
        """
        return self.by(lambda pair: _band(pair.distractors, _DISTRACTORS))

    def sheet(self, name: str = "pairs") -> Sheet:
        """Return contents to print, headed `name`: the accuracy, notes on what is not counted, a table by each key.

        Distance is that of the words that must agree; distractors are words between them that suggest the wrong form.
        """
        said: list[TextLine] = [
            (Strong(name), f": the grammatical sentence is preferred in {self.overall}"),
            (f"mean of the {len(self.by_group)} groups: {self.mean_of_groups:.1%}; {self.ties:,} ties count as wrong",),
        ]
        apart = (
            (self.equal, "pairs are the same sentence twice, and count as wrong"),
            (len(self.left_out), "pairs have words that the vocabulary does not list, and are left out"),
        )
        said += [(f"{count:,} {what}",) for count, what in apart if count]
        tables = {"group": self.by_group, "distance": self.by_distance, "distractors": self.by_distractors}
        rows = {title: tuple((key, str(share)) for key, share in parts.items()) for title, parts in tables.items()}
        blocks = [TextTable((title, "accuracy [95 % interval]"), of_it) for title, of_it in rows.items() if of_it]
        return Sheet((*said, *blocks))

    def summary(self) -> dict[str, Any]:
        """Return all accuracies as a dict for JSON; an accuracy is a dict of `count`, `accuracy`, `low` and `high`.

        Keys: `overall` (an accuracy); `mean_of_groups`, `ties`, `equal`, `left_out` (numbers); `by_group`,
        `by_distance`, `by_distractors` (dicts of accuracies by name).
        """
        tables = ("by_group", "by_distance", "by_distractors")
        parts = {name: {group: asdict(share) for group, share in getattr(self, name).items()} for name in tables}
        whole = {"overall": asdict(self.overall), "mean_of_groups": self.mean_of_groups}
        return {**whole, "ties": self.ties, "equal": self.equal, "left_out": len(self.left_out), **parts}

    def rows(self) -> list[dict[str, Any]]:
        """Return a dict for each pair: `good`, `bad`, `group`, `log_p_good`, `log_p_bad` (nats) and `right`.

        `good` and `bad` are strings with blanks between words; `right` is whether the good one is the more probable.
        Pairs that are left out come last, with None for `log_p_good`, `log_p_bad` and `right`.
        """
        scored = [*zip(self.log_p_good, self.log_p_bad, self.right, strict=True), *[(None,) * 3] * len(self.left_out)]
        return [
            dict(zip(_ROW, (" ".join(pair.good), " ".join(pair.bad), pair.group, *own), strict=True))
            for pair, own in zip((*self.pairs, *self.left_out), scored, strict=True)
        ]

    def by(self, key: Callable[[Pair], K | None]) -> dict[K, Accuracy]:
        """Return {value of `key`: accuracy of the pairs that have it}, sorted by value.

        `key`: a function of a pair; a pair for which it returns None is left out.
        """
        parts: dict[K, list[bool]] = {}
        for pair, right in zip(self.pairs, self.right, strict=True):
            name = key(pair)
            if name is not None:
                parts.setdefault(name, []).append(right)
        return {name: Accuracy.of(parts[name]) for name in sorted(parts)}  # type: ignore[type-var]


def _band(value: int | None, bands: Sequence[Band]) -> str | None:
    return None if value is None else next(name for low, high, name in bands if low <= value <= high)


def _is_tie(good: float, bad: float) -> bool:
    return good == bad or abs(good - bad) <= TIE  # the first also for two impossible sentences


def score_pairs(model: LLRNN, pairs: Sequence[Pair], *, rows: int = 1024) -> PairScores:
    """Score both sentences of every minimal pair with a model, in float64; return log p of all and accuracies.

    `rows`: about how many sentences are scored in a batch. An impossible sentence has log p = −infinity. Readings with
    a word outside a closed vocabulary are left out, and a pair of which a sentence has no other reading is in
    `left_out` of the result; raises UnknownWordError if that is every pair, CorpusError for no pairs.

        score_pairs(model, read_pairs("pairs.tsv")).overall.accuracy
    """
    if not pairs:
        raise CorpusError("at least one pair is required to score a model on, found none; give some")
    listed = _listed(model, pairs)
    kept = sorted((*both, number) for number, both in enumerate(listed) if all(both))  # neighbours share prefixes
    if not kept:  # say which word it was
        kept = [((pairs[0].good,), (pairs[0].bad,), 0)]
    exact = copy.deepcopy(model).double()
    named = [(f"pair {number + 1}", (*good, *bad)) for good, bad, number in kept]
    open_ended = {place for place, (_, _, number) in enumerate(kept) if not pairs[number].complete}
    found = score_sentences(exact, named, rows=rows, open_ended=open_ended).log_probs
    both = {
        number: (_log_sum(log_p[: len(good)]), _log_sum(log_p[len(good) :]))
        for (good, _, number), log_p in zip(kept, found, strict=True)
    }
    log_p_good, log_p_bad = zip(*(both[number] for number in sorted(both)), strict=True)
    left_out = tuple(pair for number, pair in enumerate(pairs) if number not in both)
    return PairScores(tuple(pairs[number] for number in sorted(both)), log_p_good, log_p_bad, left_out)


def _listed(model: LLRNN, pairs: Sequence[Pair]) -> list[tuple[Readings, Readings]]:
    """Return for each pair the readings of the good and of the bad sentence whose words are all in the vocabulary.

    A reading is a way to cut the sentence into words; () where none is left.
    """
    all_of = [[(pair.good, *pair.readings[0]), (pair.bad, *pair.readings[1])] for pair in pairs]
    read = {words: read_again(model, words) for both in all_of for own in both for words in own}
    words = list(dict.fromkeys(chain.from_iterable(read.values())))
    listed = {word for word, found in zip(words, model.vocabulary.find(words)[0].tolist(), strict=True) if found >= 0}
    known = [[tuple(one for one in own if listed.issuperset(read[one])) for own in both] for both in all_of]
    return [(good, bad) for good, bad in known]


def _log_sum(log_p: Sequence[float]) -> float:
    highest = max(log_p)
    return highest if math.isinf(highest) else highest + math.log(sum(math.exp(one - highest) for one in log_p))
