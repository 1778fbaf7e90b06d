"""Tokenisers: from text as people write it to words, and back. A model keeps the one that its text was cut with.

    He said: "No."        ->        He said : " No . "        ->        He said: "No."

`Blanks` is for text that is cut already, `Learnt` for treebanks and tokenised text, `Unicode` for raw text: Unicode's
word boundaries (UAX 29) with clitics and abbreviations that the text itself gives evidence of. `PreTokeniser` is that
of a Hugging Face tokenizer, `TokenPieces` all of one; a class of one's own is named `module:Class`.
"""

from __future__ import annotations

import json
import math
import unicodedata
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from types import MappingProxyType
from typing import Any, ClassVar

import regex

from llrnn.ground.errors import ConfigError, quoted
from llrnn.ground.files import StrPath, parse_json, read_file
from llrnn.ground.plugins import find_kind
from llrnn.text.learnt import align, blanks_between, cut, cutting_examples, gap_examples, learn
from llrnn.text.vocabulary import EOS

__all__ = ["Blanks", "Learnt", "PreTokeniser", "SpacedWords", "TokenPieces", "Tokeniser", "Unicode", "restore"]

Plain = Mapping[str, Any]
Pair = tuple[str, Sequence[str]]  # a text and its words
_ENDS = frozenset(".!?…。！？।॥؟۔።")
_CLOSING, _EITHER = frozenset("’”»›)]}」』）"), frozenset("\"'")
JOINER = "\u2060"  # WORD JOINER, which nobody sees: no word ends here
_QUOTES = ("'", "’")
_OPENING, _CLOSED = frozenset("([{«‹„“¿¡"), frozenset(".,;:!?…)]}»›”%") | _ENDS
_EVIDENCE, _PARTNERS, _LONGEST = 0.0003, 3, 5  # of clitics: share of words, different hosts; letters at most
_ABBREVIATION, _SHORT = 0.3, 4  # Kiss and Strunk (2006); letters at most
_ENOUGH = 4000  # sentences to learn blanks from
_EMPTY, NO_TOKEN = "\\-", "\\?"  # symbols of tokens of a language model; no escape begins so
_DOTLESS = 0.005  # of the characters are ı, or more, in Turkish and its kin
_LOWER, _UPPER = str.maketrans({"İ": "i", "I": "ı"}), str.maketrans({"i": "İ"})  # Unicode has the capital of ı


class SpacedWords(tuple[str, ...]):
    """The words of a text as a tuple, which remembers before which of them a blank stood (`blanks`, one bool a word).

    `SpacedWords(["No", "."], [False, False])` is written `No.`; `part(start, end)` are words[start:end] with their
    blanks, none before the first.
    """

    blanks: tuple[bool, ...]

    def __new__(cls, words: Iterable[str] = (), blanks: Iterable[bool] = ()) -> SpacedWords:
        made = super().__new__(cls, words)
        made.blanks = tuple(blanks)
        return made

    def part(self, start: int, end: int) -> SpacedWords:
        return SpacedWords(self[start:end], (False, *self.blanks[start + 1 : end]))


