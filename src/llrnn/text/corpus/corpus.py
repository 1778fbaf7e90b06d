"""A corpus: sentences in order, from whatever file they came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import PurePath
from typing import Literal, overload

from llrnn.ground.errors import CorpusError, warn
from llrnn.text.corpus.acts import Conditions, check_conditions
from llrnn.text.corpus.conllu import Multiword, read_conllu
from llrnn.text.corpus.jsonl import read_jsonl
from llrnn.text.corpus.source import StrPath
from llrnn.text.corpus.text import PlainTokens, read_text
from llrnn.text.corpus.tsv import read_tsv
from llrnn.text.corpus.types import Sentence

__all__ = ["Conditions", "Corpus", "Format", "warn_if_raw"]

Format = Literal["auto", "conllu", "text", "jsonl", "tsv"]

_EXTENSIONS = {
    ".conllu": "conllu",
    ".conll": "conllu",
    ".txt": "text",
    ".text": "text",
    ".jsonl": "jsonl",
    ".tsv": "tsv",
}


_PUNCTUATION = frozenset(".,;:!?")
_ENOUGH_WORDS = 100  # below, a few abbreviations are a large share
_RAW = 0.04  # abbreviations are fewer; raw text has about one mark in ten words


@dataclass(frozen=True, slots=True, repr=False)
class Corpus:
    """Sentences in order. Cheap to slice, split and add: the parts share their sentences."""

    sentences: Sequence[Sentence]
    name: str = ""

    @classmethod
    def from_conllu(
        cls,
        paths: StrPath | Iterable[StrPath],
        *,
        lowercase: bool = False,
        multiword: Multiword = "words",
    ) -> Corpus:
        """From one or several CoNLL-U files, see `read_conllu`."""
        return _read(paths, lambda path: read_conllu(path, lowercase=lowercase, multiword=multiword))

    @classmethod
    def from_text(cls, paths: StrPath | Iterable[StrPath], *, lowercase: bool = False) -> Corpus:
        """From one or several text files, one sentence a line, see `read_text`."""
        return _read(paths, lambda path: read_text(path, lowercase=lowercase))

    @classmethod
    def from_jsonl(
        cls, paths: StrPath | Iterable[StrPath], *, lowercase: bool = False, conditions: Conditions = "plain"
    ) -> Corpus:
        """From one or several JSON lines files, see `read_jsonl`; `conditions="act"`: each is a dialog act."""
        return _read(paths, lambda path: read_jsonl(path, lowercase=lowercase, conditions=conditions))

    @classmethod
    def from_tsv(
        cls, paths: StrPath | Iterable[StrPath], *, lowercase: bool = False, conditions: Conditions = "plain"
    ) -> Corpus:
        """From one or several files `condition TAB target`, see `read_tsv`; `conditions` as for JSON lines."""
        return _read(paths, lambda path: read_tsv(path, lowercase=lowercase, conditions=conditions))

    @classmethod
    def from_file(
        cls, path: StrPath, *, format: Format = "auto", lowercase: bool = False, conditions: Conditions = "plain"
    ) -> Corpus:
        """From one file of the named format, or of the one that its extension tells (`.gz` aside)."""
        check_conditions(conditions)
        found = format_of(path, format)
        if conditions != "plain" and found in ("conllu", "text"):
            raise CorpusError(
                f"conditions={conditions!r} needs a file with conditions, 'jsonl' or 'tsv', found {found!r}; "
                "convert it, or leave conditions='plain'",
                path=path,
            )
        match found:
            case "conllu":
                return cls.from_conllu(path, lowercase=lowercase)
            case "text":
                return cls.from_text(path, lowercase=lowercase)
            case "jsonl":
                return cls.from_jsonl(path, lowercase=lowercase, conditions=conditions)
            case _:
                return cls.from_tsv(path, lowercase=lowercase, conditions=conditions)

    @classmethod
    def from_sentences(cls, sentences: Iterable[Sentence | Sequence[str]], *, name: str = "") -> Corpus:
        """From sentences, or from sequences of words: `Corpus.from_sentences([["elle", "est"]])`."""
        tokens = PlainTokens()
        made = (
            sentence if isinstance(sentence, Sentence) else _from_words(sentence, tokens, index)
            for index, sentence in enumerate(sentences)
        )
        return cls(tuple(made), name)

    def __len__(self) -> int:
        return len(self.sentences)

    def __iter__(self) -> Iterator[Sentence]:
        return iter(self.sentences)

    @overload
    def __getitem__(self, index: int) -> Sentence: ...
    @overload
    def __getitem__(self, index: slice) -> Corpus: ...
    def __getitem__(self, index: int | slice) -> Sentence | Corpus:
        if isinstance(index, slice):
            return Corpus(self.sentences[index], self.name)
        return self.sentences[index]

    def __add__(self, other: Corpus) -> Corpus:
        if not isinstance(other, Corpus):
            return NotImplemented
        return Corpus((*self.sentences, *other.sentences), " + ".join(filter(None, (self.name, other.name))))

    def __repr__(self) -> str:
        name = f"{self.name!r}, " if self.name else ""
        return f"Corpus({name}{len(self):,} sentences, {self.tokens:,} tokens)"

    @property
    def tokens(self) -> int:
        """The number of tokens, ends of sentence not counted."""
        return sum(len(sentence.tokens) for sentence in self.sentences)

    @property
    def characters(self) -> int:
        """The characters of all words, and a space behind each."""
        return sum(len(token.form) + 1 for sentence in self.sentences for token in sentence.tokens)

    @property
    def conditions(self) -> Sequence[object]:
        """What each sentence is generated from."""
        return [sentence.condition for sentence in self.sentences]

    def counts(self) -> Counter[str]:
        """How often each form occurs."""
        return Counter(token.form for sentence in self.sentences for token in sentence.tokens)

    def lowercased(self) -> Corpus:
        """The same corpus with every word written small."""
        small = (
            replace(sentence, tokens=tuple(replace(token, form=token.form.lower()) for token in sentence.tokens))
            for sentence in self.sentences
        )
        return Corpus(tuple(small), self.name)

    def split(self, *sizes: int) -> tuple[Corpus, ...]:
        """Consecutive parts of the given sizes in sentences, then the rest: one part more than sizes."""
        if any(size < 0 for size in sizes) or sum(sizes) > len(self):
            wanted = " + ".join(map(str, sizes))
            raise CorpusError(
                f"sizes must be at least 0 and add up to at most {len(self)}, the number of sentences, "
                f"found {wanted}; ask for less"
            )
        starts = [sum(sizes[:count]) for count in range(len(sizes) + 1)]
        return tuple(self[start:end] for start, end in zip(starts, [*starts[1:], len(self)], strict=True))

    def last(self, count: int) -> Corpus:
        """The last `count` sentences."""
        if not 0 <= count <= len(self):
            raise CorpusError(f"count must be between 0 and {len(self)} (all sentences), found {count}; ask for less")
        return self[len(self) - count :]


def _read(paths: StrPath | Iterable[StrPath], reader: Callable[[StrPath], Iterator[Sentence]]) -> Corpus:
    files = [paths] if isinstance(paths, str | PathLike) else list(paths)
    if not files:
        raise CorpusError("at least one file is required, found none; name one")
    sentences: list[Sentence] = []
    for path in files:
        before = len(sentences)
        sentences += reader(path)
        if len(sentences) == before:
            raise CorpusError(f"no sentence in {fspath(path)}: the file holds blank lines or comments only", path=path)
    return Corpus(tuple(sentences), " + ".join(PurePath(path).name for path in files))


def format_of(path: StrPath, format: Format) -> str:
    """The format that is named, or with "auto" the one that the extension of the file tells."""
    if format in ("conllu", "text", "jsonl", "tsv"):
        return format
    if format != "auto":
        raise CorpusError(
            f"format must be 'auto', 'conllu', 'text', 'jsonl' or 'tsv', found {format!r}; choose one", path=path
        )
    name = PurePath(path).name.lower().removesuffix(".gz")
    for extension, told in _EXTENSIONS.items():
        if name.endswith(extension):
            return told
    known = ", ".join(_EXTENSIONS)
    raise CorpusError(
        f"the format is told by the extension ({known}, each also with .gz), found {PurePath(path).name!r}; "
        "rename the file or name the format: 'conllu', 'text', 'jsonl' or 'tsv'",
        path=path,
    )


def _from_words(words: Sequence[str], tokens: PlainTokens, index: int) -> Sentence:
    if isinstance(words, str):
        raise CorpusError(
            f"sentence {index} must be a Sentence or a sequence of words, found the str {words!r}; split it"
        )
    for word in words:
        if not isinstance(word, str) or not word:
            raise CorpusError(f"the words of sentence {index} must be non-empty strings, found {word!r}; correct it")
    return Sentence(tuple([tokens[word] for word in words]), name=f"sentence {index}")


def warn_if_raw(corpus: Corpus) -> None:
    """That words of a text still have their punctuation on them: it was never cut into tokens."""
    counts = corpus.counts()
    attached = [word for word in counts if word[-1:] in _PUNCTUATION and word[-2:-1].isalpha() and len(word) > 3]
    total, found = sum(counts.values()), sum(counts[word] for word in attached)
    if total >= _ENOUGH_WORDS and found > _RAW * total:
        shown = ", ".join(map(repr, attached[:3]))
        warn(
            f"{corpus.name or 'the text'}: {found / total:.0%} of the words end in punctuation, such as {shown}: it "
            "looks like raw text; put blanks between words and punctuation first"
        )
