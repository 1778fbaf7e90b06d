"""A hunspell dictionary as a lexicon: every form of every stem, with what the fields of stem and affixes say.

    finir/f4() po:v2_it_q__a        the stem, its flags, its fields; with
    SFX f4 r t r po:ipre po:3sg     a rule of that flag it gives
    finit                           POS:VERB VerbForm:Fin Mood:Ind Tense:Pres Person:3 Number:Sing

The attributes of a form are the union over its readings, as everywhere in this library.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from os import fspath, stat
from pathlib import Path

from llrnn.ground.errors import LexiconError
from llrnn.text.analysers.affix_file import AffixFile, read_affix_file, split_flags
from llrnn.text.analysers.affixes import Flags, Rule
from llrnn.text.analysers.french import FRENCH
from llrnn.text.analysers.lines import Line, read_encoded
from llrnn.text.analysers.tags import Tags, lemma_attribute
from llrnn.text.corpus.source import StrPath
from llrnn.text.lexicon import Lexicon

__all__ = ["hunspell"]

_TAGS_BY_LANGUAGE = {"fr": FRENCH}
_NONE: Flags = frozenset()
# Fields begin at the first `xx:` after white space, so that words with spaces are possible; a TAB always ends the word.
_FIELDS = re.compile(r"[ \t]+(?=[^\s:]{2}:)|\t")


def hunspell(
    dic: StrPath,
    *,
    aff: StrPath | None = None,
    tags: Tags | None = None,
    lowercase: bool = True,
    lemmas: bool = False,
    forms: Iterable[str] | None = None,
) -> Lexicon:
    """All forms of a hunspell dictionary, with the attributes that `tags` gives to their fields.

    `aff` is the file of affixes, by default the one beside the dictionary. `tags` is by default the table for the
    language that the name of the file begins with (`fr.dic`, `fr_FR.dic`). `lemmas` adds `Lemma:` and the stem (white
    space, commas and bars in it become `_`). With `forms`, only these are kept: a large dictionary makes millions.
    Forms without attributes are left out. The last few results are kept in memory, as long as the files are the same.
    """
    affix_path = _beside(dic) if aff is None else aff
    wanted = None if forms is None else frozenset(form.lower() if lowercase else form for form in forms)
    paths = tuple((fspath(path), _stamp(path)) for path in (dic, affix_path))
    return _expanded(paths, _tags_for(dic) if tags is None else tags, lowercase, lemmas, wanted)


def _beside(dic: StrPath) -> str:
    name = fspath(dic)
    if not name.endswith(".dic"):
        raise LexiconError("a dictionary NAME.dic is required, or aff=, its file of affixes; give one", path=dic)
    return f"{name.removesuffix('.dic')}.aff"


def _tags_for(dic: StrPath) -> Tags:
    language = re.split(r"[-_.]", Path(dic).name)[0]
    if language not in _TAGS_BY_LANGUAGE:
        known = ", ".join(sorted(_TAGS_BY_LANGUAGE))
        reason = f"tags= is required for the language {language!r} (known: {known}); say what its fields mean"
        raise LexiconError(reason, path=dic)
    return _TAGS_BY_LANGUAGE[language]


def _stamp(path: StrPath) -> tuple[int, int] | None:
    """Changes when the file does; None for a file that is not there, which reading it will report."""
    try:
        status = stat(path)
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=4)
def _expanded(
    paths: tuple[tuple[str, object], ...], tags: Tags, lowercase: bool, lemmas: bool, wanted: frozenset[str] | None
) -> Lexicon:
    (dic, _), (aff, _) = paths
    expansion = _Expansion(read_affix_file(aff, without=tags.joins), tags, lowercase, lemmas, wanted)
    for line in _entries(dic, expansion.file.encoding):
        expansion.add(line)
    return Lexicon(expansion.table())


def _entries(dic: str, encoding: str) -> Iterator[Line]:
    """The lines with words: after the first, which counts them, roughly; one that begins with a TAB is a comment."""
    lines = read_encoded(dic, encoding)
    first = next(lines, None)
    if first is None or not re.fullmatch(r"\s*[0-9]+\s*", first.text):
        reason = "the first line must be the number of words; was the file written by hunspell's tools?"
        (first or Line(dic, 1, "")).fail(reason)
    return (line for line in lines if line.text.strip() and not line.text.startswith("\t"))


class _Expansion:
    """The table of forms in the making."""

    def __init__(
        self, file: AffixFile, tags: Tags, lowercase: bool, lemmas: bool, wanted: frozenset[str] | None
    ) -> None:
        self.file, self.tags, self.wanted = file, tags, wanted
        self.lowercase, self.lemmas = lowercase, lemmas
        self.found: dict[str, frozenset[str]] = {}
        self.forbidden: set[str] = set()
        # fields of a stem -> rules -> attributes: few combinations for many forms
        self.known: dict[frozenset[str], dict[tuple[Rule, ...], frozenset[str]]] = {}

    def add(self, line: Line) -> None:
        """Enter every form of one stem."""
        stem, flags, fields = self._entry(line)
        if self.file.affixes.special.forbidden in flags:
            self.forbidden.add(stem)
            return
        meant = self.tags.of_stem(stem, fields)
        known = self.known.setdefault(meant, {})
        lemma = self._lemma(stem, fields) if self.lemmas else _NONE
        for form, rules in self.file.affixes.derive(stem, flags):
            if self.wanted is None or self._normal(form) in self.wanted:
                attributes = known.get(rules)
                if attributes is None:
                    attributes = known[rules] = self._attributes(meant, rules)
                if attributes:
                    _enter(self.found, form, attributes | lemma)

    def _entry(self, line: Line) -> tuple[str, Flags, frozenset[str]]:
        word, fields = line.text, ""
        cut = _FIELDS.search(word)
        if cut:
            word, fields = word[: cut.start()], word[cut.end() :].strip()
        stem, flags = split_flags(word.rstrip())
        if not stem:
            line.fail("a word is required at the beginning of the line; write it, or delete the line")
        allowed = _NONE if flags is None else self.file.flags.read(flags, line)
        return stem, allowed, frozenset(self.file.fields(fields, line))

    def _attributes(self, fields: frozenset[str], rules: tuple[Rule, ...]) -> frozenset[str]:
        return self.tags.attributes((*fields, *(field for rule in rules for field in rule.fields)))

    def _lemma(self, stem: str, fields: frozenset[str]) -> frozenset[str]:
        given = {field.removeprefix("st:") for field in fields if field.startswith("st:")} - {""}
        return frozenset(lemma_attribute(self._normal(lemma)) for lemma in given or {stem})

    def _normal(self, form: str) -> str:
        return form.lower() if self.lowercase else form

    def table(self) -> dict[str, frozenset[str]]:
        """The forms that may be used; equal sets of attributes are one object, since there are few."""
        shared: dict[frozenset[str], frozenset[str]] = {}
        made: dict[str, frozenset[str]] = {}
        for form, attributes in self.found.items():
            if form and form not in self.forbidden:
                _enter(made, self._normal(form), attributes)
        return {form: shared.setdefault(attributes, attributes) for form, attributes in made.items()}


def _enter(table: dict[str, frozenset[str]], form: str, attributes: frozenset[str]) -> None:
    before = table.get(form)
    if before is None:
        table[form] = attributes
    elif not attributes <= before:
        table[form] = before | attributes
