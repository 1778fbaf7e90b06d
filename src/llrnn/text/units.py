"""Words as sequences of smaller units, so that a model of units is a model of words.

    p(word | K) = Π p(unit | K, units before it) · Π 1/n      one factor 1/n for each character that is not listed

    aller   ->  a l l e r ▁                 characters, and the end of the word
    aller   ->  all er▁                     byte pairs, of which the last one ends the word

`▁` ends every word, so that words and units tell each other. A character is listed when the training text has it at
least twice. Every other is the unit `<other>`, whose probability is learnt from those seen once, and then any of the n
characters that are not listed, all alike: every string has a probability, and they add up to one at most. (A model of
byte pairs loses what it gives to sequences that are not how a word is cut; this is usual, and small.)

What plain text cannot hold as a token, and the signs that have a meaning here, are escaped: `▁` itself is `\\u2581;`.
"""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

from llrnn.ground.errors import CheckpointError, CorpusError, MissingExtraError
from llrnn.ground.files import parse_json, read_file, write_atomically
from llrnn.text.corpus import Corpus

END = "▁"
OTHER = "<other>"
_RAW_END = "\n"  # the end of a word before it is written as a unit: no word holds it
_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"  # what no word holds, since it is on one line
_PERMITTED = 0x110000 - 0x800 - len(_BREAKS)  # code points without surrogates
_LEAST = 2  # how often a listed character is seen
_MARKS = frozenset(f"{END}<\\")
_TOKENS = re.compile(rf"{OTHER}|\\u([0-9a-f]+);|(.)", re.DOTALL)
_LOST = "\N{REPLACEMENT CHARACTER}"  # what is shown for a character that was not listed


