"""Corpora larger than memory: numbers on disk with checksums, built once, then read where they lie.

A built corpus is a folder with `corpus.json` and its columns:

    corpus.words   int32   the text as one run: a sentence, EOS, a sentence, EOS, ...
    corpus.ends    int64   for each sentence, the place in the text behind its EOS
    corpus.keys    int64   for each sentence, a number that names it by its words as they were read (`sentence_key`)

All of them little-endian and nothing else, so that a column is an array where it lies. `corpus.json` lists the words
with their counts, the totals, and the SHA-256 of every file; its last key is the SHA-256 of all before it. It is
written last: a folder without it was not finished.

As an `EncodedText` the ids of any vocabulary are looked up where the words lie,

    symbol[t] = number[word[t]]          inside[t] = log q[word[t]]

where `number` and `log q` have one entry for each word of the corpus, so that it serves every model that has a place
for its words. In memory are these, the lengths of the sentences once batches of sentences are planned, and a batch.

`build_corpus`: from text files to a built corpus, one line at a time.

    pass 1   count the words of all files, choose those to list           (not where the list is given)
    pass 2   numbers of words into the columns, each with its SHA-256     memory: the words, and a million numbers

All of it happens in the folder `.NAME.building` beside the result, which gets its name when everything is on disk. A
build that is killed leaves that folder; the next one removes it. The bytes depend on the texts and the options alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import CorpusError, UnknownWordError, quoted
from llrnn.ground.files import StrPath, open_file, parse_json, read_file, sealed_json, sync_folder, write_atomically
from llrnn.text.corpus import Corpus, Format, Sentence, Words, stream_words
from llrnn.text.encoded import EncodedText, Lazy, Run, Stored, sentence_key
from llrnn.text.readers import PlainTokens
from llrnn.text.vocabulary import EOS, Vocabulary, by_frequency, is_symbol, with_others

__all__ = ["BuiltCorpus", "Listing", "build_corpus", "is_built"]

FORMAT = 2
MANIFEST = "corpus.json"
COLUMNS = {"words": "<i4", "ends": "<i8", "keys": "<i8"}
BLOCK = 1 << 20  # numbers that a pass over the whole looks at together
_CHEAP = 1 << 26  # bytes: smaller files are compared with their SHA-256 when they are opened, larger ones only in size
_AGAIN = "restore it from a copy, or build the corpus again: llrnn data build"
_EMPTY = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Manifest:
    """The content of `corpus.json` of a built corpus (a corpus as number arrays on disk): words, totals and checksums.

    words       a tuple of the words by number, EOS among them
    counts      a tuple, by number: how often each word occurs; for EOS the number of sentences
    unknown     the word that stands for all unlisted words, or None
    lowercase   whether words were lowercased when the corpus was built
    sentences   number of sentences
    tokens      number of words, EOS not counted
    characters  number of characters of the words as they were read, plus one for the space behind each
    sha256      name of a column file ("words", "ends", "keys") -> its SHA-256, as hexadecimal text
    """

    words: tuple[str, ...]  # by number
    counts: tuple[int, ...]  # of EOS: the number of sentences
    unknown: str | None  # the symbol that stands for all words that are not listed
    lowercase: bool
    sentences: int
    tokens: int  # ends of sentences not counted
    characters: int  # of the words as they were read, each with one for the space behind it
    sha256: Mapping[str, str]  # of the columns

    def length(self, column: str) -> int:
        """Return the number of entries of a file of a built corpus: `column` is "words", "ends" or "keys".

        For "words" the number of words and sentences together (each sentence has an EOS), else of sentences.
        """
        return self.sentences + (self.tokens if column == "words" else 0)

    def size(self, column: str) -> int:
        """Return the size in bytes that the file "words", "ends" or "keys" (`column`) of a built corpus must have."""
        return self.length(column) * int(COLUMNS[column][-1])

    def write(self, folder: Path) -> None:
        """Write `corpus.json` with a checksum of itself to the folder, atomically; it is the last file of a build."""
        write_atomically(folder / MANIFEST, sealed_json({"format": FORMAT, **asdict(self)}, "surrogatepass"))

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read `corpus.json` of the folder of a built corpus.

        A missing, altered or inconsistent file is a CorpusError that names it.
        """
        path = folder / MANIFEST
        content = _read(path)
        try:
            data = parse_json(content.decode("utf8", "surrogatepass"))
            number = data.pop("format")
        except (ValueError, TypeError, KeyError, AttributeError):
            raise CorpusError(f"the {MANIFEST} of a built corpus is required, found another file; {_AGAIN}", path=path)  # noqa: B904
        if number != FORMAT:
            raise CorpusError(
                f"format {FORMAT} of built corpora is required, found {quoted(number)}; {_AGAIN}", path=path
            )
        data.pop("seal", None)
        if content != sealed_json({"format": number, **data}, "surrogatepass"):
            raise CorpusError(f"altered after it was written (its SHA-256 differs); {_AGAIN}", path=path)
        # a right seal says that nothing was altered, not that what was sealed was right: who may write may also seal
        try:
            made = cls(**{**data, "words": tuple(data["words"]), "counts": tuple(data["counts"])})
            wrong = next((rule for holds, rule in made._rules() if not holds), None)
        except (TypeError, KeyError, AttributeError) as error:
            wrong = f"a field is missing, unknown or of another type ({str(error)[:100]})"
        if wrong is not None:
            raise CorpusError(f"what it says of the corpus cannot be: {wrong}; {_AGAIN}", path=path)
        return made

    def _rules(self) -> Iterator[tuple[bool, str]]:
        """Yield (whether it holds, its text for an error) for each rule that the fields of `corpus.json` must meet."""
        words, positions = self.words, self.sentences + self.tokens
        distinct = all(map(is_symbol, words)) and len(set(words)) == len(words)
        yield (
            distinct and EOS in words,
            "words must be strings without blanks around them, each once, and one the end",
        )
        sizes = [self.sentences, self.tokens, self.characters, *self.counts]
        whole = all(type(size) is int and 0 <= size < 2**62 for size in sizes)
        yield whole and self.sentences > 0, "numbers must be whole, from 0 and below 2^62, and there is a sentence"
        yield len(self.counts) == len(words), "every word must have its count"
        yield self.unknown is None or self.unknown in words, "`unknown` must be one of the words, or null"
        yield type(self.lowercase) is bool, "`lowercase` must be true or false"
        digests = self.sha256.keys() == COLUMNS.keys() and all(type(one) is str for one in self.sha256.values())
        yield digests, "there must be a SHA-256 for each column"
        found = sum(self.counts)
        yield found == positions, f"the counts of words must add up to {positions:.6g}, found {found:.6g}"


