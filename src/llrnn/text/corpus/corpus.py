"""A corpus: sentences in order, from whatever file they came."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import PurePath
from typing import Literal, NoReturn, overload

from llrnn.ground.errors import CorpusError, LexiconError, warn
from llrnn.text.corpus.acts import Act, Conditions, check_conditions
from llrnn.text.corpus.readers import Multiword, PlainTokens, read_conllu, read_jsonl, read_text, read_tsv
from llrnn.text.corpus.source import Sentence, StrPath, Token, read_lines

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


# The words of one sentence after another, without keeping any: for texts that are larger than memory.


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


# Values out of the sentences and in again: `x serves thai food` as `SLOT_NAME serves SLOT_FOOD food`.
#
# What a model without any way to copy needs before it can speak of a name that it has never seen; models of this
# library need it for comparison only. A value is found where its words stand in a row, written as in the condition, the
# longest value first; of two slots with the same value it is the first one's. The way back puts the values of a slot in
# their order, so it gives the same sentence unless the sentence says several values of one slot in another order.


__all__ = ["Spans", "delexicalise", "find_values", "placeholder", "relexicalise"]

Words_delexical = tuple[str, ...]
Spans = dict[int, Words_delexical]  # where a value begins in a text, and the value


def placeholder(slot: str) -> str:
    """The word that stands for every value of a slot."""
    return f"SLOT_{slot.upper()}"


def delexicalise(corpus: Corpus, slots: Collection[str]) -> Corpus:
    """The same corpus with one placeholder for each value of these slots that a target says; conditions stay."""
    if isinstance(slots, str):
        raise CorpusError(f"slots must be names of slots, found the str {slots!r}; write [{slots!r}]")
    return Corpus(tuple(_without_values(sentence, slots) for sentence in corpus), corpus.name)


def relexicalise(words: Sequence[str], condition: object) -> list[str]:
    """Values for placeholders, in the order of the condition, the last one again when there are too few.

    A placeholder of a slot that the condition does not have stays as it is.
    """
    waiting: dict[str, list[str]] = {}
    for slot, value in _values(condition):
        waiting.setdefault(placeholder(slot), []).append(value)
    found: list[str] = []
    for word in words:
        values = waiting.get(word)
        if values is None:
            found.append(word)
        else:
            found += (values.pop(0) if len(values) > 1 else values[0]).split()
    return found


def find_values(
    words: Sequence[str], values: Iterable[Words_delexical], taken: Mapping[int, Words_delexical] | None = None
) -> Spans:
    """Where values stand: the longest first, from the left, none overlapping another or what is `taken`."""
    text = tuple(words)
    free = [True] * len(text)
    for begin, value in (taken or {}).items():
        free[begin : begin + len(value)] = [False] * len(value)
    spans: Spans = {}
    for value in sorted(values, key=len, reverse=True):
        for begin in range(len(text) - len(value) + 1):
            if text[begin : begin + len(value)] == value and all(free[begin : begin + len(value)]):
                spans[begin] = value
                free[begin : begin + len(value)] = [False] * len(value)
    return spans


def _without_values(sentence: Sentence, slots: Collection[str]) -> Sentence:
    asked = [(tuple(value.split()), placeholder(slot)) for slot, value in _values(sentence.condition) if slot in slots]
    names = dict(reversed(asked))  # the first of two slots with one value wins
    spans = find_values(sentence.words, names)
    return replace(sentence, tokens=tuple(_replaced(sentence.tokens, spans, names))) if spans else sentence


def _replaced(
    tokens: Sequence[Token], spans: Mapping[int, Words_delexical], names: Mapping[Words_delexical, str]
) -> Iterator[Token]:
    place = 0
    while place < len(tokens):
        value = spans.get(place)
        # positions shift, so nothing has a head any more
        yield replace(tokens[place], head=None) if value is None else Token(names[value])
        place += 1 if value is None else len(value)


def _values(condition: object) -> Iterator[tuple[str, str]]:
    """The slots of an act or a record that have a value with words, in their order."""
    fields: Iterator[tuple[str, object]] = iter(())
    if isinstance(condition, Act):
        fields = ((slot.name, slot.value) for slot in condition.slots)
    elif isinstance(condition, Mapping):
        fields = ((str(slot), one) for slot, value in condition.items() for one in _listed(value))
    for slot, value in fields:
        if value is not None and not isinstance(value, Mapping) and str(value).split():
            yield slot, str(value)


def _listed(value: object) -> Collection[object]:
    return value if isinstance(value, list | tuple) else [value]


# Frequency files, `form TAB count`: what a large corpus says of single words, without the corpus.


__all__ = ["read_frequencies", "two_columns"]

# Narrower than float(), which also takes 1_000, nan and the digits of other scripts.
_COUNT = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def read_frequencies(path: StrPath, *, lowercase: bool = False) -> dict[str, float]:
    """form -> frequency from lines `form TAB count` (or separated by spaces, where the form has none).

    A form that comes again adds up, also one that `lowercase` makes the same; blank lines are skipped.
    There are no comments: `#` is a word.
    """
    total: dict[str, float] = {}
    for number, line in read_lines(path, error=LexiconError):
        if line.strip():
            form, count = _frequency(path, number, line)
            form = form.lower() if lowercase else form
            total[form] = total.get(form, 0.0) + count
            if math.isinf(total[form]):
                _fail_on_count(path, number, line, "a sum that is finite")
    if not total:
        raise LexiconError("no frequency in the file: it holds blank lines only", path=path)
    return total


def _frequency(path: StrPath, number: int, line: str) -> tuple[str, float]:
    separated = line if "\t" in line else "\t".join(line.split())
    form, text = two_columns(path, number, separated, "form TAB count")
    count = float(text) if _COUNT.fullmatch(text.strip()) else math.nan
    if not 0 <= count < math.inf:
        _fail_on_count(path, number, line, "a finite number of at least 0")
    return form, count


def _fail_on_count(path: StrPath, number: int, line: str, wanted: str) -> NoReturn:
    text = line.split("\t")[-1].strip() if "\t" in line else line.split()[-1]
    reason = f"the count must be {wanted}, found {text!r}; write the form first, then its count"
    raise LexiconError(reason, path=path, line=number, column=line.rindex(text) + 1)


def two_columns(path: StrPath, number: int, line: str, wanted: str) -> tuple[str, str]:
    columns = line.split("\t")
    if len(columns) != 2:
        column = len("\t".join(columns[:2])) + 1
        reason = f"2 columns ({wanted}) are required, found {len(columns)}; keep these two, separated by one TAB"
        raise LexiconError(reason, path=path, line=number, column=column)
    form, rest = columns
    if not form.strip():
        raise LexiconError("the form must not be empty; write the word", path=path, line=number, column=1)
    return form, rest
