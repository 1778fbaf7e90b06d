"""The conjugation of French verbs: every form follows from the infinitive, a table of irregulars and spelling rules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from llrnn.text.french.verbs import DOUBLING, IRREGULAR

Six = tuple[str, ...]
"""One form for each of je, tu, il, nous, vous, ils."""

_IMPERFECT = ["ais", "ais", "ait", "ions", "iez", "aient"]
_FUTURE = ["ai", "as", "a", "ons", "ez", "ont"]
_SUBJUNCTIVE = ["e", "es", "e", "ions", "iez", "ent"]
_PAST = {
    "a": ["ai", "as", "a", "âmes", "âtes", "èrent"],
    "i": ["is", "is", "it", "îmes", "îtes", "irent"],
    "u": ["us", "us", "ut", "ûmes", "ûtes", "urent"],
    "in": ["ins", "ins", "int", "înmes", "întes", "inrent"],
}
_DOUBLING = DOUBLING.split()
# The two verbs whose imperfect, subjunctive and gerund follow from nothing else.
_SUBJUNCTIVES = {"être": "sois sois soit soyons soyez soient", "avoir": "aie aies ait ayons ayez aient"}
_IMPERFECT_STEMS = {"être": "ét"}
_GERUNDS = {"être": "étant", "avoir": "ayant", "savoir": "sachant"}


@dataclass(frozen=True, slots=True)
class Paradigm:
    """All the forms of a verb; `tenses` by name, the participle in the masculine singular."""

    tenses: Mapping[str, Six]
    participle: str
    gerund: str


@dataclass(frozen=True, slots=True)
class _Parts:
    """What the other forms follow from: the present, the future stem, je in the passé simple, and so on."""

    present: Six
    future: str
    past: str
    participle: str
    subjunctive: tuple[str, str] | None = None


def _read_irregulars() -> dict[str, _Parts]:
    table = {}
    for line in IRREGULAR.strip().splitlines():
        suffix, present, future, past, participle, *stems = (part.strip() for part in line.split(":"))
        pair = (stems[0].split()[0], stems[0].split()[1]) if stems else None
        table[suffix] = _Parts(tuple(present.split()), future, past, participle, pair)
    return table


_IRREGULARS = _read_irregulars()
# `être` and `avoir` are no endings: `paraître` and `savoir` do not follow them.
_WHOLE_WORDS = ("être", "avoir", "aller", "dire", "rire", "lire")
_PREFIXED = {"sourire": "rire", "relire": "lire", "élire": "lire"}


@cache
def conjugate(infinitive: str) -> Paradigm:
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
        return _prefixed(infinitive.removesuffix(suffix), _IRREGULARS[suffix])
    if infinitive.endswith("er"):
        return _first_group(infinitive)
    if infinitive.endswith("ir") and not infinitive.endswith("oir"):
        return _second_group(infinitive)
    assert infinitive.endswith("re"), infinitive
    return _third_group(infinitive)


def _irregular_suffix(infinitive: str) -> str | None:
    if infinitive in _PREFIXED:
        return _PREFIXED[infinitive]
    fitting = [suffix for suffix in _IRREGULARS if infinitive.endswith(suffix)]
    fitting = [suffix for suffix in fitting if suffix not in _WHOLE_WORDS or suffix == infinitive]
    return max(fitting, key=len, default=None)


def _prefixed(prefix: str, parts: _Parts) -> _Parts:
    stems = parts.subjunctive
    return _Parts(
        tuple(prefix + form for form in parts.present),
        prefix + parts.future,
        prefix + parts.past,
        prefix + parts.participle,
        (prefix + stems[0], prefix + stems[1]) if stems else None,
    )


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
    if stem.endswith("g"):
        return stem + "e"
    return stem[:-1] + "ç" if stem.endswith("c") else stem


def _hard(stem: str, ending: str) -> str:
    """Undo the softening where it is not needed: mangeais but mangions, mangèrent."""
    if not ending.startswith(("i", "è")):
        return stem
    if stem.endswith("ge"):
        return stem[:-1]
    return stem[:-1] + "c" if stem.endswith("ç") else stem


def _second_group(infinitive: str) -> _Parts:
    stem = infinitive[:-1]
    present = tuple(stem + ending for ending in ("s", "s", "t", "ssons", "ssez", "ssent"))
    return _Parts(present, infinitive, stem + "s", stem)


def _third_group(infinitive: str) -> _Parts:
    stem = infinitive[:-2]
    present = tuple(stem + ending for ending in ("s", "s", "", "ons", "ez", "ent"))
    return _Parts(present, infinitive[:-1], stem + "is", stem + "u")


def _past(je: str, infinitive: str) -> Six:
    pattern = re.search("(ai|in|i|u)s?$", je)
    assert pattern, infinitive
    vowels = pattern.group(1)
    stem = je[: pattern.start()]
    return tuple(_hard(stem, end) + end for end in _PAST["a" if vowels == "ai" else vowels])


def _subjunctive(infinitive: str, parts: _Parts, nous: str) -> Six:
    if infinitive in _SUBJUNCTIVES:
        return tuple(_SUBJUNCTIVES[infinitive].split())
    strong, weak = parts.subjunctive or (parts.present[5].removesuffix("ent"), nous)
    return tuple((_hard(weak, end) if end[0] == "i" else strong) + end for end in _SUBJUNCTIVE)
