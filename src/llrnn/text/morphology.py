"""Morphological analysers behind one seam: a form -> its readings, with weights that sum to 1.

    стали -> {POS:VERB Tense:Past Number:Plur … Lemma:стать: 0.975, POS:NOUN Case:Gen … Lemma:сталь: 0.011, …}

A reading is a set of attributes by the names of Universal Dependencies, with `Lemma:`. Its weight is its probability
where the tool says one, else all readings of a form are alike. A tool runs once over a vocabulary (`Analyser.table`);
the table of `Readings` that it makes is a file, and answers as the tool does.
"""

from __future__ import annotations

import logging
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from os import fspath
from typing import Any

from llrnn.ground.errors import ConfigError, LexiconError, MissingExtraError
from llrnn.ground.files import StrPath
from llrnn.text.analysers import hunspell_readings, lefff, lemma_attribute, lexique, meanings
from llrnn.text.lexicon import Lexicon, Readings
from llrnn.text.readers import read_entries

__all__ = [
    "Analyser",
    "FromLexicon",
    "FromTable",
    "Hfst",
    "Hunspell",
    "Pymorphy",
    "UniMorph",
    "Vabamorf",
    "Voikko",
    "Zeyrek",
    "analyser_named",
]

Reading = frozenset[str]
_TAG = re.compile(r"[\s,|]")


class Analyser(ABC):
    """Callable: form -> {reading: weight}; nothing for a form that it does not know.

    One of your own says `readings`: for each way to read a form its lemma, its attributes, and a weight above 0.

        class Plurals(Analyser):
            def readings(self, form):
                if form.endswith("s"):
                    yield form[:-1], ["POS:NOUN", "Number:Plur"], 1.0
    """

    @abstractmethod
    def readings(self, form: str) -> Iterable[tuple[str | None, Iterable[str], float]]:
        """Every reading: its lemma (None: not known), its attributes, its weight."""

    def __call__(self, form: str) -> Mapping[Reading, float]:
        found: dict[Reading, float] = {}
        for lemma, attributes, weight in self.readings(form):
            named = () if lemma is None else (lemma_attribute(lemma.lower()),)
            reading = frozenset((*attributes, *named))
            found[reading] = found.get(reading, 0.0) + weight
        total = math.fsum(found.values())
        return {reading: weight / total for reading, weight in found.items()}

    def table(self, forms: Iterable[str]) -> Readings:
        """What it says of these forms, as a table that can be written and read: the tool need not run again.

        Zeyrek().table(vocabulary.words).to_tsv("readings.tsv")
        """
        asked = ((form, self(form)) for form in dict.fromkeys(forms))
        return Readings({form: found for form, found in asked if found})


