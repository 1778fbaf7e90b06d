"""N-best lists in files: what a recogniser or a translator thought possible, with its scores.

    #utterance	hypothesis	am	lm                      a header, if any, names the scores; they are logarithms:
    utt7	il dort	-10.5	-4.2                            higher is better

References are Kaldi texts, `utt7 il dort`. A hypothesis may have no words, and may come twice; an impossible one has
the score -inf. `.gz` may stand behind every name.

Word errors by Levenshtein's distance, many pairs of sentences at once.

    d[i, j] = min( d[i-1, j] + 1,  d[i, j-1] + 1,  d[i-1, j-1] + [r_i ≠ h_j] )        WER = (S + D + I) / words

Row i is made for all pairs in one go: its minimum over insertions, min_{k≤j} (t_k + j − k), is a running minimum of
t_j − j. Of the alignments with the fewest errors the one with the fewest substitutions is counted (it has most words
right): an error costs `_ERROR`, a substitution one more, and the length of both sentences then tells D and I. Not by
jiwer, which takes 2.3 times as long for lists of 50, and splits errors otherwise in one pair of 74 (same sum).
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import groupby

import numpy as np

from llrnn.ground.arrays import Ints
from llrnn.ground.errors import CorpusError, quoted
from llrnn.ground.files import StrPath, write_lines
from llrnn.text.readers import Line, read_lines

Words = tuple[str, ...]
References = Mapping[str, Words]

WORDS = "words"  # how weights call the number of words: no score may have this name
_HEADER = ("#utterance", "hypothesis")
# Narrower than float(), which also takes 1_000, nan and the digits of other scripts.
_NUMBER = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf)")
_NAME = re.compile(r"[^\s,=]+")


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One hypothesis of a recogniser or translator: its `words` and log-scores, one for each name in `NBestLists`.

    `words`: a tuple of strings; `scores`: a tuple of floats, higher is better.
    """

    words: Words
    scores: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class NBest:
    """The n-best list of one utterance: its name and its hypotheses, in the order of the recogniser.

    `utterance`: a string; `hypotheses`: a tuple of `Hypothesis`.
    """

    utterance: str
    hypotheses: tuple[Hypothesis, ...]


@dataclass(frozen=True)
class NBestLists:
    """N-best lists of many utterances: `lists`, a tuple of `NBest`, and `names`, those of the scores of hypotheses.

    Raises CorpusError where there is no list, a list is empty, an utterance has two lists, or a hypothesis has another
    number of scores.

        lists = read_nbest("nbest.tsv")
    """

    names: tuple[str, ...]
    lists: tuple[NBest, ...]

    def __post_init__(self) -> None:
        reason = next(self._faults(), None)
        if reason is not None:
            raise CorpusError(reason)

    def _faults(self) -> Iterator[str]:
        yield from _faults_in_names(self.names)
        if not self.lists:
            yield "at least one n-best list is required, found none; give some"
        for entry in self.lists:
            name = quoted(entry.utterance)
            if not entry.hypotheses:
                yield f"the list of {name} must have a hypothesis, found none; leave the utterance out"
            for scores in (hypothesis.scores for hypothesis in entry.hypotheses):
                if len(scores) != len(self.names):
                    wanted = f"{len(self.names)} scores ({', '.join(self.names)})"
                    yield f"{wanted} are required, a hypothesis of {name} has {len(scores)}"
                if any(not score < math.inf for score in scores):
                    yield f"scores must be numbers below infinity, found {scores} in {name}"
        if len({entry.utterance for entry in self.lists}) != len(self.lists):
            yield "every utterance must have one list, found two for one; put their hypotheses together"

    def __len__(self) -> int:
        return len(self.lists)

    def __iter__(self) -> Iterator[NBest]:
        return iter(self.lists)

    def __repr__(self) -> str:
        return f"NBestLists({len(self):,} utterances, {self.n_hypotheses:,} hypotheses, {', '.join(self.names)})"

    @property
    def n_hypotheses(self) -> int:
        return sum(len(entry.hypotheses) for entry in self.lists)

    def with_scores(self, name: str, scores: Sequence[Sequence[float]]) -> NBestLists:
        """Return a copy of the lists in which every hypothesis has one more score, the last, called `name`.

        `scores[i][j]`: the log-score of hypothesis j of list i. Raises CorpusError for a name that is there already.
        """
        lists = []
        for entry, own in zip(self.lists, scores, strict=True):
            scored = (replace(h, scores=(*h.scores, new)) for h, new in zip(entry.hypotheses, own, strict=True))
            lists.append(NBest(entry.utterance, tuple(scored)))
        return NBestLists((*self.names, name), tuple(lists))


