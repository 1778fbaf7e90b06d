r"""Writing n-gram models as ARPA files (see `arpa_sections` for the format), as KenLM and SRILM read them.

EOS is written as `<s>` where it begins an n-gram, and as `</s>` elsewhere; of the two unigrams, `<s>` has the back-off
weight and a probability of nought, which is written as 10^-99, like every other. Nine digits, so that float32 is exact.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from os import fspath
from pathlib import Path

import numpy as np

from llrnn.bundle import write_atomically
from llrnn.corpus.source import StrPath
from llrnn.errors import BackgroundError
from llrnn.ngrams.arpa import BOS
from llrnn.ngrams.table import Floats, Level, NGramTable
from llrnn.vocabulary import EOS

_NOUGHT = -99.0
_REPLACED = {BOS: "a beginning of sentences", "<UNK>": "<unk>"}  # what a reader would take these words for


def write_arpa(table: NGramTable, path: StrPath) -> None:
    """Write or replace the file, atomically; gzip if its name ends in .gz. The bytes depend on the table alone."""
    _check_words(table)
    content = "\n".join(_lines(table)).encode()
    packed = gzip.compress(content, compresslevel=4, mtime=0) if fspath(path).endswith(".gz") else content
    try:
        write_atomically(Path(path), packed)
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
    """Lines, or whole sections of them."""
    yield "\\data\\"
    for n, level in enumerate(table.levels, 1):
        yield f"ngram {n}={len(level) + (n == 1)}"  # one more: EOS stands for two unigrams
    texts = list(table.words)
    for n, level in enumerate(table.levels, 1):
        if n > 1:
            texts = _continued(texts if n > 2 else _as_contexts(table), level, table.words)
        yield f"\n\\{n}-grams:"
        lines = _section(level, texts, _weighted(table, n))
        yield "\n".join(lines if n > 1 else _with_bos(lines, table))
    yield "\n\\end\\\n"


def _as_contexts(table: NGramTable) -> list[str]:
    return [BOS if word == EOS else word for word in table.words]


def _continued(contexts: list[str], level: Level, words: tuple[str, ...]) -> list[str]:
    """The words of the n-grams of a level, given those of the level below."""
    pairs = zip(level.context.tolist(), level.word.tolist(), strict=True)
    return [f"{contexts[context]} {words[word]}" for context, word in pairs]


def _weighted(table: NGramTable, n: int) -> list[bool]:
    """Which n-grams are written with a back-off weight: those that something follows, or that have one."""
    level = table.levels[n - 1]
    weighted = np.zeros(len(level), dtype=bool)
    if n < table.order:
        weighted = level.log_backoff != 0
        weighted[table.levels[n].context] = True
    found: list[bool] = weighted.tolist()
    return found


def _section(level: Level, texts: list[str], weighted: list[bool]) -> list[str]:
    rows = zip(_log10(level.log_prob), texts, _log10(level.log_backoff), weighted, strict=True)
    return [f"{p:.9g}\t{text}\t{weight:.9g}" if wanted else f"{p:.9g}\t{text}" for p, text, weight, wanted in rows]


def _log10(log: Floats) -> list[float]:
    """-99 for minus infinity; adding 0 turns -0 into 0."""
    found: list[float] = (np.maximum(log / np.log(10.0), _NOUGHT) + 0.0).tolist()
    return found


def _with_bos(unigrams: list[str], table: NGramTable) -> list[str]:
    """<s> before </s>, with its back-off weight."""
    p, _, *weight = unigrams[table.eos].split("\t")
    both = ["\t".join((f"{_NOUGHT:g}", BOS, *weight)), f"{p}\t{EOS}"]
    return [*unigrams[: table.eos], *both, *unigrams[table.eos + 1 :]]