def _read(path: Path) -> bytes:
    try:
        return read_file(path, limit=2_000_000_000)
    except (FileNotFoundError, NotADirectoryError):
        folder = path.parent
        there = "there is none of this name" if not folder.exists() else "this is a file"
        found = f"this folder has no {MANIFEST}" if folder.is_dir() else there
        what = "a folder that `llrnn data build` finished is required"
        raise CorpusError(f"{what}, but {found}; build the corpus, or check the path", path=folder) from None
    except OSError as error:
        raise CorpusError(f"the file cannot be read: {error.strerror or error}", path=path) from error


def is_built(path: str | PathLike[str]) -> bool:
    """Return whether a path is the folder of a built corpus: whether it has a file `corpus.json`, which is not read.

    For example:

        is_built("news")
    """
    return (Path(path) / MANIFEST).is_file()


@dataclass(frozen=True, eq=False)
class Column:
    """One file of a built corpus as a read-only array, memory-mapped and checked at first use.

    path        the file
    manifest    what `corpus.json` says of the corpus
    name        "words": word numbers, a sentence, EOS, a sentence, EOS, …; "ends": for each sentence the position
                behind its EOS; "keys": for each sentence a hash of its words

    `column[indices or slice]` returns an int64 array, `len(column)` is the number of entries.
    """

    path: Path
    manifest: Manifest
    name: str

    @property
    def size(self) -> int:
        """Size in bytes that this file of a built corpus must have according to `corpus.json`."""
        return self.manifest.size(self.name)

    def check(self, *, size_only: bool = False) -> None:
        """Verify the size and, unless `size_only`, the SHA-256 of this file of a built corpus against `corpus.json`.

        A missing, unreadable, cut or altered file is a CorpusError.
        """
        try:
            found = self.path.stat().st_size
            if found != self.size:
                cut = f"{self.size:,} bytes are required, found {found:,}: the file was cut or changed"
                raise CorpusError(f"{cut}; {_AGAIN}", path=self.path)
            if not size_only:
                with open_file(self.path) as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                if digest != self.manifest.sha256[self.name]:
                    altered = f"altered after it was written (its SHA-256 differs from {MANIFEST})"
                    raise CorpusError(f"{altered}; {_AGAIN}", path=self.path)
        except FileNotFoundError:
            raise CorpusError(f"missing, though {MANIFEST} lists it; {_AGAIN}", path=self.path) from None
        except OSError as error:
            raise CorpusError(f"the file cannot be read: {error.strerror or error}", path=self.path) from error

    @cached_property
    def array(self) -> NDArray[Any]:
        """The whole file as a memory-mapped array: int32 for "words", else int64.

        A CorpusError if its size or, of a file up to 64 MB, its SHA-256 differs from `corpus.json`.
        """
        self.check(size_only=self.size > _CHEAP)
        with open_file(self.path) as file:
            return np.memmap(file, dtype=COLUMNS[self.name], mode="r", shape=(len(self),))

    def __len__(self) -> int:
        return self.manifest.length(self.name)

    def __getitem__(self, places: Ints | slice) -> Ints:
        return np.asarray(self.array[places], dtype=np.int64)

    def blocks(self) -> Iterator[Ints]:
        """Return an iterator over all numbers of the file in consecutive int64 arrays of about a million each."""
        return (self[start : start + BLOCK] for start in range(0, len(self), BLOCK))


