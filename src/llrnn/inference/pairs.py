"""Minimal pairs, a sentence and the same sentence with one thing wrong: does a model prefer the grammatical one?

pairs = make_pairs(treebank, vocabulary=model.vocabulary)        or read_pairs("blimp.jsonl")
scores = score_pairs(model, pairs)
scores.overall.accuracy, scores.by_group["verb-number"], scores.by_distance["5+"]
"""

from __future__ import annotations

import copy
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain, takewhile
from pathlib import PurePath
from random import Random
from statistics import fmean, stdev
from typing import Any, Literal, TypeVar

from llrnn.ground.errors import CorpusError
from llrnn.ground.files import StrPath, parse_json, write_lines
from llrnn.inference.nbest import Words, join_words
from llrnn.inference.rescoring import score_sentences
from llrnn.inference.suites import (
    SUITES,
    Band,
    Fields,
    PairSuite,
    Published,
    as_the_text_has_it,
    is_lowercase,
    recognised,
    words_of,
)
from llrnn.model.network import LLRNN
from llrnn.text.readers import Line, Sentence, Token, read_entries, require_file

K = TypeVar("K")

__all__ = ["Accuracy", "Pair", "PairComparison", "PairScores", "compare", "read_pairs", "score_pairs", "write_pairs"]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sentences, the first of them grammatical.

    `group` names what is wrong with the second (`verb-number`), `distance` how many words away the word is that decides
    (1 for the neighbour), `distractors` how many words between the two suggest the wrong form, and `place` the index of
    the first word that differs. A model is right where it finds the first sentence more probable. Sentences that are
    not `complete` stop in the middle: no end is expected behind them. `suite` is the name of a public suite, whose
    running text is written as the text of a model is before it is scored.
    """

    good: Words
    bad: Words
    group: str = ""
    distance: int | None = None
    distractors: int | None = None
    place: int = -1  # found by comparing, where it is not given
    complete: bool = True
    suite: str = ""

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


# Minimal pairs in files: TSV, or JSON lines as BLiMP has them; `.gz` behind either.
#
#     il dort .	il dorment .	verb-number	1	0
#
#     {"sentence_good": "il dort .", "sentence_bad": "il dorment .", "UID": "verb-number", "distance": 1}
#
# TSV columns: good, bad, group, and perhaps distance and distractors, empty or `_` where unknown; a first line that
# begins with `good TAB bad` is a header. In JSON lines `group` wins over `UID`, `place` may be given, and other keys
# are left alone: BLiMP has many. Sentences are split at whitespace. Files of public suites (`suites`) are known by
# their first line.


_HEADER = ("good", "bad", "group", "distance", "distractors")
_KEYS = ("sentence_good", "sentence_bad", "group", "distance", "distractors", "place", "complete", "suite")


def read_pairs(path: StrPath) -> list[Pair]:
    """All pairs of a file, its format told by the first line (public suites) or the extension; blank lines are skipped.

    Sentences that are equal are a mistake in a file of one's own; public suites have some, which no model gets right.

        pairs = read_pairs("gender_at_a_distance.tsv.gz")
    """
    require_file(path)
    is_tsv, suite = _is_tsv(path), None
    pairs = []
    for line in read_entries(path):
        suite = recognised(line.text) if line.number == 1 else suite
        if suite is not None and suite.fields is not None:
            fields = suite.fields(line)
        elif is_tsv and line.number == 1 and line.text.split("\t")[:2] == list(_HEADER[:2]):
            fields = None
        else:
            fields = _read_tsv(line) if is_tsv else _read_json(line)
        if fields is not None:
            pairs.append(_read_pair(line, fields, suite))
    if not pairs:
        raise CorpusError("at least one pair is required, but the file has none; was it written to the end?", path=path)
    return pairs


def write_pairs(path: StrPath, pairs: Iterable[Pair], **told: object) -> None:
    """Write what `read_pairs` reads, in the format of the extension. The file is there as a whole or not at all.

    `told` is said on each line of JSON besides, as where the pairs come from: `write_pairs(path, pairs, seed=3)`.
    """
    is_tsv = _is_tsv(path)
    lines = [_tsv_line(pair) if is_tsv else _json_line(pair, told) for pair in pairs]
    if not lines:
        raise CorpusError("at least one pair is required, found none; there is nothing to write", path=path)
    write_lines(path, ["\t".join(_HEADER), *lines] if is_tsv else lines)


def _is_tsv(path: StrPath) -> bool:
    """By the extension; otherwise it is JSON lines."""
    name = PurePath(path).name
    extension = PurePath(name.lower().removesuffix(".gz")).suffix
    if extension not in (".tsv", ".jsonl"):
        raise CorpusError(
            f"pairs stand in a file .tsv or .jsonl (or with .gz), found {name!r}; write them as .tsv, a TAB between "
            "the good sentence and the bad one",
            path=path,
        )
    return extension == ".tsv"


def _tsv_line(pair: Pair) -> str:
    if any(character in pair.group for character in "\t\r\n"):
        raise CorpusError(f"the name of a group must stand on one line without TABs, found {pair.group!r}; rename it")
    known = ("_" if value is None else str(value) for value in (pair.distance, pair.distractors))
    return "\t".join((join_words(pair.good), join_words(pair.bad), pair.group, *known))


def _json_line(pair: Pair, told: Mapping[str, object]) -> str:
    values = (join_words(pair.good), join_words(pair.bad), pair.group, pair.distance, pair.distractors, pair.place)
    fields: dict[str, object] = {key: value for key, value in zip(_KEYS, values, strict=False) if value is not None}
    if not pair.complete:
        fields["complete"] = False
    if pair.suite:
        fields["suite"] = pair.suite
    return json.dumps({**fields, **told}, ensure_ascii=False)


def _read_tsv(line: Line) -> Fields:
    texts = line.text.split("\t")
    if not 3 <= len(texts) <= len(_HEADER):
        names, column = " ".join(_HEADER), len("\t".join(texts[: len(_HEADER)])) + 1
        line.fail(f"3 to 5 columns separated by a TAB ({names}) are required, found {len(texts)}", column)
    starts = [1 + sum(len(text) + 1 for text in texts[:index]) for index in range(len(texts))]
    values: list[object] = [*texts[:2], texts[2].strip(), *map(_number, texts[3:])]
    return dict(zip(_KEYS, zip(values, starts, strict=True), strict=False))


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


def _read_pair(line: Line, fields: Fields, suite: PairSuite | None) -> Pair:
    language = "" if suite is None else suite.language
    good, bad = (_words(line, fields, key, language) for key in _KEYS[:2])
    if suite is None and good == bad:
        text = " ".join(good)
        line.fail(f"the sentences of a pair must differ, found {text!r} twice; correct one", fields["sentence_bad"][1])
    group, column = fields.get("group", ("", 1))
    if not isinstance(group, str):
        line.fail(f"the group must be a string, found {group!r}; correct it", column)
    distance, distractors, place = (_count(line, fields, key) for key in _KEYS[3:6])
    name, complete = (fields.get(key, (default, 1))[0] for key, default in (("suite", ""), ("complete", True)))
    name = suite.name if suite is not None else name if name in SUITES else ""
    try:
        return Pair(
            good, bad, group, distance, distractors, -1 if place is None else place, complete is not False, str(name)
        )
    except CorpusError as cause:
        line.fail(cause.reason, fields["sentence_bad" if place is None else "place"][1])


def _words(line: Line, fields: Fields, key: str, language: str) -> Words:
    if key not in fields:
        line.fail(f"{key} is required, found {', '.join(map(repr, fields)) or 'nothing'}; add it")
    text, column = fields[key]
    if not isinstance(text, str):
        line.fail(f"{key} must be a string, found {text!r}; correct it", column)
    return words_of(text, language) or line.fail(f"{key} must have a word, found none; write the sentence", column)


def _count(line: Line, fields: Fields, key: str) -> int | None:
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
#     right where log p(good, EOS) > log p(bad, EOS)      whole sentences, teacher-forced, in float64; a tie is wrong
#     p(running text) = Σ_{readings r} p(r)               `des` is an article, or `de les` where the text has it so
#
# Sentences that stop in the middle are scored without EOS. Shares come with Wilson's 95 % interval. Pairs of one
# sentence are not independent, which no interval here knows.


TIE = 1e-9  # nats: less is the rounding of double precision, not an opinion
_Z = 1.959963984540054  # 95 % of a normal distribution lie within
_DISTRACTORS: tuple[Band, ...] = ((0, 0, "0"), (1, 1, "1"), (2, math.inf, "2+"))


@dataclass(frozen=True)
class Accuracy:
    """A share of `count` pairs that were right, with its 95 % interval."""

    count: int
    accuracy: float
    low: float
    high: float

    @classmethod
    def of(cls, right: Sequence[bool]) -> Accuracy:
        """Wilson's interval: it stays within 0 and 1, and holds for few pairs."""
        n, share = len(right), fmean(right)
        centre = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
        half = _Z / (1 + _Z**2 / n) * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
        return cls(n, share, max(0.0, centre - half), min(1.0, centre + half))


