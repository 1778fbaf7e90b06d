"""Lexicons of French that list full forms: the Lefff and Lexique, in the names of Universal Dependencies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from llrnn.ground.errors import LexiconError
from llrnn.ground.files import StrPath
from llrnn.text.lexicon import Lexicon
from llrnn.text.morphology import lemma_attribute
from llrnn.text.readers import Line, read_entries
from llrnn_morphology.tags import tag_table

# PS13s: present of indicative and subjunctive, 1st and 3rd person singular. fs_P1p: feminine singular, ours.
_LEFFF_FEATURES = re.compile(r"([WGKPIJFCSTY]*[123]*[mf]*[sp]*)(?:_P([123])([sp]))?")

_UNKNOWN = {"nan": "", "": ""}
# infover: readings such as ind:pre:3s, with semicolons
_LEXIQUE_READING = re.compile(r"([a-z]{3}(?::[a-z]{3})?)(?::([123])([sp]))?")


def lefff(path: StrPath, *, lowercase: bool = True, lemmas: bool = False) -> Lexicon:
    """The Lefff: lines `form TAB category TAB lemma TAB features`, more columns are allowed.

    `lemmas` adds `Lemma:` and the third column. Entries that stand for no word (`_NUM`, `_error`) are left out.
    """
    return _lexicon(path, _lefff_entries(path, lowercase, lemmas), lowercase)


def lexique(path: StrPath, *, lowercase: bool = True) -> Lexicon:
    """Lexique 3: the columns ortho and cgram, and genre, nombre and infover where the file has them.

    The first line names the columns, as `cgram` or with their number, `4_cgram`.
    """
    return _lexicon(path, _lexique_entries(path), lowercase)


def _lexicon(path: StrPath, entries: Iterable[tuple[str, str]], lowercase: bool) -> Lexicon:
    """The table of (form, attributes separated by spaces)."""
    table: dict[str, set[str]] = {}
    for form, attributes in entries:
        if attributes:
            table.setdefault(form.lower() if lowercase else form, set()).update(attributes.split())
    if not table:
        raise LexiconError("no entry in the file; was it written to the end?", path=path)
    return Lexicon.from_mapping(table)


def _lefff_entries(path: StrPath, lowercase: bool, lemmas: bool) -> Iterator[tuple[str, str]]:
    for line in read_entries(path, error=LexiconError):
        columns = line.text.split("\t")
        if len(columns) < 4:
            line.fail(f"4 columns (form, category, lemma, features) are required, found {len(columns)}; complete them")
        form, category, lemma, features = columns[:4]
        if not form.strip():
            line.fail("the form must not be empty; write the word")
        if not _LEFFF_FEATURES.fullmatch(features) and _LEFFF_FEATURES.fullmatch(lemma):
            lemma, features = features, lemma  # so are two lines of version 3.4, of `au` and `aux`
        if not re.match(r"_\w", form):
            meaning = _known(tag_table("lefff", "categories"), category, "category", line)
            known = lemma_attribute(lemma.lower() if lowercase else lemma) if lemmas and lemma else ""
            yield form, f"{meaning} {_lefff_meaning(features, line)} {known}"


def _lefff_meaning(features: str, line: Line) -> str:
    match = _LEFFF_FEATURES.fullmatch(features)
    if match is None:
        line.fail(f"features such as ms, Kfp, PS13s or fs_P1p are required, found {features!r}; correct them", features)
    letters, person, number = match.groups()
    meaning = [tag_table("lefff", "letters")[letter] for letter in letters]
    if person:  # of the possessor: le nôtre
        meaning += ["Poss:Yes", f"Person[psor]:{person}", f"Number[psor]:{'Sing' if number == 's' else 'Plur'}"]
    return " ".join(meaning)


def _lexique_entries(path: StrPath) -> Iterator[tuple[str, str]]:
    lines = read_entries(path, error=LexiconError)
    header = next(lines, None)
    if header is None:
        raise LexiconError("a first line that names the columns is required, found none", path=path)
    names = [re.sub(r"^\d+_", "", name.strip()) for name in header.text.split("\t")]
    for needed in ("ortho", "cgram"):
        if needed not in names:
            header.fail(f"a column named {needed!r} is required in the first line, found {', '.join(names)}")
    for line in lines:
        columns = line.text.split("\t")
        if len(columns) != len(names):
            line.fail(f"{len(names)} columns are required, as in line 1, found {len(columns)}; correct it")
        row = dict(zip(names, columns, strict=True))
        if not row["ortho"].strip():
            line.fail("the form must not be empty; write the word")
        yield row["ortho"], _lexique_meaning(row, line)


def _lexique_meaning(row: Mapping[str, str], line: Line) -> str:
    of_column = {"cgram": "categories", "genre": "gender", "nombre": "number"}
    meaning = [
        _known(tag_table("lexique", table) | _UNKNOWN, row.get(column, ""), column, line)
        for column, table in of_column.items()
    ]
    for reading in row.get("infover", "").removesuffix(";").split(";"):
        match = _LEXIQUE_READING.fullmatch(reading)
        if match:
            mood, person, number = match.groups()
            meaning.append(_known(tag_table("lexique", "moods"), mood, "infover", line) if mood != "nan" else "")
            meaning.append(f"Person:{person} Number:{'Sing' if number == 's' else 'Plur'}" if person else "")
        elif reading:
            line.fail(f"infover must be readings such as ind:pre:3s, found {reading!r}; correct it", reading)
    return " ".join(filter(None, meaning))


def _known(table: Mapping[str, str], value: str, what: str, line: Line) -> str:
    if value not in table:
        line.fail(f"{what} must be one of {', '.join(filter(None, table))}, found {value!r}; correct it", value)
    return table[value]