@dataclass(frozen=True, eq=False)
class BuiltText(EncodedText):
    """A text as symbol ids (`EncodedText`) that are looked up in the files of a built corpus when they are needed.

    folder, manifest    the folder of the built corpus, and the content of its `corpus.json`
    columns     "words", "ends" and "keys" -> the file of this name
    number      (words of the corpus,) the id of each word in the vocabulary; -1 for words that do not occur
    log_inside  (words of the corpus,) log-probability of an unlisted word within its cell (its set of strings with one
                id); 0 for listed words
    is_open     whether `inside`, these log-probabilities by sentence, is given; else it is None
    with_keys   whether sentences have keys (63-bit hashes of their words); else `keys_of` returns None
    shown_at    (n,) sorted text positions at which another symbol replaces the word
    shown       (n,) the ids that are there instead
    """

    sentences: Sequence[Ints] = field(init=False)
    conditions: Sequence[object] = field(init=False)
    keys: None = field(init=False, default=None)
    inside: Sequence[Floats] | None = field(init=False)
    cut: None = field(init=False, default=None)
    folder: Path
    manifest: Manifest
    columns: Mapping[str, Column]
    number: Ints  # (words of the corpus,) ids of the vocabulary, -1 for words that the manifest does not count
    log_inside: Floats  # (words of the corpus,)
    is_open: bool = False
    with_keys: bool = False
    shown_at: Ints = field(default_factory=lambda: _EMPTY)  # sorted places at which another symbol is shown
    shown: Ints = field(default_factory=lambda: _EMPTY)

    def __post_init__(self) -> None:
        numbers = range(len(self.columns["ends"]))
        inside = Lazy(numbers, lambda i: self._look_up(self.log_inside, self.words_of(i))) if self.is_open else None
        sentences = Lazy(numbers, lambda i: self.symbols_at(np.arange(*self._bounds(i))))
        for name, made in (("sentences", sentences), ("conditions", Lazy(numbers, lambda _: None)), ("inside", inside)):
            object.__setattr__(self, name, made)

    @classmethod
    def plain(cls, folder: Path, manifest: Manifest) -> BuiltText:
        """Return the text of a built corpus, given folder and manifest, with the corpus's own word numbers as ids."""
        columns = {name: Column(folder / f"corpus.{name}", manifest, name) for name in COLUMNS}
        n = len(manifest.words)
        return cls(manifest.words.index(EOS), folder, manifest, columns, np.arange(n), np.zeros(n))

    def symbols_at(self, places: Ints) -> Ints:
        """Return the symbol ids at these positions of the text, in the shape of `places`.

        places      positions, from 0, in the whole text: a sentence, EOS (its end), a sentence, EOS, …
        """
        found = self._look_up(self.number, self.columns["words"][places])
        if len(self.shown_at):
            near = np.minimum(np.searchsorted(self.shown_at, places), len(self.shown_at) - 1)
            found = np.where(self.shown_at[near] == places, self.shown[near], found)
        return found

    def words_of(self, sentence: int) -> Ints:
        """Return the words of the sentence with this index, without EOS, as indices into `manifest.words`."""
        return self.columns["words"][slice(*self._bounds(sentence))]

    def _look_up(self, table: NDArray[Any], words: Ints) -> NDArray[Any]:
        """Return table[words] for numbers of words of the corpus, which index `manifest.words`.

        A number that `corpus.json` does not count is a CorpusError.
        """
        if words.size and (words.min() < 0 or words.max() >= len(table) or (self.number[words] < 0).any()):
            raise CorpusError(
                "only words that corpus.json counts are required, found another: a file was altered after the build; "
                "`llrnn data check` says which",
                path=self.folder,
            )
        return table[words]

    def _bounds(self, sentence: int) -> tuple[int, int]:
        """Return the positions, in the whole text, of the first word and of the EOS of the sentence with this index."""
        start, stop = self.columns["ends"][np.array([max(sentence - 1, 0), sentence])].tolist()
        return (0 if sentence == 0 else start), stop - 1

    @property
    def lengths(self) -> Ints:
        """Number of prediction targets of each sentence, its words and its EOS, (sentences,)."""
        return np.diff(self.columns["ends"].array, prepend=0)

    @property
    def n_targets(self) -> int:
        return len(self.columns["words"])

    def keys_of(self, group: Ints) -> Ints | None:
        return self.columns["keys"][group] if self.with_keys else None

    def run(self) -> Run:
        """Return the text as one sequence of positions: EOS, a sentence, EOS, …, a sentence, EOS.

        The `Run` returned has functions that look up, for an array of positions, symbol ids, hashes of sentences
        (None without keys), and log-probabilities of unlisted words within their cells, sets of strings with one id
        (None for a closed vocabulary).
        """
        words, ends, keys = (self.columns[name] for name in COLUMNS)

        def symbols_at(places: Ints) -> Ints:
            return np.where(places > 0, self.symbols_at(np.maximum(places - 1, 0)), self.eos)

        def keys_at(places: Ints) -> Ints | None:
            return (
                keys[np.searchsorted(ends.array, np.maximum(places - 1, 0), side="right")] if self.with_keys else None
            )

        def inside_at(places: Ints) -> Floats | None:
            if not self.is_open:
                return None
            return np.where(places > 0, self._look_up(self.log_inside, words[np.maximum(places - 1, 0)]), 0.0)

        return Run(len(words) + 1, symbols_at, keys_at, inside_at)

    def stream(self) -> Ints:
        """Return all ids as one int64 array in memory: EOS, a sentence, EOS, …, a sentence, EOS; (T,)."""
        return self.run().symbols_at(np.arange(self.n_targets + 1))

    def counts(self, n_symbols: int) -> Ints:
        counts = np.zeros(n_symbols, dtype=np.int64)
        for start in range(0, self.n_targets, BLOCK):
            places = np.arange(start, min(start + BLOCK, self.n_targets))
            counts += np.bincount(self.symbols_at(places), minlength=n_symbols)
        return counts

    def digest(self) -> str:
        """Return a SHA-256, as hexadecimal text, of the checksums of the corpus files and of the ids of the words.

        Replaced ids (`shown`) count too. It identifies this text; no file is read.
        """
        files = " ".join(self.manifest.sha256.values())
        digest = hashlib.sha256(hashlib.sha256(files.encode()).hexdigest().encode())
        for part in (self.number, self.shown_at, self.shown):
            digest.update(f"{len(part)} ".encode() + part.tobytes())
        return digest.hexdigest()

    def fingerprints(self) -> Ints:
        """Return the sorted 64-bit hashes of all distinct sentences (of their ids), int64, computed in one pass."""
        found, new = _EMPTY, array("q")
        for sentence in self._one_by_one():
            new.append(int.from_bytes(hashlib.blake2b(sentence, digest_size=8).digest(), "little", signed=True))
            if len(new) >= BLOCK + len(found) // 2:  # merged once there are many, not at every block
                found, new = np.union1d(found, np.frombuffer(new, dtype=np.int64)), array("q")
        return np.union1d(found, np.array(new, dtype=np.int64))

    def _one_by_one(self) -> Iterator[memoryview]:
        """Yield the symbol ids of every sentence, without EOS, as the bytes of an int64 array, in one pass."""
        words, all_ends, first, begin = self.columns["words"], self.columns["ends"], 0, 0
        while first < len(all_ends):
            far = min(begin + BLOCK, len(words) - 1)
            last = max(first + 1, int(np.searchsorted(all_ends.array, far, side="right")))
            ends = all_ends[first:last]
            symbols = self.symbols_at(np.arange(begin, int(ends[-1])))
            view, cuts = memoryview(symbols.tobytes()), ((ends - begin) * symbols.itemsize).tolist()
            for start, stop in zip([0, *cuts[:-1]], cuts, strict=True):
                yield view[start : stop - symbols.itemsize]
            first, begin = last, int(ends[-1])

    def first_shown_as(self, others: Mapping[int, int]) -> BuiltText:
        """Return a text in which the first occurrence of each id in `others` is replaced by another id.

        The first occurrence in the whole text is meant; ids that do not occur change nothing.

        others      id -> the id that replaces its first occurrence
        """
        wanted = np.isin(np.arange(int(self.number.max(initial=0)) + 1), self.number)
        wanted &= np.isin(np.arange(len(wanted)), list(others))
        at: dict[int, int] = {}
        begin = 0
        for block in self.columns["words"].blocks():
            if not wanted.any():
                break
            symbols = self._look_up(self.number, block)
            places = np.flatnonzero(wanted[symbols])
            found, first = np.unique(symbols[places], return_index=True)
            at |= zip((places[first] + begin).tolist(), (others[symbol] for symbol in found.tolist()), strict=True)
            wanted[found] = False
            begin += len(block)
        shown_at = np.array(sorted(at), dtype=np.int64)
        return replace(self, shown_at=shown_at, shown=np.array([at[p] for p in shown_at.tolist()], dtype=np.int64))


