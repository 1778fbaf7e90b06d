"""Public suites of minimal pairs: which they are, how their files look, and how their sentences are cut into words.

    gender_at_a_distance.tsv   P_NOUN_0_ADJ_a TAB F TAB P TAB les bananes bleues <eos> TAB 2 TAB bleues TAB bleus TAB 0
    qfrblimp.jsonl             {"sentence_a": "Il dort.", "sentence_b": "Il dorment.", "type": 2, "label": 0, ...}
    turblimp.tsv               phenomenon TAB good TAB bad, a header, running text

    pairs = read_suite("qfrblimp.jsonl.gz", model)

A file is recognised by what its first line says. Running text becomes what the text of a model has: its case, its signs
and, in French, its contractions. Where that leaves several readings (`des` is an article or `de les`), the pair has
them all. Some suites have the same sentence twice in a pair, which no model gets right.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from functools import partial

from llrnn.ground.errors import CorpusError
from llrnn.ground.files import StrPath, parse_json
from llrnn.inference.nbest import Words
from llrnn.inference.pairs import Band, Pair
from llrnn.model.network import LLRNN
from llrnn.text.readers import Line, read_entries
from llrnn.text.vocabulary import Vocabulary
from llrnn_lab.french.writing import readings, running_words

BETWEEN: tuple[Band, ...] = ((1, 3, "0-2"), (4, 7, "3-6"), (8, math.inf, "7+"))  # words between the two that agree


# --- gender_at_a_distance

_CONSTRUCTION = re.compile(r"[SP]_NOUN_\d+_(ADJ|PASS)_\w+")
_GENDERS = {"F": "feminine", "M": "masculine"}
_KINDS = {"ADJ": "noun-adjective", "PASS": "noun-participle"}
_COLUMNS = "construction gender number sentence position right wrong distance"


def _gender_at_a_distance(line: Line) -> Pair:
    columns = line.text.split("\t")
    match = _CONSTRUCTION.fullmatch(columns[0])
    numbers = [int(text) if text.isdecimal() else -1 for text in (*columns[4:5], *columns[7:8])]
    words = columns[3].split() if len(columns) > 3 else []
    if len(columns) != 8 or match is None or columns[1] not in _GENDERS or not 0 <= numbers[0] < len(words):
        line.fail(f"8 columns ({_COLUMNS}) are required, the position that of a word; correct the line")
    good, bad = ((*words[: numbers[0]], form) for form in columns[5:7])
    group = f"{_KINDS[match[1]]}-{_GENDERS[columns[1]]}"
    return Pair(good, bad, group, numbers[1] + 1, place=numbers[0], complete=False)


# --- QFrBLiMP

_PHENOMENA = """
past participle agreement; verb inflection; ne ... que; functional morphology; clitic in infinitive negation;
clitic climbing; standard negation; determiners; lexical semantics; agreement in idioms; adjective agreement; -é or -er;
lexical selection of the complement; infinitive negation; subject island; adjunct island; wh-island; complex NP island;
parasitic dependence with dont; orphan preposition
"""
_TYPES = [f"{number:02d} {' '.join(name.split())}" for number, name in enumerate(_PHENOMENA.split(";"), 1)]


def _qfrblimp(line: Line) -> Pair:
    try:
        found = parse_json(line.text)
        a, b, label, number = (found[key] for key in ("sentence_a", "sentence_b", "label", "type"))
    except (ValueError, KeyError, TypeError):
        line.fail("an object with sentence_a, sentence_b, type and label is required; correct the line")
    if label not in (0, 1) or not isinstance(number, int) or not 1 <= number <= len(_TYPES):
        line.fail(f"label must be 0 or 1 and type 1 to {len(_TYPES)}, found {label!r} and {number!r}; correct the line")
    good, bad = (a, b) if label == 0 else (b, a)
    return Pair(_words(line, good, running_words), _words(line, bad, running_words), _TYPES[number - 1])


# --- TurBLiMP

_TURBLIMP = "phenomenon\tgood\tbad"


def _turblimp(line: Line) -> Pair:
    columns = line.text.split("\t")
    if len(columns) != 3:
        line.fail(f"3 columns (phenomenon good bad) are required, found {len(columns)}; correct the line")
    good, bad = (_words(line, text, _TURKISH.findall) for text in columns[1:])
    return Pair(good, bad, columns[0].strip())


def _words(line: Line, text: str, cut: Callable[[str], Sequence[str]]) -> Words:
    return tuple(cut(text)) or line.fail("a sentence must have a word, found none; write it")


# what the first line of a file looks like, how a line is read, and the language of running text
_SUITES: tuple[tuple[Callable[[str], bool], Callable[[Line], Pair], str], ...] = (
    (lambda line: _CONSTRUCTION.fullmatch(line.split("\t")[0]) is not None, _gender_at_a_distance, ""),
    (lambda line: line.lstrip().startswith("{") and '"sentence_a"' in line and '"label"' in line, _qfrblimp, "fr"),
    (lambda line: line.rstrip() == _TURBLIMP, _turblimp, "tr"),
)


def read_suite(path: StrPath, model: LLRNN | None = None) -> list[Pair]:
    """All pairs of the file of a public suite, in the words of a model's text; blank lines are skipped."""
    lines = list(read_entries(path))
    for begins, read, language in _SUITES:
        if begins(lines[0].text):
            pairs = [read(line) for line in lines if line.text.rstrip() != _TURBLIMP]
            return pairs if model is None or not language else _in_text_of(model, pairs, language)
    raise CorpusError("the first line is of none of the suites that are known here; see docs/pairs.md", path=path)


def _in_text_of(model: LLRNN, pairs: Sequence[Pair], language: str) -> list[Pair]:
    lowercase = model.reads_lowercase or model.vocabulary.is_lowercase
    read = partial(as_the_text_has_it, language=language, vocabulary=model.vocabulary, lowercase=lowercase)
    found = []
    for pair in pairs:
        (good, *more), (bad, *others) = read(pair.good), read(pair.bad)
        found.append(replace(pair, good=good, bad=bad, place=-1, readings=(tuple(more), tuple(others))))
    return found


# --- running text

_TURKISH = re.compile(r"[\w\u0300-\u036f]+(?:['’-][\w\u0300-\u036f]+)*|\.\.\.|[^\w\s]")


def is_contracted(vocabulary: Container[str] | None) -> bool:
    """Whether French text has `au` as a word, or `à le`, as UD treebanks do: what its words, or their counts, say."""
    if isinstance(vocabulary, Vocabulary) and all(word in vocabulary for word in ("au", "à")):
        contracted, two = (vocabulary.counts[vocabulary.id(word)] for word in ("au", "à"))
        if two:
            return 10 * contracted > two
    return vocabulary is None or all(word in vocabulary for word in ("au", "aux"))


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