@dataclass(frozen=True)
class PairScores:
    """log p of both sentences of every pair, and what follows from it.

    `left_out` are the pairs with words that a closed vocabulary does not list: no share counts them.
    """

    pairs: tuple[Pair, ...]
    log_p_good: tuple[float, ...]
    log_p_bad: tuple[float, ...]
    left_out: tuple[Pair, ...] = ()

    @cached_property
    def right(self) -> tuple[bool, ...]:
        """Whether the grammatical sentence is more probable, for each pair; a tie is wrong."""
        both = zip(self.log_p_good, self.log_p_bad, strict=True)
        return tuple(good > bad and not _is_tie(good, bad) for good, bad in both)

    @property
    def ties(self) -> int:
        """How many pairs have sentences of equal probability, those with equal sentences among them."""
        return sum(map(_is_tie, self.log_p_good, self.log_p_bad))

    @property
    def equal(self) -> int:
        """How many pairs are the same sentence twice."""
        return sum(pair.good == pair.bad for pair in self.pairs)

    @cached_property
    def suite(self) -> PairSuite:
        """The public suite that all pairs are from, or one without a name."""
        names = {pair.suite for pair in self.pairs}
        return SUITES.get(min(names), PairSuite("")) if len(names) == 1 else PairSuite("")

    @property
    def overall(self) -> Accuracy:
        return Accuracy.of(self.right)

    @property
    def mean_of_groups(self) -> float:
        """The mean over groups, each counting alike."""
        return fmean(share.accuracy for share in self.by_group.values())

    @property
    def agreement(self) -> Accuracy | None:
        """The groups of a public suite that are about agreement, together."""
        return self.by(lambda pair: "agreement" if pair.group in self.suite.agreement else None).get("agreement")

    @property
    def by_group(self) -> dict[str, Accuracy]:
        return self.by(lambda pair: pair.group)

    @property
    def by_distance(self) -> dict[str, Accuracy]:
        """By how far the word is that decides; pairs of unknown distance are left out.

        Distances of 1, 2-4 and 5+; in public suites and templates 0-2, 3-6 and 7+ words between the two, as published.
        """
        return self.by(lambda pair: _band(pair.distance, self.suite.bands))

    @property
    def by_distractors(self) -> dict[str, Accuracy]:
        """0, 1 and 2+ words in between that suggest the wrong form; pairs of unknown number are left out."""
        return self.by(lambda pair: _band(pair.distractors, _DISTRACTORS))

    @property
    def by_group_and_distance(self) -> dict[str, dict[str, Accuracy]]:
        """As `by_distance`, for each group that has distances."""
        found: dict[str, dict[str, Accuracy]] = {}
        bands = self.suite.bands
        for (group, band), share in self.by(lambda pair: (pair.group, _band(pair.distance, bands) or "")).items():
            if band:
                found.setdefault(group, {})[band] = share
        return found

    def published(self) -> list[tuple[Published, Accuracy]]:
        """What others have measured on the suite, and the share of this model on the same groups and distances."""
        found = []
        for figure in self.suite.published:
            bands = self.by_group_and_distance.get(figure.group or "", {})
            part = self.overall if figure.band is None else bands.get(figure.band)
            found += [(figure, part)] if part is not None else []
        return found

    def summary(self) -> dict[str, Any]:
        """All shares as plain data, for JSON."""
        by_both = self.by_group_and_distance
        return {
            "suite": self.suite.name,
            "overall": asdict(self.overall),
            "mean_of_groups": self.mean_of_groups,
            "agreement": None if self.agreement is None else asdict(self.agreement),
            "ties": self.ties,
            "equal": self.equal,
            "left_out": len(self.left_out),
            **{
                name: {group: asdict(share) for group, share in getattr(self, name).items()}
                for name in ("by_group", "by_distance", "by_distractors")
            },
            "by_group_and_distance": {
                group: {band: asdict(share) for band, share in bands.items()} for group, bands in by_both.items()
            },
            "published": [{**asdict(figure), "here": asdict(share)} for figure, share in self.published()],
        }

    def by(self, key: Callable[[Pair], K | None]) -> dict[K, Accuracy]:
        """A share for every answer of `key`, sorted; pairs for which it answers None are left out."""
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
    """Score both sentences of every pair in float64, about `rows` sentences in a batch; prefixes are scored once.

    An impossible sentence has log p = −infinity: a grammar as background may well know that the bad one is. Running
    text of public suites is written as the model's text is. Pairs with a word that a closed vocabulary does not list
    are left out, and counted; if no pair is left, that is an UnknownWordError.

        score_pairs(model, read_pairs("pairs.tsv")).overall.accuracy
    """
    if not pairs:
        raise CorpusError("at least one pair is required to score a model on, found none; give some")
    written = _as_written(model, pairs)
    kept = sorted((*both, number) for number, both in enumerate(written) if all(both))  # neighbours share prefixes
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


