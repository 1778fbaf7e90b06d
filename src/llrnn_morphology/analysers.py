"""Morphological analysers, each behind the seam of `llrnn.text.morphology.Analyser`; what their tags mean is in `tags`.

A derived word of Turkish counts as what it is derived to; participles and verbal nouns stay verbs, nouns that are
predicates stay nouns, as in UD. Tools are extras, imported when they are asked for.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from itertools import pairwise
from os import fspath
from typing import Any

from llrnn.ground.errors import LexiconError, MissingExtraError
from llrnn.ground.files import StrPath
from llrnn.text.morphology import Analyser, attribute_value
from llrnn.text.readers import read_entries
from llrnn_morphology.tags import attributes_of, tag_table

Found = Iterator[tuple[str, Iterable[str], float]]
_DEFAULTS = ("Polarity:Pos", "Mood:Ind", "Aspect:Perf", "Tense:Pres")  # of Turkish verbs: the treebank spells them out
_ANGLES = re.compile(r"<([^<>]+)>")


def _installed(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtraError(package, package) from None


class Zeyrek(Analyser):
    """Turkish, by the package `zeyrek`; all readings of a form have equal weight, derivations are `Derivation:Agt` etc.

    For example:

        Zeyrek()("evlerde")
    """

    def __init__(self) -> None:
        tool = _installed("zeyrek", "zeyrek").MorphAnalyzer()
        logging.getLogger("zeyrek.rulebasedanalyzer").setLevel(logging.ERROR)  # it warns of every reading that it finds
        self._parse: Callable[[str], Iterable[Any]] = tool._parse  # analyze() cuts a text into words first, by NLTK

    def readings(self, form: str) -> Found:
        for found in self._parse(form):
            if found is not None:
                item = found.dict_item
                name = {"Prop": "PROPN"}.get(getattr(item.secondary_pos, "value", None) or "")
                yield item.lemma, _turkish([morpheme.id_ for morpheme, _ in found.morphemes], name), 1.0


def _turkish(chain: Sequence[str], name: str | None) -> set[str]:
    """Return the attributes of a chain of morphemes; `name`: a special part of speech of the root, or None."""
    classes, tags = tag_table("turkish", "classes"), tag_table("turkish")
    kept = {f"POS:{name}"} if name else {*attributes_of(classes, chain[:1])}
    derived: set[str] = set()
    for before, morpheme in pairwise(chain):
        if morpheme not in classes:
            kept |= {*attributes_of(tags, [morpheme])}
            derived |= {f"Derivation:{morpheme}"} if morpheme not in {*tags, "Zero"} else set()
        elif before not in {*tags, "Zero"}:  # after inflection it has what it had; after a derivation it begins anew
            kept = {*attributes_of(classes, [morpheme])}
    names = {one.partition(":")[0] for one in kept}
    if "POS:VERB" in kept:
        kept |= {default for default in _DEFAULTS if default.partition(":")[0] not in names}
    elif kept & {"POS:NOUN", "POS:PROPN", "POS:PRON"} and "Case" not in names:
        kept.add("Case:Nom")
    return kept | derived


@cache
def estonian_nouns() -> dict[str, str]:
    """Return the attributes of noun forms by their tag: `sg n`, `pl kom`."""
    numbers, cases = (("sg", "Sing"), ("pl", "Plur")), tag_table("estonian", "cases").items()
    made = {f"{n} {c}": f"Number:{number} Case:{case}" for n, number in numbers for c, case in cases}
    return made | {"adt": "Number:Sing Case:Add"}


class Vabamorf(Analyser):
    """Estonian, by vabamorf of the package `estnltk`; readings have equal weight, unknown words are not guessed.

    A compound has `Compound:` with its last part.

        Vabamorf()("majades")
    """

    def __init__(self) -> None:
        tool = _installed("estnltk.vabamorf.morf", "estnltk").Vabamorf.instance()
        self._analyze: Callable[..., Any] = tool.analyze

    def readings(self, form: str) -> Found:
        (word,) = self._analyze([form], disambiguate=False, guess=False, propername=False)
        for found in word["analysis"]:
            kind = found["partofspeech"]
            meant = attributes_of(tag_table("estonian", "classes"), [kind])
            for one in found["form"].split(", "):
                meant += attributes_of(tag_table("estonian", "verbs") if kind == "V" else estonian_nouns(), [one])
            parts = found["root"].split("_")
            compound = [f"Compound:{attribute_value(parts[-1])}"] if len(parts) > 1 else []
            yield found["lemma"], (*meant, *compound), 1.0


class Voikko(Analyser):
    """Finnish, by the package `pyvoikko`; readings have equal weight.

    For example:

        Voikko()("taloissa")
    """

    def __init__(self) -> None:
        self._analyse: Callable[[str], Iterable[Any]] = _installed("pyvoikko", "pyvoikko").analyse

    def readings(self, form: str) -> Found:
        for found in self._analyse(form):
            names = dict.fromkeys(tag.partition(":")[0] for tag in tag_table("finnish"))
            tags = [f"{name}:{getattr(found, name)}" for name in names]
            yield found.BASEFORM, attributes_of(tag_table("finnish"), tags), 1.0


class Pymorphy(Analyser):
    """Russian (or Ukrainian, `uk`), by the package `pymorphy3`; weights are its estimates of P(reading | form).

    For example:

        Pymorphy()("стали")
    """

    def __init__(self, language: str = "ru") -> None:
        tool = _installed("pymorphy3", "pymorphy3")
        try:
            self._parse: Callable[[str], Iterable[Any]] = tool.MorphAnalyzer(lang=language).parse
        except ValueError as cause:  # no dictionaries of this language
            reason = f"pymorphy3 has no dictionary for {language!r}: {cause}; pip install pymorphy3-dicts-{language}"
            raise LexiconError(reason) from None

    def readings(self, form: str) -> Found:
        for found in self._parse(form):
            if "UNKN" not in found.tag and found.score > 0:
                tags = {str(one) for one in found.tag.grammemes}
                meant = {*attributes_of(tag_table("opencorpora"), sorted(tags))}
                replaced = {"POS:NOUN"} if "POS:PROPN" in meant else {"POS:ADJ"} if "POS:DET" in meant else set()
                yield found.normal_form, meant - replaced, found.score


class Hfst(Analyser):
    """A transducer of HFST in optimised lookup format (`.hfstol`, `.hfst`), by the package `pyhfst`.

    A reading of cost w has weight exp(-w). Readings are `lemma+N+Sg+Nom` (GiellaLT) or `lemma<n><sg><nom>` (Apertium).
    `tags` maps tags to Universal Dependencies attributes, besides the usual ones of these projects; others are `Tag:…`.

        Hfst("analyser-sme.hfstol")("guolli")
    """

    def __init__(self, path: StrPath, *, tags: Mapping[str, str] | None = None) -> None:
        tool = _installed("pyhfst", "pyhfst")
        self._tags = {**tag_table("hfst"), **(tags or {})}
        try:
            self._lookup: Callable[[str], Iterable[Any]] = tool.HfstInputStream(fspath(path)).read().lookup
        except OSError as cause:
            raise LexiconError(f"the file cannot be read: {cause.strerror}", path=path) from cause
        except Exception as cause:  # of whatever kind: pyhfst reads a file that is no transducer until something breaks
            reason = "a transducer in HFST's optimised lookup format is required; hfst-fst2fst -w makes one"
            raise LexiconError(reason, path=path) from cause

    def readings(self, form: str) -> Found:
        found = [(text, float(cost)) for text, cost in self._lookup(form)]
        least = min((cost for _, cost in found), default=0.0)
        for text, cost in found:
            lemma, tags = _cut_tags(text)
            yield lemma, attributes_of(self._tags, tags, unknown="Tag"), math.exp(least - cost)


def _cut_tags(text: str) -> tuple[str, list[str]]:
    """Return the lemma and the tags of a reading; for a compound (`a<n>+b<n>`, `a+N#b+N`) the tags of its last part."""
    if "<" in text:
        last = re.split(r"(?<=>)[+#]", text)[-1]
        return _ANGLES.sub("", text), _ANGLES.findall(last)
    *_, last = re.split(r"(?<=.)#(?=.)", text)
    lemma, *tags = last.split("+") if last.strip("+") else (last,)
    return text.removesuffix(last) + lemma, tags


class UniMorph(Analyser):
    """A UniMorph table, `lemma TAB form TAB V;IND;PRS;3;SG`, for one of its 170 languages; readings have equal weight.

    A feature without a Universal Dependencies name is `Tag:…`; alternatives (`{1/3}`, `1/3`) give all of them.

        UniMorph("fra.txt")("maisons")
    """

    def __init__(self, path: StrPath, *, lowercase: bool = True) -> None:
        self._known: dict[str, list[tuple[str, list[str]]]] = {}
        for line in read_entries(path, error=LexiconError):
            columns = line.text.rstrip("\r\n").split("\t")
            if len(columns) < 3 or not columns[1].strip():
                line.fail(f"lemma TAB form TAB features are required, found {len(columns)} columns; complete them")
            form = columns[1].lower() if lowercase else columns[1]
            tags = [tag for part in columns[2].split(";") for tag in re.split(r"[{}/]", part) if tag]
            self._known.setdefault(form, []).append(
                (columns[0], attributes_of(tag_table("unimorph"), tags, unknown="Tag"))
            )
        if not self._known:
            raise LexiconError("no entry in the file: it holds blank lines only", path=path)

    def readings(self, form: str) -> Found:
        return ((lemma, attributes, 1.0) for lemma, attributes in self._known.get(form, ()))