def _faults_in_names(names: Sequence[str]) -> Iterator[str]:
    for index, name in enumerate(names):
        if not _NAME.fullmatch(name) or name == WORDS:
            yield f"a score needs a name without spaces, commas and =, and other than {WORDS!r}, found {quoted(name)}"
        if name in names[:index]:
            yield f"every score needs a name of its own, found {quoted(name)} twice; rename one"


def _lines(path: StrPath) -> Iterator[Line]:
    """Yield the lines of a file that are not blank, with file name and line number."""
    return (Line(path, number, text) for number, text in read_lines(path) if text.strip())


def _score(line: Line, text: str) -> float:
    """Return the log-score that `text` is.

    −inf is the score of an impossible hypothesis. Anything but a number below infinity is a CorpusError at that line.
    """
    value = float(text) if _NUMBER.fullmatch(text.strip()) else math.nan
    if not value < math.inf:
        line.fail(f"a score must be a number, found {quoted(text)}; correct it or leave the hypothesis out", text)
    return value


def read_nbest(path: StrPath) -> NBestLists:
    """Return the n-best lists in a TSV file with columns utterance, hypothesis and one or more log-scores.

    A first line that begins with `#utterance` names the scores; without one they are `score1`, `score2`, … Lines of one
    utterance may be anywhere, and their order is kept. Raises CorpusError with the line for anything else.

        lists = read_nbest("nbest.tsv.gz")
    """
    names: tuple[str, ...] = ()
    found: dict[str, list[Hypothesis]] = {}
    for line in _lines(path):
        columns = line.text.split("\t")
        if line.number == 1 and columns[0] == _HEADER[0]:
            names = _names_in(line, columns)
            continue
        names = names or tuple(f"score{i}" for i in range(1, len(columns) - 1))
        found.setdefault(_utterance_in(line, columns, names), []).append(
            Hypothesis(tuple(columns[1].split()), tuple(_score(line, text) for text in columns[2:]))
        )
    if not found:
        raise CorpusError("at least one hypothesis is required, but the file has none", path=path)
    return NBestLists(names, tuple(NBest(utterance, tuple(own)) for utterance, own in found.items()))


def _names_in(line: Line, columns: Sequence[str]) -> tuple[str, ...]:
    names = tuple(name.strip() for name in columns[2:])
    if columns[1:2] != [_HEADER[1]] or not names:
        line.fail(f"a header is {' TAB '.join(_HEADER)} TAB name TAB ..., found {quoted(line.text)}; correct it")
    for reason in _faults_in_names(names):
        line.fail(reason)
    return names


def _utterance_in(line: Line, columns: Sequence[str], names: Sequence[str]) -> str:
    if len(columns) < 3:
        line.fail(
            f"utterance TAB hypothesis TAB score ... is required, found {len(columns)} columns; separate them by TABs, "
            "or say what it is: --lattices"
        )
    if len(columns) != 2 + len(names):
        wanted = f"{len(names)} scores ({', '.join(names)}) are required as in the first line"
        line.fail(f"{wanted}, found {len(columns) - 2}; give every hypothesis the same scores")
    utterance = columns[0].strip()
    if not utterance or utterance.split() != [utterance]:
        line.fail(f"the name of an utterance must be one word, found {quoted(columns[0])}; name it")
    return utterance