class BuiltCorpus(Corpus, Stored):
    """A corpus that lies on disk as number arrays, larger than memory perhaps; sentences are read when they are needed.

    `build_corpus` and `llrnn data build` write such folders. It can be used wherever a `Corpus` can.

    folder      the folder with `corpus.json`

        BuiltCorpus("news").tokens
    """

    folder: Path
    manifest: Manifest
    _plain: BuiltText

    def __init__(self, folder: str | PathLike[str]) -> None:
        folder = Path(folder)
        manifest = Manifest.read(folder)
        tokens = PlainTokens()

        def sentence(number: int) -> Sentence:
            numbers = plain._look_up(plain.number, plain.words_of(number)).tolist()
            made = tuple([tokens[manifest.words[word]] for word in numbers])
            return Sentence(made, name=f"{folder}: sentence {number + 1}")

        plain = BuiltText.plain(folder, manifest)
        sentences = Lazy(range(manifest.sentences), sentence)
        own = {"sentences": sentences, "name": str(folder), "folder": folder, "manifest": manifest, "_plain": plain}
        for name, value in {**own, "cut_by": "given"}.items():
            object.__setattr__(self, name, value)

    def __add__(self, other: Corpus) -> NoReturn:
        raise CorpusError("a built corpus cannot be run together with another text; build both as one", path=self.name)

    __radd__ = __add__

    @property
    def tokens(self) -> int:
        return self.manifest.tokens

    @property
    def characters(self) -> int:
        return self.manifest.characters

    @property
    def conditions(self) -> Sequence[object]:
        """Always (): sentences of a built corpus have no conditions (inputs that a text is generated from).

        Other corpora have an entry for each sentence.
        """
        return ()

    @property
    def unknown(self) -> str | None:
        """The word that replaced all unlisted words when the corpus was built, or None if there is none."""
        return self.manifest.unknown

    @property
    def vocabulary(self) -> Vocabulary:
        """A new Vocabulary that lists the words of the corpus, with their numbers as ids, and their counts.

        Its unknown-word symbol is that of the corpus, if there is one.
        """
        return Vocabulary(self.manifest.words, counts=self.manifest.counts, unknown=self.manifest.unknown)

    def counts(self) -> Counter[str]:
        pairs = zip(self.manifest.words, self.manifest.counts, strict=True)
        return Counter({word: count for word, count in pairs if count and word != EOS})

    def lowercased(self, lower: Callable[[str], str] = str.lower) -> Corpus:
        if not self.manifest.lowercase:
            raise CorpusError("built as its words were written; build it again with --lowercase", path=self.folder)
        return self

    def check(self) -> int:
        """Verify the size and SHA-256 of every file, and return the number of bytes read.

        A difference is a CorpusError.
        """
        for column in self._plain.columns.values():
            column.check()
        return self.size

    @property
    def size(self) -> int:
        """Size of all files of numbers of the corpus together, in bytes."""
        return sum(map(self.manifest.size, COLUMNS))

    def run_blocks(self) -> Iterator[Ints]:
        """Return an iterator over the text, a sentence, EOS, a sentence, EOS, …, as numbers of `manifest.words`.

        Each block is an int64 array of about a million numbers, and may begin or end within a sentence.
        """
        return self._plain.columns["words"].blocks()

    def encoded(self, vocabulary: Vocabulary, *, to_train_on: bool = False) -> BuiltText:
        """Return the text as symbol ids of `vocabulary`; a word that has no id there is an UnknownWordError.

        to_train_on     True: sentences have keys (hashes of their words), and the first occurrence of each word in
                        `vocabulary.as_new` has the id of its cell (a set of unlisted strings), so that the model learns
                        to expect new words
        """
        text = self._in_ids_of(vocabulary)
        if not to_train_on:
            return replace(text, is_open=vocabulary.is_open)
        new = sorted(vocabulary.as_new)
        others = dict(zip(vocabulary.ids(new), vocabulary.cells_of(new).tolist(), strict=True))
        return replace(text.first_shown_as(others), with_keys=True)

    def _in_ids_of(self, vocabulary: Vocabulary) -> BuiltText:
        words, unknown = self.manifest.words, self.manifest.unknown
        there = np.flatnonzero(self.manifest.counts)
        asked = [words[i] for i in there.tolist()]
        if unknown in asked and unknown not in vocabulary:
            raise CorpusError(
                f"words outside a list were replaced by {unknown!r} when this corpus was built, but the vocabulary "
                "does not list it; build the corpus with all its words, or with the words of the model (--vocabulary)",
                path=self.folder,
            )
        number, log_inside = np.full(len(words), -1), np.zeros(len(words))
        number[there], log_inside[there] = vocabulary.locate(asked, place=str(self.folder))
        return replace(self._plain, number=number, log_inside=log_inside, eos=vocabulary.eos)