_Readings = tuple[Words, ...]


def _as_written(model: LLRNN, pairs: Sequence[Pair]) -> list[tuple[_Readings, _Readings]]:
    """Both sentences of each pair as the text of the model has them, without readings that have unlisted words."""
    vocabulary, running = model.vocabulary, any(_language(pair) for pair in pairs)
    lowercase = model.reads_lowercase or (running and is_lowercase(vocabulary))

    def readings(words: Words, language: str) -> Sequence[Words]:
        return as_the_text_has_it(words, language, vocabulary, lowercase=lowercase) if language else [words]

    normal = str.lower if model.reads_lowercase else str
    all_of = [[readings(words, _language(pair)) for words in (pair.good, pair.bad)] for pair in pairs]
    words = list(dict.fromkeys(normal(word) for both in all_of for own in both for word in chain.from_iterable(own)))
    listed = {word for word, found in zip(words, vocabulary.find(words)[0].tolist(), strict=True) if found >= 0}
    known = [[tuple(r for r in own if listed.issuperset(map(normal, r))) for own in both] for both in all_of]
    return [(good, bad) for good, bad in known]


def _language(pair: Pair) -> str:
    return SUITES[pair.suite].language if pair.suite in SUITES else ""


def _log_sum(log_p: Sequence[float]) -> float:
    highest = max(log_p)
    return highest if math.isinf(highest) else highest + math.log(sum(math.exp(one - highest) for one in log_p))


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
    """Compare two models pair by pair; the test counts the pairs on which they differ."""
    if first.pairs != second.pairs:
        raise CorpusError("two models can only be compared on the same pairs in the same order; score both on one list")
    differences = [int(one) - int(other) for one, other in zip(first.right, second.right, strict=True)]
    n, mean = len(differences), fmean(differences)
    half = _Z * stdev(differences) / math.sqrt(n) if n > 1 else 1.0
    wins, losses = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    return PairComparison(n, wins, losses, mean, max(-1.0, mean - half), min(1.0, mean + half), _mcnemar(wins, losses))