@dataclass(frozen=True)
class Units(ABC):
    """A segmentation of words into subword units: characters (`CharacterUnits`) or byte pairs (`BytePairs`).

    The last unit of a word ends with `▁`; a character that is not in `listed`, a frozenset, becomes the unit `<other>`.
    Subclasses implement `pieces`, `raw` and `data`; `kind` is their name in saved data.

        BytePairs.from_corpus(train, size=8000).of("maisons")
    """

    kind: ClassVar[str]
    listed: frozenset[str]  # characters
    _known: dict[str, list[str]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @abstractmethod
    def pieces(self, run: str) -> list[str]:
        """Return the pieces (units before escaping) of a string of listed characters, in order; joined they are `run`.

        A line break at the end of `run` stands for the end of a word, and ends the last piece; in the unit it is
        written `▁`. [] for "".
        """

    @abstractmethod
    def raw(self) -> Iterable[str]:
        """Return every piece that `pieces` can return; a line break in a piece stands for the end of a word."""

    @abstractmethod
    def data(self) -> dict[str, Any]:
        """Return the segmentation as a dictionary that JSON can write, for the function `restored`."""

    def symbols(self) -> list[str]:
        """Return all units, sorted, as a vocabulary lists them; `<other>` is among them."""
        return sorted({OTHER, *(_written(piece) for piece in self.raw())})

    def of(self, word: str) -> list[str]:
        """Return the subword units of a word in order; the last one ends with `▁`.

        A CorpusError for an empty word or one with a line break.

        For example:

            units.of("chats")       # ["chat", "s▁"], say
        """
        found = self._known.get(word)
        if found is None:
            found = self._known[word] = list(self._cut(word))
        return found

    def _cut(self, word: str) -> Iterator[str]:
        if len(word.splitlines()) != 1:
            raise CorpusError(f"a word must be a non-empty text on one line, found {word!r}; correct the text")
        first, *further = runs(word, self.listed)
        yield from map(_written, self.pieces(first))
        for run in further:
            yield OTHER
            yield from map(_written, self.pieces(run))

    def text_of(self, symbol: str) -> str | None:
        """Return the characters that a unit stands for, with a line break for the end of a word: `s▁` is "s\\n".

        None for `<other>` and for a string that is no unit.
        """
        return self._texts.get(symbol)

    @cached_property
    def _texts(self) -> dict[str, str]:
        return {_written(piece): piece for piece in self.raw()}

    def log_inside(self, word: str) -> float:
        """Return −n · log(P − L) in nats: log p of a word's n unlisted characters, given `<other>` for each of them.

        Each is uniform over the P − L characters that are not listed: P = 1,112,054 characters may stand in a word, L
        of them are listed (have units of their own). 0.0 if all characters of the word are listed.
        """
        unlisted = sum(character not in self.listed for character in word)
        return -unlisted * math.log(_PERMITTED - len(self.listed)) if unlisted else 0.0

    def sentence(self, words: Iterable[str]) -> list[str]:
        """Return the subword units of all words of a sentence in order, as one list."""
        return [unit for word in words for unit in self.of(word)]

    def corpus(self, corpus: Corpus) -> Corpus:
        """Return a corpus whose sentences are sequences of subword units in place of words.

        Annotations of words, and conditions (inputs that sentences are generated from), are dropped; the name stays.
        """
        sentences = [self.sentence(sentence.words) for sentence in corpus]
        return Corpus.from_sentences(sentences, name=corpus.name)

    def save(self, path: Path) -> None:
        """Write the segmentation of words into units to a JSON file, to be read by the function `load`."""
        write_atomically(path, json.dumps(self.data(), ensure_ascii=False).encode())


@dataclass(frozen=True)
class CharacterUnits(Units):
    """A segmentation of words into characters: one unit for each, and `▁` for the end of a word.

    With `units = CharacterUnits.from_corpus(train)`, `units.of("chat")` is ["c", "h", "a", "t", "▁"].
    """

    kind = "characters"

    @classmethod
    def from_corpus(cls, train: Corpus) -> CharacterUnits:
        """Return the segmentation that lists the characters which occur at least twice in a training text.

        For example:

            units = CharacterUnits.from_corpus(train)
        """
        return cls(listed_characters(train))

    def pieces(self, run: str) -> list[str]:
        return list(run)

    def raw(self) -> Iterable[str]:
        return (*self.listed, _RAW_END)

    def data(self) -> dict[str, Any]:
        return {"kind": self.kind, "listed": sorted(self.listed)}


@dataclass(frozen=True)
class BytePairs(Units):
    """A segmentation of words by byte-pair encoding (Sennrich et al., 2016) over characters; units never cross words.

    `listed`: the characters that units may have; `merges`: the pairs (left, right) of pieces that are joined, in the
    order of learning, where a line break stands for the end of a word.

    For example:

        units = BytePairs.from_corpus(train, size=8000)
    """

    kind = "byte-pairs"

    merges: tuple[tuple[str, str], ...] = ()  # in the order in which they were found
    _rank: dict[tuple[str, str], int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._rank.update({pair: rank for rank, pair in enumerate(self.merges)})

    @classmethod
    def from_corpus(cls, train: Corpus, size: int) -> BytePairs:
        """Return a segmentation of at most `size` units, besides `<other>`, learnt from the words of a training text.

        Raises a MissingExtraError without the package tokenizers.
        """
        listed = listed_characters(train)
        return cls(listed, learnt_merges(train.counts(), listed, size))

    def pieces(self, run: str) -> list[str]:
        """Return the pieces of a string of listed characters: its characters, merged in the order of learning.

        A line break at the end of `run` stands for the end of a word.
        """
        parts = list(run)
        while len(parts) > 1:
            best = min(pairwise(parts), key=lambda pair: self._rank.get(pair, math.inf))
            if best not in self._rank:
                break
            parts = _merged(parts, best)
        return parts

    def raw(self) -> Iterable[str]:
        return (*self.listed, _RAW_END, *(left + right for left, right in self.merges))

    def data(self) -> dict[str, Any]:
        return {"kind": self.kind, "listed": sorted(self.listed), "merges": self.merges}


def load(path: Path) -> Units:
    """Return the segmentation that `Units.save` wrote to `path`; a CheckpointError if the file is none.

    For example:

        units = load(Path("units.json"))
    """
    try:
        return restored(parse_json(read_file(path)))
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise CheckpointError(f"{path}: units must be a file written by Units.save, found {error!r}") from None
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}; write the file anew") from None


def restored(data: Mapping[str, Any]) -> Units:
    """Return the segmentation from the dictionary of `Units.data`; a CheckpointError for an unknown `kind` in it.

    A missing key is a KeyError.
    """
    listed = frozenset(data["listed"])
    if data["kind"] == CharacterUnits.kind:
        return CharacterUnits(listed)
    if data["kind"] == BytePairs.kind:
        return BytePairs(listed, tuple((left, right) for left, right in data["merges"]))
    raise CheckpointError(f"units are characters or byte-pairs, found {data['kind']!r}")


def decode(units: Iterable[str], *, whole: bool = True) -> list[str]:
    """Return the words that units spell, with U+FFFD for unlisted characters.

    units       the units in order
    whole       True: the last word must be complete, else a CorpusError; False: its beginning is returned too

        decode(["chat", "s▁", "noirs▁"])        # ["chats", "noirs"]
    """
    *words, rest = "".join(units).split(END)
    if rest and not whole:
        words.append(rest)
    elif rest:
        raise CorpusError(f"the last unit must end a word with {END!r}, found {rest!r} after it; give whole words")
    return [_TOKENS.sub(_read, word) for word in words]


def listed_characters(train: Corpus) -> frozenset[str]:
    """Return the set of characters that occur at least twice in the words of a text, repeated words counted."""
    counts: Counter[str] = Counter()
    for word, count in train.counts().items():
        for character in word:
            counts[character] += count
    return frozenset(character for character, count in counts.items() if count >= _LEAST)


def runs(word: str, listed: frozenset[str]) -> list[str]:
    """Return the parts of a word between characters that are not listed; the last part ends with a line break.

    The line break marks the end of the word; parts may be empty: with only a and b listed, "abxa" gives ["ab", "a\\n"].
    """
    marked = "".join(character if character in listed else "\r" for character in word)
    return (marked + _RAW_END).split("\r")


def learnt_merges(counts: Counter[str], listed: frozenset[str], size: int) -> tuple[tuple[str, str], ...]:
    """Return the byte-pair merges (left, right), in order, that the package `tokenizers` learns from word counts.

    A line break in `left` or `right` stands for the end of a word.

    counts      {word: count}
    listed      characters that units may have; words are cut at all others
    size        the largest number of units: these characters, the end of a word and one for each merge

    Raises a MissingExtraError without that package.
    """
    try:
        from tokenizers import Tokenizer
        from tokenizers.models import BPE
        from tokenizers.trainers import BpeTrainer
    except ImportError:
        raise MissingExtraError("tokenizers", "open") from None
    alphabet = [*sorted(listed), _RAW_END]
    trainer = BpeTrainer(vocab_size=size, min_frequency=2, initial_alphabet=alphabet, show_progress=False)
    tokenizer = Tokenizer(BPE())
    words = (word for word in sorted(counts) for _ in range(counts[word]))
    tokenizer.train_from_iterator((run for word in words for run in runs(word, listed) if run), trainer)
    return tuple((left, right) for left, right in parse_json(tokenizer.to_str())["model"]["merges"])


def _merged(parts: Sequence[str], pair: tuple[str, str]) -> list[str]:
    """Return the parts of a word with every occurrence of the adjacent `pair` joined, from left to right."""
    made: list[str] = []
    index = 0
    while index < len(parts):
        step = 2 if tuple(parts[index : index + 2]) == pair else 1
        made.append("".join(parts[index : index + step]))
        index += step
    return made


def _written(piece: str) -> str:
    """Return a piece as a printable unit: a line break as `▁`, other unprintable or special characters escaped.

    These are written `\\uHEX;` with their code point: white space, what is not printable, `▁`, `<` and the backslash.
    """
    return "".join(END if one == _RAW_END else one if _is_plain(one) else f"\\u{ord(one):x};" for one in piece)


def _is_plain(character: str) -> bool:
    return character.isprintable() and not character.isspace() and character not in _MARKS


def _read(token: re.Match[str]) -> str:
    code, plain = token.groups()
    return chr(int(code, 16)) if code else plain or _LOST