@dataclass(frozen=True)
class Listing:
    """The choice of the words that a built corpus lists; all other words become `unknown`, or are an error without it.

    words       list these words, in this order; None: the words of the texts, by descending count
    top         list only this many words, the most frequent ones
    min_count   list only words that occur at least this often
    unknown     the symbol for all other words, such as `<unk>`; required with `top` or `min_count`

    A CorpusError if both `words` and a limit are given, or a limit without `unknown`.

        build_corpus(["text.conllu"], "text", listing=Listing(top=500, unknown="<unk>"))
    """

    words: Sequence[str] | None = None
    top: int | None = None
    min_count: int = 1
    unknown: str | None = None  # a symbol for all others; without it, one more word is an error

    def __post_init__(self) -> None:
        limited = self.top is not None or self.min_count > 1
        if self.words is not None and limited:
            raise CorpusError("words are either given or chosen by their counts; leave one of the two out")
        if self.unknown == EOS:
            raise CorpusError(f"the symbol for unknown words must not be {EOS}, the end of sentences; name another")
        if limited and self.unknown is None:
            raise CorpusError("a limit leaves words out, and a symbol for them is required: give one, such as <unk>")

    def symbols(self, texts: Iterator[Words]) -> tuple[str, ...]:
        """Return the listed words by number, EOS and `unknown` among them.

        texts       (place, words) for each sentence; read, to count the words, only if `self.words` is None

        Counted words are sorted by descending count, then alphabetically, `unknown` by the count of what it replaces
        and EOS by the number of sentences; behind given words come `unknown` and EOS, unless they are among them.
        """
        if self.words is not None:
            more = [] if self.unknown is None else [self.unknown]
            return Vocabulary(dict.fromkeys([*self.words, *more, EOS]), unknown=self.unknown).words
        counts: Counter[str] = Counter()
        sentences = 0
        for _, words in texts:
            counts.update(words)
            sentences += 1
        frequent = by_frequency({word: count for word, count in counts.items() if count >= self.min_count})[: self.top]
        listed = with_others({word: counts[word] for word in frequent}, self.unknown, counts.total(), sentences)
        return Vocabulary(by_frequency(listed), unknown=self.unknown).words