def _mcnemar(wins: int, losses: int) -> float:
    """2 · P(at most min of n fair coins)."""
    n = wins + losses
    return min(1.0, 2 * sum(math.comb(n, k) for k in range(min(wins, losses) + 1)) / (1 << n))


# Minimal pairs of agreement from a treebank: one word takes the form that its subject or noun does not allow.
#
#     les maisons que je vois sont grandes .      les maisons que je vois est grandes .        verb-number, 4, 1
#
# A pair is made only where the tree says that the two words agree (`Tree`), where annotated text says that such words
# do agree (`Evidence`), and where nothing else in the sentence makes the wrong form right (`Forms`, `Tree.rivals`). It
# is better to lose a pair than to ask a model for a mistake that is none. No language is written into this.


# What annotated text says about forms: which one has the other number, which are ambiguous, which fit together.

AGREEING = ("Number", "Gender", "Person")
FEW = 3  # readings that are too few to say that a form is unambiguous
NOISE = 0.02  # the share of readings that annotation gets wrong: rarer ones count for nothing

_Feats = frozenset[tuple[str, str]]
_ASIDE = ("Typo", "Foreign")  # words that are no model for others
_APOSTROPHES = ("'", "’")


class Forms:
    """Forms by lemma, part of speech and features, and the readings of each form, all lowercased."""

    def __init__(self, corpora: Iterable[Iterable[Sentence]]) -> None:
        self.by_feats: dict[tuple[str, str, _Feats], Counter[str]] = defaultdict(Counter)
        self.readings: dict[tuple[str, str], Counter[_Feats]] = defaultdict(Counter)
        self.neighbours: Counter[tuple[str, str]] = Counter()  # a word and the first letter of the next one
        self.endings: set[tuple[str, str]] = set()  # the last letter of a word and a clitic after it
        self.elided: dict[str, set[str]] = defaultdict(set)  # lemma -> its forms with an apostrophe
        for sentence in chain.from_iterable(corpora):
            self._add(sentence)

    def _add(self, sentence: Sentence) -> None:
        before = ""
        for token in sentence.tokens:
            form = token.form.lower()
            if before:
                self.neighbours[before, form[0]] += 1
                self.endings.update([(before[-1], form)] if form[0] == "-" else [])
            if form.endswith(_APOSTROPHES):
                self.elided[token.lemma or form].add(form)
            before = form
            if token.pos is not None and not any(name in token.feats for name in _ASIDE):
                feats = frozenset(token.feats.items())
                self.readings[form, token.pos][feats] += 1
                if token.lemma is not None:
                    self.by_feats[token.lemma, token.pos, feats][form] += 1

    def swapped(self, token: Token, feature: str, values: Iterable[str]) -> tuple[str, str] | None:
        """The form of the same word with another value of one feature, and that value; the most frequent one."""
        if token.lemma is None or token.pos is None or any(name in token.feats for name in _ASIDE):
            return None
        found: list[tuple[int, str, str]] = []
        for value in set(values) - {token.feats[feature]}:
            feats = frozenset({**token.feats, feature: value}.items())
            counts = self.by_feats.get((token.lemma, token.pos, feats), Counter[str]())
            found += [(-count, form, value) for form, count in counts.items()]
        _, form, value = min(found, default=(0, token.form.lower(), ""))
        if form == token.form.lower():
            return None
        return (form.capitalize() if token.form[:1].isupper() else form), value

    def could_be(self, form: str, feature: str, token: Token) -> bool:
        """Whether a form may be read as what `token` is, as far as agreement goes: then it is not wrong in its place.

        Readings of any verb or adjective count: `finis` is a participle in the plural, and a verb in the singular.
        """
        right = total = 0
        for pos in ("VERB", "AUX", "ADJ") if token.pos != "ADJ" else ("ADJ", "VERB"):
            for feats, count in self.readings.get((form.lower(), pos), {}).items():
                reading = dict(feats)
                if feature in reading and reading.get("VerbForm") == token.feats.get("VerbForm"):
                    total += count
                    right += count * agree(reading, token.feats)
        return right > NOISE * total

    def shows(self, token: Token, feature: str) -> bool:
        """Whether the form alone tells the value: `maisons` does, `pays` does not."""
        value = token.feats.get(feature)
        if value is None or token.pos is None:
            return False
        counts: Counter[str | None] = Counter()
        for feats, count in self.readings.get((token.form.lower(), token.pos), {}).items():
            counts[dict(feats).get(feature)] += count
        total = counts.total() - counts[None]
        return total >= FEW and total - counts[value] <= NOISE * total

    def fits(self, before: Token | None, good: str, bad: str, after: Token | None) -> bool:
        """Whether the wrong form can stand where the right one stood, by its letters: `c' sont` and `ne est` would be
        wrong for their spelling, not for their agreement."""
        first, last = bad[0].lower(), bad[-1].lower()
        if after is not None and after.form[0] == "-" and last != good[-1].lower():
            return (last, after.form.lower()) in self.endings
        if before is None or first == good[0].lower():
            return True
        form = before.form.lower()
        seen = self.neighbours[form, first]
        if form.endswith(_APOSTROPHES):
            return seen > 0
        return seen >= sum(self.neighbours[other, first] for other in self.elided.get(before.lemma or form, ()))