class Tokeniser(ABC):
    r"""Base class of tokenisers: they cut text into words, and write words as text; models keep theirs as plain data.

    A subclass implements `tokenise`, and `settings` if it takes arguments; `kind` is its name, empty for a user's
    class; `dotless` is whether I is the capital of ı, and İ that of i, as in Turkish; `contractions`: words that the
    text writes as one, {"de/ADP le/DET": "du"}.

    class Signs(Tokeniser):
        def tokenise(self, text):
            return found(text, re.findall(r"\w+|[^\w\s]", text))
    """

    kind: ClassVar[str] = ""
    has_blanks: ClassVar[bool] = False  # whether words have their blanks within them, as tokens of a language model
    dotless: bool = False  # whether I is the capital of ı, and İ that of i, as in Turkish
    contractions: Mapping[str, str] = MappingProxyType({})  # of a treebank: {"de/ADP le/DET": "du"}

    def lower(self, word: str) -> str:
        """Return a word, or a text, in lowercase; by the rules of Turkish (I becomes ı) where `self.dotless`."""
        return (word.translate(_LOWER) if self.dotless else word).lower()

    @abstractmethod
    def tokenise(self, text: str) -> Sequence[str]:
        """Return the words of a text in order; as `SpacedWords`, if they are to be written with the blanks they had.

        [] or () for a text without any.
        """

    def detokenise(self, words: Sequence[str]) -> str:
        """Return words as one text: `SpacedWords` with the blanks that they had, others with a blank between all."""
        return spaced(words, words.blanks if isinstance(words, SpacedWords) else [True] * len(words))

    def capitalised(self, words: Sequence[str]) -> Sequence[str]:
        """Return lowercase words with the capitals that they probably have; here unchanged, since nothing is known.

        Subclasses that have learnt capitals override it.
        """
        return words

    def settings(self) -> dict[str, Any]:
        """Return the keyword arguments that the tokeniser is made with, as data that JSON can write; here none."""
        return {}

    def saved(self) -> dict[str, Any]:
        """Return the tokeniser as data that JSON can write, with `kind` and its settings; `restore` makes it anew.

        The `kind` of a user's class is `module:Class`.
        """
        return {"kind": self.kind or f"{type(self).__module__}:{type(self).__qualname__}", **self.settings()}

    def sentences(self, text: str) -> Iterator[SpacedWords]:
        """Yield the words of each sentence of a text; one ends at `.`, `!` or the like unless a lowercase word follows.

        Closing quotes and brackets belong to it. `Dr.` ends none where the tokeniser takes it for one word. The last
        sentence need not end so.
        """
        words = self.tokenise(text)
        words = words if isinstance(words, SpacedWords) else SpacedWords(words, [True] * len(words))
        begin, ended = 0, False
        for i, word in enumerate(words):
            closes = word in _CLOSING or (word in _EITHER and not words.blanks[i])
            if ended and not _ENDS.issuperset(word) and not closes:
                if not word[0].islower() and i - begin > 1:
                    yield words.part(begin, i)
                    begin = i
                ended = False
            ended = ended or _ENDS.issuperset(word)
        if begin < len(words):
            yield words.part(begin, len(words))


def spaced(words: Iterable[str], blanks: Iterable[bool]) -> str:
    """Return words as one text, with a blank before each word whose entry in `blanks` is true; ends are stripped."""
    return "".join(f" {word}" if blank else word for word, blank in zip(words, blanks, strict=True)).strip()


def found(text: str, words: Sequence[str]) -> SpacedWords:
    """Return the words of a text with the information before which of them a blank stands in it.

    A ConfigError unless the text is these words in order, with one blank or none between them.
    """
    spans = align(text, words)
    if spans is None:
        raise ConfigError(f"the words must be those of the text {text!r} in order, found {words!r}")
    ends = [0, *(end for _, end in spans)]
    return SpacedWords(words, (start > end for (start, _), end in zip(spans, ends, strict=False)))


class Blanks(Tokeniser):
    """A tokeniser for text that is cut already: words are what stands between blanks, and are written so.

    `dotless`: whether I is the capital of ı, and İ that of i, as in Turkish.
    """

    kind = "blanks"

    def __init__(self, dotless: bool = False) -> None:
        self.dotless = dotless

    def settings(self) -> dict[str, Any]:
        return {"dotless": True} if self.dotless else {}

    def tokenise(self, text: str) -> Sequence[str]:
        return text.split()