def build_corpus(
    paths: Sequence[StrPath],
    out: str | PathLike[str],
    *,
    listing: Listing | None = None,
    lowercase: bool = False,
    format: Format = "auto",
) -> BuiltCorpus:
    """Convert text files to a built corpus (number arrays on disk) in the new folder `out`, completely or not at all.

    Return the corpus, opened. A CorpusError if `out` exists, if it cannot be written, or if a text is faulty; an
    UnknownWordError for a word that `listing` neither lists nor replaces.

    paths       the files
    out         the folder to create
    listing     which words are listed; None: all of them
    lowercase   whether words are lowercased first
    format      of the files; "auto": by their extensions

        build_corpus(["news.txt"], "news", listing=Listing(top=100_000, unknown="<unk>"), lowercase=True)
    """
    if not paths:
        raise CorpusError("at least one file is required, found none; name one")
    out, listing = Path(out), listing or Listing()
    if out.exists():
        raise CorpusError("a new folder is required, but there is something of this name; choose another", path=out)
    try:
        with _being_built(out) as folder:
            symbols = listing.symbols(stream_words(paths, format=format, lowercase=lowercase))
            with contextlib.closing(_Writer(folder, symbols, listing.unknown)) as writer:
                for place, words in stream_words(paths, format=format, lowercase=lowercase):
                    writer.add(place, words)
                writer.finish(lowercase)
    except OSError as error:
        raise CorpusError(
            f"the corpus cannot be written: {error.strerror or error}; choose a place with more room or other rights",
            path=out,
        ) from error
    return BuiltCorpus(out)


