r"""Writing n-gram models as ARPA files (see `arpa_sections` for the format), as KenLM and SRILM read them.

EOS is written as `<s>` where it begins an n-gram, and as `</s>` elsewhere; of the two unigrams, `<s>` has the back-off
weight and a probability of nought, which is written as 10^-99, like every other. Nine digits, so that float32 is exact.
Only some thousand n-grams are text at a time.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from os import fspath
from pathlib import Path

import numpy as np

from llrnn.ground.errors import BackgroundError
from llrnn.ground.files import replacing
from llrnn.languages.ngrams.arpa import BOS
from llrnn.languages.ngrams.binding import written_out
from llrnn.languages.ngrams.table import Floats, Level, NGramTable
from llrnn.text.corpus.source import StrPath
from llrnn.text.vocabulary import EOS

_NOUGHT = -99.0
_BLOCK = 1 << 16  # n-grams that are text at a time
_REPLACED = {BOS: "a beginning of sentences", "<UNK>": "<unk>"}  # what a reader would take these words for


def write_arpa(table: NGramTable, path: StrPath) -> None:
    """Write or replace the file, atomically; gzip if its name ends in .gz. The bytes depend on the table alone."""
    table = written_out(table)
    _check_words(table)
    try:
        with replacing(Path(path)) as file:
            packed = gzip.GzipFile("", "wb", 4, file, mtime=0) if fspath(path).endswith(".gz") else None
            for lines in _lines(table):
                (packed or file).write(f"{lines}\n".encode())
            if packed is not None:
                packed.close()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise BackgroundError(f"{fspath(path)}: the ARPA file cannot be written: {reason or error}") from error


def _check_words(table: NGramTable) -> None:
    if EOS not in table.index:
        raise BackgroundError(f"an ARPA file needs the end of sentences among its words, but the table has no {EOS}")
    for word in table.words:
        as_read = [part.decode() for part in word.encode(errors="replace").split()]
        if as_read != [word]:
            raise BackgroundError(f"an ARPA file needs words of UTF-8 without spaces, found {word!r}; rename it")
        if word in _REPLACED:
            raise BackgroundError(f"the word {word!r} would be read as {_REPLACED[word]}; rename it before writing")


def _lines(table: NGramTable) -> Iterator[str]:
    """Lines, or some thousand of them together."""
    yield "\\data\\"
    for n, level in enumerate(table.levels, 1):
        yield f"ngram {n}={len(level) + (n == 1)}"  # one more: EOS stands for two unigrams
    for n, level in enumerate(table.levels, 1):
        yield f"\n\\{n}-grams:"
        for start in range(0, len(level), _BLOCK):
            rows = slice(start, min(start + _BLOCK, len(level)))
            lines = _section(level, rows, _texts(table, n, rows), _weighted(table, n, rows))
            yield "\n".join(lines if n > 1 else _with_bos(lines, table, rows))
    yield "\n\\end\\"


def _texts(table: NGramTable, n: int, rows: slice) -> list[str]:
    """The words of n-grams: the last one here, those before it along the contexts."""
    level = table.levels[n - 1]
    columns, context = [[table.words[word] for word in level.word[rows].tolist()]], level.context[rows]
    for below in table.levels[n - 2 :: -1] if n > 1 else ():
        columns.append([table.words[word] for word in below.word[context].tolist()])
        context = below.context[context]
    if n > 1:
        columns[-1] = [BOS if word == EOS else word for word in columns[-1]]
    return [" ".join(words) for words in zip(*reversed(columns), strict=True)]


def _weighted(table: NGramTable, n: int, rows: slice) -> list[bool]:
    """Which n-grams are written with a back-off weight: those that something follows, or that have one."""
    weighted = np.zeros(rows.stop - rows.start, dtype=bool)
    if n < table.order:
        weighted = table.levels[n - 1].log_backoff[rows] != 0
        contexts = table.levels[n].context
        first, last = np.searchsorted(contexts, [rows.start, rows.stop])
        weighted[contexts[first:last] - rows.start] = True
    found: list[bool] = weighted.tolist()
    return found


def _section(level: Level, rows: slice, texts: list[str], weighted: list[bool]) -> list[str]:
    figures = zip(_log10(level.log_prob[rows]), texts, _log10(level.log_backoff[rows]), weighted, strict=True)
    return [f"{p:.9g}\t{text}\t{weight:.9g}" if wanted else f"{p:.9g}\t{text}" for p, text, weight, wanted in figures]


def _log10(log: Floats) -> list[float]:
    """-99 for minus infinity; adding 0 turns -0 into 0."""
    found: list[float] = (np.maximum(log / np.log(10.0), _NOUGHT) + 0.0).tolist()
    return found


def _with_bos(unigrams: list[str], table: NGramTable, rows: slice) -> list[str]:
    """<s> before </s>, with its back-off weight."""
    at = table.eos - rows.start
    if not 0 <= at < len(unigrams):
        return unigrams
    p, _, *weight = unigrams[at].split("\t")
    both = ["\t".join((f"{_NOUGHT:g}", BOS, *weight)), f"{p}\t{EOS}"]
    return [*unigrams[:at], *both, *unigrams[at + 1 :]]