def agree(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether two words have the same value of every feature of agreement that both have."""
    return all(one[name] == other[name] for name in AGREEING if name in one and name in other)


# Dependency trees: who depends on whom, and which word decides the form of which.
#
# Everything here follows Universal Dependencies and no language in particular. Positions count from 0.

Kind = Literal["verb", "adjective", "participle"]
Link = Literal["subject", "relative", "shared", "attribute"]
_Subject = tuple[int, Link, int]  # the controller, how it controls, and the relative pronoun, -1 for none

NOMINAL = frozenset({"NOUN", "PROPN", "PRON"})
_OTHER_SUBJECTS = frozenset({"nsubj:outer", "nsubj:caus"})  # of a clause around this one, of the one who causes


@dataclass(frozen=True, slots=True)
class AgreementLink:
    """The word at `target` takes its form from the word at `controller`.

    `link` says how: from its subject, from the noun that the relative pronoun at `pronoun` stands for, from the subject
    of the verb that it is coordinated with, or from the noun that it modifies. `means` are the lemmas of a participle's
    auxiliaries, which decide in many languages whether it agrees at all.
    """

    target: int
    kind: Kind
    controller: int
    link: Link
    pronoun: int = -1
    means: tuple[str, ...] = ()


class Tree:
    """A sentence with the dependents of each word at hand."""

    def __init__(self, sentence: Sentence) -> None:
        self.tokens = sentence.tokens
        self.children: list[list[int]] = [[] for _ in self.tokens]
        for index, token in enumerate(self.tokens):
            if token.head:
                self.children[token.head - 1].append(index)

    def head(self, index: int) -> int | None:
        head = self.tokens[index].head
        return head - 1 if head else None

    def having(self, index: int, *relations: str) -> list[int]:
        """The dependents by these relations, subtypes included."""
        return [child for child in self.children[index] if base(self.tokens[child]) in relations]

    def is_nominal(self, index: int) -> bool:
        return self.tokens[index].pos in NOMINAL

    def is_coordinated(self, index: int) -> bool:
        return base(self.tokens[index]) == "conj" or bool(self.having(index, "conj"))

    def agreements(self) -> Iterator[AgreementLink]:
        """Every verb, adjective and participle whose form another word may decide."""
        for index, token in enumerate(self.tokens):
            kind = _kind(token)
            if kind is not None:
                found = self._verb(index) if kind == "verb" else self._inflected(index, kind)
                # by a single word with letters: `10 %` and `Pierre et Marie` take either form
                if (
                    found is not None
                    and self.is_nominal(found.controller)
                    and any(map(str.isalpha, self.tokens[found.controller].form))
                    and not self.is_coordinated(found.controller)
                ):
                    yield found

    def _verb(self, index: int) -> AgreementLink | None:
        host = self.head(index) if base(self.tokens[index]) in ("aux", "cop") else index
        if host is None or (host == index and self.having(index, "aux", "cop")):  # the auxiliary is finite, not this
            return None
        found = self._subject(host) or self._shared_subject(host)
        return None if found is None else AgreementLink(index, "verb", *found)

    def _inflected(self, index: int, kind: Kind) -> AgreementLink | None:
        relation, head = self.tokens[index].relation, self.head(index)
        helpers = self.having(index, "aux", "cop")
        if relation in ("amod", "acl") and head is not None:
            free = not helpers and not self.having(index, "nsubj", "csubj")
            return AgreementLink(index, kind, head, "attribute") if free and self.tokens[head].pos != "PRON" else None
        means: tuple[str, ...] = ()
        if helpers:
            host = index
            if kind == "participle":
                means = tuple(sorted(self.tokens[helper].lemma or "" for helper in helpers))
        elif base(self.tokens[index]) == "xcomp" and head is not None and not self.having(head, "obj"):
            host, means = head, ("xcomp",)
        else:
            return None
        # an object may decide instead (`elle s'est lavé les mains`), but not a reflexive one
        has_object = any("Reflex" not in self.tokens[child].feats for child in self.having(index, "obj"))
        found = None if has_object else self._subject(host)
        return None if found is None else AgreementLink(index, kind, *found, means)

    def _subject(self, host: int) -> _Subject | None:
        """The subject of a clause, or what its relative pronoun stands for."""
        subjects = [i for i in self.having(host, "nsubj") if self.tokens[i].relation not in _OTHER_SUBJECTS]
        if len(subjects) != 1 or self._is_impersonal(host):
            return None
        (subject,) = subjects
        if "Rel" not in self.tokens[subject].feats.get("PronType", "").split(","):
            return subject, "subject", -1
        antecedent = self.head(host)
        if self.tokens[host].relation == "acl:relcl" and antecedent is not None and antecedent < subject:
            return antecedent, "relative", subject
        return None

    def _shared_subject(self, host: int) -> _Subject | None:
        """`il chante et danse`: a coordinated verb without any subject of its own has that of the first."""
        head = self.head(host)
        if head is None or base(self.tokens[host]) != "conj" or self.having(host, "nsubj") or self._is_impersonal(host):
            return None
        found = self._subject(head)
        return (found[0], "shared", -1) if found is not None and found[1] == "subject" else None

    def _is_impersonal(self, host: int) -> bool:
        empty = any(self.tokens[child].relation in ("expl", "expl:subj") for child in self.children[host])
        return empty or bool(self.having(host, "csubj"))

    def rivals(self, agreement: AgreementLink) -> list[int]:
        """The nominals that a reader might take for the controller instead: with one that suits the wrong form, the
        sentence would mean something else, but not be wrong (`le maire de la ville connue`, `... connu`)."""
        target, controller = agreement.target, agreement.controller
        match agreement.link:
            case "subject":
                head = self.head(target) if base(self.tokens[target]) == "cop" else None
                rivals = [] if head is None else [head]
            case "shared":
                rivals = [i for i in range(target) if base(self.tokens[i]) in ("nsubj", "expl")]
            case "relative":
                rivals = list(range(self._phrase_start(controller), agreement.pronoun))
            case "attribute":
                rivals = list(range(self._phrase_start(controller), target))
        return [index for index in rivals if index != controller and self.is_nominal(index)]

    def _phrase_start(self, index: int) -> int:
        """Where the nouns begin that may all have the same modifier: after the verb that they complement."""
        start, head = index, self.head(index)
        while head is not None and self.is_nominal(head):
            index, head = head, self.head(head)
            start = min(start, index)
        return min(start, head) if head is not None else start


def base(token: Token) -> str:
    """The relation without its subtype."""
    return (token.relation or "").partition(":")[0]


def _kind(token: Token) -> Kind | None:
    form = token.feats.get("VerbForm")
    if token.pos in ("VERB", "AUX", "ADJ") and form == "Part":
        return "participle"
    if token.pos == "ADJ" and form is None:
        return "adjective"
    finite = form == "Fin" or (form is None and "Mood" in token.feats)  # some treebanks leave VerbForm=Fin out
    return "verb" if token.pos in ("VERB", "AUX") and finite else None


# Which words agree with which is not written down here, it is counted in annotated text.
#
# In French a participle agrees with its subject after `être`, not after `avoir`; in Estonian a verb agrees with a
# subject in the nominative, not in the partitive; in Turkish a singular subject asks for a singular verb, while a
# plural one takes either. So for each configuration (kind of word, link, auxiliaries, case) and values v, w: the form
# with w is wrong beside a controller with v only if
#
#     P(target has v | controller has v)  and  P(controller has w | target has w)     are both near one.
#
# Likewise single controllers that take either form (`on est content`, `on est contents`) are no evidence.

SURE = 0.9  # of what the two sides are to say; annotation and collective nouns take the rest

_Key = tuple[object, ...]


def features_of(agreement: AgreementLink) -> tuple[str, ...]:
    """The features in which the two words may agree."""
    if agreement.link == "shared":
        return ("Number",)  # another person may be an imperative: `il monte, prenez place`
    return ("Number", "Person") if agreement.kind == "verb" else ("Number", "Gender")


class Evidence:
    """How often the two words of each configuration have which values."""

    def __init__(self, corpora: Iterable[Iterable[Sentence]]) -> None:
        self.values: dict[_Key, Counter[tuple[str, str]]] = defaultdict(Counter)
        self.of_word: dict[_Key, Counter[tuple[_Key, bool]]] = defaultdict(Counter)  # by configuration, agreed or not
        for sentence in chain.from_iterable(corpora):
            self._add(Tree(sentence))

    def _add(self, tree: Tree) -> None:
        for agreement in tree.agreements():
            target, controller = tree.tokens[agreement.target], tree.tokens[agreement.controller]
            for feature in features_of(agreement):
                own, wanted = target.feats.get(feature), controller.feats.get(feature)
                if own is not None and wanted is not None:
                    configuration = _configuration(agreement, controller, feature)
                    self.values[configuration][wanted, own] += 1
                    self.of_word[_word(agreement, controller, feature)][configuration, own == wanted] += 1

    def other_values(self, agreement: AgreementLink, controller: Token, feature: str) -> list[str]:
        """The values that the target cannot have beside this controller."""
        if self._takes_either(_word(agreement, controller, feature)):
            return []
        counts = self.values.get(_configuration(agreement, controller, feature), Counter[tuple[str, str]]())
        value = controller.feats[feature]
        if counts[value, value] < SURE * sum(n for (wanted, _), n in counts.items() if wanted == value):
            return []
        targets = sorted({own for _, own in counts} - {value})
        return [w for w in targets if counts[w, w] >= SURE * sum(n for (_, own), n in counts.items() if own == w)]

    def _takes_either(self, word: _Key) -> bool:
        """Whether a controller goes with other values, in configurations where agreement is the rule."""
        seen = [(ok, n) for (place, ok), n in self.of_word.get(word, {}).items() if self._is_rule(place)]
        return sum(n for ok, n in seen if not ok) > NOISE * sum(n for _, n in seen)

    def _is_rule(self, configuration: _Key) -> bool:
        counts = self.values[configuration]
        return sum(n for (wanted, own), n in counts.items() if wanted == own) >= SURE * counts.total()


def _configuration(agreement: AgreementLink, controller: Token, feature: str) -> _Key:
    return agreement.kind, agreement.link, agreement.means, controller.feats.get("Case"), feature


def _word(agreement: AgreementLink, controller: Token, feature: str) -> _Key:
    return agreement.kind == "verb", controller.form.lower(), feature


def make_pairs(
    corpus: Iterable[Sentence],
    *,
    lexicon_corpus: Iterable[Sentence] | None = None,
    vocabulary: Container[str] | None = None,
    seed: int = 0,
    limit: int | None = None,
) -> list[Pair]:
    """All pairs that the sentences of an annotated corpus give, in its order, or `limit` of them drawn by `seed`.

    Forms and the habits of agreement come from the corpus itself, and from `lexicon_corpus` where one is given. With a
    `vocabulary`, every word of both sentences is listed in it. Words with whitespace in them (`10 000`) cannot be
    written to a file of pairs: their sentences are left out.

        pairs = make_pairs(Corpus.from_file("treebank.conllu"), vocabulary=model.vocabulary, limit=1000)
    """
    sentences = list(corpus)
    if not any(token.head is not None for sentence in sentences for token in sentence.tokens):
        raise CorpusError("pairs are made from dependency trees, found no HEAD in the corpus; give a full treebank")
    known = [sentences] if lexicon_corpus is None else [sentences, list(lexicon_corpus)]
    maker = _PairMaker(Forms(known), Evidence(known))
    usable = (s for s in sentences if all(_is_usable(token.form, vocabulary) for token in s.tokens))
    pairs = {(p.good, p.bad): p for s in usable for p in maker.pairs(s) if _is_usable(p.bad[p.place], vocabulary)}
    made = list(pairs.values())
    if limit is None or limit >= len(made):
        return made
    return [made[index] for index in sorted(Random(seed).sample(range(len(made)), limit))]


def _is_usable(word: str, vocabulary: Container[str] | None) -> bool:
    return word.split() == [word] and (vocabulary is None or word in vocabulary)


class _PairMaker:
    """Makes the pairs of one sentence after another."""

    def __init__(self, forms: Forms, evidence: Evidence) -> None:
        self.forms, self.evidence = forms, evidence

    def pairs(self, sentence: Sentence) -> Iterator[Pair]:
        tree, good = Tree(sentence), sentence.words
        for agreement in tree.agreements():
            target, controller = agreement.target, agreement.controller
            between = range(min(target, controller) + 1, max(target, controller))
            for feature in features_of(agreement):
                wrong = self.wrong_form(tree, agreement, feature)
                if wrong is not None:
                    value = tree.tokens[controller].feats[feature]
                    others = (tree.tokens[i].feats.get(feature, value) for i in between if tree.is_nominal(i))
                    distractors = sum(other != value for other in others)
                    bad = (*good[:target], wrong, *good[target + 1 :])
                    group = f"{agreement.kind}-{feature.lower()}"
                    yield Pair(good, bad, group, len(between) + 1, distractors, target)

    def wrong_form(self, tree: Tree, agreement: AgreementLink, feature: str) -> str | None:
        """The form that the word must not have here, if it is sure that there is one."""
        target, controller = tree.tokens[agreement.target], tree.tokens[agreement.controller]
        if not self.really_agrees(tree, agreement, feature):
            return None
        swap = self.forms.swapped(target, feature, self.evidence.other_values(agreement, controller, feature))
        if swap is None or self.forms.could_be(swap[0], feature, target):
            return None
        bad, value = swap
        wrong = {**target.feats, feature: value}
        if any(_suits(tree, rival, wrong, feature) for rival in tree.rivals(agreement)):
            return None
        before, _, after = (None, *tree.tokens, None)[agreement.target : agreement.target + 3]
        return bad if self.forms.fits(before, target.form, bad, after) else None

    def really_agrees(self, tree: Tree, agreement: AgreementLink, feature: str) -> bool:
        """Both words have the value, no other feature contradicts, and a reader can see which value it is."""
        target, controller = tree.tokens[agreement.target], tree.tokens[agreement.controller]
        value = controller.feats.get(feature)
        if value is None or "," in value or target.feats.get(feature) != value:
            return False
        marks = [tree.tokens[i] for i in tree.having(agreement.controller, "det", "amod") if i != agreement.target]
        shown_by = [controller, *(mark for mark in marks if mark.feats.get(feature) == value)]
        return agree(target.feats, controller.feats) and any(self.forms.shows(word, feature) for word in shown_by)


def _suits(tree: Tree, rival: int, wrong: dict[str, str], feature: str) -> bool:
    """Whether the wrong form would agree with a rival; what coordination makes of number and gender is left open."""
    known = {} if tree.is_coordinated(rival) else tree.tokens[rival].feats
    return agree(known, wrong) and known.get(feature, wrong[feature]) == wrong[feature]
