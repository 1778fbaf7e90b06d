"""How French words change: plural, feminine, adverbs in -ment, elision before a vowel sound, and the conjugation.

Every form of a verb follows from the infinitive, a table of irregular verbs and spelling rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from llrnn.text.french import word_lists as lists

_VOWELS = "aàâäeéèêëiîïoôöuùûüœæ"
# Words whose h is aspirated keep the full article: le hibou, la honte. All others elide: l'homme, l'hôtel.
_NOT_ELIDING = ("onz", "oui", *lists.ASPIRATED.split())
_IN_X, _ALS, _AIL_TO_AUX = (words.split() for words in (lists.PLURAL_IN_X, lists.PLURAL_ALS, lists.PLURAL_AIL_TO_AUX))
_FEMININES = dict(pair.split("/") for pair in lists.IRREGULAR_FEMININES.split())
_FEMININE_ENDINGS = [
    pair.split("/") for pair in ["er/ère", "eux/euse", "f/ve", "el/elle", "eil/eille", "en/enne", "on/onne", "et/ette"]
]

Six = tuple[str, ...]
"""One form for each of je, tu, il, nous, vous, ils."""

_IMPERFECT = ("ais", "ais", "ait", "ions", "iez", "aient")
_FUTURE = ("ai", "as", "a", "ons", "ez", "ont")
_SUBJUNCTIVE = ("e", "es", "e", "ions", "iez", "ent")
_PAST = {
    "ai": ("ai", "as", "a", "âmes", "âtes", "èrent"),
    "i": ("is", "is", "it", "îmes", "îtes", "irent"),
    "u": ("us", "us", "ut", "ûmes", "ûtes", "urent"),
    "in": ("ins", "ins", "int", "înmes", "întes", "inrent"),
}
_DOUBLING = lists.DOUBLING.split()
# The two verbs whose imperfect, subjunctive and gerund follow from nothing else.
_SUBJUNCTIVES = {"être": "sois sois soit soyons soyez soient", "avoir": "aie aies ait ayons ayez aient"}
_IMPERFECT_STEMS = {"être": "ét"}
_GERUNDS = {"être": "étant", "avoir": "ayant", "savoir": "sachant"}
# `être` and `avoir` are no endings: `paraître` and `savoir` do not follow them.
_WHOLE_WORDS = ("être", "avoir", "aller", "dire", "rire", "lire")
_PREFIXED = {"sourire": "rire", "relire": "lire", "élire": "lire"}


@cache
def begins_with_vowel(form: str) -> bool:
    """Whether the word makes the one before it elide: `amie`, `homme`, `y`; not `hibou`, `onze`, `yaourt`, `8`."""
    lower = form.lower()
    if lower.startswith(_NOT_ELIDING):
        return False
    return lower[0] in _VOWELS or lower[0] == "h" or lower == "y" or lower.startswith("yv")


def plural(singular: str) -> str:
    """The plural of a noun or an adjective."""
    if singular.endswith(("s", "x", "z")):
        return singular
    if singular in _IN_X or (singular.endswith(("au", "eu")) and singular != "bleu"):
        return singular + "x"
    if singular in _AIL_TO_AUX:
        return singular[:-3] + "aux"
    if singular.endswith("al") and singular not in _ALS:
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
    return (adjective if adjective[-1] in "iué" else feminine(adjective)) + "ment"


class Paradigm(NamedTuple):
    """All the forms of a verb; `tenses` by name, the participle in the masculine singular."""

    tenses: Mapping[str, Six]
    participle: str
    gerund: str


class _Parts(NamedTuple):
    """What the other forms follow from: the present, the future stem, je in the passé simple, and so on."""

    present: Six
    future: str
    past: str
    participle: str
    subjunctive: Six = ()

    def prefixed(self, prefix: str) -> _Parts:
        present, subjunctive = (tuple(prefix + form for form in forms) for forms in (self.present, self.subjunctive))
        return _Parts(present, prefix + self.future, prefix + self.past, prefix + self.participle, subjunctive)


def _irregular(line: str) -> tuple[str, _Parts]:
    suffix, present, future, past, participle, *stems = (part.strip() for part in line.split(":"))
    return suffix, _Parts(tuple(present.split()), future, past, participle, tuple(" ".join(stems).split()))


_IRREGULARS = dict(map(_irregular, lists.IRREGULAR_VERBS.strip().splitlines()))


@cache
def conjugate(infinitive: str) -> Paradigm:
    """All forms of a verb: `conjugate("manger").tenses["present"][3]` is `mangeons`."""
    parts = _parts(infinitive)
    nous = _IMPERFECT_STEMS.get(infinitive, parts.present[3].removesuffix("ons"))
    tenses = {
        "present": parts.present,
        "imperfect": tuple(_hard(nous, ending) + ending for ending in _IMPERFECT),
        "past": _past(parts.past, infinitive),
        "future": tuple(parts.future + ending for ending in _FUTURE),
        "conditional": tuple(parts.future + ending for ending in _IMPERFECT),
        "subjunctive": _subjunctive(infinitive, parts, nous),
    }
    return Paradigm(tenses, parts.participle, _GERUNDS.get(infinitive, nous + "ant"))


def _parts(infinitive: str) -> _Parts:
    suffix = _irregular_suffix(infinitive)
    if suffix is not None:
        return _IRREGULARS[suffix].prefixed(infinitive.removesuffix(suffix))
    if infinitive.endswith("er"):
        return _first_group(infinitive)
    if infinitive.endswith("ir") and not infinitive.endswith("oir"):
        return _Parts(("s", "s", "t", "ssons", "ssez", "ssent"), "r", "s", "").prefixed(infinitive[:-1])
    assert infinitive.endswith("re"), infinitive
    return _Parts(("s", "s", "", "ons", "ez", "ent"), "r", "is", "u").prefixed(infinitive[:-2])


def _irregular_suffix(infinitive: str) -> str | None:
    if infinitive in _PREFIXED:
        return _PREFIXED[infinitive]
    fitting = [suffix for suffix in _IRREGULARS if infinitive.endswith(suffix)]
    fitting = [suffix for suffix in fitting if suffix not in _WHOLE_WORDS or suffix == infinitive]
    return max(fitting, key=len, default=None)


def _first_group(infinitive: str) -> _Parts:
    stem = infinitive[:-2]
    strong = _strong(infinitive)
    present = (strong + "e", strong + "es", strong + "e", _soft(stem) + "ons", stem + "ez", strong + "ent")
    # `préférer` keeps its é in the future; `acheter`, `jeter`, `nettoyer` change as in the present.
    future = infinitive if re.search("é[^aeiouyéè]+er$", infinitive) else strong + "er"
    if infinitive.endswith("envoyer"):
        future = infinitive.removesuffix("oyer") + "err"
    return _Parts(present, future, _soft(stem) + "ai", stem + "é")


def _strong(infinitive: str) -> str:
    """The stem before a silent ending: achèt-, jett-, nettoi-, préfèr-."""
    stem = infinitive[:-2]
    if infinitive in _DOUBLING:
        return stem + stem[-1]
    if re.search("[aou]y$", stem):
        return stem[:-1] + "i"
    return re.sub("(?:e(?=[^aeiouyéèêhx]$)|é(?=[^aeiouyéèêâîôû]+$))", "è", stem)


def _soft(stem: str) -> str:
    """g and c keep their sound before a and o: mangeons, commençons."""
    return stem + "e" if stem.endswith("g") else re.sub("c$", "ç", stem)


def _hard(stem: str, ending: str) -> str:
    """Undo the softening where it is not needed: mangeais but mangions, mangèrent."""
    return re.sub("ç$", "c", re.sub("ge$", "g", stem)) if ending.startswith(("i", "è")) else stem


def _past(je: str, infinitive: str) -> Six:
    pattern = re.search("(ai|in|i|u)s?$", je)
    assert pattern, infinitive
    stem = je[: pattern.start()]
    return tuple(_hard(stem, end) + end for end in _PAST[pattern.group(1)])


def _subjunctive(infinitive: str, parts: _Parts, nous: str) -> Six:
    if infinitive in _SUBJUNCTIVES:
        return tuple(_SUBJUNCTIVES[infinitive].split())
    strong, weak = parts.subjunctive or (parts.present[5].removesuffix("ent"), nous)
    return tuple((_hard(weak, end) if end[0] == "i" else strong) + end for end in _SUBJUNCTIVE)