def _by_key(lines: Iterable[Line]) -> dict[str, Line]:
    """Return {first word: line} of these lines; raise CorpusError if two lines begin with the same word."""
    found: dict[str, Line] = {}
    for line in lines:
        key = line.text.split()[0]
        if key in found:
            line.fail(f"every name may come once, found {quoted(key)} already in line {found[key].number}; rename one")
        found[key] = line
    return found


def read_references(path: StrPath, known: Container[str] | None = None) -> dict[str, Words]:
    """Return {utterance: words} from a file of reference transcripts, lines `UTTERANCE words` as Kaldi writes them.

    A line of an utterance alone has the words (). `known`: utterances that may occur, None for any. Raises CorpusError
    for another utterance, one that comes twice, or a file without a line.

        references = read_references("ref.txt")
    """
    found = _by_key(_lines(path))
    for utterance, line in found.items():
        if known is not None and utterance not in known:
            line.fail(
                f"an utterance of the n-best lists is required, found {quoted(utterance)}; leave it out, "
                "or add its list"
            )
    if not found:
        raise CorpusError("at least one reference is required, but the file has none", path=path)
    return {utterance: tuple(line.text.split()[1:]) for utterance, line in found.items()}


def write_nbest(path: StrPath, lists: NBestLists) -> None:
    """Write n-best lists as a TSV file that `read_nbest` reads, with a header; the file is replaced atomically.

    It is gzipped where the name ends in .gz; `-` is standard output.
    """
    write_lines(path, ["\t".join((*_HEADER, *lists.names)), *(row for entry in lists for row in _rows(entry))])


def _rows(entry: NBest) -> Iterator[str]:
    for hypothesis in entry.hypotheses:
        yield "\t".join((join_words([entry.utterance]), join_words(hypothesis.words), *map(repr, hypothesis.scores)))


def join_words(words: Sequence[str]) -> str:
    """Return the words joined by spaces; raise CorpusError for a word that is empty or has white space in it."""
    for word in words:
        if word.split() != [word]:
            raise CorpusError(f"a word with whitespace in it cannot be written, found {quoted(word)}; leave it out")
    return " ".join(words)


# Word errors by Levenshtein's distance, many pairs of sentences at once.

_ERROR = 1 << 20  # more than any number of substitutions
_CELLS = 1 << 15  # of a row for all pairs of a block: what fits into the cache

Symbols = Sequence[int]


@dataclass(frozen=True, slots=True)
class Errors:
    """Counts of word errors of hypotheses against references: substitutions, deletions, insertions.

    `substitutions`, `deletions`, `insertions`: ints, whose sum is `total`; `words`: the number of words of the
    references; `rate`: total / words. Errors of several utterances are summed by `+`.
    """

    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0
    words: int = 0

    def __add__(self, other: Errors) -> Errors:
        return Errors(*(one + more for one, more in zip(astuple(self), astuple(other), strict=True)))

    @property
    def total(self) -> int:
        return self.substitutions + self.deletions + self.insertions

    @property
    def rate(self) -> float:
        """The word error rate, errors / words of the references; above 1 where much was inserted.

        Raises CorpusError where the references have no word.
        """
        if not self.words:
            raise CorpusError("an error rate needs a reference with a word, found none; give what was said")
        return self.total / self.words


