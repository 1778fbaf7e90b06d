"""The closed classes: articles, pronouns, prepositions, conjunctions, adverbs, punctuation."""

from __future__ import annotations

from functools import cache

from llrnn.text.french.choice import Weighted, zipf
from llrnn.text.french.morphology import manner_adverb
from llrnn.text.french.words import FEMININE, MASCULINE, PLURAL, SINGULAR, Concord, Word, gender_number


def eliding(form: str, lemma: str, pos: str, feats: dict[str, str] | None = None) -> Word:
    """A word that loses its last vowel before another: `de`, `que`, `je`."""
    feats = feats or {}
    return Word(form, lemma, pos, feats, Word(form[:-1] + "'", lemma, pos, feats))


def _adverbs(text: str, feats: dict[str, str] | None = None) -> Weighted[Word]:
    return zipf([Word(form, form, "ADV", feats or {}) for form in text.split()])


_DEFINITE = {"Definite": "Def", "PronType": "Art"}
_INDEFINITE = {"Definite": "Ind", "PronType": "Art"}
_PERSONAL = {"PronType": "Prs"}
_RELATIVE = {"PronType": "Rel"}

# Before a vowel, the article no longer shows its gender.
_L = Word("l'", "le", "DET", _DEFINITE | {"Number": SINGULAR})
LE = Word("le", "le", "DET", _DEFINITE | gender_number(MASCULINE, SINGULAR), _L)
LA = Word("la", "le", "DET", _DEFINITE | gender_number(FEMININE, SINGULAR), _L)
LES = Word("les", "le", "DET", _DEFINITE | {"Number": PLURAL})
UN = Word("un", "un", "DET", _INDEFINITE | gender_number(MASCULINE, SINGULAR))
UNE = Word("une", "un", "DET", _INDEFINITE | gender_number(FEMININE, SINGULAR))
DES = Word("des", "un", "DET", _INDEFINITE | {"Number": PLURAL})
DE_ARTICLE = eliding("de", "un", "DET", _INDEFINITE)
"""`de grandes maisons`, `pas de maison`"""
DE_PARTITIVE = eliding("de", "de", "DET", _INDEFINITE)
"""`de la soupe`, `de l'eau`; with `le` it becomes `du`"""
CHAQUE = Word("chaque", "chaque", "DET", {"Number": SINGULAR, "PronType": "Tot"})
PLUSIEURS = Word("plusieurs", "plusieurs", "DET", {"Number": PLURAL, "PronType": "Ind"})
QUELQUES = Word("quelques", "quelque", "DET", {"Number": PLURAL, "PronType": "Ind"})

DE = eliding("de", "de", "ADP")
A = Word("à", "à", "ADP")
EN = Word("en", "en", "ADP")
PAR = Word("par", "par", "ADP")
POUR = Word("pour", "pour", "ADP")
_DU = _DEFINITE | gender_number(MASCULINE, SINGULAR)
_DES = _DEFINITE | {"Number": PLURAL}
CONTRACTIONS = {
    (DE, LE): Word("du", "de", "ADP", _DU),
    (DE, LES): Word("des", "de", "ADP", _DES),
    (A, LE): Word("au", "à", "ADP", _DU),
    (A, LES): Word("aux", "à", "ADP", _DES),
    (DE_PARTITIVE, LE): Word("du", "de", "DET", _INDEFINITE | gender_number(MASCULINE, SINGULAR)),
}

AND = Word("et", "et", "CCONJ")
OR = Word("ou", "ou", "CCONJ")
BUT = Word("mais", "mais", "CCONJ")
THAT = eliding("que", "que", "SCONJ")
BECAUSE = Word("parce", "parce", "SCONJ")
IF = Word("si", "si", "SCONJ")
IF_ELIDED = Word("s'", "si", "SCONJ")
WHEN = [Word("quand", "quand", "SCONJ"), eliding("lorsque", "lorsque", "SCONJ")]
SINCE = [eliding("puisque", "puisque", "SCONJ"), Word("car", "car", "CCONJ"), Word("comme", "comme", "SCONJ")]

NE = eliding("ne", "ne", "ADV", {"Polarity": "Neg"})
NEGATIONS = _adverbs("pas plus jamais pas guère", {"Polarity": "Neg"})

QUI = Word("qui", "qui", "PRON", _RELATIVE)
QUE = eliding("que", "que", "PRON", _RELATIVE)
DONT = Word("dont", "dont", "PRON", _RELATIVE)
OU = Word("où", "où", "PRON", _RELATIVE)
WHO = Word("qui", "qui", "PRON", {"PronType": "Int"})
CE = eliding("ce", "ce", "PRON", {"PronType": "Dem"})
IL_IMPERSONAL = Word("il", "il", "PRON", gender_number(MASCULINE, SINGULAR) | {"Person": "3"} | _PERSONAL)
Y = Word("y", "y", "PRON", {"Person": "3"} | _PERSONAL)
LUI = Word("lui", "lui", "PRON", {"Number": SINGULAR, "Person": "3"} | _PERSONAL)
LEUR = Word("leur", "lui", "PRON", {"Number": PLURAL, "Person": "3"} | _PERSONAL)

