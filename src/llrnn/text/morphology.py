"""Morphological analysers behind one seam: a form -> its readings, with weights that sum to 1.

    стали -> {POS:VERB Tense:Past Number:Plur … Lemma:стать: 0.975, POS:NOUN Case:Gen … Lemma:сталь: 0.011, …}

A reading is a set of attributes by the names of Universal Dependencies, with `Lemma:`. Its weight is its probability
where the tool says one, else all readings of a form are alike. A tool runs once over a vocabulary (`Analyser.table`);
the table of `Readings` that it makes is a file, and answers as the tool does. The tools are in `llrnn_morphology`, or
in a package of one's own, by an entry point of the group `llrnn.analysers`.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from inspect import signature

from llrnn.ground.errors import ConfigError
from llrnn.ground.files import StrPath
from llrnn.ground.plugins import PACKAGES, find_kind
from llrnn.text.lexicon import Lexicon, Readings

__all__ = ["Analyser", "FromLexicon", "FromTable", "analyser_named"]

Reading = frozenset[str]
_NOT_IN_ATTRIBUTES = re.compile(r"[\s,|]")


def attribute_value(text: str) -> str:
    """A text as the value of an attribute: white space, commas and bars become `_`."""
    return _NOT_IN_ATTRIBUTES.sub("_", text)


def lemma_attribute(lemma: str) -> str:
    """`Lemma:` and the lemma."""
    return f"Lemma:{attribute_value(lemma)}"


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


def analyser_named(name: str) -> Analyser:
    """A tool (`zeyrek`, `pymorphy3`), a file with what reads it (`hfst:FILE`, `unimorph:FILE`), or `MODULE:FUNCTION`,
    one's own, from form to attributes.

    analyser_named("my_tags:attributes")("maisons")       # {frozenset({"POS:NOUN", "Number:Plur"}): 1.0}
    """
    kind, colon, rest = name.partition(":")
    found = FromTable if kind == "readings" else find_kind("analysers", kind, Analyser)
    if found is not None:
        return _of_kind(found, name, *([rest] if rest else []))
    if not (kind and colon and rest):
        known = ", ".join((*PACKAGES["morphology"], "readings"))
        raise ConfigError(
            f"an analyser is {known} (with a file: hfst:FILE) or MODULE:FUNCTION of one's own, found {name!r}"
        )
    try:
        function = getattr(import_module(kind), rest)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"the analyser {name}: {error}; put the module {kind}.py into this folder, or install it, with {rest} in it"
        ) from None
    return FromLexicon(Lexicon.from_function(function))


def _of_kind(make: Callable[..., Analyser], name: str, *file: str) -> Analyser:
    try:
        signature(make).bind(*file)
    except TypeError:
        needs = "takes no file; name it alone" if file else f"needs one: {name}:FILE"
        raise ConfigError(f"the analyser {name.partition(':')[0]} {needs}, found {name!r}") from None
    return make(*file)