@contextlib.contextmanager
def _being_built(out: Path) -> Iterator[Path]:
    """Context manager: yields an empty locked folder that is renamed to `out` on success and removed on failure.

    The folder is `.NAME.building` beside `out`; what a killed build left there is removed. A CorpusError if another
    process is building `out`.
    """
    building = out.parent / f".{out.name}.building"
    building.mkdir(parents=True, exist_ok=True)
    lock = _locked(building, out)
    try:
        for left in building.iterdir():  # of a build that was killed
            left.unlink()
        yield building
        os.rename(building, out)
        sync_folder(out.parent)
    finally:
        shutil.rmtree(building, ignore_errors=True)
        os.close(lock)


def _locked(building: Path, out: Path) -> int:
    """Lock the folder `building` and return its file descriptor; the lock ends when that is closed.

    A CorpusError, which names the corpus `out`, if another process has locked it. On a file system without locks
    nothing is locked.
    """
    descriptor, busy = os.open(building, os.O_RDONLY | os.O_CLOEXEC), False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        busy = isinstance(error, BlockingIOError)  # else a file system without locks
    if not busy and building.exists() and os.path.samestat(os.fstat(descriptor), os.stat(building)):
        return descriptor
    os.close(descriptor)
    raise CorpusError("another process is building this corpus; wait for it, or name another", path=out)