def alignments(pairs: Sequence[tuple[Symbols, Symbols]]) -> Ints:
    """Return the numbers of substitutions, deletions and insertions, (P, 3), of P pairs (reference, hypothesis).

    They are those of an alignment with the fewest errors in all, and among these the fewest substitutions. Both of a
    pair are sequences of integers ≥ 0.
    """
    found = np.zeros((len(pairs), 3), dtype=np.int64)
    # by length, so that references of a block are equally long and little is padded
    order = sorted(range(len(pairs)), key=lambda index: (len(pairs[index][0]), len(pairs[index][1])))
    for _, equal in groupby(order, lambda index: len(pairs[index][0])):
        group = list(equal)
        size = max(1, _CELLS // (len(pairs[group[-1]][1]) + 1))
        for start in range(0, len(group), size):
            block = group[start : start + size]
            found[block] = _aligned([pairs[index] for index in block])
    return found


def _aligned(pairs: Sequence[tuple[Symbols, Symbols]]) -> Ints:
    """Return substitutions, deletions and insertions of P pairs whose references are all of one length, (P, 3)."""
    lengths = np.array([len(hypothesis) for _, hypothesis in pairs])
    references = np.array([reference for reference, _ in pairs], dtype=np.int64)
    hypotheses = np.full((len(pairs), int(lengths.max())), -1, dtype=np.int64)  # -1 is no symbol
    for row, (_, hypothesis) in zip(hypotheses, pairs, strict=True):
        row[: len(hypothesis)] = hypothesis
    cost = _last_row(references, hypotheses)[np.arange(len(pairs)), lengths]
    errors, substitutions = cost // _ERROR, cost % _ERROR
    surplus = lengths - references.shape[1]  # insertions minus deletions
    insertions = (errors - substitutions + surplus) // 2
    return np.stack([substitutions, insertions - surplus, insertions], 1)


def _last_row(references: Ints, hypotheses: Ints) -> Ints:
    """Return the last rows of P edit-distance tables, (P, H + 1): the cost of each beginning of a hypothesis.

    `references` (P, R); `hypotheses` (P, H), padded by −1. A cost is errors · 2^20 + substitutions.
    """
    steps = np.arange(hypotheses.shape[1] + 1) * _ERROR
    row = np.broadcast_to(steps, (len(hypotheses), len(steps))).copy()
    for symbol in references.T:
        reached = row + _ERROR
        differs = (hypotheses != symbol[:, None]) * (_ERROR + 1)
        np.minimum(reached[:, 1:], row[:, :-1] + differs, out=reached[:, 1:])
        reached -= steps
        np.minimum.accumulate(reached, axis=1, out=reached)
        row = np.add(reached, steps, out=row)
    return row


def count_errors(pairs: Sequence[tuple[Words, Words]]) -> list[Errors]:
    """Return the word errors of each pair (reference, hypothesis) of word tuples, one `Errors` for each pair.

    count_errors([(("il", "dort"), ("il", "sort"))])[0].rate # 0.5
    """
    ids: dict[str, int] = {}

    def numbered(words: Words) -> list[int]:
        return [ids.setdefault(word, len(ids)) for word in words]

    found = alignments([(numbered(reference), numbered(hypothesis)) for reference, hypothesis in pairs]).tolist()
    return [Errors(s, d, i, len(reference)) for (s, d, i), (reference, _) in zip(found, pairs, strict=True)]


def errors_of_lists(lists: Iterable[NBest], references: References) -> list[list[Errors]]:
    """Return the word errors of hypothesis j of list i against the reference of its utterance, as `result[i][j]`.

    `references`: the words that were said, by utterance; raises CorpusError where one is missing.
    """
    entries = list(lists)
    for entry in entries:
        if entry.utterance not in references:
            raise CorpusError(
                f"every utterance needs a reference, found none for {quoted(entry.utterance)}; add it, "
                "or leave its list out"
            )
    pairs = [(references[entry.utterance], h.words) for entry in entries for h in entry.hypotheses]
    found = iter(count_errors(pairs))
    return [[next(found) for _ in entry.hypotheses] for entry in entries]


def oracle(errors: Iterable[Iterable[Errors]]) -> Errors:
    """Return the oracle word errors: the sum over lists of the errors of the hypothesis with the fewest of each.

    `errors`: those of all hypotheses of all lists, from `errors_of_lists`.
    """
    return sum((min(own, key=lambda one: one.total) for own in errors), Errors())
