"""Minimal pairs constructed from templates and words: any number of them, by phenomenon, from a seed.

    # construction          changes           sentence: words with the same number agree, * is the one that is changed
    [templates]
    across-phrase           Number            det:1 person:1 de det:2 person:2 *act:1 .

    le directeur de les usines travaille .          le directeur de les usines travaillent .

    table = french_templates()                      or read_templates("mine.txt")
    pairs = template_pairs(table, 100, vocabulary=model.vocabulary, seed=1)
    extra = template_sentences(table, 5000, vocabulary=model.vocabulary)        to train on: never those of a pair

Nouns decide; what has their number takes their values. A pair is kept where only one reading is possible: the changed
form is never one that could be right, and some word shows which value the noun has. Whether the word that is changed
has been seen with its noun is no matter of luck: a hash of the two lemmas says whether a combination is for tests (half
of them), and sentences to train on have none of those, whatever the seeds.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from random import Random
from typing import TypeVar

from llrnn.ground.errors import CorpusError
from llrnn.ground.files import StrPath
from llrnn.inference.nbest import Words
from llrnn.inference.pairs import Pair
from llrnn.text.lexicon import Lexicon, is_comment
from llrnn.text.readers import Line, read_entries
from llrnn_lab.french.classes import word_classes
from llrnn_lab.french.lexicon import Word
from llrnn_lab.french.writing import spelled
from llrnn_lab.pairs.making import AGREEING, NOMINAL, agree
from llrnn_lab.pairs.suites import is_contracted

__all__ = ["TemplateTable", "french_templates", "read_templates", "template_pairs", "template_sentences"]

_PATIENCE = 1000  # tries in a row that give nothing new
_SECTIONS = ("templates", "words", "joins")
_SLOT = re.compile(r"(\*?)(\w[\w-]*):(\d+(?:\+\d+)*)")
_SHARED = ("Tense", "Mood")  # the same for all finite verbs of a sentence
_CLOSED = frozenset({"DET", "AUX", "ADP", "PRON"})  # words that go with every noun
T = TypeVar("T")
K = TypeVar("K")
_Values = tuple[tuple[str, str], ...]  # features and what they are


@dataclass(frozen=True, slots=True)
class TemplateSlot:
    """A place of a template: a class of words and the nouns that it agrees with, or (without any) the word itself."""

    name: str
    nouns: tuple[int, ...] = ()
    is_target: bool = False


@dataclass(frozen=True, slots=True)
class Template:
    """A construction, and the features in which its target is changed."""

    name: str
    features: tuple[str, ...]
    slots: tuple[TemplateSlot, ...]

    @property
    def target(self) -> int:
        return next(place for place, slot in enumerate(self.slots) if slot.is_target)


class TemplateTable:
    """Templates, the words of their classes, and how words are written beside each other (`joins`)."""

    def __init__(
        self,
        templates: Sequence[Template],
        words: Mapping[str, Sequence[Word]],
        joins: Callable[[Sequence[str], Container[str] | None], Sequence[str]] = lambda words, _: words,
    ) -> None:
        self.templates, self.words, self.joins = tuple(templates), words, joins
        self.readings: dict[str, list[Word]] = defaultdict(list)
        for word in {id(word): word for own in words.values() for word in own}.values():
            self.readings[word.form].append(word)
        self.nouns = frozenset(name for name, own in words.items() if own and own[0].pos in NOMINAL)

    def restricted(self, vocabulary: Container[str] | None, lexicon: Lexicon | None) -> TemplateTable:
        """Only words that the vocabulary lists, and about which a lexicon says the same where it knows them."""
        kept = {
            name: [word for word in own if _is_listed(word, vocabulary) and _is_said(word, lexicon)]
            for name, own in self.words.items()
        }
        found = TemplateTable(self.templates, kept, self.joins)
        found.nouns = self.nouns
        found.readings = self.readings  # a form that is not listed can still be what makes another one ambiguous
        return found


def _is_listed(word: Word, vocabulary: Container[str] | None) -> bool:
    return vocabulary is None or word.pos in _CLOSED or word.form in vocabulary


def _is_said(word: Word, lexicon: Lexicon | None) -> bool:
    known = frozenset[str]() if lexicon is None or word.pos in _CLOSED else lexicon(word.form)
    return not known or all(f"{name}:{word.feats[name]}" in known for name in AGREEING if name in word.feats)


# --- files


def french_templates() -> TemplateTable:
    """The templates that are shipped for French, with the words of the embedded grammar."""
    words: dict[str, list[Word]] = defaultdict(list)
    for name, word in word_classes():
        words[name].append(word)
    path = str(files("llrnn_lab.pairs").joinpath("french.templates"))
    return TemplateTable(read_templates(path, words=words).templates, words, _written_french)


def _written_french(words: Sequence[str], vocabulary: Container[str] | None) -> Sequence[str]:
    return spelled(words, contracted=is_contracted(vocabulary))


def read_templates(path: StrPath, *, words: Mapping[str, Sequence[Word]] | None = None) -> TemplateTable:
    """A table for any language, a text file of three parts; `words`: in place of the second.

    [templates]       construction, features that are changed (Number or Number,Gender), sentence
    simple            Number            det:1 person:1 *act:1 .
    [words]           class TAB form TAB lemma TAB part of speech TAB features, as UD names them
    person  voisines  voisine  NOUN  Gender=Fem|Number=Plur
    [joins]           words that are written otherwise beside each other
    de le = du
    """
    part, templates, found, joins = "", [], defaultdict(list), {}
    for line in read_entries(path):
        text = line.text.strip()
        if is_comment(text):
            continue
        if text.startswith("[") and text.endswith("]"):
            part = text[1:-1]
            if part not in _SECTIONS:
                line.fail(f"a part is one of {', '.join(_SECTIONS)}, found {part!r}; rename it")
        elif part == "templates":
            templates.append((line, _template(line)))
        elif part == "words":
            name, word = _word(line)
            found[name].append(word)
        elif part == "joins":
            before, _, after = text.partition("=")
            if len(before.split()) != 2 or not after.split():
                line.fail("two words, = and what they become are required, as in `de le = du`; correct the line")
            joins[tuple(before.split())] = after.split()
        else:
            line.fail("a part must begin first: write [templates], [words] or [joins] above")
    known = found if words is None else words
    for line, template in templates:
        _check(line, template, known)
    if not templates:
        raise CorpusError("at least one template is required, found none; write [templates] and some", path=path)
    return TemplateTable([template for _, template in templates], known, lambda words, _: _joined(words, joins))


def _joined(words: Sequence[str], joins: Mapping[tuple[str, ...], Sequence[str]]) -> Sequence[str]:
    found: list[str] = []
    for word in words:
        if found and (found[-1], word) in joins:
            found[-1:] = joins[found[-1], word]
        else:
            found.append(word)
    return found


def _template(line: Line) -> Template:
    name, features, *parts = (*line.text.split(), "", "") if len(line.text.split()) < 2 else line.text.split()
    slots = tuple(
        TemplateSlot(match[2], tuple(map(int, match[3].split("+"))), bool(match[1]))
        if (match := _SLOT.fullmatch(part))
        else TemplateSlot(part)
        for part in parts
    )
    if not slots or sum(slot.is_target for slot in slots) != 1:
        line.fail("a construction, the features that are changed, and a sentence with one * are required; write them")
    return Template(name, tuple(features.split(",")), slots)


def _word(line: Line) -> tuple[str, Word]:
    columns = line.text.split("\t")
    if len(columns) != 5:
        line.fail(f"5 columns (class form lemma part-of-speech features) are required, found {len(columns)}")
    name, form, lemma, pos, feats = (column.strip() for column in columns)
    values = [pair.partition("=") for pair in feats.split("|") if feats != "_"]
    if not name or not form or not all(key and value for key, _, value in values):
        line.fail("features are written Name=Value|Name=Value, or _ for none; correct the line")
    return name, Word(form, lemma, pos, {key: value for key, _, value in values})


def _check(line: Line, template: Template, words: Mapping[str, Sequence[Word]]) -> None:
    """Every class has words, and every number one noun that decides."""
    for slot in template.slots:
        if slot.nouns and not words.get(slot.name):
            line.fail(f"the class {slot.name!r} has no words; add some, or take one of {', '.join(sorted(words))}", 1)
    heads = Counter(slot.nouns for slot in template.slots if slot.nouns and words[slot.name][0].pos in NOMINAL)
    for number in {number for slot in template.slots for number in slot.nouns}:
        if heads[number,] != 1:
            line.fail(f"number {number} must stand on one noun, found {heads[number,]}; correct the template")


# --- sentences


@dataclass(frozen=True, slots=True)
class _Filled:
    """A template with words in its places; `shown` are the places whose word is written as it is listed."""

    template: Template
    words: tuple[Word | None, ...]
    heads: Mapping[int, int]  # the place of each noun by its number

    def forms(self, target: str | None = None) -> list[str]:
        own = (
            slot.name if word is None else word.form for slot, word in zip(self.template.slots, self.words, strict=True)
        )
        forms = list(own)
        if target is not None:
            forms[self.template.target] = target
        return forms

    def combinations(self) -> Iterator[tuple[int, str, str]]:
        """The place of each word that agrees, the lemma of a noun that it agrees with, and its own."""
        for place, (slot, word) in enumerate(zip(self.template.slots, self.words, strict=True)):
            if word is not None and word.pos not in NOMINAL | _CLOSED:
                for number in slot.nouns:
                    head = self.words[self.heads[number]]
                    assert head is not None
                    yield place, head.lemma, word.lemma


def is_for_tests(noun: str, other: str) -> bool:
    """Whether a combination of two lemmas is kept for tests: half of them, the same on every machine."""
    return bool(hashlib.sha256(f"{noun}\t{other}".encode()).digest()[0] & 1)


class _Maker:
    """Draws sentences from a table."""

    def __init__(self, table: TemplateTable, vocabulary: Container[str] | None, lexicon: Lexicon | None) -> None:
        self.table, self.vocabulary, self.lexicon = table.restricted(vocabulary, lexicon), vocabulary, lexicon
        self._values: dict[tuple[str, str], list[str]] = {}
        self._fitting: dict[tuple[str, _Values, _Values], list[Word]] = {}
        self._wrong_of: dict[tuple[str, int, str], Word | None] = {}

    def filled(self, template: Template, random: Random, feature: str) -> _Filled | None:
        """Words for all places, or None where nothing fits; nouns take each value of the feature alike often."""
        chosen: dict[int, Word] = {}
        heads = {}
        for place, slot in enumerate(template.slots):
            if slot.nouns and slot.name in self.table.nouns:
                heads[slot.nouns[0]] = place
                values = self.values(slot.name, feature)
                own = self.fitting(slot.name, ((feature, _one(values, random)),) if values else (), ())
                if not self._choose(chosen, place, own, random):
                    return None
        shared: tuple[tuple[str, str], ...] = ()
        for place, slot in enumerate(template.slots):
            if slot.nouns and place not in chosen:
                agreed = _agreed([chosen[heads[number]] for number in slot.nouns])
                if not self._choose(chosen, place, self.fitting(slot.name, agreed, shared), random):
                    return None
                shared = _shared(chosen[place]) or shared
        return _Filled(template, tuple(chosen.get(place) for place in range(len(template.slots))), heads)

    def values(self, name: str, feature: str) -> Sequence[str]:
        if (name, feature) not in self._values:
            own = self.table.words[name]
            self._values[name, feature] = sorted({word.feats[feature] for word in own if feature in word.feats})
        return self._values[name, feature]

    def fitting(self, name: str, values: _Values, shared: _Values) -> Sequence[Word]:
        """The words of a class that have no other values, nor others than the finite verbs of the sentence."""
        key = name, values, shared
        if key not in self._fitting:
            own = self.table.words[name]
            self._fitting[key] = [w for w in own if _fits(w, values) and (not _shared(w) or _fits(w, shared))]
        return self._fitting[key]

    def _choose(self, chosen: dict[int, Word], place: int, words: Sequence[Word], random: Random) -> bool:
        """One of the words, none of the same lemma twice in a sentence unless it is of a closed class."""
        used = {word.lemma for word in chosen.values() if word.pos not in _CLOSED}
        free = [word for word in words if word.lemma not in used]
        if free:
            chosen[place] = _one(free, random)
        return bool(free)

    def written(self, forms: Sequence[str]) -> Words | None:
        """The sentence, with a capital where the vocabulary has the first word so; None where it lists not all."""
        words = tuple(self.table.joins(forms, self.vocabulary))
        if self.vocabulary is None:
            return words
        capital = words[0].capitalize()
        words = (capital if capital in self.vocabulary else words[0], *words[1:])
        return words if all(word in self.vocabulary for word in words) else None

    def pair(self, template: Template, feature: str, random: Random) -> Pair | None:
        filled = self.filled(template, random, feature)
        if filled is None:
            return None
        place = template.target
        word, numbers = filled.words[place], template.slots[place].nouns
        assert word is not None
        tested = [is_for_tests(*lemmas) for where, *lemmas in filled.combinations() if where == place]
        bad = self._cached_wrong(template.slots[place].name, word, feature)
        if not any(tested) or bad is None or not self._shows(filled, numbers, feature):
            return None
        good, wrong = self.written(filled.forms()), self.written(filled.forms(bad.form))
        if good is None or wrong is None or sum(map(str.__ne__, good, wrong)) != 1 or len(good) != len(wrong):
            return None
        nearest = max(filled.heads[number] for number in numbers)
        return Pair(
            good,
            wrong,
            f"{template.name}-{feature.lower()}",
            distance=self._written_length(filled, nearest, place),
            distractors=self._distractors(filled, nearest, word.feats[feature], feature),
        )

    def _written_length(self, filled: _Filled, first: int, last: int) -> int:
        """How many words the one is behind the other, as they are written."""
        forms = filled.forms()
        return len(self.table.joins(forms[: last + 1], self.vocabulary)) - len(
            self.table.joins(forms[: first + 1], self.vocabulary)
        )

    def _distractors(self, filled: _Filled, first: int, value: str, feature: str) -> int:
        between = filled.words[first + 1 : filled.template.target]
        return sum(word is not None and word.pos in NOMINAL and word.feats.get(feature) != value for word in between)

    def _cached_wrong(self, name: str, word: Word, feature: str) -> Word | None:
        key = name, id(word), feature
        if key not in self._wrong_of:
            self._wrong_of[key] = self._wrong(name, word, feature)
        return self._wrong_of[key]

    def _wrong(self, name: str, word: Word, feature: str) -> Word | None:
        """The same word with another value, if its form cannot also be read as the right one."""
        value = word.feats.get(feature)
        for other in self.table.words[name]:
            same = other.lemma == word.lemma and {**other.feats, feature: value} == {**word.feats}
            if same and value is not None and other.feats.get(feature, value) != value:
                return None if self._could_be(other.form, word, feature) else other
        return None

    def _could_be(self, form: str, word: Word, feature: str) -> bool:
        own = (reading for reading in self.table.readings[form] if reading.pos not in NOMINAL)
        known = frozenset[str]() if self.lexicon is None else self.lexicon(form)
        return any(agree(reading.feats, word.feats) for reading in own) or f"{feature}:{word.feats[feature]}" in known

    def _shows(self, filled: _Filled, numbers: tuple[int, ...], feature: str) -> bool:
        """Whether a reader sees the value: the noun, or a word that agrees with it, is written only so."""
        if len(numbers) > 1:
            return feature == "Number"
        forms = filled.forms()
        for place, (slot, word) in enumerate(zip(filled.template.slots, filled.words, strict=True)):
            if word is not None and slot.nouns == numbers and place < filled.template.target and feature in word.feats:
                kept = self.table.joins(forms[place : place + 2], self.vocabulary)[0] == word.form
                readings = [r for r in self.table.readings[word.form] if r.pos == word.pos]
                values = {reading.feats.get(feature) for reading in readings} | self._said(word, feature)
                if kept and values == {word.feats[feature]}:
                    return True
        return False

    def _said(self, word: Word, feature: str) -> set[str | None]:
        """The values that the lexicon has for the form of a noun, of all its readings."""
        known = self.lexicon(word.form) if self.lexicon is not None and word.pos in NOMINAL else ()
        return {said.partition(":")[2] for said in known if said.startswith(f"{feature}:")}

    def sentence(self, template: Template, random: Random) -> Words | None:
        """One to train on: it has no combination of words that is kept for tests."""
        filled = self.filled(template, random, _one(template.features, random))
        if filled is None or any(is_for_tests(*lemmas) for _, *lemmas in filled.combinations()):
            return None
        return self.written(filled.forms())


def _one(items: Sequence[T], random: Random) -> T:
    return items[int(random.random() * len(items))]


def _agreed(nouns: Sequence[Word]) -> _Values:
    """What others take over from a noun; two together are plural."""
    if len(nouns) > 1:
        return (("Number", "Plur"),)
    return tuple((name, nouns[0].feats[name]) for name in AGREEING if name in nouns[0].feats)


def _shared(word: Word) -> _Values:
    """What all finite verbs of a sentence have in common with this one."""
    return tuple((name, word.feats[name]) for name in _SHARED if name in word.feats) if "Mood" in word.feats else ()


def _fits(word: Word, values: _Values) -> bool:
    return all(word.feats.get(name, value) == value for name, value in values)


def template_pairs(
    table: TemplateTable,
    count: int,
    *,
    vocabulary: Container[str] | None = None,
    lexicon: Lexicon | None = None,
    seed: int = 0,
) -> list[Pair]:
    """`count` pairs of each construction and feature, fewer where the words do not give as many.

    With a `vocabulary`, all words of both sentences are listed in it. A `lexicon` knows what forms can be: a word is
    left out where it contradicts the table, a changed form where it says that it could be right.

        pairs = template_pairs(french_templates(), 100, vocabulary=model.vocabulary, seed=1)
    """
    maker = _Maker(table, vocabulary, lexicon)
    pairs: dict[tuple[Words, Words], Pair] = {}
    named: dict[tuple[str, str], list[Template]] = defaultdict(list)
    for template in table.templates:
        for feature in template.features:
            named[template.name, feature].append(template)
    for (name, feature), templates in named.items():
        random = Random(f"pairs/{seed}/{name}/{feature}")
        draw = partial(_drawn_pair, maker, templates, feature, random)
        pairs |= _distinct(draw, lambda pair: (pair.good, pair.bad), count, f"the construction {name!r} ({feature})")
    return list(pairs.values())


def _drawn_pair(maker: _Maker, templates: Sequence[Template], feature: str, random: Random) -> Pair | None:
    return maker.pair(_one(templates, random), feature, random)


def template_sentences(
    table: TemplateTable,
    count: int,
    *,
    vocabulary: Container[str] | None = None,
    lexicon: Lexicon | None = None,
    seed: int = 0,
) -> list[Words]:
    """`count` different sentences to train on, of all constructions: none is one of `template_pairs`, of any seed.

    extra = template_sentences(french_templates(), 5000, vocabulary=model.vocabulary)
    """
    maker, random = _Maker(table, vocabulary, lexicon), Random(f"sentences/{seed}")
    found = _distinct(
        lambda: maker.sentence(_one(table.templates, random), random), lambda words: words, count, "every construction"
    )
    return list(found)


def _distinct(draw: Callable[[], T | None], key: Callable[[T], K], count: int, what: str) -> dict[K, T]:
    """Drawn until there are `count` different ones, or nothing new comes any more."""
    found: dict[K, T] = {}
    tries = 0
    while len(found) < count and tries < _PATIENCE:
        made = draw()
        tries = tries + 1 if made is None or key(made) in found else 0
        if made is not None:
            found.setdefault(key(made), made)
    if not found:
        raise CorpusError(f"{what} gives no sentence with these words; list more words, or leave it out")
    return found
