"""Lexicons made of morphological dictionaries, in the names of Universal Dependencies: hunspell, the Lefff, Lexique.

    finir/f4() po:v2_it_q__a        hunspell lists stems, with flags and fields; with
    SFX f4 r t r po:ipre po:3sg     a rule of that flag the stem gives
    finit                           POS:VERB VerbForm:Fin Mood:Ind Tense:Pres Person:3 Number:Sing

The Lefff and Lexique list full forms. The attributes of a form are the union over its readings, as everywhere here.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from os import fspath, stat
from pathlib import Path
from typing import TypeVar

from llrnn.ground.errors import LexiconError
from llrnn.ground.files import StrPath, read_file
from llrnn.text.lexicon import Lexicon, Readings
from llrnn.text.readers import Line, read_entries, read_lines

__all__ = ["hunspell", "lefff", "lexique"]


Fields = frozenset[str]
_NOT_IN_ATTRIBUTES = re.compile(r"[\s,|]")
_FINITE = "Ind Pres, Ind Imp, Ind Past, Ind Fut, Cnd Pres, Sub Pres, Sub Imp, Imp Pres"
_VERB_FORMS = ["VerbForm:Inf", "VerbForm:Part Tense:Pres", "VerbForm:Part Tense:Past"]
_VERB_FORMS += [f"VerbForm:Fin Mood:{one.replace(' ', ' Tense:')}" for one in _FINITE.split(", ")]


def lemma_attribute(lemma: str) -> str:
    """`Lemma:` and the lemma; what may not stand in an attribute (white space, commas, bars) becomes `_`."""
    return "Lemma:" + _NOT_IN_ATTRIBUTES.sub("_", lemma)


def meanings(text: str) -> dict[str, str]:
    """name -> attributes from lines `name name ... = attributes`; what follows a `#` is a comment."""
    table: dict[str, str] = {}
    for line in text.strip().splitlines():
        names, _, attributes = line.partition("#")[0].partition("=")
        table |= dict.fromkeys(names.split(), attributes.strip())
    return table


def verb_forms(names: str) -> dict[str, str]:
    """By what a dictionary calls infinitive, participles (present, past), indicative (present, imperfect, past and
    future), conditional, subjunctive (present, imperfect) and imperative."""
    return dict(zip(names.split(), _VERB_FORMS, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Tags:
    """Fields of a hunspell dictionary -> attributes. A language brings its own, see `FRENCH`.

    `meanings` gives a field such as `is:mas` its attributes; a key that ends with `*` stands for every field that
    begins so (the longest such key counts). A field without a meaning adds nothing.
    `joins` names the fields that mark an affix as another word (`dp:` in French: l' + arbre): treebanks hold the two
    apart, so such affixes are not attached.
    `of_stem` may correct the fields of a stem by its spelling, `of_reading` those of one reading (stem and affixes):
    fields do not always mean the same beside others.
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
        """The union of what the fields mean."""
        return frozenset().union(*(self.meaning(name) or () for name in self.of_reading(frozenset(fields))))

    def meaning(self, name: str) -> frozenset[str] | None:
        """The attributes of one field, None where the table does not have it."""
        begun = (known for start, known in self._beginnings.items() if name.startswith(start))
        return self._whole[name] if name in self._whole else next(begun, None)


class _AsWritten(Tags):
    """Fields and affixes by their own names, where nobody has said what they mean: `po:verb`, `Affix:-ler`; `Affix:-`
    for a stem of which nothing is known."""

    def attributes(self, fields: Iterable[str]) -> frozenset[str]:
        return Tags.attributes(self, fields) or frozenset({"Affix:-"})

    def meaning(self, name: str) -> frozenset[str] | None:
        kind, _, value = name.partition(":")
        return frozenset({f"{kind}:{_NOT_IN_ATTRIBUTES.sub('_', value)}"}) if value and kind != "st" else None


AS_WRITTEN = _AsWritten({})


# French: what the fields of the dictionary `fr` (Grammalecte; Debian's hunspell-fr) mean.
#
# Stems have a category (`po:nom`, `po:v1_it_q__a`), and a gender and number where these are fixed; affix rules add
# moods, persons and inflection (`po:ipre po:3sg`, `is:fem is:pl`). Fields of one reading may hold alternatives
# (`po:ipre po:spre po:1sg po:3sg`): the meaning of a reading is the union.


_CATEGORIES = meanings("""
    po:nom po:titr po:loc.nom = POS:NOUN
    po:npr po:prn po:patr po:loc.patr = POS:PROPN       # prn: first names, patr: family names
    po:adj po:loc.adj = POS:ADJ
    po:adv po:loc.adv = POS:ADV
    po:negadv = POS:ADV Polarity:Neg
    po:advint = POS:ADV PronType:Int
    po:v* po:loc.verb = POS:VERB
    po:v0* = POS:VERB POS:AUX                           # être, avoir
    aux = POS:AUX                                       # no field of the dictionary: see _of_stem
    po:prep po:prepv po:loc.prep po:loc.prepv = POS:ADP
    po:cjco po:cj = POS:CCONJ
    po:cjsub po:loc.cjsub po:loc.cj = POS:SCONJ
    po:interj po:loc.interj = POS:INTJ
    po:nb = POS:NUM NumType:Card
    po:nbro = POS:NUM                                   # roman numerals
    po:det = POS:DET PronType:Art
    po:detpos = POS:DET Poss:Yes PronType:Prs
    po:detdem = POS:DET PronType:Dem
    po:detind = POS:DET PronType:Ind
    po:detneg = POS:DET PronType:Neg
    po:detex = POS:DET PronType:Exc
    po:propersuj po:properobj = POS:PRON PronType:Prs
    po:prodem = POS:PRON PronType:Dem Person:3
    po:proind = POS:PRON PronType:Ind Person:3
    po:proneg = POS:PRON PronType:Neg Person:3
    po:prorel = POS:PRON PronType:Rel
    po:proint = POS:PRON PronType:Int
    po:proadv = POS:PRON
    po:ponc = POS:PUNCT
    po:sign = POS:SYM
""")
_INFLECTION = verb_forms("infi ppre ppas ipre iimp ipsi ifut cond spre simp impe") | meanings("""
    1sg 1isg = Person:1 Number:Sing                     # 1isg: before je, eussé-je
    2sg = Person:2 Number:Sing
    3sg = Person:3 Number:Sing
    1pl = Person:1 Number:Plur
    2pl = Person:2 Number:Plur
    3pl 3pl! = Person:3 Number:Plur
    1pe = Person:1
    2pe = Person:2
    3pe = Person:3
    mas = Gender:Masc
    fem = Gender:Fem
    epi = Gender:Masc Gender:Fem
    sg = Number:Sing
    pl = Number:Plur
    inv = Number:Sing Number:Plur
""")


def _meanings() -> dict[str, list[str]]:
    table = dict(_CATEGORIES)
    # A few stems write po: for is: and the other way round.
    for name in ("po", "is"):
        table |= {f"{name}:{value}": meaning for value, meaning in _INFLECTION.items()}
    table["is:adj"] = table["po:adj"]
    # Known, and without a name in UD: grammatical word, preverbal, prefix, suffix, misspelling, various; aimé-je.
    table |= dict.fromkeys(("po:mg", "po:preverb", "po:pfx", "po:sfx", "po:err", "po:div", "po:1jsg"), "")
    return {name: meaning.split() for name, meaning in table.items()}


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
FRENCH = Tags(_meanings(), joins=frozenset({"dp", "ds"}), of_stem=_of_stem, of_reading=_of_reading)


_LEFFF_CATEGORIES = meanings("""
    adj adjPref = POS:ADJ
    adv advm advp que_restr = POS:ADV
    advneg clneg = POS:ADV Polarity:Neg
    auxAvoir auxEtre = POS:AUX
    caimp ce = POS:PRON PronType:Dem
    cla = POS:PRON PronType:Prs Case:Acc
    clar = POS:PRON PronType:Prs Case:Acc Reflex:Yes
    cld = POS:PRON PronType:Prs Case:Dat
    cldr = POS:PRON PronType:Prs Case:Dat Reflex:Yes
    clg cll = POS:PRON PronType:Prs
    cln ilimp = POS:PRON PronType:Prs Case:Nom
    clr = POS:PRON PronType:Prs Reflex:Yes
    coo = POS:CCONJ
    csu que = POS:SCONJ
    det = POS:DET
    etr = POS:X Foreign:Yes
    nc title = POS:NOUN
    np = POS:PROPN
    ponctw poncts parentf parento = POS:PUNCT
    prel = POS:PRON PronType:Rel
    prep = POS:ADP
    pres = POS:INTJ
    pri = POS:PRON PronType:Int
    pro = POS:PRON
    v = POS:VERB
""")
_LEFFF_LETTERS = verb_forms("W G K P I J F C S T Y") | meanings("""
    K = POS:VERB VerbForm:Part Tense:Past       # a participle used as an adjective is still one
    m = Gender:Masc
    f = Gender:Fem
    s = Number:Sing
    p = Number:Plur
    1 = Person:1
    2 = Person:2
    3 = Person:3
""")
# PS13s: present of indicative and subjunctive, 1st and 3rd person singular. fs_P1p: feminine singular, ours.
_LEFFF_FEATURES = re.compile(r"([WGKPIJFCSTY]*[123]*[mf]*[sp]*)(?:_P([123])([sp]))?")

_UNKNOWN = {"nan": "", "": ""}
_LEXIQUE_CATEGORIES = (
    meanings("""
    NOM = POS:NOUN
    VER = POS:VERB
    AUX = POS:AUX
    ADJ = POS:ADJ
    ADJ:num = POS:NUM NumType:Card
    ADJ:dem = POS:DET PronType:Dem
    ADJ:ind = POS:DET PronType:Ind
    ADJ:int = POS:DET PronType:Int
    ADJ:pos = POS:DET Poss:Yes PronType:Prs
    ART:def = POS:DET Definite:Def PronType:Art
    ART:ind = POS:DET Definite:Ind PronType:Art
    ART:inf = POS:DET
    ADV = POS:ADV
    PRE = POS:ADP
    CON = POS:CCONJ POS:SCONJ                   # Lexique does not tell them apart
    ONO = POS:INTJ
    PRO:per = POS:PRON PronType:Prs
    PRO:ind = POS:PRON PronType:Ind
    PRO:pos = POS:PRON Poss:Yes PronType:Prs
    PRO:rel = POS:PRON PronType:Rel
    PRO:int = POS:PRON PronType:Int
    PRO:dem = POS:PRON PronType:Dem
    LIA =                                       # the l' of l'on
""")
    | _UNKNOWN
)
_LEXIQUE_GENDER = {"m": "Gender:Masc", "f": "Gender:Fem", **_UNKNOWN}
_LEXIQUE_NUMBER = {"s": "Number:Sing", "p": "Number:Plur", **_UNKNOWN}
# infover: readings such as ind:pre:3s, with semicolons
_LEXIQUE_MOODS = verb_forms("inf par:pre par:pas ind:pre ind:imp ind:pas ind:fut cnd:pre sub:pre sub:imp imp:pre")
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
            meaning = f"{_known(_LEFFF_CATEGORIES, category, 'category', line)} {_lefff_meaning(features, line)}"
            known = lemma_attribute(lemma.lower() if lowercase else lemma) if lemmas and lemma else ""
            yield form, f"{meaning} {known}"


def _lefff_meaning(features: str, line: Line) -> str:
    match = _LEFFF_FEATURES.fullmatch(features)
    if match is None:
        line.fail(f"features such as ms, Kfp, PS13s or fs_P1p are required, found {features!r}; correct them", features)
    letters, person, number = match.groups()
    meaning = [_LEFFF_LETTERS[letter] for letter in letters]
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
    meaning = [
        _known(_LEXIQUE_CATEGORIES, row["cgram"], "cgram", line),
        _known(_LEXIQUE_GENDER, row.get("genre", ""), "genre", line),
        _known(_LEXIQUE_NUMBER, row.get("nombre", ""), "nombre", line),
    ]
    for reading in row.get("infover", "").removesuffix(";").split(";"):
        match = _LEXIQUE_READING.fullmatch(reading)
        if match:
            mood, person, number = match.groups()
            meaning.append(_known(_LEXIQUE_MOODS, mood, "infover", line) if mood != "nan" else "")
            meaning.append(f"Person:{person} Number:{'Sing' if number == 's' else 'Plur'}" if person else "")
        elif reading:
            line.fail(f"infover must be readings such as ind:pre:3s, found {reading!r}; correct it", reading)
    return " ".join(filter(None, meaning))


def _known(table: Mapping[str, str], value: str, what: str, line: Line) -> str:
    if value not in table:
        line.fail(f"{what} must be one of {', '.join(filter(None, table))}, found {value!r}; correct it", value)
    return table[value]


T = TypeVar("T")

# Hunspell dictionaries come in many encodings, named by the line `SET` of the `.aff` file. UTF-8 is read as every text
# of this library is; any other is decoded here.


_SET = re.compile(rb"^(?:\xef\xbb\xbf)?SET[ \t]+([^\s#]+)", re.MULTILINE)
# Python knows encodings that are no text at all (hex, rot13): only those that dictionaries use are taken.
_KNOWN = re.compile(r"utf-8|us-ascii|iso-?8859-\d{1,2}|koi8-[ru]|cp125\d|tis620-2533")
_PYTHON_NAMES = {"us-ascii": "ascii", "tis620-2533": "tis-620"}


def encoding_of(path: StrPath) -> str:
    """The Python name of the encoding that an `.aff` file declares; ASCII if it declares none."""
    declared = _SET.search(_content(path))
    if declared is None:
        return "ascii"
    name = declared[1].decode("latin-1")
    normal = name.lower().removeprefix("microsoft-")
    python_name = _PYTHON_NAMES.get(normal, normal)
    try:
        if not _KNOWN.fullmatch(normal):
            raise LookupError
        return "".encode(python_name).decode() or python_name
    except LookupError:
        line = _content(path)[: declared.start(1)].count(b"\n") + 1
        reason = f"an encoding of dictionaries is required after SET, found {name!r}; convert the files to UTF-8"
        raise LexiconError(reason, path=path, line=line, column=5) from None


def read_encoded(path: StrPath, encoding: str) -> Iterator[Line]:
    """The lines of the file."""
    numbered = read_lines(path, error=LexiconError) if encoding == "utf-8" else _decoded(path, encoding)
    for number, text in numbered:
        yield Line(path, number, text, LexiconError)


def _decoded(path: StrPath, encoding: str) -> Iterator[tuple[int, str]]:
    for number, raw in enumerate(_content(path).removesuffix(b"\n").split(b"\n"), 1):
        try:
            yield number, raw.removesuffix(b"\r").decode(encoding)
        except UnicodeDecodeError as cause:
            declared = "no SET line declares its encoding" if encoding == "ascii" else f"SET declares {encoding}"
            reason = f"here is the byte 0x{raw[cause.start]:02x}, but {declared}; correct the line SET of the .aff file"
            raise LexiconError(reason, path=path, line=number, column=cause.start + 1) from cause


def _content(path: StrPath) -> bytes:
    try:
        content = read_file(path)
        return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    except (OSError, ValueError, EOFError, zlib.error):
        for _ in read_lines(path, error=LexiconError):  # says what is wrong in the words used everywhere
            pass
        raise LexiconError("the file cannot be read", path=path) from None


# Taken of the `.aff` file: SET, FLAG, FULLSTRIP, NEEDAFFIX, CIRCUMFIX, FORBIDDENWORD, ONLYINCOMPOUND, AF, AM, SFX, PFX.
# Whatever serves spelling suggestions or compounds (they are without end) is passed over. See `man 5 hunspell`.

Flags = frozenset[str]
_NONE: Flags = frozenset()
_SPECIAL = {
    "NEEDAFFIX": "need_affix",
    "PSEUDOROOT": "need_affix",
    "CIRCUMFIX": "circumfix",
    "ONLYINCOMPOUND": "only_in_compound",
    "FORBIDDENWORD": "forbidden",
}
_PLACE = re.compile(r"\[(\^?)([^\[\]]+)\]|([^\[\]])")  # of a condition: characters to take or to refuse, or one
_SLASH = re.compile(r"(?<=[^\\])/")
_LARGEST_FLAG = 65535


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One line `SFX` or `PFX`: strip characters from one end of a word and attach others, if it meets a condition.

        SFX S. il ux/D'Q' ail is:pl         a word with the flag `S.` that ends in `ail`: strip `il`, attach `ux`; the
                                            result has the flags `D'` and `Q'`, and the field `is:pl`

    Equal to itself only, so that tuples of rules are quick keys.
    """

    is_prefix: bool
    cross: bool  # whether it may come together with an affix at the other end
    strip: str
    affix: str
    condition: re.Pattern[str]
    reach: int  # how many characters of the word decide whether the rule applies
    flags: Flags
    fields: tuple[str, ...]

    @property
    def name(self) -> str:
        """What it attaches, as a field: `Affix:-ux`, `Affix:re-`."""
        affix = _NOT_IN_ATTRIBUTES.sub("_", self.affix)
        return f"Affix:{affix}-" if self.is_prefix else f"Affix:-{affix}"

    def applies(self, word: str, *, full_strip: bool) -> bool:
        ends = word.startswith(self.strip) if self.is_prefix else word.endswith(self.strip)
        whole = bool(self.strip) and len(word) <= len(self.strip) and not full_strip
        return ends and not whole and self.condition.fullmatch(word) is not None

    def attach(self, word: str) -> str:
        if self.is_prefix:
            return self.affix + word[len(self.strip) :]
        return word[: len(word) - len(self.strip)] + self.affix


Candidate = tuple[str, tuple[Rule, ...]]  # a form, the rules that made it


class RuleSet:
    """The rules of one kind that some flags allow. Which of them apply is cached by the decisive end of a word."""

    def __init__(self, rules: Iterable[Rule], *, is_prefix: bool, full_strip: bool) -> None:
        self.rules, self.is_prefix, self.full_strip = tuple(rules), is_prefix, full_strip
        # One more than the reach: a strip that leaves nothing of the word is told from one that leaves something.
        self.reach = 1 + max((rule.reach for rule in self.rules), default=0)
        self.known: dict[str, tuple[Rule, ...]] = {}

    def applying_to(self, word: str) -> tuple[Rule, ...]:
        if not self.rules:
            return ()
        end = word[: self.reach] if self.is_prefix else word[-self.reach :]
        found = self.known.get(end)
        if found is None:
            found = tuple(rule for rule in self.rules if rule.applies(end, full_strip=self.full_strip))
            self.known[end] = found
        return found


@dataclass(slots=True)
class _Block:
    """A header, with the number of lines that must still follow it."""

    line: Line
    missing: int
    cross: bool = False


class AffixFile:
    """An `.aff` file: its rules by flag, and how the `.dic` file that belongs to it is read.

    As in hunspell, a form is a stem with up to two suffixes (the second by the flags of the first) and up to one prefix
    (by the flags of the stem or of a suffix; a prefix may in turn bring a suffix). Prefix and suffix meet only where
    both allow the cross product. Rules that have a field of a name in `without` are left out.
    """

    def __init__(self, path: StrPath, *, without: frozenset[str] = frozenset()) -> None:
        self.encoding, self._without = encoding_of(path), without
        self.rules: dict[str, list[Rule]] = {}
        self.full_strip = False
        # Flags that say something of the form instead of naming rules; "" where the dictionary has none.
        self.need_affix = self.circumfix = self.only_in_compound = self.forbidden = ""
        self._blocks: dict[tuple[str, str], _Block] = {}
        self._flag_aliases: list[Flags] = []
        self._field_aliases: list[tuple[str, ...]] = []
        self._known_flags: dict[str, Flags] = {}
        self._rule_sets: dict[tuple[bool, Flags], RuleSet] = {}
        content = read_encoded(path, self.encoding)
        lines = [line for line in content if line.text.strip() and not line.text.startswith("#")]
        self._flag_kind = _flag_kind(lines)
        for line in lines:
            self._read(line)
        self._check_counts()
        # Flags of rules that allow no rule and say nothing are dropped: a rule without flags is applied quickly.
        special = {self.need_affix, self.circumfix, self.only_in_compound, self.forbidden}
        used = special.union(self.rules)
        for flag, rules in self.rules.items():
            self.rules[flag] = [replace(rule, flags=rule.flags & used) for rule in rules]
        self._has_special_flags = special != {""}

    def derive(self, stem: str, flags: Flags) -> Iterator[Candidate]:
        """Every form of the stem with the rules that made it; a form may come several times."""
        found = self._candidates(stem, flags)
        return (one for one in found if self._is_form(flags, one[1])) if self._has_special_flags else found

    def _candidates(self, stem: str, flags: Flags) -> Iterator[Candidate]:
        suffixed: list[Candidate] = [(stem, ())]
        for first in self._applying(stem, flags):
            once = first.attach(stem)
            suffixed.append((once, (first,)))
            suffixed += [(second.attach(once), (first, second)) for second in self._applying(once, first.flags)]
        flags_at_hand = {flags}.union(suffix.flags for _, suffixes in suffixed for suffix in suffixes)
        if not any(self._rule_set(one, is_prefix=True).rules for one in flags_at_hand):  # the usual case, made quick
            yield from suffixed
            return
        for form, suffixes in suffixed:
            yield form, suffixes
            if all(suffix.cross for suffix in suffixes):
                for allowing in (flags, *(suffix.flags for suffix in suffixes)):
                    for prefix in self._applying(form, allowing, is_prefix=True):
                        if prefix.cross or not suffixes:
                            yield prefix.attach(form), (*suffixes, prefix)
        for prefix in self._applying(stem, flags, is_prefix=True):
            for suffix in self._applying(stem, prefix.flags):
                if prefix.cross and suffix.cross:
                    yield prefix.attach(suffix.attach(stem)), (suffix, prefix)

    def _applying(self, word: str, flags: Flags, *, is_prefix: bool = False) -> tuple[Rule, ...]:
        """The rules for this end of a word that some flags allow."""
        return self._rule_set(flags, is_prefix=is_prefix).applying_to(word) if flags else ()

    def _rule_set(self, flags: Flags, *, is_prefix: bool) -> RuleSet:
        found = self._rule_sets.get((is_prefix, flags))
        if found is None:
            allowed = (rule for flag in sorted(flags) for rule in self.rules.get(flag, ()))
            rules = (rule for rule in allowed if rule.is_prefix == is_prefix)
            found = RuleSet(rules, is_prefix=is_prefix, full_strip=self.full_strip)
            self._rule_sets[is_prefix, flags] = found
        return found

    def _is_form(self, stem_flags: Flags, rules: tuple[Rule, ...]) -> bool:
        """Whether a stem with these affixes is a form of its own."""
        if self.only_in_compound in stem_flags or (not rules and self.need_affix in stem_flags):
            return False
        if not rules or (len(rules) == 1 and not rules[0].flags):
            return True
        if any(self.only_in_compound in rule.flags for rule in rules):
            return False
        # a circumfix is a prefix and a suffix that only come together
        sides = {rule.is_prefix for rule in rules if self.circumfix in rule.flags}
        return len(sides) != 1 and not all(self.need_affix in rule.flags for rule in rules)

    def flags(self, text: str | None, line: Line) -> Flags:
        """The flags written as `text`, or named by its number if the file has aliases (AF)."""
        if text is None:
            return _NONE
        if text not in self._known_flags:
            aliased = self._flag_aliases
            self._known_flags[text] = _alias(aliased, text, line, "AF") if aliased else self._split(text, line)
        return self._known_flags[text]

    def fields(self, text: str, line: Line) -> tuple[str, ...]:
        """The fields written as `text`: separated by spaces, or the number of an alias (AM)."""
        if self._field_aliases and _is_number(text):
            return _alias(self._field_aliases, text, line, "AM")
        return tuple(text.split())

    def entry(self, line: Line) -> tuple[str, Flags, frozenset[str]]:
        """The stem, the flags and the fields of a line of the `.dic` file."""
        word, fields = line.text, ""
        cut = _FIELDS.search(word)
        if cut:
            word, fields = word[: cut.start()], word[cut.end() :].strip()
        stem, flags = split_flags(word.rstrip())
        if not stem:
            line.fail("a word is required at the beginning of the line; write it, or delete the line")
        return stem, self.flags(flags, line), frozenset(self.fields(fields, line))

    def _split(self, text: str, line: Line) -> Flags:
        """`short` and `UTF-8` flags are one character each, `long` ones two, `num` are numbers with commas."""
        if not text or re.search(r"\s", text):
            line.fail("flags without spaces are required after the slash; write \\/ for a slash in a word", "/")
        if self._flag_kind == "long":
            if len(text) % 2:
                line.fail(f"flags of two characters each are required (FLAG long), found {text!r}; correct it", text)
            return frozenset(text[start : start + 2] for start in range(0, len(text), 2))
        if self._flag_kind != "num":
            return frozenset(text)
        for part in text.split(","):
            if not _is_number(part) or not 1 <= int(part) <= _LARGEST_FLAG:
                line.fail(f"a flag must be a number from 1 to {_LARGEST_FLAG} (FLAG num), found {part!r}", part)
        return frozenset(str(int(part)) for part in text.split(","))

    def _one_flag(self, text: str, line: Line) -> str:
        flags = self._split(text, line)
        if len(flags) != 1:
            line.fail(f"one flag is required, found {text!r}, which is {len(flags)} (FLAG {self._flag_kind})", text)
        return min(flags)

    def _read(self, line: Line) -> None:
        words = line.text.split()
        match words[0]:
            case "PFX" | "SFX":
                self._read_affix(line, words)
            case "AF" | "AM":
                self._read_alias(line, words)
            case "FULLSTRIP":
                self.full_strip = True
            case "COMPLEXPREFIXES":
                line.fail("one prefix a word is all that is read here, found COMPLEXPREFIXES; give a list of forms")
            case name if name in _SPECIAL:
                setattr(self, _SPECIAL[name], self._one_flag(words[1] if len(words) > 1 else "", line))

    def _read_affix(self, line: Line, words: list[str]) -> None:
        if len(words) < 4:
            line.fail("a header (SFX flag Y count) or a rule (SFX flag strip affix condition) is required; complete it")
        flag = self._one_flag(words[1], line)
        block = self._blocks.get((words[0], flag))
        if block is None or not block.missing:
            if words[2] not in ("Y", "N") or not _is_number(words[3]):
                reason = f"a header {words[0]} {words[1]} Y or N, count is required before its rules"
                line.fail(f"{reason}, and a rule for each of that count; write or correct it", words[2])
            self._blocks[words[0], flag] = _Block(line, int(words[3]), words[2] == "Y")
            return
        block.missing -= 1
        rule = self._rule(line, block.cross)
        if not any(field.partition(":")[0] in self._without for field in rule.fields):
            self.rules.setdefault(flag, []).append(rule)

    def _rule(self, line: Line, cross: bool) -> Rule:
        # the condition, `.` for none, and the fields may be left out
        kind, _, strip, attached, condition, fields = (*line.text.split(maxsplit=5), ".", "")[:6]
        if len(line.text.split()) == 4:
            fields = ""
        affix, flags = split_flags(attached)
        strip, affix = ("" if text == "0" else text for text in (strip, affix))
        pattern, places = _condition(condition, kind == "PFX")
        if pattern is None:
            line.fail(f"a condition must be made of characters, . and [...] or [^...], found {condition!r}", condition)
        reach, own = max(len(strip), places), self.fields(fields.strip(), line)
        return Rule(kind == "PFX", cross, strip, affix, pattern, reach, self.flags(flags, line), own)

    def _read_alias(self, line: Line, words: list[str]) -> None:
        block = self._blocks.get((words[0], ""))
        if block is None:
            if len(words) < 2 or not _is_number(words[1]):
                line.fail(f"the first line {words[0]} must give the number of aliases; write it")
            self._blocks[words[0], ""] = _Block(line, int(words[1]))
            return
        if not block.missing:
            line.fail(f"there are more lines {words[0]} than line {block.line.number} says; correct the number there")
        block.missing -= 1
        if words[0] == "AM":
            self._field_aliases.append(tuple(words[1:]))
        else:
            self._flag_aliases.append(self._split(words[1] if len(words) > 1 else "", line))

    def _check_counts(self) -> None:
        for (kind, flag), block in self._blocks.items():
            if block.missing:
                what = f"{kind} {flag}".strip()
                block.line.fail(f"{block.missing} more lines {what} are required by this count; correct it or add them")


def split_flags(text: str) -> tuple[str, str | None]:
    """A word or affix and its flags: the first slash separates them, unless it begins the word or is escaped."""
    slash = _SLASH.search(text)
    word, flags = (text[: slash.start()], text[slash.end() :]) if slash else (text, None)
    return word.replace("\\/", "/"), flags


def _flag_kind(lines: list[Line]) -> str:
    for line in lines:
        words = line.text.split()
        if words[0] == "FLAG":
            if len(words) < 2 or words[1] not in ("long", "num", "UTF-8"):
                line.fail(f"long, num or UTF-8 is required after FLAG, found {' '.join(words[1:2]) or 'nothing'}")
            return words[1]
    return "short"


@cache
def _condition(text: str, is_prefix: bool) -> tuple[re.Pattern[str] | None, int]:
    """`.` for anything, a character for itself, `[abc]`, `[^abc]`: a pattern, and how many characters it looks at."""
    places = [] if text == "." else list(_PLACE.finditer(text))
    if text != "." and "".join(place[0] for place in places) != text:
        return None, 0
    known = [f"[{place[1]}{re.escape(place[2])}]" if place[2] else place[3] for place in places]
    body = "".join(one if len(one) > 1 or one == "." else re.escape(one) for one in known)
    return re.compile(f"{body}.*" if is_prefix else f".*{body}", re.DOTALL), len(places)


def _alias(aliases: list[T], text: str, line: Line, name: str) -> T:
    if not _is_number(text) or not 1 <= int(text) <= len(aliases):
        line.fail(f"the number of an alias, 1 to {len(aliases)}, is required, found {text!r}; see {name}", text)
    return aliases[int(text) - 1]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


_TAGS_BY_LANGUAGE = {"fr": FRENCH}
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


def hunspell_readings(
    dic: StrPath, forms: Iterable[str], *, lemmas: Iterable[str] | None = (), weight: float = 0.2
) -> Readings:
    """The readings of forms in a hunspell dictionary one by one, lowercased, each of this weight beside counted ones.

    `lemmas`: those of which readings say that they are theirs; None for all. Of a language whose fields nobody has
    explained, fields and affixes have their own names.

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
    """Whether it is known what the fields of a dictionary mean, by the language that its name begins with."""
    return re.split(r"[-_.]", Path(dic).name)[0] in _TAGS_BY_LANGUAGE


def _tags_for(dic: StrPath) -> Tags:
    language = re.split(r"[-_.]", Path(dic).name)[0]
    if not has_tags(dic):
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
    normal = str.lower if lowercase else str
    found: dict[str, frozenset[str]] = {}
    for form, attributes in _derived(dic, AffixFile(aff, without=tags.joins), tags, normal, lemmas, wanted):
        _enter(found, normal(form), attributes)
    shared: dict[frozenset[str], frozenset[str]] = {}  # equal sets of attributes are one object, since there are few
    return Lexicon({form: shared.setdefault(attributes, attributes) for form, attributes in found.items()})


def _derived(
    dic: str,
    file: AffixFile,
    tags: Tags,
    normal: Callable[[str], str],
    lemmas: bool,
    wanted: frozenset[str] | None,
) -> list[tuple[str, frozenset[str]]]:
    """The forms that may be used and have attributes, once for each reading."""
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
    """The lines with words: after the first, which counts them, roughly; one that begins with a TAB is a comment."""
    lines = read_encoded(dic, encoding)
    first = next(lines, None)
    if first is None or not re.fullmatch(r"\s*[0-9]+\s*", first.text):
        reason = "the first line must be the number of words; was the file written by hunspell's tools?"
        (first or Line(dic, 1, "", LexiconError)).fail(reason)
    return (line for line in lines if line.text.strip() and not line.text.startswith("\t"))


def _enter(table: dict[str, frozenset[str]], form: str, attributes: frozenset[str]) -> None:
    before = table.get(form)
    if before is None:
        table[form] = attributes
    elif not attributes <= before:
        table[form] = before | attributes
