r"""Reading n-gram models from ARPA files (see `arpa_sections` for the format), plain or gzip.

A table has one word for both boundaries of a sentence. With EOS = `</s>`,

    p(EOS | c) = p(</s> | c)        backoff(EOS) = backoff(<s>)        p(x | EOS ...) = p(x | <s> ...)

which loses nothing, because `<s>` is never predicted and nothing follows `</s>`. Files in which it is otherwise are
refused, as are n-grams whose first n-1 words are not listed, or are listed without a back-off weight. The last n-1
words need not be listed: see `table.completed`. Whether probabilities sum to 1 is not checked here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llrnn.languages.ngrams.arpa_sections import ArpaError, Section, read_sections
from llrnn.languages.ngrams.table import Ints, Level, NGramTable
from llrnn.text.corpus.source import StrPath
from llrnn.text.vocabulary import EOS

BOS = "<s>"


@dataclass(frozen=True, eq=False)
class _Names:
    """The words as the file numbers them, and their numbers in the table."""

    path: StrPath
    names: tuple[str, ...]
    bos: int  # of no word where the file has none
    eos: int
    number: Ints  # (len(names),) that of <s> is EOS

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name != BOS)

    def refuse(self, wrong: NDArray[np.bool_], section: Section, reason: Callable[[int], str]) -> None:
        """Report the first n-gram that is wrong; `reason` is given its place in the section."""
        if wrong.any():
            first = int(wrong.argmax())
            raise ArpaError(reason(first), path=self.path, line=int(section.line[first]))

    def text(self, words: Ints) -> str:
        return repr(" ".join(self.names[word] for word in words))


@dataclass(frozen=True, eq=False)
class _Placed:
    """A level, in which NaN stands for back-off weights that were not given, and the lines of its n-grams."""

    level: Level
    line: Ints


def read_arpa(path: StrPath) -> NGramTable:
    """The model in an ARPA file, its words in the order of the 1-grams; a fault is a BackgroundError."""
    index: dict[bytes, int] = {}
    sections = read_sections(path, index)
    unigrams = next(sections)
    names = _named(path, tuple(word.decode() for word in index), unigrams)
    placed = [_unigrams(names, unigrams)]
    for section in sections:
        placed.append(_placed(names, section, placed))
    while len(placed[-1].line) == 0:
        placed.pop()
    return NGramTable(names.words, tuple(_weighted(part.level) for part in placed))


def _weighted(level: Level) -> Level:
    """1 for every back-off weight that was not given: nothing follows there."""
    return Level(level.context, level.word, level.log_prob, np.nan_to_num(level.log_backoff, nan=0.0))


def _named(path: StrPath, names: tuple[str, ...], unigrams: Section) -> _Names:
    if EOS not in names:
        reason = f"the 1-grams must list {EOS}, the end of sentences; estimate the model with sentence boundaries"
        raise ArpaError(reason, path=path, line=int(unigrams.line[-1]) if len(unigrams.line) else None)
    bos, eos = names.index(BOS) if BOS in names else len(names), names.index(EOS)
    number = np.cumsum(np.arange(len(names)) != bos) - 1
    number[bos : bos + 1] = number[eos]
    return _Names(path, names, bos, eos, number)


def _unigrams(names: _Names, section: Section) -> _Placed:
    first = section.words[:, 0]
    # a word that was there already has a smaller number than its place
    _refuse_repeated(names, section, first != np.arange(len(first)), first)
    log_backoff, line = section.log_backoff.copy(), section.line.copy()
    given = names.bos < len(names.names)
    log_backoff[names.eos] = log_backoff[names.bos] if given else 0.0
    line[names.eos] = line[names.bos] if given else line[names.eos]
    kept = np.flatnonzero(np.arange(len(names.names)) != names.bos)
    places = np.arange(len(kept))
    return _Placed(Level(np.zeros_like(places), places, section.log_prob[kept], log_backoff[kept]), line[kept])


def _placed(names: _Names, section: Section, below: Sequence[_Placed]) -> _Placed:
    """Find the contexts in the level below, and sort."""
    _refuse_misplaced(names, section)
    words = names.number[section.words]
    V, context = len(names.words), words[:, 0]
    for k in range(1, len(below)):
        context = below[k].level.find(context, words[:, k], V)
    names.refuse(
        context < 0,
        section,
        lambda at: (
            f"the n-gram {names.text(section.words[at])} needs its context {names.text(section.words[at, :-1])}, "
            f"which is not among the {len(below)}-grams; list it there"
        ),
    )
    _refuse_weightless(names, section, context, below[-1])
    key = context * V + words[:, -1]
    order = np.argsort(key, kind="stable")
    again = np.flatnonzero(key[order][1:] == key[order][:-1]) + 1
    repeated = np.zeros(len(key), dtype=bool)
    repeated[order[again]] = True
    earlier = np.zeros(len(key), dtype=np.int64)
    earlier[order[again]] = order[again - 1]
    _refuse_repeated(names, section, repeated, earlier)
    level = Level(context[order], words[order, -1], section.log_prob[order], section.log_backoff[order])
    return _Placed(level, section.line[order])


def _refuse_misplaced(names: _Names, section: Section) -> None:
    required = f"{BOS} may only begin an n-gram and {EOS} only end it"
    wrong = (section.words[:, 1:] == names.bos).any(1) | (section.words[:, :-1] == names.eos).any(1)
    names.refuse(wrong, section, lambda at: f"{required}, found {names.text(section.words[at])}; remove it")


def _refuse_repeated(names: _Names, section: Section, repeated: NDArray[np.bool_], earlier: Ints) -> None:
    names.refuse(
        repeated,
        section,
        lambda at: (
            f"the n-gram {names.text(section.words[at])} is listed twice, first in line "
            f"{section.line[earlier[at]]}; remove one of them"
        ),
    )


def _refuse_weightless(names: _Names, section: Section, context: Ints, below: _Placed) -> None:
    """A context without back-off weight is more often a damaged file than a weight of 1."""
    weightless = np.isnan(below.level.log_backoff)[context]
    if weightless.any():
        first = int(weightless.argmax())
        text, line = names.text(section.words[first, :-1]), int(below.line[context[first]])
        raise ArpaError(
            f"the n-gram {text} has continuations (line {section.line[first]}) but no back-off weight; "
            "write 0 if none is meant",
            path=names.path,
            line=line,
        )
