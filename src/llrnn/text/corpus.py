"""A corpus: sentences in order, from whatever file they came. `llrnn.text.encoded` has them as ids of a vocabulary.

`delexicalise`: `x serves thai food` as `SLOT_NAME serves SLOT_FOOD food`.

Models that cannot copy need this to mention a name that they have never seen; models of this library need it for
comparison only. A value is found where its words stand in a row, written as in the condition, the
longest value first; of two slots with the same value it is the first one's. The way back puts the values of a slot in
their order, so it gives the same sentence unless the sentence says several values of one slot in another order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from os import PathLike, fspath
from pathlib import PurePath
from typing import Literal, NamedTuple, TypeVar, overload

from llrnn.ground.errors import CorpusError, require_kind
from llrnn.ground.files import STANDARD, StrPath
from llrnn.text.conditions import Before, Conditions, check_conditions, values_of
from llrnn.text.readers import (
    Cut,
    Lowercase,
    PlainTokens,
    Sentence,
    Token,
    read_conllu,
    read_jsonl,
    read_text,
    read_tsv,
    read_words,
    require_file,
)

__all__ = [
    "Corpus", "FoundSlots", "Sentence", "Token", "delexicalise", "read_conllu", "read_jsonl", "read_text", "read_tsv",
]  # fmt: skip

T = TypeVar("T")
Format = Literal["auto", "conllu", "text", "jsonl", "tsv"]

_EXTENSIONS = {
    ".conllu": "conllu",
    ".conll": "conllu",
    ".txt": "text",
    ".text": "text",
    ".jsonl": "jsonl",
    ".tsv": "tsv",
}
_PLAIN: dict[str, Callable[..., Iterator[Sentence]]] = {"conllu": read_conllu, "text": read_text}
_CONDITIONED = {"jsonl": read_jsonl, "tsv": read_tsv}


@dataclass(frozen=True, slots=True, repr=False)
class Corpus:
    """An immutable sequence of sentences, with a name for messages. Indexing gives a `Sentence`, slicing a `Corpus`.

    `sentences` holds them, `len()` counts them. Slices, splits and sums (`a + b`) share their sentences. `cut_by` is
    the kind of tokeniser that made its words; "given": they came cut already.

    For example:

        corpus = Corpus.from_file("train.conllu")
        train, valid = corpus[:9000], corpus[9000:]
    """

    sentences: Sequence[Sentence]
    name: str = ""
    cut_by: str = "given"  # the kind of tokeniser that made its words; "given": they came cut already

    def __post_init__(self) -> None:
        for first in self.sentences[:1]:  # the others are like it
            require_kind(first, Sentence, "Corpus.from_sentences takes lists of words, Corpus.from_file a file")

    @classmethod
    def from_file(
        cls,
        paths: StrPath | Iterable[StrPath],
        *,
        format: Format = "auto",
        lowercase: Lowercase = False,
        conditions: Conditions = "plain",
        surface: bool = False,
        cut: Cut | None = None,
    ) -> Corpus:
        """Return the sentences of one file or several, plain or gzip; a CorpusError names a faulty line.

        paths       the file, or several, which are read as one text
        format      "conllu", "text", "jsonl" or "tsv"; "auto": by its extension
        lowercase   whether words are lowercased, or the function that does it, such as `Tokeniser.lower`
        conditions  "act": conditions, the inputs that sentences are generated from, are dialogue acts (JSON lines and
                    TSV only); "plain": they are kept as they are
        surface     whether multiword tokens are whole (CoNLL-U only)
        cut         a function from a text to the words of each sentence in it, such as `Tokeniser.sentences`, that
                    splits a line or a target; None: at white space. CoNLL-U is never cut

            Corpus.from_file("train.conllu.gz", lowercase=True)
        """
        check_conditions(conditions)
        files = [paths] if isinstance(paths, str | PathLike) else list(paths)
        if not files:
            raise CorpusError("at least one file is required, found none; name one")

        def read(path: StrPath) -> Iterator[Sentence]:
            found = format_of(path, format)
            if found in _CONDITIONED:
                return _CONDITIONED[found](path, lowercase=lowercase, conditions=conditions, cut=cut)
            if conditions != "plain":
                raise CorpusError(
                    f"conditions={conditions!r} needs a file with conditions, 'jsonl' or 'tsv', found {found!r}; "
                    "convert it, or leave conditions='plain'",
                    path=path,
                )
            if found == "conllu":
                return read_conllu(path, lowercase=lowercase, surface=surface)
            return read_text(path, lowercase=lowercase, cut=cut)

        sentences = [sentence for path in files for sentence in _some(path, read(path))]
        return Corpus(tuple(sentences), " + ".join(PurePath(path).name for path in files))

    @classmethod
    def from_sentences(cls, sentences: Iterable[Sentence | Sequence[str]], *, name: str = "") -> Corpus:
        """Return a corpus of Sentences or of sequences of words; `name`: of the corpus.

        Raises a CorpusError for a sentence that is a str, and for a word that is empty or no string.

        For example:

            Corpus.from_sentences([["elle", "est"], ["il", "pleut"]])
        """
        tokens = PlainTokens()
        given = enumerate(sentences)
        return cls(tuple(one if isinstance(one, Sentence) else _from_words(one, tokens, i) for i, one in given), name)

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
            return Corpus(self.sentences[index], self.name, self.cut_by)
        return self.sentences[index]

    def __add__(self, other: Corpus) -> Corpus:
        if not isinstance(other, Corpus):
            return NotImplemented
        name = " + ".join(filter(None, (self.name, other.name)))
        return Corpus((*self.sentences, *other.sentences), name, self.cut_by)

    def __repr__(self) -> str:
        name = f"{self.name!r}, " if self.name else ""
        return f"Corpus({name}{len(self):,} sentences, {self.tokens:,} tokens)"

    @property
    def tokens(self) -> int:
        """The number of words, without ends of sentences."""
        return sum(len(sentence.tokens) for sentence in self.sentences)

    @property
    def characters(self) -> int:
        """The number of characters of all words, counting one space after each word."""
        return sum(len(token.form) + 1 for sentence in self.sentences for token in sentence.tokens)

    @property
    def conditions(self) -> Sequence[object]:
        """A list with an entry for each sentence: its condition (the input that it is generated from), None if none."""
        return [sentence.condition for sentence in self.sentences]

    def counts(self) -> Counter[str]:
        """Return {word: how often it occurs} as a Counter; ends of sentences are not counted."""
        return Counter(token.form for sentence in self.sentences for token in sentence.tokens)

    def lowercased(self, lower: Callable[[str], str] = str.lower) -> Corpus:
        """Return a copy of the corpus with every word lowercased by the function `lower`.

        Conditions, the inputs that sentences are generated from, and lemmas and texts stay as they are.
        """
        sentences = (
            replace(sentence, tokens=tuple(replace(token, form=lower(token.form)) for token in sentence.tokens))
            for sentence in self.sentences
        )
        return Corpus(tuple(sentences), self.name, self.cut_by)

    def running(self, window: int) -> Corpus:
        """Return the corpus as one running text: the condition of each sentence is the `window` words before it.

        A condition is the input that a sentence is generated from, here a `Before` of at most `window` words, without
        ends of sentences; that of the first sentence has none. A CorpusError if a sentence has a condition already, or
        `window` is below 1.

        For example:

            Corpus.from_file("novel.txt").running(50)
        """
        if window < 1:
            raise CorpusError(f"a window of one word or more is required, found {window}")
        if any(sentence.condition is not None for sentence in self):
            raise CorpusError("the sentences of a running text have no conditions of their own, found some")
        words = tuple(word for sentence in self for word in sentence.words)
        ends = list(accumulate((len(sentence.tokens) for sentence in self), initial=0))[: len(self)]
        before = (Before(words, max(0, end - window), end) for end in ends)
        sentences = (replace(one, condition=own) for one, own in zip(self, before, strict=True))
        return Corpus(tuple(sentences), self.name, self.cut_by)

    def split(self, *sizes: int) -> tuple[Corpus, ...]:
        """Return consecutive parts with these numbers of sentences, then the rest: one part more than sizes.

        A CorpusError if the sizes are negative or add up to more than there is.

        For example:

            train, valid, rest = corpus.split(9000, 500)
        """
        if any(size < 0 for size in sizes) or sum(sizes) > len(self):
            wanted = " + ".join(map(str, sizes))
            raise CorpusError(
                f"sizes must be at least 0 and add up to at most {len(self)}, the number of sentences, "
                f"found {wanted}; ask for less"
            )
        starts = [sum(sizes[:count]) for count in range(len(sizes) + 1)]
        return tuple(self[start:end] for start, end in zip(starts, [*starts[1:], len(self)], strict=True))


def require_corpus(given: object) -> None:
    """Raise an InputError that explains how to make a corpus, if `given` is no `Corpus`."""
    require_kind(given, Corpus, "Corpus.from_sentences makes one of lists of words, Corpus.from_file of a file")


def _some(path: StrPath, sentences: Iterator[T]) -> Iterator[T]:
    """Yield the sentences of a file unchanged; a CorpusError at the end, naming `path`, if there was none."""
    number = 0
    for number, sentence in enumerate(sentences, start=1):  # noqa: B007
        yield sentence
    if not number:
        raise CorpusError(f"no sentence in {fspath(path)}: the file holds blank lines or comments only", path=path)


def format_of(path: StrPath, format: Format) -> str:
    """Return "conllu", "text", "jsonl" or "tsv": the given format, or for "auto" that of the file's extension.

    Standard input and pipes are "text". A CorpusError for an unknown format or extension.
    """
    if format in _PLAIN or format in _CONDITIONED:
        return format
    if format != "auto":
        raise CorpusError(
            f"format must be 'auto', 'conllu', 'text', 'jsonl' or 'tsv', found {format!r}; choose one", path=path
        )
    if fspath(path) == STANDARD or fspath(path).startswith("/dev/fd/"):
        return "text"  # a pipe has no extension
    name = PurePath(path).name.lower().removesuffix(".gz")
    for extension, told in _EXTENSIONS.items():
        if name.endswith(extension):
            return told
    require_file(path)
    known, cure = ", ".join(_EXTENSIONS), "rename the file or name the format: 'conllu', 'text', 'jsonl' or 'tsv'"
    if name.endswith(".csv"):
        cure = f"`llrnn init {PurePath(path).name} --out CONFIG` makes JSON lines of it"
    reason = f"the format is told by the extension ({known}, each also with .gz), found {PurePath(path).name!r}; {cure}"
    raise CorpusError(reason, path=path)


def _from_words(words: Sequence[str], tokens: PlainTokens, index: int) -> Sentence:
    if isinstance(words, str):
        raise CorpusError(
            f"sentence {index} must be a Sentence or a sequence of words, found the str {words!r}; split it"
        )
    for word in words:
        if not isinstance(word, str) or not word:
            raise CorpusError(f"the words of sentence {index} must be non-empty strings, found {word!r}; correct it")
    return Sentence(tuple([tokens[word] for word in words]), name=f"sentence {index}")


Words = tuple[str, list[str]]  # where they stand, for messages


def stream_words(paths: Iterable[StrPath], *, format: Format = "auto", lowercase: bool = False) -> Iterator[Words]:
    """Yield (place, words) for every sentence of some files, for texts larger than memory.

    The place is `path:line` or the sentence's name.

    format      "auto": by the file's extension
    lowercase   whether words are lowercased

    A CorpusError if a sentence has a condition (an input that it is generated from).

    For example:

        for place, words in stream_words(["news.txt"]): ...
    """
    for path in paths:
        found = format_of(path, format)
        if found == "text":
            yield from _some(path, read_words(path, lowercase=lowercase))
            continue
        for sentence in _some(path, {**_PLAIN, **_CONDITIONED}[found](path, lowercase=lowercase)):
            if sentence.condition is not None:
                reason = f"sentences without conditions are required here, but {sentence.name} has one"
                raise CorpusError(f"{reason}; write the targets as text", path=path)
            yield sentence.name, list(sentence.words)


ValueWords = tuple[str, ...]
Spans = dict[int, ValueWords]  # where a value begins in a text, and the value


def placeholder(slot: str) -> str:
    """Return the word for any value of a slot in delexicalised text: `placeholder("name") == "SLOT_NAME"`."""
    return f"SLOT_{slot.upper()}"


def delexicalise(corpus: Corpus, slots: Collection[str]) -> Corpus:
    """Return the corpus with values of these slots replaced by placeholders such as SLOT_NAME; conditions stay.

    A value of a sentence's condition (the dialogue act or record that it is generated from) is replaced, wherever its
    words occur in a row, by one word, longest values first. Values are those of `values_of`, so that yes and the like
    are not replaced.

    For example:

        delexicalise(corpus, ["name", "phone"])
    """
    if isinstance(slots, str):
        raise CorpusError(f"slots must be names of slots, found the str {slots!r}; write [{slots!r}]")
    return Corpus(tuple(_without_values(sentence, slots) for sentence in corpus), corpus.name, corpus.cut_by)


def find_values(
    words: Sequence[str], values: Iterable[ValueWords], taken: Mapping[int, ValueWords] | None = None
) -> Spans:
    """Return {index of the first word: value} for the values that occur in a text as consecutive words.

    Longer values are found first, each from the left and as often as it occurs; they do not overlap. `values`: tuples
    of words; `taken`: a result of this function whose words are occupied already, None for none.
    """
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


_SAID, _NEW = 0.5, 0.01  # shares of values: that sentences say word by word; that are new


class FoundSlots(NamedTuple):
    """The slots of a corpus's conditions whose values sentences mention: `said` and `open`, two tuples of names.

    Both have the most frequent slot first; `FoundSlots.of(corpus)` makes them. The condition of a sentence is the input
    that it is generated from; an open slot has ever new values, such as names.

    A slot is in `said` if at least half of its values, counted with repetition, occur word by word in the sentence
    whose condition has them. It is in `open`, too, if at least 1 % of its values are expected to be new, estimated by
    (number of values seen once) / (number of occurrences of all values).
    """

    said: tuple[str, ...]
    open: tuple[str, ...]

    @classmethod
    def of(cls, corpus: Corpus) -> FoundSlots:
        """Return the slots whose values the sentences of a corpus mention, and which of them have ever new values.

        Slots are the fields of conditions, the inputs that sentences are generated from; both tuples are empty without
        any. A slot is `said` if at least half of its values occur in their sentences, and `open`, too, if at least 1 %
        of its values are expected to be new. `FoundSlots.of(corpus).open` may be ("name", "phone").
        """
        values: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
        spoken: Counter[str] = Counter()
        for sentence in corpus:
            for slot, words in values_of(sentence.condition):
                values[slot][words] += 1
                spoken[slot] += bool(find_values(sentence.words, [words]))
        often = sorted(values, key=lambda slot: (-values[slot].total(), slot))
        said = tuple(slot for slot in often if spoken[slot] >= _SAID * values[slot].total())
        new = {slot: sum(count == 1 for count in values[slot].values()) / values[slot].total() for slot in said}
        return cls(said, tuple(slot for slot in said if new[slot] >= _NEW))


def _without_values(sentence: Sentence, slots: Collection[str]) -> Sentence:
    asked = [(words, placeholder(slot)) for slot, words in values_of(sentence.condition) if slot in slots]
    names = dict(reversed(asked))  # the first of two slots with one value wins
    spans = find_values(sentence.words, names)
    inside = {place for begin, value in spans.items() for place in range(begin + 1, begin + len(value))}
    tokens = [
        # positions shift, so nothing has a head any more
        Token(names[spans[place]]) if place in spans else replace(token, head=None)
        for place, token in enumerate(sentence.tokens)
        if place not in inside
    ]
    return replace(sentence, tokens=tuple(tokens)) if spans else sentence
