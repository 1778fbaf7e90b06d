"""What the fields of a dictionary mean, in the names of Universal Dependencies."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from llrnn.text.lexicon import Lexicon

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
