"""Hunspell dictionaries: lexicons and readings in the names of Universal Dependencies, and lists of forms.

    finir/f4() po:v2_it_q__a        hunspell lists stems, with flags and fields; with
    SFX f4 r t r po:ipre po:3sg     a rule of that flag the stem gives
    finit                           POS:VERB VerbForm:Fin Mood:Ind Tense:Pres Person:3 Number:Sing

`affixes` expands stems to forms. What the fields of the French dictionary mean stands in `tags/hunspell-fr.toml`; of
another language, fields and affixes have their own names. The attributes of a form are the union over its readings.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, islice
from os import fspath
from pathlib import Path

from llrnn.ground.errors import LexiconError
from llrnn.ground.files import StrPath
from llrnn.text.corpus import Corpus
from llrnn.text.lexicon import Lexicon, Readings
from llrnn.text.morphology import Analyser, attribute_value, lemma_attribute
from llrnn.text.readers import Line
from llrnn_morphology.affixes import AffixFile, Rule, encoding_of, read_encoded, split_flags
from llrnn_morphology.tags import tag_table

Fields = frozenset[str]
_NONE: Fields = frozenset()
MOST_FORMS = 650_000  # of a dictionary that makes millions
MOST_DERIVED = 50_000_000  # forms of a dictionary that are gone through; 15 million take minutes
_FEW = 1000  # forms, added to each ending's: one that makes a few is not likely because one of them was seen
_SAMPLED = 400  # entries of a dictionary that say how many forms all make


@dataclass(frozen=True, slots=True, eq=False)
class Tags:
    """The meaning of a hunspell dictionary's morphological fields, as attributes; see `FRENCH`.

    meanings    field such as `is:mas` -> attributes; a key that ends with `*` stands for every field that begins so
                (the longest such key counts). A field without a meaning adds nothing
    joins       fields that mark an affix as another word (`dp:` in French: l' + arbre); treebanks separate the two, so
                such affixes are not attached
    of_stem     corrects the fields of a stem by its spelling
    of_reading  corrects the fields of one reading (stem and affixes)

        Tags({"is:mas": ["Gender:Masc"], "po:v*": ["POS:VERB"]}).attributes(["is:mas"])
    """

    meanings: Mapping[str, Iterable[str]]
    joins: frozenset[str] = frozenset()
    of_stem: Callable[[str, Fields], Fields] = lambda stem, fields: fields
    of_reading: Callable[[Fields], Fields] = lambda fields: fields
    _beginnings: dict[str, frozenset[str]] = field(init=False, repr=False)
    _whole: Mapping[str, frozenset[str]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        checked = Lexicon.from_mapping(self.meanings).entries
        beginnings = {name.removesuffix("*"): known for name, known in checked.items() if name.endswith("*")}
        by_length = dict(sorted(beginnings.items(), key=lambda entry: -len(entry[0])))
        object.__setattr__(self, "_beginnings", by_length)
        object.__setattr__(self, "_whole", checked)

    def attributes(self, fields: Iterable[str]) -> frozenset[str]:
        """Return the union of the attributes of some fields."""
        return frozenset().union(*(self.meaning(name) or () for name in self.of_reading(frozenset(fields))))

    def meaning(self, name: str) -> frozenset[str] | None:
        """Return the attributes of one field, or None if it is not in the table."""
        begun = (known for start, known in self._beginnings.items() if name.startswith(start))
        return self._whole[name] if name in self._whole else next(begun, None)


class _AsWritten(Tags):
    """Fields and affixes under their own names, for languages without a table: `po:verb`, `Affix:-ler`; `Affix:-` for a
    stem without any.
    """

    def attributes(self, fields: Iterable[str]) -> frozenset[str]:
        return Tags.attributes(self, fields) or frozenset({"Affix:-"})

    def meaning(self, name: str) -> frozenset[str] | None:
        kind, _, value = name.partition(":")
        return frozenset({f"{kind}:{attribute_value(value)}"}) if value and kind != "st" else None


AS_WRITTEN = _AsWritten({})


def _french_meanings() -> dict[str, list[str]]:
    table = dict(tag_table("hunspell-fr", "categories"))
    for name in ("po", "is"):
        table |= {f"{name}:{value}": meant for value, meant in tag_table("hunspell-fr", "inflection").items()}
    return {name: meant.split() for name, meant in table.items()}


_NAMES = frozenset({"po:npr", "po:prn", "po:patr", "po:loc.patr"})
_THIRD_PERSON_OBJECTS = frozenset({"le", "la", "les", "l'"})
_SHORT = 3  # units and abbreviations: Pa, Hz, TVA


def _of_stem(stem: str, fields: frozenset[str]) -> frozenset[str]:
    if "po:nom" in fields and stem[0].isupper():
        # Countries, rivers, institutions are nouns here, with their gender; treebanks say PROPN (235 types to 6).
        # Abbreviations are half and half.
        either = stem.isupper() or len(stem) <= _SHORT
        return fields | {"po:npr"} if either else fields - {"po:nom"} | {"po:npr"}
    if "po:properobj" in fields and stem in _THIRD_PERSON_OBJECTS:
        return fields | {"po:3pe"}  # which the dictionary leaves out
    if stem == "faire" and "po:nom" not in fields:
        return fields | {"aux"}  # the causative
    return fields


def _of_reading(fields: frozenset[str]) -> frozenset[str]:
    if fields >= {"is:epi", "is:inv"} and "po:ppas" in fields:
        # A participle that never agrees (été, marché) is masculine singular in treebanks.
        return fields - {"is:epi", "is:inv"} | {"is:mas", "is:sg"}
    if fields & _NAMES and "po:nom" not in fields:
        # `epi` says of a name that the gender is unknown; `inv`, that it has no plural.
        return frozenset("is:sg" if field == "is:inv" else field for field in fields - {"is:epi"})
    return fields


# dp: and ds: mark l'arbre, qu'il, vas-y: two words of a treebank.
FRENCH = Tags(_french_meanings(), joins=frozenset({"dp", "ds"}), of_stem=_of_stem, of_reading=_of_reading)
_TAGS_BY_LANGUAGE = {"fr": FRENCH}


class Hunspell(Analyser):
    """Analyser of a hunspell dictionary of any language.

    Fields become Universal Dependencies attributes where their meaning is known (French), else they keep their names,
    and affixes are `Affix:-ler`, `Affix:re-`. The dictionary is read once for a whole table.

        Hunspell("/usr/share/hunspell/fr.dic").table(vocabulary.words)
    """

    def __init__(self, dic: StrPath) -> None:
        self._dic = Path(dic)

    def table(self, forms: Iterable[str]) -> Readings:
        found = hunspell_readings(self._dic, forms, lemmas=None, weight=1.0)
        return Readings({form: {one: 1 / len(own) for one in own} for form, own in found.entries.items()})

    def readings(self, form: str) -> Iterator[tuple[None, Iterable[str], float]]:
        return ((None, reading, weight) for reading, weight in self.table([form])(form).items())

    def forms(self, train: Corpus) -> tuple[dict[str, float], str | None]:
        """Return forms with weights, or stems if affixes cannot be attached, and the reason why not (else None)."""
        reason = why_not_expanded(self._dic)
        return (expanded_forms(self._dic, train) if reason is None else {}) or stems(self._dic), reason


def hunspell(
    dic: StrPath,
    *,
    aff: StrPath | None = None,
    tags: Tags | None = None,
    lowercase: bool = True,
    lemmas: bool = False,
    forms: Iterable[str] | None = None,
) -> Lexicon:
    """Return the lexicon of all forms of a hunspell dictionary, with attributes.

    dic         the `.dic` file
    aff         the affix file; by default the one beside it
    tags        the meaning of fields; by default that of the language in the file's name (`fr.dic`, `fr_FR.dic`)
    lowercase   whether forms are lowercased
    lemmas      add `Lemma:` with the stem (white space, commas and bars become `_`)
    forms       keep only these forms; a large dictionary makes millions

    Forms without attributes are left out.

        hunspell("/usr/share/hunspell/fr.dic", forms=vocabulary.words)
    """
    aff, normal = _beside(dic) if aff is None else aff, str.lower if lowercase else str
    tags, wanted = _tags_for(dic) if tags is None else tags, None if forms is None else frozenset(map(normal, forms))
    affixes, found = AffixFile(aff, without=tags.joins), dict[str, frozenset[str]]()
    for form, attributes in _derived(fspath(dic), affixes, tags, normal, lemmas, wanted):
        found[normal(form)] = found.get(normal(form), _NONE) | attributes
    shared: dict[frozenset[str], frozenset[str]] = {}  # equal sets of attributes are one object, since there are few
    return Lexicon({form: shared.setdefault(attributes, attributes) for form, attributes in found.items()})


def hunspell_readings(
    dic: StrPath, forms: Iterable[str], *, lemmas: Iterable[str] | None = (), weight: float = 0.2
) -> Readings:
    """Return the readings of forms in a hunspell dictionary, lowercased.

    dic         the `.dic` file
    forms       the forms to look up
    lemmas      lemmas that are added to readings as `Lemma:…`; None: all
    weight      of each reading, beside counted ones

    Fields and affixes keep their own names for languages without a table.

        hunspell_readings("/usr/share/hunspell/fr.dic", vocabulary.words, lemmas=["être", "avoir"])
    """
    tags = _tags_for(dic) if has_tags(dic) else AS_WRITTEN
    named = None if lemmas is None else frozenset(map(lemma_attribute, lemmas))
    found: dict[str, dict[frozenset[str], float]] = {}
    wanted = frozenset(map(str.lower, forms))
    affixes = AffixFile(_beside(dic), without=tags.joins)
    for form, attributes in _derived(str(dic), affixes, tags, str.lower, True, wanted):
        kept = frozenset(one for one in attributes if named is None or one in named or not one.startswith("Lemma:"))
        found.setdefault(form.lower(), {})[kept] = weight
    return Readings(found)


def _beside(dic: StrPath) -> str:
    name = fspath(dic)
    if not name.endswith(".dic"):
        raise LexiconError("a dictionary NAME.dic is required, or aff=, its file of affixes; give one", path=dic)
    return f"{name.removesuffix('.dic')}.aff"


def has_tags(dic: StrPath) -> bool:
    """Return whether the meaning of a dictionary's fields is known, by the language in its file name."""
    return re.split(r"[-_.]", Path(dic).name)[0] in _TAGS_BY_LANGUAGE


def _tags_for(dic: StrPath) -> Tags:
    language = re.split(r"[-_.]", Path(dic).name)[0]
    if not has_tags(dic):
        known = ", ".join(sorted(_TAGS_BY_LANGUAGE))
        reason = f"tags= is required for the language {language!r} (known: {known}); say what its fields mean"
        raise LexiconError(reason, path=dic)
    return _TAGS_BY_LANGUAGE[language]


def _derived(
    dic: str,
    file: AffixFile,
    tags: Tags,
    normal: Callable[[str], str],
    lemmas: bool,
    wanted: frozenset[str] | None,
) -> list[tuple[str, frozenset[str]]]:
    """Return the forms that have attributes, once for each reading, without forbidden ones."""
    found: list[tuple[str, frozenset[str]]] = []
    forbidden = {""}

    @cache  # few combinations for many forms
    def attributes_of(fields: frozenset[str], rules: tuple[Rule, ...]) -> frozenset[str]:
        return tags.attributes((*fields, *(field for rule in rules for field in (*rule.fields, rule.name))))

    for line in _entries(dic, file.encoding):
        stem, flags, fields = file.entry(line)
        if file.forbidden in flags:
            forbidden.add(stem)
            continue
        meant = tags.of_stem(stem, fields)
        lemma = _lemma(stem, fields, normal) if lemmas else _NONE
        for form, rules in file.derive(stem, flags):
            attributes = attributes_of(meant, rules) if wanted is None or normal(form) in wanted else _NONE
            if attributes:
                found.append((form, attributes | lemma))
    return [(form, attributes) for form, attributes in found if form not in forbidden]


def _lemma(stem: str, fields: frozenset[str], normal: Callable[[str], str]) -> frozenset[str]:
    given = {field.removeprefix("st:") for field in fields if field.startswith("st:")} - {""}
    return frozenset(lemma_attribute(normal(lemma)) for lemma in given or {stem})


def _entries(dic: str, encoding: str) -> Iterator[Line]:
    """Return the lines with words of a `.dic` file: without the first, a count, and lines that begin with a TAB."""
    lines = read_encoded(dic, encoding)
    first = next(lines, None)
    if first is None or not re.fullmatch(r"\s*[0-9]+\s*", first.text):
        reason = "the first line must be the number of words; was the file written by hunspell's tools?"
        (first or Line(dic, 1, "", LexiconError)).fail(reason)
    return (line for line in lines if line.text.strip() and not line.text.startswith("\t"))


# Lists of forms: which words a dictionary has, and how likely each is.


def _stems_with_flags(dic: Path) -> Iterator[tuple[Line, str, str | None]]:
    """Return each stem of a dictionary with its line and its flags."""
    for line in islice(read_encoded(dic, encoding_of(dic.with_suffix(".aff"))), 1, None):
        stem, flags = split_flags(line.text.split("\t")[0].strip())
        if stem:
            yield line, stem, flags


def stems(dic: Path) -> dict[str, float]:
    """Return the stems of a dictionary, lowercased, each with weight 1."""
    return dict.fromkeys(sorted({stem.lower() for _, stem, _ in _stems_with_flags(dic)}), 1.0)


def expanded_forms(dic: Path, train: Corpus) -> dict[str, float]:
    """Return forms with weights, made with the affixes that the training text uses most.

    p(form) ∝ (training words with this ending) / (forms with this ending). A dictionary may make fifteen million forms,
    so endings are taken in this order until there are `MOST_FORMS` forms.
    """
    counts = train.counts()
    made: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    for form, ending in _forms_with_endings(dic):
        made[ending] += 1
        seen[ending] += form in counts
    share = {ending: seen[ending] / (made[ending] + _FEW) for ending in made if seen[ending]}
    ranked = sorted(share, key=lambda ending: (-share[ending], ending))
    totals = list(accumulate(made[ending] for ending in ranked))
    kept = set(ranked[: bisect_right(totals, MOST_FORMS)])
    found: dict[str, float] = {}
    for form, ending in _forms_with_endings(dic):
        if ending in kept:
            found[form] = max(found.get(form, 0.0), share[ending])
    total = sum(found.values())
    return {form: value / total for form, value in found.items()}


def _forms_with_endings(dic: Path) -> Iterator[tuple[str, str]]:
    """Return every form that the dictionary makes, with its affixes joined by `+`; forms may repeat."""
    file = AffixFile(dic.with_suffix(".aff"))
    for line, stem, flags in _stems_with_flags(dic):
        for form, rules in file.derive(stem, file.flags(flags, line)):
            yield form.lower(), "+".join(rule.affix for rule in rules)


def why_not_expanded(dic: Path) -> str | None:
    """Return why affixes cannot be attached to a dictionary's stems (a faulty affix file, too many forms), or None.

    The number of forms is estimated from a sample of the entries.
    """
    try:
        file, entries = AffixFile(dic.with_suffix(".aff")), list(_stems_with_flags(dic))
        sample = entries[:: max(1, len(entries) // _SAMPLED)]
        most = MOST_DERIVED * len(sample) // max(1, len(entries))
        made = sum(1 for line, stem, flags in sample for _ in islice(file.derive(stem, file.flags(flags, line)), most))
    except LexiconError as error:
        return str(error)
    total = made * len(entries) // max(1, len(sample))
    return None if total <= MOST_DERIVED else f"its affixes make about {total:,} forms"