class Casing:
    """Probabilities of written forms (`Paris`, `PARIS`) given a word in lowercase and whether it begins a sentence.

    Made by `Casing.fit(sentences)`, lists of words, from counts inside sentences (the first word not counted). `forms`:
    word in lowercase -> {form: count}, of words that are not always lowercase; `shares`: three probabilities of
    lowercase, capitalised and upper-case forms of any word; `first`: the share of sentences that begin with a capital;
    `dotless`: whether I is the capital of ı, and İ that of i, as in Turkish.

        p(form | word) = (count of the form + share of its shape) / (count of the word in `forms`, or 0, + 1)

    At the beginning of a sentence the part `first` of the lowercase form's probability goes to the capitalised one.
    """

    def __init__(
        self, forms: Mapping[str, Mapping[str, int]], shares: Sequence[float], first: float, dotless: bool = False
    ) -> None:
        self.forms, self.shares, self.first, self.dotless = forms, shares, first, dotless
        self.lower = Blanks(dotless).lower

    @classmethod
    def fit(cls, sentences: Sequence[Sequence[str]]) -> Casing:
        dotless = is_dotless(sentences)
        inside, lower = defaultdict[str, Counter[str]](Counter), Blanks(dotless).lower
        capital = total = 0
        for words in sentences:
            start = first_word(words)
            for place, word in enumerate(words):
                if place > start:
                    inside[lower(word)][word] += 1
            if start < len(words):
                capital, total = capital + (words[start] != lower(words[start])), total + 1
        shapes = Counter[int]()
        for word, own in inside.items():
            for form, n in own.items():
                shapes[0 if form == word else 2 if form == form.upper() and len(form) > 1 else 1] += n
        kept = {word: dict(own) for word, own in sorted(inside.items()) if own.keys() != {word}}
        shares = [(1 + shapes[shape]) / (3 + shapes.total()) for shape in range(3)]
        return cls(kept, shares, capital / max(1, total), dotless)

    def p(self, form: str, *, first: bool = False) -> float:
        """Return the probability, 0 to 1, of a written form such as `Paris`, given the word in lowercase.

        The probabilities of all forms of a word sum to 1; 0 for a form that is neither lowercase, capitalised nor in
        capitals, and was not seen. `first`: whether it is the first word of a sentence.
        """
        return self._distribution(self.lower(form), first).get(form, 0.0)

    def best(self, word: str, *, first: bool = False) -> str:
        """Return the likeliest written form, such as `Paris`, of a word given in lowercase.

        `first`: whether it is the first word of a sentence.
        """
        likely = self._distribution(word, first)
        return max(likely, key=likely.__getitem__)

    def _distribution(self, word: str, first: bool) -> dict[str, float]:
        counts, found = self.forms.get(word, {}), dict[str, float]()
        for form, share in (*zip(self._shaped(word), self.shares, strict=True), *counts.items()):
            found[form] = found.get(form, 0.0) + share
        found = {form: share / (1 + sum(counts.values())) for form, share in found.items()}
        if first:
            capital, moved = self._shaped(word)[1], self.first * found[word]
            found[word] -= moved
            found[capital] = found.get(capital, 0.0) + moved
        return found

    def written(self, words: Sequence[str]) -> list[str]:
        """Return the likeliest written forms of the lowercase words of a sentence, in order.

        The first word that has letters counts as the first of the sentence.
        """
        start = first_word(words)
        return [self.best(word, first=place == start) for place, word in enumerate(words)]

    def settings(self) -> dict[str, Any]:
        own = {"forms": self.forms, "shares": list(self.shares), "first": self.first}
        return {**own, "dotless": True} if self.dotless else own

    def _shaped(self, word: str) -> tuple[str, str, str]:
        """Return a lowercase word as it is, capitalised at its first letter, and in capitals."""
        letter = next((place for place, one in enumerate(word) if one.isalpha()), 0)
        upper = word.translate(_UPPER) if self.dotless else word
        capital = word[:letter] + (upper[letter : letter + 1] + word[letter + 1 :]).capitalize()
        return word, unicodedata.normalize("NFC", capital), unicodedata.normalize("NFC", upper.upper())


def is_dotless(sentences: Iterable[Iterable[str]]) -> bool:
    """Return whether the words of sentences are of a language with ı beside i, such as Turkish.

    That is, more than 0.5 % of their characters are ı. Words may be lowercased or not; False if there are none.
    """
    text = "".join(chain.from_iterable(sentences))
    return text.count("ı") > _DOTLESS * len(text)


