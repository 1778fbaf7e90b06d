"""The words of one sentence after another, without keeping any: for texts that are larger than memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os import fspath

from llrnn.ground.errors import CorpusError
from llrnn.text.corpus.conllu import read_conllu
from llrnn.text.corpus.corpus import Format, format_of
from llrnn.text.corpus.jsonl import read_jsonl
from llrnn.text.corpus.source import StrPath, read_lines
from llrnn.text.corpus.tsv import read_tsv
from llrnn.text.corpus.types import Sentence

Words = tuple[str, list[str]]  # where they stand, for messages


def stream_words(paths: Iterable[StrPath], *, format: Format = "auto", lowercase: bool = False) -> Iterator[Words]:
    """`path:line` (or the name of the sentence) and the words of every sentence, as `Corpus.from_file` reads them."""
    for path in paths:
        count = 0
        for words in _of_file(path, format_of(path, format), lowercase):
            count += 1
            yield words
        if not count:
            raise CorpusError(f"no sentence in {fspath(path)}: the file holds blank lines or comments only", path=path)


def _of_file(path: StrPath, format: str, lowercase: bool) -> Iterator[Words]:
    if format == "text":
        return _of_text(path, lowercase)
    reader = read_conllu if format == "conllu" else read_jsonl if format == "jsonl" else read_tsv
    return (_plain(sentence, path) for sentence in reader(path, lowercase=lowercase))


def _of_text(path: StrPath, lowercase: bool) -> Iterator[Words]:
    """As `read_text`, without an object for each word."""
    place = fspath(path)
    for number, line in read_lines(path):
        words = (line.lower() if lowercase else line).split()
        if words:
            yield f"{place}:{number}", words


def _plain(sentence: Sentence, path: StrPath) -> Words:
    if sentence.condition is not None:
        raise CorpusError(
            f"sentences without conditions are required here, but {sentence.name} has one; write the targets as text",
            path=path,
        )
    return sentence.name, list(sentence.words)
