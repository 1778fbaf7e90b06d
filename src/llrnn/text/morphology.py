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
    """Return a text in the form that attribute values have: each white space, comma and bar is replaced by `_`.

    For example:

        attribute_value("pomme de terre")       # "pomme_de_terre"
    """
    return _NOT_IN_ATTRIBUTES.sub("_", text)


def lemma_attribute(lemma: str) -> str:
    """Return the attribute of a lemma: "Lemma:" and the lemma, with `_` for white space, commas and bars."""
    return f"Lemma:{attribute_value(lemma)}"


class Analyser(ABC):
    """A morphological analyser: called with a word form, it returns {reading: weight}, empty for an unknown form.

    A reading is a frozenset of attributes such as "POS:NOUN", with "Lemma:…", lowercased, where the lemma is known;
    weights sum to 1. Subclasses implement `readings`:

        class Plurals(Analyser):
            def readings(self, form):
                if form.endswith("s"):
                    yield form[:-1], ["POS:NOUN", "Number:Plur"], 1.0
    """

    @abstractmethod
    def readings(self, form: str) -> Iterable[tuple[str | None, Iterable[str], float]]:
        """Return every reading of a form as (lemma, attributes, weight): lemma None if unknown, the weight above 0.

        Attributes are `Name:Value`. Weights need not sum to 1: the analyser divides them by their sum. Nothing is
        returned for an unknown form.
        """

    def __call__(self, form: str) -> Mapping[Reading, float]:
        found: dict[Reading, float] = {}
        for lemma, attributes, weight in self.readings(form):
            named = () if lemma is None else (lemma_attribute(lemma.lower()),)
            reading = frozenset((*attributes, *named))
            found[reading] = found.get(reading, 0.0) + weight
        total = math.fsum(found.values())
        return {reading: weight / total for reading, weight in found.items()}

    def table(self, forms: Iterable[str]) -> Readings:
        """Return the readings of these forms as a table that can be saved, so that the tool need not run again.

        Forms without a reading are not in it; weights of a form sum to 1.

        For example:

            Zeyrek().table(vocabulary.words).to_tsv("readings.tsv")
        """
        asked = ((form, self(form)) for form in dict.fromkeys(forms))
        return Readings({form: found for form, found in asked if found})


class FromLexicon(Analyser):
    """An analyser made of a lexicon or a function form -> attributes; the attributes of a form are its only reading.

    For example:

        FromLexicon(Lexicon.from_tsv("lexicon.tsv"))("maisons")
    """

    def __init__(self, lexicon: Callable[[str], Iterable[str]]) -> None:
        self._lexicon = lexicon

    def readings(self, form: str) -> Iterator[tuple[None, Iterable[str], float]]:
        """Yield (None, attributes, 1.0) for a form that the lexicon gives attributes; nothing for any other."""
        found = self._lexicon(form)
        if found:
            yield None, found, 1.0


class FromTable(Analyser):
    """An analyser of the readings in a file that `Readings.to_tsv` wrote; weights of a form are divided by their sum.

    Called with a form, it returns {reading: weight}.

    For example:

        FromTable("readings.tsv")("maisons")
    """

    def __init__(self, path: StrPath) -> None:
        self._known = Readings.from_tsv(path)

    def readings(self, form: str) -> Iterator[tuple[None, Iterable[str], float]]:
        """Return (None, reading, weight) for each reading of a form in the table; nothing for an unknown form."""
        return ((None, reading, weight) for reading, weight in self._known(form).items())


def analyser_named(name: str) -> Analyser:
    """Return the morphological analyser of a name, as command lines and configurations give it.

    name    a tool (`zeyrek`, `pymorphy3`), a tool with its file (`hfst:FILE`, `unimorph:FILE`, `readings:FILE`), or
            `MODULE:FUNCTION`, a function of your own from form to attributes

    Raises a ConfigError if there is no such analyser, or a file is missing from the name or not wanted.

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