class _File:
    """Writer of one file of a built corpus in blocks of numbers, which computes its SHA-256.

    `_File(path, kind)` opens it, `kind` being the numpy type of the numbers, such as "<i4"; `write(numbers)` appends an
    array, `synced()` returns the digest of all written so far, `close()` closes it.
    """

    def __init__(self, path: Path, kind: str) -> None:
        self._file: BinaryIO = path.open("wb")
        self._digest, self._kind = hashlib.sha256(), kind

    def write(self, numbers: array[int]) -> None:
        piece = np.array(numbers, dtype=self._kind).tobytes()
        self._digest.update(piece)
        self._file.write(piece)

    def synced(self) -> str:
        """Flush the file to disk and return its SHA-256 as hexadecimal text."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._digest.hexdigest()

    def close(self) -> None:
        self._file.close()


class _Writer:
    """Writer of sentences into the files of a built corpus (word numbers on disk), and at last of its `corpus.json`.

    Call `add(place, words)` for each sentence (`place`: for errors), then `finish(lowercase)` and `close()`. `folder`:
    an existing folder; `symbols`: the listed words by number; `unknown`: the one that replaces all others, None if
    these are an UnknownWordError. EOS as a word is a CorpusError.
    """

    def __init__(self, folder: Path, symbols: tuple[str, ...], unknown: str | None) -> None:
        self._folder, self._symbols, self._unknown = folder, symbols, unknown
        self._numbers = {symbol: number for number, symbol in enumerate(symbols)}
        self._counts = np.zeros(len(symbols), dtype=np.int64)
        self._pending = {"words": array("i"), "ends": array("q"), "keys": array("q")}
        self._files = {column: _File(folder / f"corpus.{column}", kind) for column, kind in COLUMNS.items()}
        self._total = self._sentences = self._characters = 0

    def add(self, place: str, words: list[str]) -> None:
        if EOS in words:
            raise CorpusError(f"{place}: {EOS} marks ends of sentences, which lines do already; remove or rename it")
        numbers, known = self._pending["words"], self._numbers
        try:
            other = None if self._unknown is None else known[self._unknown]
            numbers.extend([known[word] if other is None else known.get(word, other) for word in words])
        except KeyError as error:
            raise UnknownWordError(error.args[0], size=len(known), place=place) from None
        numbers.append(known[EOS])
        self._total += len(words) + 1
        self._characters += sum(map(len, words)) + len(words)
        self._sentences += 1
        self._pending["ends"].append(self._total)
        self._pending["keys"].append(sentence_key(words))
        if len(numbers) >= BLOCK:
            self._flush()

    def _flush(self) -> None:
        self._counts += np.bincount(np.array(self._pending["words"], dtype=np.int64), minlength=len(self._symbols))
        for column, file in self._files.items():
            file.write(self._pending[column])
            del self._pending[column][:]

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def finish(self, lowercase: bool) -> None:
        """Write the remaining sentences and, once all files are on disk, `corpus.json`: the corpus is complete.

        `lowercase`: whether words were lowercased, for that file.
        """
        self._flush()
        digests = {column: file.synced() for column, file in self._files.items()}
        counts, tokens = tuple(self._counts.tolist()), self._total - self._sentences
        made = (self._symbols, counts, self._unknown, lowercase, self._sentences, tokens, self._characters, digests)
        Manifest(*made).write(self._folder)