def first_word(words: Sequence[str]) -> int:
    """Return the index of the first word that has a letter with two cases; the number of words if there is none."""
    return next((place for place, word in enumerate(words) if word.lower() != word.upper()), len(words))


class Writer(Tokeniser):
    """Base class of tokenisers whose way of writing words as text is learnt; subclasses implement `cut`.

    `gaps`: weights, by feature name, of the perceptron that decides where blanks stand; `casing`: arguments of
    `Casing`, which puts capitals on lowercase words, as a dict; None: words keep their case. The text that it writes of
    words it cuts into the same words: where it would not, a blank is added, or inside a word a WORD JOINER (U+2060).
    """

    def __init__(self, gaps: Mapping[str, float], casing: Plain | None = None) -> None:
        self.gaps, self.casing = gaps, None if casing is None else Casing(**casing)
        self.dotless = self.casing is not None and self.casing.dotless

    def settings(self) -> dict[str, Any]:
        return {"gaps": self.gaps, "casing": None if self.casing is None else self.casing.settings()}

    def tokenise(self, text: str) -> SpacedWords:
        text = " ".join(text.split())
        held = {place - n for n, place in enumerate(i for i, one in enumerate(text) if one == JOINER)}
        text = text.replace(JOINER, "")
        return found(text, _rejoined(text, self.cut(text), held) if held else self.cut(text))

    def capitalised(self, words: Sequence[str]) -> Sequence[str]:
        if self.casing is None:
            return words
        written = self.casing.written(words)
        return SpacedWords(written, words.blanks) if isinstance(words, SpacedWords) else written

    @abstractmethod
    def cut(self, text: str) -> list[str]:
        """Return the words of a text in order; `text` has single blanks only, and none at its ends."""

    def detokenise(self, words: Sequence[str]) -> str:
        if isinstance(words, SpacedWords):
            return super().detokenise(words)
        blanks = natural = blanks_between(words, self.gaps)
        for _ in range(2):
            wrong = self._misread(words, blanks)
            if not wrong:
                return spaced(words, blanks)
            blanks = [blank or i in wrong or i - 1 in wrong for i, blank in enumerate(blanks)]
        text = spaced(self._held(words, natural), natural)  # blanks are of no use around a word that is cut inside
        return text if [*self.tokenise(text)] == [*words] else spaced(self._held(words, blanks), blanks)

    def _held(self, words: Sequence[str], blanks: Sequence[bool]) -> Sequence[str]:
        """Return the words with a WORD JOINER (U+2060) in each place where this tokeniser would cut one in two.

        `blanks`: for each word whether a blank stands before it in the text.
        """
        text = spaced(words, blanks)
        starts = {start for start, _ in align(text, self.cut(text)) or ()}
        spans = align(text, words) or [(0, 0)] * len(words)
        return [
            "".join(JOINER + one if i and start + i in starts else one for i, one in enumerate(word))
            for word, (start, _) in zip(words, spans, strict=True)
        ]

    def _misread(self, words: Sequence[str], blanks: Sequence[bool]) -> set[int]:
        text = spaced(words, blanks)
        read = {*(align(text, self.cut(text)) or ())}
        return {i for i, span in enumerate(align(text, words) or ()) if span not in read}


def _rejoined(text: str, words: Sequence[str], held: set[int]) -> list[str]:
    spans = [span for span in align(text, words) or () if span[0] not in held]
    ends = [start - text.startswith(" ", start - 1) for start, _ in spans[1:]]
    return [text[start:end] for (start, _), end in zip(spans, [*ends, len(text)], strict=True)]