COMMA, STOP, QUESTION, EXCLAMATION = (Word(sign, sign, "PUNCT") for sign in ",.?!")

FREQUENCY = _adverbs("souvent toujours déjà encore parfois rarement bien vraiment aussi enfin")
DEGREE = _adverbs("très trop assez plutôt vraiment extrêmement")
_MANNER = """lent rapide facile simple sérieux difficile calme prudent silencieux doux franc poli patient
    attentif brutal courageux joyeux discret violent soigneux nerveux triste gracieux secret constant
    élégant intelligent énergique fier maladroit habile sincère honnête tendre cruel généreux timide
    progressif immédiat soudain régulier définitif complet entier parfait étrange clair vif public
    officiel paisible tranquille froid chaleureux méthodique ingénieux obstiné"""
MANNER = _adverbs(" ".join(manner_adverb(adjective) for adjective in _MANNER.split()))
TIMES = {
    "present": _adverbs("aujourd'hui maintenant actuellement désormais"),
    "past": _adverbs("hier récemment avant-hier"),
    "imperfect": _adverbs("autrefois jadis alors habituellement"),
    "future": _adverbs("demain bientôt après-demain prochainement"),
}
OPENERS = _adverbs(
    "pourtant cependant ainsi ensuite malheureusement soudain heureusement finalement enfin toutefois bref"
)

# Prepositions of place before a building, a landscape or a thing; two words are joined by `fixed`.
PLACE = zipf(["dans", "devant", "derrière", "près de", "autour de", "à côté de", "loin de", "au-dessus de", "vers"])


@cache
def preposition(text: str) -> tuple[Word, ...]:
    """`près de` as its words."""
    known = {"de": DE, "à": A, "en": EN}
    return tuple(known[form] if form in known else Word(form, form, "ADP") for form in text.split())


@cache
def definite(gender: str, number: str) -> Word:
    if number == PLURAL:
        return LES
    return LE if gender == MASCULINE else LA


@cache
def indefinite(gender: str, number: str) -> Word:
    if number == PLURAL:
        return DES
    return UN if gender == MASCULINE else UNE


@cache
def demonstrative(gender: str, number: str) -> Word:
    feats = {"PronType": "Dem"}
    if number == PLURAL:
        return Word("ces", "ce", "DET", feats | {"Number": PLURAL})
    feats |= gender_number(gender, number)
    if gender == FEMININE:
        return Word("cette", "ce", "DET", feats)
    return Word("ce", "ce", "DET", feats, Word("cet", "ce", "DET", feats))


@cache
def possessive(gender: str, number: str, owner: Concord) -> Word:
    """`mon amie`: before a vowel the feminine borrows the masculine form."""
    feats = {"Number": number, "Person": owner.person, "Poss": "Yes", "PronType": "Prs"}
    if owner.number == PLURAL:
        one, many = {"1": ("notre", "nos"), "2": ("votre", "vos"), "3": ("leur", "leurs")}[owner.person]
        return Word(one if number == SINGULAR else many, "son", "DET", feats)
    letter = {"1": "m", "2": "t", "3": "s"}[owner.person]
    if number == PLURAL:
        return Word(letter + "es", "son", "DET", feats)
    feats |= {"Gender": gender}
    masculine = Word(letter + "on", "son", "DET", feats)
    return masculine if gender == MASCULINE else Word(letter + "a", "son", "DET", feats, masculine)


@cache
def subject_pronoun(agreement: Concord) -> Word:
    gender, number, person = agreement
    feats = {"Number": number, "Person": person, "PronType": "Prs"}
    if person == "3":
        form = ("il" if gender == MASCULINE else "elle") + ("s" if number == PLURAL else "")
        return Word(form, "il", "PRON", feats | {"Gender": gender})
    form = {("1", SINGULAR): "je", ("2", SINGULAR): "tu", ("1", PLURAL): "nous", ("2", PLURAL): "vous"}[person, number]
    return eliding("je", "je", "PRON", feats) if form == "je" else Word(form, form, "PRON", feats)


@cache
def reflexive_pronoun(agreement: Concord) -> Word:
    feats = {"Person": agreement.person, "PronType": "Prs", "Reflex": "Yes"}
    if agreement.person == "3":
        return eliding("se", "se", "PRON", feats)
    feats |= {"Number": agreement.number}
    if agreement.number == PLURAL:
        form = {"1": "nous", "2": "vous"}[agreement.person]
        return Word(form, "se", "PRON", feats)
    return eliding({"1": "me", "2": "te"}[agreement.person], "se", "PRON", feats)


@cache
def object_pronoun(agreement: Concord) -> Word:
    feats = {"Number": agreement.number, "Person": "3", "PronType": "Prs"}
    if agreement.number == PLURAL:
        return Word("les", "le", "PRON", feats)
    form = "le" if agreement.gender == MASCULINE else "la"
    return eliding(form, "le", "PRON", feats | {"Gender": agreement.gender})