def _installed(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtraError(package, package) from None


def _read(table: Mapping[str, str], tags: Iterable[str], *, unknown: str = "") -> list[str]:
    """The attributes of tags; those that the table lacks under the name `unknown`, or not at all."""
    found: list[str] = []
    for tag in tags:
        if tag in table:
            found += table[tag].split()
        elif unknown:
            found.append(f"{unknown}:{_TAG.sub('_', tag)}")
    return found


# Turkish. What zeyrek (after Zemberek) calls morphemes, as the treebank IMST names them. A derived word counts as what
# it is derived to; participles and verbal nouns stay verbs, nouns that are predicates stay nouns, as in UD.

_TURKISH_CLASSES = meanings("""
    Noun = POS:NOUN
    Verb = POS:VERB
    Adj Dup = POS:ADJ
    Adv = POS:ADV
    Conj = POS:CCONJ
    Det = POS:DET
    Interj = POS:INTJ
    Num = POS:NUM NumType:Card
    Postp = POS:ADP
    Pron = POS:PRON
    Punc = POS:PUNCT
    Ques = POS:AUX
""")
_TURKISH = meanings("""
    A1sg = Number:Sing Person:1
    A2sg = Number:Sing Person:2
    A3sg = Number:Sing Person:3
    A1pl = Number:Plur Person:1
    A2pl = Number:Plur Person:2
    A3pl = Number:Plur Person:3
    P1sg = Number[psor]:Sing Person[psor]:1
    P2sg = Number[psor]:Sing Person[psor]:2
    P3sg = Number[psor]:Sing Person[psor]:3
    P1pl = Number[psor]:Plur Person[psor]:1
    P2pl = Number[psor]:Plur Person[psor]:2
    P3pl = Number[psor]:Plur Person[psor]:3
    Acc = Case:Acc
    Dat = Case:Dat
    Loc = Case:Loc
    Abl = Case:Abl
    Gen = Case:Gen
    Ins = Case:Ins
    Equ = Case:Equ
    Neg = Polarity:Neg
    Unable = Polarity:Neg Mood:Pot
    Able = Mood:Pot
    Pass = Voice:Pass
    Caus = Voice:Cau
    Recip = Voice:Rcp
    Reflex = Voice:Rfl
    Prog1 = Aspect:Prog Tense:Pres Polite:Infm
    Prog2 = Aspect:Prog Tense:Pres Polite:Form
    Aor = Aspect:Hab Tense:Pres
    Past = Aspect:Perf Tense:Past
    Narr = Aspect:Perf Tense:Past Evident:Nfh
    Fut = Aspect:Perf Tense:Fut
    Pres = Aspect:Perf Tense:Pres
    Imp = Mood:Imp
    Opt = Mood:Opt
    Desr = Mood:Des
    Cond = Mood:Cnd
    Neces = Mood:Nec
    Cop = Mood:Gen
    Inf1 Inf2 Inf3 = VerbForm:Vnoun
    PastPart NarrPart = VerbForm:Part Tense:Past
    FutPart = VerbForm:Part Tense:Fut
    AorPart PresPart = VerbForm:Part Tense:Pres
    AfterDoingSo AsLongAs ByDoingSo SinceDoingSo When While Adamantly = VerbForm:Conv
    Hastily = Aspect:Rapid
    Repeat Stay EverSince = Aspect:Dur
    Start Almost = Aspect:Prosp
""")
# After one of these a word has what it had before; after any other derivation it begins anew.
_TURKISH_INFLECTED = frozenset(_TURKISH) | {"Zero"}
_TURKISH_DEFAULTS = ("Polarity:Pos", "Mood:Ind", "Aspect:Perf", "Tense:Pres")  # of verbs, which the treebank spells out
_TURKISH_NAMES = {"Prop": "PROPN"}


class Zeyrek(Analyser):
    """Turkish, by `zeyrek`: all readings of a form alike. What a suffix chain derives is `Derivation:Agt` and so on."""

    def __init__(self) -> None:
        tool = _installed("zeyrek", "zeyrek").MorphAnalyzer()
        logging.getLogger("zeyrek.rulebasedanalyzer").setLevel(logging.ERROR)  # it warns of every reading that it finds
        self._parse: Callable[[str], Iterable[Any]] = tool._parse  # analyze() cuts a text into words first, by NLTK

    def readings(self, form: str) -> Iterator[tuple[str, Iterable[str], float]]:
        for found in self._parse(form):
            if found is not None:
                item = found.dict_item
                name = _TURKISH_NAMES.get(getattr(item.secondary_pos, "value", None) or "")
                yield item.lemma, _turkish([morpheme.id_ for morpheme, _ in found.morphemes], name), 1.0


def _turkish(chain: Sequence[str], name: str | None) -> set[str]:
    """The attributes of a chain of morphemes; `name`: the part of speech of the root where it is special."""
    kept = {f"POS:{name}"} if name else set(_read(_TURKISH_CLASSES, chain[:1]))
    derived: set[str] = set()
    for before, morpheme in pairwise(chain):
        if morpheme not in _TURKISH_CLASSES:
            kept |= set(_read(_TURKISH, [morpheme]))
            derived |= {f"Derivation:{morpheme}"} if morpheme not in _TURKISH_INFLECTED else set()
        elif before not in _TURKISH_INFLECTED:
            kept = set(_read(_TURKISH_CLASSES, [morpheme]))
    names = {one.partition(":")[0] for one in kept}
    if "POS:VERB" in kept:
        kept |= {default for default in _TURKISH_DEFAULTS if default.partition(":")[0] not in names}
    elif kept & {"POS:NOUN", "POS:PROPN", "POS:PRON"} and "Case" not in names:
        kept.add("Case:Nom")
    return kept | derived


# Estonian. Classes and forms of vabamorf, as the treebanks EDT and EWT name them.

_ESTONIAN_CLASSES = meanings("""
    S = POS:NOUN
    H = POS:PROPN
    A = POS:ADJ Degree:Pos
    C = POS:ADJ Degree:Cmp
    U = POS:ADJ Degree:Sup
    G = POS:ADJ
    V = POS:VERB
    D X = POS:ADV
    K = POS:ADP
    J = POS:CCONJ POS:SCONJ                    # vabamorf does not tell them apart
    P = POS:PRON
    N = POS:NUM NumType:Card
    O = POS:ADJ NumType:Ord
    I B = POS:INTJ
    Y = Abbr:Yes
    Z = POS:PUNCT
    T = POS:X
""")
_ESTONIAN_CASES = "n Nom, g Gen, p Par, ill Ill, in Ine, el Ela, all All, ad Ade, abl Abl, tr Tra, ter Ter, es Ess, "
_ESTONIAN_CASES += "ab Abe, kom Com, adt Add"
_ESTONIAN_FINITE = """
    n = Mood:Ind Tense:Pres Person:1 Number:Sing
    d = Mood:Ind Tense:Pres Person:2 Number:Sing
    b = Mood:Ind Tense:Pres Person:3 Number:Sing
    me = Mood:Ind Tense:Pres Person:1 Number:Plur
    te = Mood:Ind Tense:Pres Person:2 Number:Plur
    vad = Mood:Ind Tense:Pres Person:3 Number:Plur
    sin = Mood:Ind Tense:Past Person:1 Number:Sing
    sid = Mood:Ind Tense:Past Person:2 Person:3 Number:Sing Number:Plur
    s = Mood:Ind Tense:Past Person:3 Number:Sing
    sime = Mood:Ind Tense:Past Person:1 Number:Plur
    site = Mood:Ind Tense:Past Person:2 Number:Plur
    o = Mood:Imp Tense:Pres Person:2 Number:Sing Mood:Ind Connegative:Yes
    ge = Mood:Imp Tense:Pres Person:2 Number:Plur
    gem = Mood:Imp Tense:Pres Person:1 Number:Plur
    gu = Mood:Imp Tense:Pres Person:3
    ks = Mood:Cnd Tense:Pres
    ksin = Mood:Cnd Tense:Pres Person:1 Number:Sing
    ksid = Mood:Cnd Tense:Pres Person:2 Person:3 Number:Sing Number:Plur
    ksime = Mood:Cnd Tense:Pres Person:1 Number:Plur
    ksite = Mood:Cnd Tense:Pres Person:2 Number:Plur
    nuks = Mood:Cnd Tense:Past
    nuksin = Mood:Cnd Tense:Past Person:1 Number:Sing
    nuksid = Mood:Cnd Tense:Past Person:2 Person:3 Number:Sing Number:Plur
    nuksime = Mood:Cnd Tense:Past Person:1 Number:Plur
    nuksite = Mood:Cnd Tense:Past Person:2 Number:Plur
    vat = Mood:Qot Tense:Pres
    nuvat = Mood:Qot Tense:Past
"""
_ESTONIAN_VERBS = {
    form: f"VerbForm:Fin Voice:Act {meaning}" for form, meaning in meanings(_ESTONIAN_FINITE).items()
} | meanings("""
    takse = VerbForm:Fin Voice:Pass Mood:Ind Tense:Pres
    ti = VerbForm:Fin Voice:Pass Mood:Ind Tense:Past
    ta = VerbForm:Fin Voice:Pass Mood:Ind Tense:Pres Connegative:Yes
    taks = VerbForm:Fin Voice:Pass Mood:Cnd Tense:Pres
    tuks = VerbForm:Fin Voice:Pass Mood:Cnd Tense:Past
    tagu = VerbForm:Fin Voice:Pass Mood:Imp Tense:Pres
    tavat = VerbForm:Fin Voice:Pass Mood:Qot Tense:Pres
    da = VerbForm:Inf
    des = VerbForm:Conv
    ma = VerbForm:Sup Voice:Act Case:Ill
    mas = VerbForm:Sup Voice:Act Case:Ine
    mast = VerbForm:Sup Voice:Act Case:Ela
    maks = VerbForm:Sup Voice:Act Case:Tra
    mata = VerbForm:Sup Voice:Act Case:Abe
    tama = VerbForm:Sup Voice:Pass
    nud = VerbForm:Part Voice:Act Tense:Past
    tud = VerbForm:Part Voice:Pass Tense:Past
    v = VerbForm:Part Voice:Act Tense:Pres
    tav = VerbForm:Part Voice:Pass Tense:Pres
    neg = Polarity:Neg
""")


def _estonian_nouns() -> dict[str, str]:
    cases = dict(pair.split() for pair in _ESTONIAN_CASES.split(", "))
    numbers = {"sg": "Sing", "pl": "Plur"}
    made = {f"{n} {c}": f"Number:{number} Case:{case}" for n, number in numbers.items() for c, case in cases.items()}
    return made | {"adt": "Number:Sing Case:Add"}


_ESTONIAN_NOUNS = _estonian_nouns()


class Vabamorf(Analyser):
    """Estonian, by vabamorf of `estnltk`: all readings of a form alike; it guesses nothing. A compound has `Compound:`
    and its last part."""

    def __init__(self) -> None:
        tool = _installed("estnltk.vabamorf.morf", "estnltk").Vabamorf.instance()
        self._analyze: Callable[..., Any] = tool.analyze

    def readings(self, form: str) -> Iterator[tuple[str, Iterable[str], float]]:
        (word,) = self._analyze([form], disambiguate=False, guess=False, propername=False)
        for found in word["analysis"]:
            kind = found["partofspeech"]
            meant = _read(_ESTONIAN_CLASSES, [kind])
            for one in found["form"].split(", "):
                meant += _read(_ESTONIAN_VERBS if kind == "V" else _ESTONIAN_NOUNS, [one])
            parts = found["root"].split("_")
            compound = [f"Compound:{lemma_attribute(parts[-1])[6:]}"] if len(parts) > 1 else []
            yield found["lemma"], (*meant, *compound), 1.0


# Finnish. What Voikko says of a word, as the treebank TDT names it.

_FINNISH = meanings("""
    CLASS:nimisana = POS:NOUN
    CLASS:laatusana = POS:ADJ
    CLASS:nimisana_laatusana = POS:NOUN POS:ADJ
    CLASS:huudahdussana = POS:INTJ
    CLASS:etunimi CLASS:sukunimi CLASS:paikannimi CLASS:nimi = POS:PROPN
    CLASS:teonsana = POS:VERB
    CLASS:lyhenne = Abbr:Yes
    CLASS:seikkasana = POS:ADV
    CLASS:lukusana = POS:NUM
    CLASS:asemosana = POS:PRON
    CLASS:sidesana = POS:CCONJ POS:SCONJ
    CLASS:suhdesana = POS:ADP
    CLASS:kieltosana = POS:AUX Polarity:Neg
    SIJAMUOTO:nimento = Case:Nom
    SIJAMUOTO:omanto = Case:Gen
    SIJAMUOTO:osanto = Case:Par
    SIJAMUOTO:olento = Case:Ess
    SIJAMUOTO:tulento = Case:Tra
    SIJAMUOTO:sisaolento = Case:Ine
    SIJAMUOTO:sisaeronto = Case:Ela
    SIJAMUOTO:sisatulento = Case:Ill
    SIJAMUOTO:ulkoolento = Case:Ade
    SIJAMUOTO:ulkoeronto = Case:Abl
    SIJAMUOTO:ulkotulento = Case:All
    SIJAMUOTO:vajanto = Case:Abe
    SIJAMUOTO:seuranto = Case:Com
    SIJAMUOTO:keinonto = Case:Ins
    SIJAMUOTO:kohdanto = Case:Acc
    SIJAMUOTO:kerrontosti = Derivation:Sti
    COMPARISON:comparative = Degree:Cmp
    COMPARISON:superlative = Degree:Sup
    MOOD:A-infinitive = VerbForm:Inf InfForm:1
    MOOD:E-infinitive = VerbForm:Inf InfForm:2
    MOOD:MA-infinitive = VerbForm:Inf InfForm:3
    MOOD:MINEN-infinitive = VerbForm:Inf InfForm:4
    MOOD:MAINEN-infinitive = VerbForm:Inf InfForm:5
    MOOD:indicative = VerbForm:Fin Mood:Ind
    MOOD:conditional = VerbForm:Fin Mood:Cnd
    MOOD:imperative = VerbForm:Fin Mood:Imp
    MOOD:potential = VerbForm:Fin Mood:Pot
    NUMBER:singular = Number:Sing
    NUMBER:plural = Number:Plur
    PERSON:1 = Person:1
    PERSON:2 = Person:2
    PERSON:3 = Person:3
    PERSON:4 = Voice:Pass
    TENSE:present_simple = Tense:Pres
    TENSE:past_imperfective = Tense:Past
    FOCUS:kin = Clitic:Kin
    FOCUS:kaan = Clitic:Kaan
    POSSESSIVE:1s = Number[psor]:Sing Person[psor]:1
    POSSESSIVE:2s = Number[psor]:Sing Person[psor]:2
    POSSESSIVE:1p = Number[psor]:Plur Person[psor]:1
    POSSESSIVE:2p = Number[psor]:Plur Person[psor]:2
    POSSESSIVE:3 = Person[psor]:3
    NEGATIVE:true = Connegative:Yes
    PARTICIPLE:present_active = VerbForm:Part PartForm:Pres Voice:Act
    PARTICIPLE:present_passive = VerbForm:Part PartForm:Pres Voice:Pass
    PARTICIPLE:past_active = VerbForm:Part PartForm:Past Voice:Act
    PARTICIPLE:past_passive = VerbForm:Part PartForm:Past Voice:Pass
    PARTICIPLE:agent = VerbForm:Part PartForm:Agt
    PARTICIPLE:negation = VerbForm:Part PartForm:Neg
""")
_FINNISH_FIELDS = tuple(dict.fromkeys(tag.partition(":")[0] for tag in _FINNISH))


class Voikko(Analyser):
    """Finnish, by `pyvoikko`: all readings of a form alike."""

    def __init__(self) -> None:
        self._analyse: Callable[[str], Iterable[Any]] = _installed("pyvoikko", "pyvoikko").analyse

    def readings(self, form: str) -> Iterator[tuple[str, Iterable[str], float]]:
        for found in self._analyse(form):
            tags = [f"{name}:{getattr(found, name)}" for name in _FINNISH_FIELDS]
            yield found.BASEFORM, _read(_FINNISH, tags), 1.0


# Russian and Ukrainian. The grammemes of OpenCorpora.

_RUSSIAN = meanings("""
    NOUN = POS:NOUN
    Name Surn Patr Geox Orgn = POS:PROPN
    ADJF = POS:ADJ
    ADJS = POS:ADJ Variant:Short
    COMP = POS:ADJ POS:ADV Degree:Cmp
    VERB = POS:VERB VerbForm:Fin
    INFN = POS:VERB VerbForm:Inf
    PRTF = POS:VERB VerbForm:Part
    PRTS = POS:VERB VerbForm:Part Variant:Short
    GRND = POS:VERB VerbForm:Conv
    NUMR = POS:NUM
    NUMB ROMN = POS:NUM
    ADVB = POS:ADV
    NPRO = POS:PRON
    PRED = POS:ADV
    PREP = POS:ADP
    CONJ = POS:CCONJ POS:SCONJ
    PRCL = POS:PART
    INTJ = POS:INTJ
    PNCT = POS:PUNCT
    LATN = POS:X Foreign:Yes
    Apro = POS:DET
    Anum = NumType:Ord
    anim = Animacy:Anim
    inan = Animacy:Inan
    masc = Gender:Masc
    femn = Gender:Fem
    neut = Gender:Neut
    ms-f = Gender:Masc Gender:Fem
    sing = Number:Sing
    plur = Number:Plur
    nomn = Case:Nom
    gent gen1 = Case:Gen
    gen2 = Case:Par
    datv = Case:Dat
    accs acc2 = Case:Acc
    ablt = Case:Ins
    loct loc1 loc2 = Case:Loc
    voct = Case:Voc
    perf = Aspect:Perf
    impf = Aspect:Imp
    pres = Tense:Pres
    past = Tense:Past
    futr = Tense:Fut
    indc = Mood:Ind
    impr = Mood:Imp
    1per = Person:1
    2per = Person:2
    3per = Person:3
    actv = Voice:Act
    pssv = Voice:Pass
    Supr = Degree:Sup
    Abbr = Abbr:Yes
""")


class Pymorphy(Analyser):
    """Russian (or Ukrainian, `uk`), by `pymorphy3`: a reading weighs what it estimates of P(reading | form)."""

    def __init__(self, language: str = "ru") -> None:
        tool = _installed("pymorphy3", "pymorphy3")
        try:
            self._parse: Callable[[str], Iterable[Any]] = tool.MorphAnalyzer(lang=language).parse
        except ValueError as cause:  # no dictionaries of this language
            reason = f"pymorphy3 has no dictionary for {language!r}: {cause}; pip install pymorphy3-dicts-{language}"
            raise LexiconError(reason) from None

    def readings(self, form: str) -> Iterator[tuple[str, Iterable[str], float]]:
        for found in self._parse(form):
            if "UNKN" not in found.tag and found.score > 0:
                tags = {str(one) for one in found.tag.grammemes}
                meant = set(_read(_RUSSIAN, sorted(tags)))
                replaced = {"POS:NOUN"} if "POS:PROPN" in meant else {"POS:ADJ"} if "POS:DET" in meant else set()
                yield found.normal_form, meant - replaced, found.score


# HFST transducers. The tags of GiellaLT (`guolli+N+Sg+Nom`) and of Apertium (`ev<n><pl><abl>`), which agree in most.

_HFST = meanings("""
    N n = POS:NOUN
    Prop np = POS:PROPN
    V v vblex = POS:VERB
    vaux vbser vbmod = POS:AUX
    A adj = POS:ADJ
    Adv adv = POS:ADV
    Pron prn = POS:PRON
    Num num = POS:NUM
    Adp Po Pr post pr = POS:ADP
    CC cnjcoo = POS:CCONJ
    CS cnjsub = POS:SCONJ
    Pcle part = POS:PART
    Interj ij = POS:INTJ
    Det det = POS:DET
    PUNCT CLB Punct sent cm = POS:PUNCT
    Sg sg = Number:Sing
    Pl pl = Number:Plur
    Du du = Number:Dual
    Nom nom = Case:Nom
    Gen gen = Case:Gen
    Acc acc = Case:Acc
    Par par = Case:Par
    Dat dat = Case:Dat
    Loc loc = Case:Loc
    Ill ill = Case:Ill
    Ine ine = Case:Ine
    Ela ela = Case:Ela
    All all = Case:All
    Ade ade = Case:Ade
    Abl abl = Case:Abl
    Com com = Case:Com
    Ess ess = Case:Ess
    Tra tra = Case:Tra
    Abe abe = Case:Abe
    Ins ins = Case:Ins
    Voc voc = Case:Voc
    Sg1 p1_sg = Person:1 Number:Sing
    Sg2 p2_sg = Person:2 Number:Sing
    Sg3 p3_sg = Person:3 Number:Sing
    Du1 = Person:1 Number:Dual
    Du2 = Person:2 Number:Dual
    Du3 = Person:3 Number:Dual
    Pl1 p1_pl = Person:1 Number:Plur
    Pl2 p2_pl = Person:2 Number:Plur
    Pl3 p3_pl = Person:3 Number:Plur
    p1 = Person:1
    p2 = Person:2
    p3 = Person:3
    m Msc = Gender:Masc
    f Fem = Gender:Fem
    nt Neu = Gender:Neut
    px1sg PxSg1 = Number[psor]:Sing Person[psor]:1
    px2sg PxSg2 = Number[psor]:Sing Person[psor]:2
    px3sg PxSg3 = Number[psor]:Sing Person[psor]:3
    px1pl PxPl1 = Number[psor]:Plur Person[psor]:1
    px2pl PxPl2 = Number[psor]:Plur Person[psor]:2
    px3pl PxPl3 = Number[psor]:Plur Person[psor]:3
    px3sp = Person[psor]:3
    Ind = Mood:Ind VerbForm:Fin
    Cond cni = Mood:Cnd VerbForm:Fin
    Pot pot = Mood:Pot VerbForm:Fin
    Imprt Imp imp = Mood:Imp VerbForm:Fin
    Prs pres pri = Tense:Pres
    Prt Pret past pii = Tense:Past
    fut fti = Tense:Fut
    Inf inf = VerbForm:Inf
    PrsPrc pprs = VerbForm:Part Tense:Pres
    PrfPrc pp = VerbForm:Part Tense:Past
    Ger ger = VerbForm:Ger
    VGen = VerbForm:Ger
    Sup = VerbForm:Sup
    ConNeg = Connegative:Yes
    Neg neg = Polarity:Neg
    Pass pass = Voice:Pass
    Act actv = Voice:Act
    caus = Voice:Cau
    Comp comp = Degree:Cmp
    Superl sup = Degree:Sup
    Pers pers = PronType:Prs
    Dem dem = PronType:Dem
    Rel rel = PronType:Rel
    Interr itg = PronType:Int
    Indef ind = PronType:Ind
    Refl ref = Reflex:Yes
    Ord ord = NumType:Ord
    ABBR Abbr abbr = Abbr:Yes
""")
_ANGLES = re.compile(r"<([^<>]+)>")


class Hfst(Analyser):
    """A transducer of HFST in optimised lookup (`.hfstol`, `.hfst`), by `pyhfst`: a reading of cost w weighs exp(-w).

    Readings are `lemma+N+Sg+Nom` (GiellaLT) or `lemma<n><sg><nom>` (Apertium). `tags` says what tags mean in UD, on
    top of what these two projects usually do; a tag that nobody explained is `Tag:` and itself.
    """

    def __init__(self, path: StrPath, *, tags: Mapping[str, str] | None = None) -> None:
        tool = _installed("pyhfst", "pyhfst")
        self._tags = {**_HFST, **(tags or {})}
        try:
            self._lookup: Callable[[str], Iterable[Any]] = tool.HfstInputStream(fspath(path)).read().lookup
        except OSError as cause:
            raise LexiconError(f"the file cannot be read: {cause.strerror}", path=path) from cause
        except Exception as cause:  # of whatever kind: pyhfst reads a file that is no transducer until something breaks
            reason = "a transducer in HFST's optimised lookup format is required; hfst-fst2fst -w makes one"
            raise LexiconError(reason, path=path) from cause

    def readings(self, form: str) -> Iterator[tuple[str, Iterable[str], float]]:
        found = [(text, float(cost)) for text, cost in self._lookup(form)]
        least = min((cost for _, cost in found), default=0.0)
        for text, cost in found:
            lemma, tags = _cut_tags(text)
            yield lemma, _read(self._tags, tags, unknown="Tag"), math.exp(least - cost)


def _cut_tags(text: str) -> tuple[str, list[str]]:
    """The lemma and the tags of a reading; of a compound (`a<n>+b<n>`, `a+N#b+N`), the last part's tags."""
    if "<" in text:
        last = re.split(r"(?<=>)[+#]", text)[-1]
        return _ANGLES.sub("", text), _ANGLES.findall(last)
    *_, last = re.split(r"(?<=.)#(?=.)", text)
    lemma, *tags = last.split("+") if last.strip("+") else (last,)
    return text.removesuffix(last) + lemma, tags


# UniMorph: lemma TAB form TAB features, such as `V;IND;PRS;3;SG`.

_UNIMORPH = meanings("""
    N = POS:NOUN
    PROPN = POS:PROPN
    ADJ = POS:ADJ
    V = POS:VERB
    V.PTCP = POS:VERB VerbForm:Part
    V.CVB = POS:VERB VerbForm:Conv
    V.MSDR = POS:VERB VerbForm:Vnoun
    ADV = POS:ADV
    PRO = POS:PRON
    DET = POS:DET
    ART = POS:DET PronType:Art
    AUX = POS:AUX
    ADP = POS:ADP
    NUM = POS:NUM
    CONJ = POS:CCONJ
    PART = POS:PART
    INTJ = POS:INTJ
    SG = Number:Sing
    PL = Number:Plur
    DU = Number:Dual
    1 = Person:1
    2 = Person:2
    3 = Person:3
    MASC = Gender:Masc
    FEM = Gender:Fem
    NEUT = Gender:Neut
    ANIM = Animacy:Anim
    INAN = Animacy:Inan
    NOM = Case:Nom
    ACC = Case:Acc
    GEN = Case:Gen
    DAT = Case:Dat
    INS = Case:Ins
    VOC = Case:Voc
    ABL = Case:Abl
    PRT = Case:Par
    FRML ESS = Case:Ess
    TRANS = Case:Tra
    COM = Case:Com
    PRIV = Case:Abe
    TERM = Case:Ter
    EQTV = Case:Equ
    IN+ESS = Case:Ine
    IN+ABL = Case:Ela
    IN+ALL = Case:Ill
    AT+ESS = Case:Ade
    AT+ABL = Case:Abl
    AT+ALL = Case:All
    ON+ESS = Case:Sup
    LOC = Case:Loc
    PST = Tense:Past
    PRS = Tense:Pres
    FUT = Tense:Fut
    PFV = Aspect:Perf
    IPFV = Aspect:Imp
    PROG = Aspect:Prog
    HAB = Aspect:Hab
    IND = Mood:Ind
    SBJV = Mood:Sub
    COND = Mood:Cnd
    IMP = Mood:Imp
    OPT = Mood:Opt
    POT = Mood:Pot
    NFIN = VerbForm:Inf
    FIN = VerbForm:Fin
    ACT = Voice:Act
    PASS = Voice:Pass
    CAUS = Voice:Cau
    POS = Polarity:Pos
    NEG = Polarity:Neg
    CMPR = Degree:Cmp
    SPRL = Degree:Sup
    DEF = Definite:Def
    INDF = Definite:Ind
    PSS1S = Number[psor]:Sing Person[psor]:1
    PSS2S = Number[psor]:Sing Person[psor]:2
    PSS3S = Number[psor]:Sing Person[psor]:3
    PSS1P = Number[psor]:Plur Person[psor]:1
    PSS2P = Number[psor]:Plur Person[psor]:2
    PSS3P = Number[psor]:Plur Person[psor]:3
    FORM = Polite:Form
    INFM = Polite:Infm
""")


class UniMorph(Analyser):
    """A table of UniMorph, `lemma TAB form TAB V;IND;PRS;3;SG`, for one of its 170 languages: readings all alike.

    A feature without a name in UD is `Tag:` and itself; alternatives (`{1/3}`, `1/3`) give all of them.
    """

    def __init__(self, path: StrPath, *, lowercase: bool = True) -> None:
        self._known: dict[str, list[tuple[str, list[str]]]] = {}
        for line in read_entries(path, error=LexiconError):
            columns = line.text.rstrip("\r\n").split("\t")
            if len(columns) < 3 or not columns[1].strip():
                line.fail(f"lemma TAB form TAB features are required, found {len(columns)} columns; complete them")
            form = columns[1].lower() if lowercase else columns[1]
            tags = [tag for part in columns[2].split(";") for tag in re.split(r"[{}/]", part) if tag]
            self._known.setdefault(form, []).append((columns[0], _read(_UNIMORPH, tags, unknown="Tag")))
        if not self._known:
            raise LexiconError("no entry in the file: it holds blank lines only", path=path)

    def readings(self, form: str) -> Iterator[tuple[str, Iterable[str], float]]:
        return ((lemma, attributes, 1.0) for lemma, attributes in self._known.get(form, ()))


class Hunspell(Analyser):
    """A hunspell dictionary of any language: fields by their meaning in UD where that is known (French), else by
    their own names, and affixes as `Affix:-ler`, `Affix:re-`. A dictionary is gone through once for a whole table."""

    def __init__(self, dic: StrPath) -> None:
        self._dic = dic

    def table(self, forms: Iterable[str]) -> Readings:
        found = hunspell_readings(self._dic, forms, lemmas=None, weight=1.0)
        return Readings({form: {one: 1 / len(own) for one in own} for form, own in found.entries.items()})

    def readings(self, form: str) -> Iterator[tuple[None, Iterable[str], float]]:
        return ((None, reading, weight) for reading, weight in self.table([form])(form).items())


class FromLexicon(Analyser):
    """A lexicon, or a function from form to attributes, as an analyser: the union of what is known is one reading."""

    def __init__(self, lexicon: Callable[[str], Iterable[str]]) -> None:
        self._lexicon = lexicon

    def readings(self, form: str) -> Iterator[tuple[None, Iterable[str], float]]:
        found = self._lexicon(form)
        if found:
            yield None, found, 1.0


class FromTable(Analyser):
    """A table of readings, as `Analyser.table` makes it; weights that do not sum to 1 are divided by their sum."""

    def __init__(self, path: StrPath) -> None:
        self._known = Readings.from_tsv(path)

    def readings(self, form: str) -> Iterator[tuple[None, Iterable[str], float]]:
        return ((None, reading, weight) for reading, weight in self._known(form).items())


ANALYSERS: dict[str, Callable[..., Analyser]] = {
    "zeyrek": Zeyrek,
    "estnltk": Vabamorf,
    "pyvoikko": Voikko,
    "pymorphy3": Pymorphy,
    "hfst": Hfst,
    "unimorph": UniMorph,
    "hunspell": Hunspell,
    "readings": FromTable,
    "lefff": lambda path: FromLexicon(lefff(path)),
    "lexique": lambda path: FromLexicon(lexique(path)),
}
_ALONE = ("zeyrek", "estnltk", "pyvoikko", "pymorphy3")  # which need no file


def analyser_named(name: str) -> Analyser:
    """A tool (`zeyrek`, `pymorphy3`), a file with what reads it (`hfst:FILE`, `unimorph:FILE`), or `MODULE:FUNCTION`,
    one's own, from form to attributes.

    analyser_named("my_tags:attributes")("maisons")       # {frozenset({"POS:NOUN", "Number:Plur"}): 1.0}
    """
    kind, colon, rest = name.partition(":")
    if kind in ANALYSERS and (rest or kind in _ALONE):
        if rest and kind in _ALONE and kind != "pymorphy3":
            raise ConfigError(f"the analyser {kind} takes no file, found {name!r}; name it alone")
        return ANALYSERS[kind](*([rest] if rest else []))
    if not (kind and colon and rest):
        files = ", ".join(f"{one}:FILE" for one in ANALYSERS if one not in _ALONE)
        known = f"{', '.join(_ALONE)}, {files}"
        raise ConfigError(f"an analyser is {known} or MODULE:FUNCTION of one's own, found {name!r}")
    try:
        function = getattr(import_module(kind), rest)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"the analyser {name}: {error}; put the module {kind}.py into this folder, or install it, with {rest} in it"
        ) from None
    return FromLexicon(Lexicon.from_function(function))