def joined_by_rule(words: Sequence[str]) -> str:
    """Return tokenised words as text by fixed rules, where nothing is known of its blanks.

    No blank stands before a word that begins with `.` and its like, after `(` and its like, inside quotes at their
    ends, and after `l'` or before `'s`; elsewhere a blank stands between words.
    """
    quotes: Counter[str] = Counter()
    blanks = []
    for before, word in pairwise(("(", *words)):
        quotes.update([before] if before in _EITHER else [])
        opened = before in _OPENING or (before in _EITHER and quotes[before] % 2)
        closed = word[0] in _CLOSED or (word in _EITHER and quotes[word] % 2)
        elided = (before[-1] in _QUOTES or word[0] in _QUOTES) and min(len(before), len(word)) > 1
        blanks.append(not (opened or closed or elided))
    return spaced(words, blanks)


class Learnt(Writer):
    """A tokeniser learnt from texts whose words are known, such as a treebank; made by `fit`.

    `cuts`: weights, by feature name, of the perceptron that decides where words end; `joined`: whether a word may have
    a blank (`20 000`); `gaps` and `casing`: how words are written as text, as in `Writer`; `contractions`: words that
    the text writes as one, {"de/ADP le/DET": "du"}.

    tokeniser = Learnt.fit((sentence.text, sentence.words) for sentence in treebank)
    """

    kind = "learnt"

    def __init__(
        self,
        cuts: Mapping[str, float],
        joined: bool,
        gaps: Mapping[str, float],
        casing: Plain | None = None,
        contractions: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(gaps, casing)
        self.cuts, self.joined, self.contractions = cuts, joined, contractions or {}

    @classmethod
    def fit(cls, pairs: Iterable[Pair]) -> Learnt:
        """Return a tokeniser learnt from (text, words) pairs; pairs that do not fit together are ignored.

        A pair fits if the text is the words in order, with one blank or none between them. A ConfigError if none does.
        """
        kept = [(text, words) for text, words in pairs if align(text, words)]
        if not kept:
            raise ConfigError("texts with their words are required to learn a tokeniser from, found none")
        joined = any(" " in word for _, words in kept for word in words)
        texts = _with_followers(kept)
        cuts = learn([example for text, words in texts for example in cutting_examples(text, words, joined)], once=True)
        return cls(cuts, joined, **_writing(kept))

    def settings(self) -> dict[str, Any]:
        own = {"cuts": self.cuts, "joined": self.joined, **super().settings()}
        return {**own, "contractions": dict(self.contractions)} if self.contractions else own

    def cut(self, text: str) -> list[str]:
        return cut(text, self.cuts, self.joined)


def _with_followers(pairs: Sequence[Pair]) -> Iterator[Pair]:
    """Yield (text, words) pairs, and one in eight once more as one text with the next: its full stop does not end it.

    A treebank's texts are single sentences, in which a full stop within the text would always be an abbreviation's.
    """
    yield from pairs
    for i in range(0, len(pairs) - 1, 8):
        (text, words), (following, others) = pairs[i : i + 2]
        yield f"{text} {following}", [*words, *others]


def _writing(pairs: Sequence[Pair]) -> dict[str, Any]:
    casing = Casing.fit([words for _, words in pairs])
    gaps = learn([example for text, words in pairs[:_ENOUGH] for example in gap_examples(text, words)])
    return {"gaps": gaps, "casing": casing.settings()}


class Unicode(Writer):
    """A tokeniser for raw text of any script, by Unicode's word boundaries; made by `fit`, or `evident`.

    `clitics`, in lowercase, are cut off words (`l'`, `'s`, `-il`), given with how many different words they occur with;
    `abbreviations`, in lowercase and with it, keep their full stop; `gaps` and `casing`: how words are written as text,
    as in `Writer`.

        tokeniser = Unicode.fit(["It rained. I'll wait."])
    """

    kind = "unicode"

    def __init__(
        self,
        clitics: Mapping[str, int] | None = None,
        abbreviations: Sequence[str] = (),
        gaps: Mapping[str, float] | None = None,
        casing: Plain | None = None,
    ) -> None:
        super().__init__(gaps or {"": 1.0}, casing)
        self.clitics, self.abbreviations = clitics or {}, frozenset(abbreviations)

    @classmethod
    def evident(cls, lines: Iterable[str]) -> Unicode:
        """Return a tokeniser with the clitics and abbreviations found in lines of raw text.

        When it writes words as text, it puts a blank between all of them, and changes no case.
        """
        whole = [_segments(line) for line in lines]
        return cls(_clitics(whole), [*_abbreviations(whole)])

    @classmethod
    def fit(cls, lines: Iterable[str]) -> Unicode:
        """Return a tokeniser with clitics, abbreviations, blanks and capitals learnt from lines of raw text."""
        texts = list(lines)
        found = cls.evident(texts)
        pairs = [(spaced(one, one.blanks), one) for text in texts for one in found.sentences(text)]
        return cls(found.clitics, sorted(found.abbreviations), **_writing(pairs))

    def settings(self) -> dict[str, Any]:
        return {"clitics": self.clitics, "abbreviations": sorted(self.abbreviations), **super().settings()}

    def cut(self, text: str) -> list[str]:
        made, before = list[str](), " "
        for word in _segments(text):
            if word in _STOPS and f"{before.lower()}{word}" in self.abbreviations:
                made[-1] += word
            elif word[0] in _QUOTES and len(word) > 1 and word.lower() not in self.clitics:
                made += [word[0], *self._without_clitics(word[1:])]  # the library takes 'Is for one word
            elif word != " ":
                made += self._without_clitics(word)
            before = word
        return made

    def _without_clitics(self, word: str) -> list[str]:
        own, host = max(_parts(word), key=lambda pair: self.clitics.get(pair[0].lower(), 0), default=("", ""))
        if own.lower() not in self.clitics:
            return [word]
        left = self._without_clitics(host)
        return [own, *left] if word.startswith(own) and word.endswith(host) else [*left, own]


_SIGN = regex.compile(r"(?<=\w)['’‐-](?=\w)")
_SEGMENT = regex.compile(r"(?V1w)\b")
_MERGED = regex.compile(r"(?<=\p{L}|\p{N})[‐-](?=\p{L}|\p{N})|(?<=([.!?…–—*_=-]))\1")
_STOPS = (".", *_QUOTES)


def _segments(text: str) -> list[str]:
    """Return the pieces of a text at Unicode's word boundaries, with a piece " " for each blank and for the end.

    Compounds with a hyphen and repeated signs (`...`) are one piece: `_segments("so-so, yes")` is ["so-so", ",", " ",
    "yes", " "].
    """
    return [piece for chunk in text.split() for piece in (*_pieces(chunk), " ")]


def _pieces(chunk: str) -> list[str]:
    joined = {place for sign in _MERGED.finditer(chunk) for place in (sign.start(), *([] if sign[1] else [sign.end()]))}
    starts = [place for one in _SEGMENT.finditer(chunk) if (place := one.start()) not in joined and place < len(chunk)]
    return [chunk[start:end] for start, end in zip(starts, [*starts[1:], len(chunk)], strict=True)]


def _parts(word: str) -> list[tuple[str, str]]:
    """Return the (possible clitic, rest of the word) pairs of a word: before and after each apostrophe or hyphen in it.

    `l'eau` has ("l'", "eau") and ("'eau", "l"); empty for a word without such a sign.
    """
    signs = [sign.span() for sign in _SIGN.finditer(word)]
    return [pair for a, b in signs for pair in ((word[:b], word[b:]), (word[a:], word[:a]))]


def _clitics(texts: Sequence[Sequence[str]]) -> dict[str, int]:
    """Return {clitic in lowercase: number of its hosts} of the clitics found in texts, such as `l'` and `'s`.

    A host is the rest of the word, which must also occur alone in lowercase; a clitic has 3 hosts or more, at most 5
    letters and its sign, and occurs 3 times and in 0.03 % of the words or more. `texts`: pieces of each line, from
    `_segments`.
    """
    counts = Counter(word for words in texts for word in words if word != " ")
    hosts: dict[str, set[str]] = defaultdict(set)
    for word in counts:
        for part, host in _parts(word):
            if len(part) <= _LONGEST + 1 and host in counts and host.islower():
                hosts[part.lower()].add(host)
    often: Counter[str] = Counter()
    for word, count in counts.items():
        named = [part.lower() for part, _ in _parts(word)]
        often.update({max(named, key=lambda part: len(hosts.get(part, ()))): count} if named else {})
    least = max(_PARTNERS, _EVIDENCE * counts.total())
    return {part: len(own) for part, own in sorted(hosts.items()) if len(own) >= _PARTNERS and often[part] >= least}


def _abbreviations(texts: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield abbreviations found in texts, with their sign: words that nearly always have a full stop or apostrophe.

    They are in lowercase, such as `dr.`, of 4 letters at most, and have a score of 0.3 or more after Kiss and Strunk
    (2006). `texts`: pieces of each line, from `_segments`; the last word of a line is no evidence.
    """
    alone: Counter[str] = Counter()
    stopped: dict[str, Counter[str]] = {sign: Counter() for sign in _STOPS}
    for words in texts:
        for word, after in pairwise(words[:-3]):  # the end of a line is no evidence
            if word != " ":
                stopped.get(after, alone)[word.lower()] += 1
    for sign, counts in stopped.items():
        share = counts.total() / max(1, counts.total() + alone.total())
        yield from (f"{word}{sign}" for word, n in counts.items() if _is_short(word, n, alone[word], share))


def _is_short(word: str, with_stop: int, alone: int, share: float) -> bool:
    letters = len(word.replace(".", ""))
    if with_stop < 2 or letters > _SHORT or not word[-1].isalpha() or share >= 1:
        return False
    expected = with_stop * math.log(share) + alone * math.log(1 - share)
    likelihood = with_stop * math.log(0.99) + alone * math.log(0.01)
    rarely_alone = float(letters) ** -min(alone, 100)
    return 2 * (likelihood - expected) * math.exp(-letters) * (1 + word.count(".")) * rarely_alone >= _ABBREVIATION


class PreTokeniser(Writer):
    """A tokeniser by the pre-tokeniser of a Hugging Face tokenizer (`tokenizer.json`); made by `fit`.

    Words are its pieces without the blanks around them. `pre_tokenizer`: that part of the file, as a dict; `gaps` and
    `casing`: how words are written as text, as in `Writer`. Needs the package tokenizers.
    """

    kind = "huggingface"

    def __init__(self, pre_tokenizer: Plain, gaps: Mapping[str, float], casing: Plain | None = None) -> None:
        from tokenizers import Tokenizer

        super().__init__(gaps, casing)
        model = {"type": "WordLevel", "vocab": {}, "unk_token": ""}
        made = {"version": "1.0", "added_tokens": [], "model": model, "pre_tokenizer": pre_tokenizer}
        names = ("truncation", "padding", "normalizer", "post_processor", "decoder")
        self._given = pre_tokenizer
        self._made = Tokenizer.from_str(json.dumps(made | dict.fromkeys(names))).pre_tokenizer

    @classmethod
    def fit(cls, path: StrPath, lines: Iterable[str]) -> PreTokeniser:
        """Return a tokeniser with the pre-tokeniser of the file `path`, and blanks and capitals learnt from lines.

        A ConfigError if the file is no `tokenizer.json` with a pre-tokeniser.
        """
        try:
            given = parse_json(read_file(path))["pre_tokenizer"]
        except (OSError, ValueError, TypeError, KeyError) as error:
            other = "another file" if not isinstance(error, OSError) else str(error.strerror).lower()
            raise ConfigError(
                f"{path}: the tokenizer.json of a Hugging Face tokenizer with a pre-tokeniser is required, found "
                f"{other}; name one, or leave `tokeniser` to init"
            ) from None
        own = restore({"kind": cls.kind, "pre_tokenizer": given, "gaps": {"": 1.0}})
        assert isinstance(own, PreTokeniser)
        texts = [" ".join(line.split()) for line in lines]
        return cls(own._given, **_writing([(text, own.tokenise(text)) for text in texts]))

    def settings(self) -> dict[str, Any]:
        return {"pre_tokenizer": self._given, **super().settings()}

    def cut(self, text: str) -> list[str]:
        spans = (span for _, span in self._made.pre_tokenize_str(text))
        return [word for start, end in spans if (word := text[start:end].strip())]


class TokenPieces(Tokeniser):
    """The tokeniser of a language model, as its `tokenizer.json` describes it: words are its tokens, as `symbol_of`.

    A text is one sentence, with all its blanks and line breaks, and special tokens in it are text; what is written of
    tokens is what they spell. `file`: the path of that file. Needs the package tokenizers.

        TokenPieces("lm/tokenizer.json").tokenise("He slept.")  # ("He", "Ġslept", ".")
    """

    kind, has_blanks = "pieces", True

    def __init__(self, file: str) -> None:
        from tokenizers import Tokenizer

        self.file = file
        self._made = Tokenizer.from_str(read_file(file).decode())
        self._made.encode_special_tokens = True
        self._made.no_truncation()
        self._made.no_padding()

    def settings(self) -> dict[str, Any]:
        return {"file": self.file}

    def tokenise(self, text: str) -> tuple[str, ...]:
        return tuple(map(symbol_of, self._made.encode(text, add_special_tokens=False).tokens))

    def detokenise(self, words: Sequence[str]) -> str:
        tokens = [token_of(word) for word in words]
        return self._made.decoder.decode(tokens) if self._made.decoder else " ".join(tokens)

    def lower(self, word: str) -> str:
        raise ConfigError(f"tokens of a language model have no lowercase, found {word!r}; leave `lowercase` out")

    def sentences(self, text: str) -> Iterator[SpacedWords]:
        words = self.tokenise(text)
        if words:
            yield SpacedWords(words, [False] * len(words))


def symbol_of(token: str) -> str:
    r"""Return a token as a printable symbol: white space and the like are escaped as in Python, "\n" or "\x20".

    The empty token is "\-", and a token that looks like EOS "\x3c/s>".

        symbol_of(" a")
    """
    if token == EOS:
        return "\\x3c/s>"
    return "".join(map(_escaped, token)) or _EMPTY


def token_of(symbol: str) -> str:
    """Return the token that a symbol of `vocabulary_of` stands for: the inverse of `symbol_of`.

    EOS stays EOS; a symbol such as "\\?17", which stands for an id without a token, gives "".

        token_of(symbol_of(" a"))  # " a"
    """
    if symbol == _EMPTY or symbol.startswith(NO_TOKEN):
        return ""
    return symbol.encode("latin-1", "backslashreplace").decode("unicode_escape")


def _escaped(character: str) -> str:
    if character.isprintable() and not character.isspace() and character != "\\":
        return character
    escaped = character.encode("unicode_escape").decode("ascii")
    return escaped if escaped != character else f"\\x{ord(character):02x}"  # a blank


KINDS: dict[str, type[Tokeniser]] = {one.kind: one for one in (Blanks, Learnt, Unicode, PreTokeniser, TokenPieces)}


def restore(data: Plain) -> Tokeniser:
    """Return the tokeniser that the data of `Tokeniser.saved` describe: a dict of `kind` and settings.

    A ConfigError if there is no such kind, or the settings do not fit it.
    """
    kind = str(data.get("kind"))
    made = KINDS.get(kind) or find_kind("tokenisers", kind, Tokeniser)
    if made is None:
        raise ConfigError(f"a tokeniser is {', '.join(KINDS)} or module:Class, found {kind!r}; correct it")
    try:
        restored: Tokeniser = made(**{key: value for key, value in data.items() if key != "kind"})
        restored.detokenise(restored.capitalised(restored.tokenise("A, b")))  # what it was given can be used
    except ImportError:
        raise
    except Exception as error:  # `tokenizers` raises no other
        raise ConfigError(f"the tokeniser {kind!r} cannot be made of what was saved: {quoted(error)}") from None
    return restored
