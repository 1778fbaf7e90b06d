"""How French words change: plural, feminine, adverbs in -ment, and which words begin with a vowel sound."""

from __future__ import annotations

from functools import cache

from llrnn.text.french.adjectives import IRREGULAR_FEMININES
from llrnn.text.french.nouns import PLURAL_AIL_TO_AUX, PLURAL_ALS, PLURAL_IN_X

_VOWELS = "aàâäeéèêëiîïoôöuùûüœæ"
# Words whose h is aspirated keep the full article: le hibou, la honte. All others elide: l'homme, l'hôtel.
_ASPIRATED = [
    "hache",
    "haie",
    "hain",
    "haï",
    "hall",
    "hamac",
    "hameau",
    "hamster",
    "hangar",
    "hardi",
    "haricot",
    "harpe",
    "hasard",
    "hauss",
    "haut",
    "hérisson",
    "héron",
    "héros",
    "hêtre",
    "heurt",
    "hibou",
    "hollan",
    "homard",
    "hongr",
    "honte",
    "honteu",
    "houx",
    "huit",
    "hurl",
    "hutte",
    "handball",
    "harceler",
    "hambourg",
]
_NOT_ELIDING = ("onz", "oui", *_ASPIRATED)
_FEMININES = dict(pair.split("/") for pair in IRREGULAR_FEMININES.split())
_FEMININE_ENDINGS = (
    ("er", "ère"),
    ("eux", "euse"),
    ("f", "ve"),
    ("el", "elle"),
    ("eil", "eille"),
    ("en", "enne"),
    ("on", "onne"),
    ("et", "ette"),
)


@cache
def begins_with_vowel(form: str) -> bool:
    """Whether the word makes the one before it elide: `amie`, `homme`, `y`; not `hibou`, `onze`, `yaourt`, `8`."""
    lower = form.lower()
    if lower.startswith(_NOT_ELIDING):
        return False
    return lower[0] in _VOWELS or lower[0] == "h" or lower == "y" or lower.startswith("yv")


def plural(singular: str) -> str:
    if singular.endswith(("s", "x", "z")):
        return singular
    if singular in PLURAL_IN_X or (singular.endswith(("au", "eu")) and singular != "bleu"):
        return singular + "x"
    if singular in PLURAL_AIL_TO_AUX:
        return singular[:-3] + "aux"
    if singular.endswith("al") and singular not in PLURAL_ALS:
        return singular[:-2] + "aux"
    return singular + "s"


def feminine(masculine: str) -> str:
    """The feminine of an adjective, or of a noun for a person that behaves like one."""
    if masculine in _FEMININES:
        return _FEMININES[masculine]
    for ending, replacement in _FEMININE_ENDINGS:
        if masculine.endswith(ending):
            return masculine.removesuffix(ending) + replacement
    return masculine if masculine.endswith("e") else masculine + "e"


def manner_adverb(adjective: str) -> str:
    """`lent` gives `lentement` by its feminine, `prudent` prudemment, `vrai` vraiment."""
    if adjective != "lent" and adjective.endswith(("ent", "ant")):
        return adjective[:-2] + "mment"
    if adjective[-1] in "iué":
        return adjective + "ment"
    return feminine(adjective) + "ment"
