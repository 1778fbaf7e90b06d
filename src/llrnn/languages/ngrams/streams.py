"""Text as the array of numbers that counting takes: EOS, sentence, EOS, sentence, ..., EOS.

One sentence a line, words separated by white space (or CoNLL-U, by the name of the file; a space within a word becomes
a low line); blank lines are layout, as in `text.corpus`. No object is kept for a word or a sentence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from os import fspath

import numpy as np

from llrnn.ground.arrays import Ints
from llrnn.ground.errors import CorpusError
from llrnn.ground.files import StrPath
from llrnn.languages.ngrams.table import UNKNOWN
from llrnn.text.corpus import Corpus
from llrnn.text.source import read_lines
from llrnn.text.vocabulary import EOS

_RESERVED = frozenset({EOS, "<s>"})
_AT_ONCE = 1 << 16  # lines that are turned into numbers together


def read_stream(
    paths: Iterable[StrPath], *, lowercase: bool = False, vocabulary: Sequence[str] | None = None
) -> tuple[Ints, list[str]]:
    """The text of some files and its words by number: EOS, `<unk>`, then by first appearance.

    With a vocabulary those are the words, and all others become `<unk>`.
    """
    words: list[str] = []
    pieces = list(stream_pieces(paths, words, lowercase=lowercase, vocabulary=vocabulary))
    return np.concatenate(pieces), words


def stream_pieces(
    paths: Iterable[StrPath], words: list[str], *, lowercase: bool = False, vocabulary: Sequence[str] | None = None
) -> Iterator[Ints]:
    """The same piece by piece; `words`, an empty list, holds the words when all pieces were read."""
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    for word in (EOS, UNKNOWN, *(vocabulary or ())):
        numbers[word]
    if vocabulary is not None:
        words += list(numbers)
        numbers.default_factory = lambda: 1  # then put there as <unk>
    yield np.zeros(1, dtype=np.int64)
    for lines in _blocks(paths, lowercase):
        found = [word for line in lines for word in (*line.split(), EOS)]
        yield np.fromiter(map(numbers.__getitem__, found), np.int64, len(found))
    if vocabulary is None:
        words += list(numbers)


def _blocks(paths: Iterable[StrPath], lowercase: bool) -> Iterator[list[str]]:
    for path in paths:
        block: list[str] = []
        for number, line in _lines(path):
            if not line or line.isspace():
                continue
            if ("<s>" in line or EOS in line) and not _RESERVED.isdisjoint(line.split()):
                raise CorpusError(
                    f"{EOS} and <s> mark sentences, which lines do already; remove them", path=path, line=number
                )
            block.append(line.lower() if lowercase else line)
            if len(block) == _AT_ONCE:
                yield block
                block = []
        yield block


def _lines(path: StrPath) -> Iterator[tuple[int, str]]:
    """Numbered sentences of a file."""
    if fspath(path).removesuffix(".gz").endswith(".conllu"):
        sentences = enumerate(Corpus.from_conllu(path), 1)
        return ((number, " ".join("_".join(word.split()) for word in sentence.words)) for number, sentence in sentences)
    return read_lines(path)
