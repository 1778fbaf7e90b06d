"""Public suites of minimal pairs: which they are, how their files look, how their sentences are cut into words, and
what others have measured on them.

    gender_at_a_distance.tsv   P_NOUN_0_ADJ_a TAB F TAB P TAB les bananes bleues <eos> TAB 2 TAB bleues TAB bleus TAB 0
    qfrblimp.jsonl             {"sentence_a": "Il dort.", "sentence_b": "Il dorment.", "type": 2, "label": 0, ...}
    turblimp.tsv               phenomenon TAB good TAB bad, a header, running text

A file is recognised by what its first line says. Running text becomes what the text of a model has: its case, its signs
and, in French, its contractions. Where running text has several readings (`des` is an article or `de les`), the
probability of a sentence is the sum over them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field

from llrnn.ground.files import parse_json
from llrnn.inference.nbest import Words
from llrnn.text.french.writing import readings, running_words
from llrnn.text.readers import Line
from llrnn.text.vocabulary import EOS, Vocabulary

__all__ = ["SUITES", "PairSuite", "Published"]

Fields = dict[str, tuple[object, int]]  # values, and the columns that they stand in
Band = tuple[int, float, str]
BANDS: tuple[Band, ...] = ((1, 1, "1"), (2, 4, "2-4"), (5, math.inf, "5+"))
BETWEEN: tuple[Band, ...] = ((1, 3, "0-2"), (4, 7, "3-6"), (8, math.inf, "7+"))  # words between the two that agree


@dataclass(frozen=True, slots=True)
class Published:
    """What somebody has measured: the share of pairs that are right, of a group and a band of distances or of all."""

    system: str
    accuracy: float
    group: str | None = None
    band: str | None = None


@dataclass(frozen=True)
class PairSuite:
    """What is known of a suite; `language` is that of its running text, none for text that is cut into words."""

    name: str
    source: str = ""
    language: str = ""
    bands: tuple[Band, ...] = BANDS
    measure: str = "distance"  # what the bands are of
    agreement: frozenset[str] = frozenset()  # the groups that are about agreement
    published: tuple[Published, ...] = ()
    begins: Callable[[str], bool] = field(default=lambda line: False, repr=False)
    fields: Callable[[Line], Fields | None] | None = field(default=None, repr=False)  # None for a header


# --- gender_at_a_distance

_CONSTRUCTION = re.compile(r"[SP]_NOUN_\d+_(ADJ|PASS)_\w+")
_GENDERS = {"F": "feminine", "M": "masculine"}
_KINDS = {"ADJ": "noun-adjective", "PASS": "noun-participle"}
_COLUMNS = "construction gender number sentence position right wrong distance"


def _gender_at_a_distance(line: Line) -> Fields:
    columns = line.text.split("\t")
    match = _CONSTRUCTION.fullmatch(columns[0])
    numbers = [int(text) if text.isdecimal() else -1 for text in (*columns[4:5], *columns[7:8])]
    words = columns[3].split() if len(columns) > 3 else []
    if len(columns) != 8 or match is None or columns[1] not in _GENDERS or not 0 <= numbers[0] < len(words):
        line.fail(f"8 columns ({_COLUMNS}) are required, the position that of a word; correct the line")
    before = words[: numbers[0]]
    return {
        "sentence_good": (" ".join((*before, columns[5])), 1),
        "sentence_bad": (" ".join((*before, columns[6])), 1),
        "group": (f"{_KINDS[match[1]]}-{_GENDERS[columns[1]]}", 1),
        "distance": (numbers[1] + 1, 1),
        "place": (numbers[0], 1),
        "complete": (False, 1),
    }


# --- QFrBLiMP

_PHENOMENA = """
past participle agreement; verb inflection; ne ... que; functional morphology; clitic in infinitive negation;
clitic climbing; standard negation; determiners; lexical semantics; agreement in idioms; adjective agreement; -é or -er;
lexical selection of the complement; infinitive negation; subject island; adjunct island; wh-island; complex NP island;
parasitic dependence with dont; orphan preposition
"""
_TYPES = [f"{number:02d} {' '.join(name.split())}" for number, name in enumerate(_PHENOMENA.split(";"), 1)]


def _qfrblimp(line: Line) -> Fields:
    try:
        found = parse_json(line.text)
        a, b, label, number = (found[key] for key in ("sentence_a", "sentence_b", "label", "type"))
    except (ValueError, KeyError, TypeError):
        line.fail("an object with sentence_a, sentence_b, type and label is required; correct the line")
    if label not in (0, 1) or not isinstance(number, int) or not 1 <= number <= len(_TYPES):
        line.fail(f"label must be 0 or 1 and type 1 to {len(_TYPES)}, found {label!r} and {number!r}; correct the line")
    good, bad = (a, b) if label == 0 else (b, a)
    return {"sentence_good": (good, 1), "sentence_bad": (bad, 1), "group": (_TYPES[number - 1], 1)}


# --- TurBLiMP

_TURBLIMP = "phenomenon\tgood\tbad"


def _turblimp(line: Line) -> Fields | None:
    if line.number == 1:
        return None
    columns = line.text.split("\t")
    if len(columns) != 3:
        line.fail(f"3 columns (phenomenon good bad) are required, found {len(columns)}; correct the line")
    group, good, bad = columns
    starts = (1, len(group) + 2, len(group) + len(good) + 3)
    keys = ("group", "sentence_good", "sentence_bad")
    return dict(zip(keys, zip((group.strip(), good, bad), starts, strict=True), strict=True))


SUITES: Mapping[str, PairSuite] = {
    suite.name: suite
    for suite in (
        PairSuite("templates", "llrnn pairs templates", bands=BETWEEN, measure="words between"),
        PairSuite(
            "gender_at_a_distance",
            "prisukumaran23/lstm_fr",
            bands=BETWEEN,
            measure="words between",
            published=tuple(
                Published("LSTM on French Wikipedia", share, "noun-adjective-feminine", band)
                for share, band in ((0.975, "0-2"), (0.972, "3-6"), (0.963, "7+"))
            ),
            begins=lambda line: _CONSTRUCTION.fullmatch(line.split("\t")[0]) is not None,
            fields=_gender_at_a_distance,
        ),
        PairSuite(
            "qfrblimp",
            "Beauchemin et al. 2026, QFrBLiMP",
            language="fr",
            agreement=frozenset(_TYPES[number - 1] for number in (1, 2, 10, 11)),
            published=(
                Published("CamemBERT", 0.571),
                Published("GPT-2", 0.586),
                Published("XLM-R-large", 0.727),
                Published("Lucie-7B", 0.900),
            ),
            begins=lambda line: line.lstrip().startswith("{") and '"sentence_a"' in line and '"label"' in line,
            fields=_qfrblimp,
        ),
        PairSuite(
            "turblimp",
            "Başar et al. 2025, TurBLiMP",
            language="tr",
            agreement=frozenset({"subject_verb_agreement", "anaphor_agreement"}),
            begins=lambda line: line.rstrip() == _TURBLIMP,
            fields=_turblimp,
        ),
    )
}


def recognised(line: str) -> PairSuite | None:
    """The public suite whose file begins with this line."""
    return next((suite for suite in SUITES.values() if suite.begins(line)), None)


# --- running text

_TURKISH = re.compile(r"[\w\u0300-\u036f]+(?:['’-][\w\u0300-\u036f]+)*|\.\.\.|[^\w\s]")


def words_of(text: str, language: str) -> Words:
    """Running text as words and signs; text without a language is cut at white space."""
    if language == "fr":
        return tuple(running_words(text))
    return tuple(_TURKISH.findall(text) if language else text.split())


def is_contracted(vocabulary: Container[str] | None) -> bool:
    """Whether French text has `au` as a word, or `à le`, as UD treebanks do: what its words, or their counts, say."""
    if isinstance(vocabulary, Vocabulary) and all(word in vocabulary for word in ("au", "à")):
        contracted, two = (vocabulary.counts[vocabulary.id(word)] for word in ("au", "à"))
        if two:
            return 10 * contracted > two
    return vocabulary is None or all(word in vocabulary for word in ("au", "aux"))


def is_lowercase(vocabulary: Vocabulary) -> bool:
    """Whether no word that is listed has a capital."""
    return all(word == word.lower() for word in vocabulary.words if word not in (EOS, vocabulary.unknown))


def as_the_text_has_it(words: Words, language: str, vocabulary: Vocabulary, *, lowercase: bool) -> Sequence[Words]:
    """What the words of running text may be in the text of a model."""
    if lowercase:
        words = tuple(one.translate(_TURKISH_CAPITALS if language == "tr" else {}).lower() for one in words)
    if language == "fr":
        return readings(words, vocabulary, contracted=is_contracted(vocabulary))
    return _with_copulas(words, vocabulary) if language == "tr" else [words]


_TURKISH_CAPITALS = str.maketrans("Iİ", "ıi")  # which Python would make i and i with a dot above: other words


# The Turkish copula, which is written at the end of its predicate, and is a word of its own in UD treebanks:
# öğretmen im, dikkatli siniz, güzel di, iyi ymişler. It stands before a sign, where a clause ends.
_ENDINGS = "m|n|k|n[ıiuü]z|l[ae]r|[ıiuü]m|s[ıiuü]n(?:[ıiuü]z)?|[ıiuü]z"
_PAST = f"y?(?:[dt][ıiuü]|s[ae]|m[ıiuü]ş)(?:{_ENDINGS})?"
_COPULA = re.compile(f"y?[ıiuü][mz]|s[ıiuü]n(?:[ıiuü]z)?|l[ae]rd[ıiuü]r|[dt][ıiuü]r(?:l[ae]r)?|{_PAST}")


def _with_copulas(words: Words, vocabulary: Vocabulary) -> list[Words]:
    """With a predicate as one word, and with its copula apart, if the text of the model has such words."""
    found: list[Words] = [()]
    for word, after in zip(words, (*words[1:], "."), strict=True):
        ways: list[Words] = [(word,)]
        if not after[:1].isalnum():
            cut = [(word[:i], word[i:]) for i in range(2, len(word)) if _COPULA.fullmatch(word, i)]
            ways += [both for both in cut if both[0] in vocabulary and _occurs(both[1], vocabulary)]
        found = [(*before, *way) for before in found for way in ways]
    return found


def _occurs(word: str, vocabulary: Vocabulary) -> bool:
    return word in vocabulary and vocabulary.counts[vocabulary.id(word)] > 0
